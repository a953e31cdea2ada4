"""Calls of GitHub and GitLab as they arrive, cut to what matters, and signed."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

SECRET = "It's a Secret to Everybody"
SIGNING_SECRET = "whsec_" + base64.b64encode(b"a signing token of gitlab").decode()


def build_github_issue(author: str = "alice", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 (a call has any field)
    return {
        "action": "labeled",
        "label": {"name": "blueflame"},
        "issue": {
            "number": 12,
            "title": "Crash at start",
            "body": "It crashes.",
            "html_url": "https://github.com/acme/app/issues/12",
            "user": {"login": author},
            "labels": [{"name": "bug"}, {"name": "blueflame"}],
        },
        "repository": {"full_name": "Acme/App"},
        "sender": {"login": "Alice", "type": "User"},
    } | changes


def build_github_comment(
    text: str = "/blueflame fix it\nplease", login: str = "alice", association: str = "NONE", number: int = 99
) -> dict[str, Any]:
    comment = {"id": number, "body": text, "user": {"login": login}, "author_association": association}
    call = build_github_issue("mallory", action="created", comment=comment)
    return call | {"sender": {"login": login, "type": "User"}}


def build_gitlab_issue(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 (a call has any field)
    url = "https://gitlab.com/acme/app/-/issues/12"
    about = {"iid": 12, "title": "Crash", "description": "It crashes.", "author_id": 7, "url": url, "action": "update"}
    return {
        "object_kind": "issue",
        "user": {"id": 7, "username": "alice"},
        "project": {"path_with_namespace": "acme/app"},
        "object_attributes": about,
        "labels": [{"title": "blueflame"}],
        "changes": {"labels": {"previous": [], "current": [{"title": "blueflame"}]}},
    } | changes


def build_gitlab_note(text: str = "/blueflame fix it", username: str = "alice") -> dict[str, Any]:
    return {
        "object_kind": "note",
        "user": {"id": 8, "username": username},
        "project": {"path_with_namespace": "acme/app"},
        "object_attributes": {"id": 55, "note": text, "url": "https://gitlab.com/acme/app/-/issues/12#note_55"},
        "issue": {"iid": 12, "title": "Crash", "description": "It crashes.", "author_id": 7},
    }


def dump_call(call: object) -> bytes:
    return json.dumps(call).encode()


def sign_github(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"}


def sign_gitlab(body: bytes, at: float, name: str = "msg_1", secret: str = SIGNING_SECRET) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{name}.{int(at)}.".encode() + body, "sha256")
    signature = f"v1,AAAA v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": name, "webhook-timestamp": str(int(at)), "webhook-signature": signature}
