"""Calls of forges: genuine or not, and whose request they make."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.dispatch.webhooks import CallRefused, WebhookRules, check_signature, parse_call, read_call
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from support.webhook_calls import (
    SECRET,
    SIGNING_SECRET,
    build_github_comment,
    build_github_issue,
    build_gitlab_issue,
    build_gitlab_note,
    dump_call,
    sign_github,
    sign_gitlab,
)

NOW = 1_770_000_000.0
GITHUB = WebhookRules(
    forge="github", project="acme/app", label="blueflame", command="/blueflame", repository="app", secret=SECRET
)
GITLAB = replace(GITHUB, forge="gitlab")
SIGNED = replace(GITLAB, secret=SIGNING_SECRET)
PEOPLE = {
    f"{forge}:{name}": Sender(name=name, trust=trust, address=f"{forge}:{name}")
    for forge in ("github", "gitlab")
    for name, trust in (("alice", Trust.OWNER), ("bob", Trust.MEMBER))
}


def encode_headers(headers: dict[str, str]) -> dict[str, bytes]:
    return {name.lower(): value.encode() for name, value in headers.items()}


def read(rules: WebhookRules, call: dict[str, Any]) -> IncomingRequest | None:
    return read_call(rules, parse_call(dump_call(call)), PEOPLE.get, NOW)


def read_request(rules: WebhookRules, call: dict[str, Any]) -> IncomingRequest:
    request = read(rules, call)
    assert request is not None
    return request


# --- genuine ---------------------------------------------------------------------------------------------------------


def test_the_published_example_of_github_is_genuine() -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    check_signature(GITHUB, {"x-hub-signature-256": signature.encode()}, b"Hello, World!", NOW)


BODY = dump_call(build_github_issue())
FORGED_GITHUB = {
    "no signature": {},
    "an empty signature": {"X-Hub-Signature-256": ""},
    "another secret": sign_github(BODY, "guess"),
    "another body": sign_github(BODY + b" "),
    "only the old header": {"X-Hub-Signature": sign_github(BODY)["X-Hub-Signature-256"]},
    "sha1": {"X-Hub-Signature-256": sign_github(BODY)["X-Hub-Signature-256"].replace("sha256", "sha1")},
    "no prefix": {"X-Hub-Signature-256": sign_github(BODY)["X-Hub-Signature-256"].removeprefix("sha256=")},
    "not ASCII": {"X-Hub-Signature-256": "sha256=é"},
}


@pytest.mark.parametrize("what", FORGED_GITHUB)
def test_a_forged_call_of_github_is_refused(what: str) -> None:
    with pytest.raises(CallRefused, match="the signature is missing or wrong"):
        check_signature(GITHUB, encode_headers(FORGED_GITHUB[what]), BODY, NOW)


def test_a_hook_without_a_secret_accepts_nothing() -> None:
    with pytest.raises(CallRefused, match="has no secret"):
        check_signature(replace(GITHUB, secret=""), encode_headers(sign_github(BODY, "")), BODY, NOW)


def test_the_raw_bytes_are_signed_not_what_they_mean() -> None:
    spaced = BODY.replace(b'": ', b'" : ')
    assert parse_call(spaced) == parse_call(BODY)
    with pytest.raises(CallRefused):
        check_signature(GITHUB, encode_headers(sign_github(BODY)), spaced, NOW)


def test_gitlab_sends_its_token_in_plain_text() -> None:
    check_signature(GITLAB, {"x-gitlab-token": SECRET.encode()}, BODY, NOW)
    for guess in (b"", SECRET[:-1].encode(), SECRET.encode() + b"x"):
        with pytest.raises(CallRefused, match="the token is missing or wrong"):
            check_signature(GITLAB, {"x-gitlab-token": guess}, BODY, NOW)


def test_gitlab_signs_id_time_and_body() -> None:
    check_signature(SIGNED, encode_headers(sign_gitlab(BODY, NOW)), BODY, NOW + 299)
    good = encode_headers(sign_gitlab(BODY, NOW))
    forged = [
        good | {"webhook-id": b"msg_2"},
        good | {"webhook-timestamp": str(int(NOW) + 1).encode()},
        good | {"webhook-timestamp": b"now"},
        good | {"webhook-signature": b"v1,"},
        {"x-gitlab-token": SIGNING_SECRET.encode()},
        {},
    ]
    for headers in forged:
        with pytest.raises(CallRefused, match="the signature is missing or wrong"):
            check_signature(SIGNED, headers, BODY, NOW)
    with pytest.raises(CallRefused, match="too old"):
        check_signature(SIGNED, good, BODY, NOW + 301)
    with pytest.raises(CallRefused, match="too old"):
        check_signature(SIGNED, good, BODY, NOW - 301)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"a":' * 41 + b"1" + b"}" * 41, "nested too deeply"),
        (b"[" * 500_000, "nested too deeply"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(CallRefused, match=reason):
        parse_call(body)


def test_brackets_in_text_are_not_depth() -> None:
    assert parse_call(dump_call({"a": '[{"' * 500})) == {"a": '[{"' * 500}


# --- meaning ---------------------------------------------------------------------------------------------------------


def test_an_issue_that_an_owner_wrote_and_labelled_starts_work() -> None:
    request = read_request(GITHUB, build_github_issue())
    assert (request.source, request.key) == ("issues", "github:acme/app#12")
    assert (request.sender.name, request.sender.trust) == ("alice", Trust.OWNER)
    assert request.text == "Crash at start\n\nIt crashes."
    assert request.repository == "app"


def test_an_issue_of_a_stranger_is_asked_about_even_if_an_owner_labelled_it() -> None:
    request = read_request(GITHUB, build_github_issue("mallory"))
    assert request.sender.trust is Trust.MEMBER
    assert "> It crashes." in request.text


def test_an_issue_of_an_owner_that_another_labelled_is_asked_about() -> None:
    for login in ("bob", "carol"):
        request = read_request(GITHUB, build_github_issue(sender={"login": login, "type": "User"}))
        assert request.sender.trust is Trust.MEMBER
        assert request.sender.address == f"github:{login}"


def test_text_that_cannot_be_stored_is_made_visible() -> None:
    call = build_github_issue()
    call["issue"] |= {"body": "a\ud800b\x1b", "title": "t\ud800", "html_url": "u\ud800"}
    request = read_request(GITHUB, call)
    (request.text + request.title + request.origin).encode()
    assert "\x1b" not in request.text


@pytest.mark.parametrize(
    "call",
    [
        {"zen": "Keep it logically awesome.", "hook_id": 1},
        build_github_issue(label={"name": "bug"}),
        build_github_issue(action="edited"),
        build_github_issue(action="closed"),
        build_github_issue(action="unlabeled"),
        build_github_issue(sender={"login": "blueflame[bot]", "type": "Bot"}),
        build_github_comment("I ran /blueflame yesterday"),
        build_github_comment("/blueflames fix it"),
        build_github_comment() | {"action": "edited"},
        build_github_comment() | {"action": "deleted"},
    ],
)
def test_other_calls_of_github_make_no_request(call: dict[str, Any]) -> None:
    assert read(GITHUB, call) is None


@pytest.mark.parametrize(
    ("login", "association", "trust"),
    [
        ("alice", "NONE", Trust.OWNER),
        ("ALICE", "NONE", Trust.OWNER),
        ("bob", "OWNER", Trust.MEMBER),
        ("carol", "COLLABORATOR", Trust.MEMBER),
        ("mallory", "NONE", Trust.FEED),
        ("mallory", "FIRST_TIME_CONTRIBUTOR", Trust.FEED),
        ("alice\nx", "NONE", Trust.FEED),
    ],
)
def test_only_people_who_are_listed_start_work_with_a_comment(login: str, association: str, trust: Trust) -> None:
    request = read_request(GITHUB, build_github_comment(login=login, association=association))
    assert request.sender.trust is trust
    assert request.key == "github:acme/app#12/99"
    assert "fix it\nplease" in request.text if trust is Trust.OWNER else "> fix it\n> please" in request.text
    assert "> It crashes." in request.text  # the issue is another person's


def test_what_a_call_means_is_its_identity_whatever_else_it_says() -> None:
    again = build_github_issue(installation={"id": 3}, action="opened")
    assert read_request(GITHUB, again).key == read_request(GITHUB, build_github_issue()).key
    assert (
        read_request(GITHUB, build_github_comment(number=100)).key != read_request(GITHUB, build_github_comment()).key
    )


def test_a_call_about_another_project_is_refused() -> None:
    with pytest.raises(CallRefused, match="another project"):
        read(GITHUB, build_github_issue(repository={"full_name": "evil/app"}))
    with pytest.raises(CallRefused, match="another project"):
        read(GITLAB, build_gitlab_issue(project={"path_with_namespace": "evil/app"}))


def test_gitlab_issues_and_notes_are_read_as_those_of_github() -> None:
    issue = read_request(GITLAB, build_gitlab_issue())
    assert (issue.key, issue.sender.trust, issue.text) == ("gitlab:acme/app#12", Trust.OWNER, "Crash\n\nIt crashes.")
    opened = build_gitlab_issue(changes={})
    opened["object_attributes"] = opened["object_attributes"] | {"action": "open"}
    assert read_request(GITLAB, opened).key == issue.key
    stranger = read_request(GITLAB, build_gitlab_issue(user={"id": 9, "username": "alice"}))
    assert stranger.sender.trust is Trust.MEMBER  # alice labelled what another wrote
    note = read_request(GITLAB, build_gitlab_note())
    assert (note.key, note.sender.trust) == ("gitlab:acme/app#12/55", Trust.OWNER)
    assert read_request(GITLAB, build_gitlab_note(username="mallory")).sender.trust is Trust.FEED


@pytest.mark.parametrize(
    "call",
    [
        {"object_kind": "push"},
        build_gitlab_issue(changes={}),
        build_gitlab_issue(changes={"labels": {"previous": [{"title": "blueflame"}], "current": []}}),
        build_gitlab_note("nice"),
        {key: value for key, value in build_gitlab_note().items() if key != "issue"},
    ],
)
def test_other_calls_of_gitlab_make_no_request(call: dict[str, Any]) -> None:
    assert read(GITLAB, call) is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["login", "name", "title"]), inner),
    max_leaves=6,
)


@given(st.data())
def test_any_signed_call_is_read_or_refused(data: st.DataObject) -> None:
    call = data.draw(st.sampled_from([build_github_issue(), build_github_comment(), build_gitlab_issue()]))
    field = data.draw(st.sampled_from(sorted(call)))
    rules = GITLAB if "object_kind" in call else GITHUB
    with suppress(CallRefused):
        read(rules, call | {field: data.draw(JSON_VALUES)})
