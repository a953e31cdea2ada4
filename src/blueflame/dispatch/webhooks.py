"""Calls of GitHub and GitLab: whether they are genuine, and what they mean.

Headers are not signed: the kind of event is read from the body, and what a call means is its identity. A call that is
sent again, by the forge or by an attacker with other headers, is the same request.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any

from blueflame.dispatch.forge_issues import (
    ForgeIssue,
    Identify,
    build_comment_request,
    build_issue_request,
    identify_account,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.house.arrival import IncomingRequest, Trust

MAX_CALL_DEPTH = 40
MAX_CLOCK_DIFFERENCE = 300.0  # of the time stamp in a signed call
SIGNING_SECRET = "whsec_"  # noqa: S105 (how one begins)
JSON_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})  # GitHub's words for people with rights in the project


class CallRefused(Exception):
    """A call that is not genuine or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRules:
    """What a hook listens for. `secret` is never empty."""

    forge: str
    project: str
    label: str
    command: str
    repository: str
    secret: str = field(repr=False)


# --- genuine ---------------------------------------------------------------------------------------------------------


def check_signature(rules: WebhookRules, headers: Mapping[str, bytes], body: bytes, now: float) -> None:
    """Raise CallRefused unless the call was made with our secret. Comparisons take the same time for any guess."""
    if not rules.secret:
        raise CallRefused("the hook has no secret")
    CHECKS[rules.forge](rules.secret, headers, body, now)


def _check_github(secret: str, headers: Mapping[str, bytes], body: bytes, _now: float) -> None:
    expected = b"sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest().encode()
    if not hmac.compare_digest(headers.get("x-hub-signature-256", b""), expected):
        raise CallRefused("the signature is missing or wrong")


def _check_gitlab(secret: str, headers: Mapping[str, bytes], body: bytes, now: float) -> None:
    if secret.startswith(SIGNING_SECRET):
        _check_standard_webhook(secret, headers, body, now)
    elif not hmac.compare_digest(headers.get("x-gitlab-token", b""), secret.encode()):
        raise CallRefused("the token is missing or wrong")


def _check_standard_webhook(secret: str, headers: Mapping[str, bytes], body: bytes, now: float) -> None:
    name, stamp, given = (headers.get(f"webhook-{part}", b"") for part in ("id", "timestamp", "signature"))
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_SECRET), validate=True)
    except (binascii.Error, ValueError):
        raise CallRefused("the signing token of the hook is not base64") from None
    if not key or not name or not stamp.isdigit() or len(stamp) > 12:
        raise CallRefused("the signature is missing or wrong")
    if abs(now - int(stamp)) > MAX_CLOCK_DIFFERENCE:
        raise CallRefused("the call is too old, or the clock is wrong")
    expected = b"v1," + base64.b64encode(hmac.digest(key, b".".join((name, stamp, body)), "sha256"))
    matches = [hmac.compare_digest(each, expected) for each in given.split(b" ")[:10]]
    if not any(matches):
        raise CallRefused("the signature is missing or wrong")


CHECKS: Mapping[str, Callable[[str, Mapping[str, bytes], bytes, float], None]] = {
    "github": _check_github,
    "gitlab": _check_gitlab,
}


# --- meaning ---------------------------------------------------------------------------------------------------------


def parse_call(body: bytes) -> dict[str, Any]:
    """Parse the body. Raises CallRefused for what is not an object, or nested too deeply."""
    try:
        text = body.decode("utf-8")
        _check_depth(text)
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise CallRefused("the body is not JSON") from None
    if not isinstance(found, dict):
        raise CallRefused("the body is not a JSON object")
    return found


def _check_depth(text: str) -> None:
    depth = 0
    for found in JSON_BRACKETS.finditer(text):
        depth += 1 if found[0] in "[{" else -1 if found[0] in "]}" else 0
        if depth > MAX_CALL_DEPTH:
            raise CallRefused("the body is nested too deeply")


def read_call(rules: WebhookRules, call: Mapping[str, Any], identify: Identify, now: float) -> IncomingRequest | None:
    """Return the request that a call makes; None when it makes no request. Raises CallRefused."""
    try:
        return READERS[rules.forge](rules, call, identify, now)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise CallRefused(f"the body is not a call that is known ({type(error).__name__})") from None


def _read_github(
    rules: WebhookRules, call: Mapping[str, Any], identify: Identify, now: float
) -> IncomingRequest | None:
    if "issue" not in call:
        return None  # ping, push, ...
    _check_project(rules, call["repository"]["full_name"])
    found, actor, action = call["issue"], call["sender"], call["action"]
    if actor.get("type") == "Bot":
        return None  # it might be ours
    issue = ForgeIssue(
        forge="github",
        project=rules.project,
        number=int(found["number"]),
        title=str(found["title"]),
        body=str(found.get("body") or ""),
        url=str(found["html_url"]),
        author=str(found["user"]["login"]),
    )
    if "comment" in call:
        comment = call["comment"]
        asked = _find_command(rules, str(comment.get("body") or ""))
        if action != "created" or asked is None:
            return None
        otherwise = Trust.MEMBER if comment.get("author_association") in WRITERS else Trust.FEED
        sender = identify_account(identify, "github", str(comment["user"]["login"]), otherwise)
        return build_comment_request(
            issue, str(int(comment["id"])), asked, sender, repository=rules.repository, now=now
        )
    labels = [label["name"] for label in found.get("labels", ())]
    if (action == "labeled" and call["label"]["name"] == rules.label) or (action == "opened" and rules.label in labels):
        return build_issue_request(
            issue, identify, labelled_by=str(actor["login"]), repository=rules.repository, now=now
        )
    return None


def _read_gitlab(
    rules: WebhookRules, call: Mapping[str, Any], identify: Identify, now: float
) -> IncomingRequest | None:
    kind = call.get("object_kind")
    if kind not in ("issue", "note") or (kind == "note" and "issue" not in call):
        return None
    _check_project(rules, call["project"]["path_with_namespace"])
    about, actor = call["object_attributes"], call["user"]
    found = call["issue"] if kind == "note" else about
    username = str(actor["username"])
    issue = ForgeIssue(
        forge="gitlab",
        project=rules.project,
        number=int(found["iid"]),
        title=str(found["title"]),
        body=str(found.get("description") or ""),
        url=str(about["url"]),
        author=username if found.get("author_id") is not None and found["author_id"] == actor.get("id") else "",
    )
    if kind == "note":
        asked = _find_command(rules, str(about.get("note") or ""))
        if asked is None or about.get("system") or about.get("action", "create") != "create":
            return None
        sender = identify_account(identify, "gitlab", username, Trust.FEED)
        return build_comment_request(issue, str(int(about["id"])), asked, sender, repository=rules.repository, now=now)
    before, after = ([label["title"] for label in labels] for labels in _find_label_change(call))
    if rules.label in after and rules.label not in before:
        return build_issue_request(issue, identify, labelled_by=username, repository=rules.repository, now=now)
    return None


def _find_label_change(call: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    if call["object_attributes"].get("action") == "open":
        return [], call.get("labels", [])
    changed = call.get("changes", {}).get("labels", {})
    return changed.get("previous", []), changed.get("current", [])


READERS: Mapping[str, Callable[[WebhookRules, Mapping[str, Any], Identify, float], IncomingRequest | None]] = {
    "github": _read_github,
    "gitlab": _read_gitlab,
}


def _check_project(rules: WebhookRules, name: object) -> None:
    if str(name).lower() != rules.project.lower():
        raise CallRefused("the call is about another project")


def _find_command(rules: WebhookRules, text: str) -> str | None:
    """Return what follows the command that a comment begins with; None for other comments."""
    rest = text.strip().removeprefix(rules.command)
    is_command = len(rest) < len(text.strip()) and (not rest or rest[0].isspace())
    return rest.strip() if is_command else None
