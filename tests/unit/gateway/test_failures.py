"""Why a provider did not answer: what is the agent's own affair, and what is not."""

from __future__ import annotations

import json
import socket
from typing import Any, cast

import pytest

from blueflame.gateway.model_api.backoff import AccountWait, CallWait, WaitTimes
from blueflame.gateway.model_api.failures import ProviderFailure, classify_failure, find_foreign_answer
from blueflame.gateway.model_api.response import ProviderAnswer
from blueflame.gateway.model_api.status_events import StatusReporter
from blueflame.gateway.options import read_model_options
from blueflame.gateway.relay import Stream
from support.model_gateways import SECRET, build_model_options

FIRST = {"model": "m", "messages": [{"role": "user", "content": "Do it."}]}
LATER = {"model": "m", "messages": [*FIRST["messages"], {"role": "assistant", "content": "I do."}]}
NAMING = {"model": "m", "messages": [*LATER["messages"], {"role": "user", "content": [{"file": "file-0a1b2c"}]}]}
PAGE = b"<html>Please sign in</html>"


def answer(status: int, size: int | None = None, **headers: str) -> ProviderAnswer:
    given = tuple((name.replace("_", "-"), value.encode()) for name, value in headers.items())
    return ProviderAnswer(
        stream=cast(Stream, None), status=status, headers=given, size=size, chunked=False, reusable=False
    )


def error(message: str, type_: str = "invalid_request_error") -> bytes:
    return json.dumps({"type": "error", "error": {"type": type_, "message": message}}).encode()


REFUSALS: tuple[tuple[int, bytes, dict[str, Any], str], ...] = (
    # what the agent has put into its call
    (400, error("messages.3: tool_use ids without tool_result"), LATER, "refused"),
    (400, error("prompt is too long: 210000 tokens > 200000 maximum"), FIRST, "refused"),
    (404, error("File file-0a1b2c not found", "not_found_error"), NAMING, "refused"),
    (404, error("Previous response with id 'resp_68af' not found."), {"previous_response_id": "resp_68af"}, "refused"),
    (413, error("Request exceeds the maximum size", "request_too_large"), FIRST, "refused"),
    (422, b'{"detail": "bad image"}', {"input": [{"role": "assistant"}]}, "refused"),
    (400, error("bad part"), {"contents": [{"role": "user"}, {"role": "model"}]}, "refused"),
    (400, error("bad item"), {"previous_response_id": "r1", "input": "go on"}, "refused"),
    # before the first answer it has put nothing into it: its program or the address is wrong
    (400, error("anthropic-version: 2023-06-01 is not supported"), FIRST, "unsupported"),
    (404, error("Not Found", "not_found_error"), FIRST, "unsupported"),
    (404, b'{"detail": "Not Found"}', {"model": "m", "input": "Do it."}, "unsupported"),
    # nor into a path, a method or a deployment, in the middle of its work
    (404, b'{"detail": "Not Found"}', LATER, "unsupported"),
    (404, error("The API deployment for this resource does not exist.", "DeploymentNotFound"), LATER, "unsupported"),
    (404, error("The deployment gpt-5-eu is gone"), {**LATER, "model": "gpt-5-eu"}, "unsupported"),
    (405, error("Method Not Allowed"), LATER, "unsupported"),
    (410, error("This version was removed"), LATER, "unsupported"),
    (451, error("Unavailable For Legal Reasons"), LATER, "unsupported"),
    (426, error("client too old"), LATER, "unsupported"),
    (501, error("Not Implemented"), LATER, "unsupported"),
    # the account
    (403, error("Your API key does not have permission", "permission_error"), LATER, "login"),
    (400, error("You have reached your specified API usage limits."), LATER, "credit"),
    # something in between, or a provider in trouble
    (403, PAGE, LATER, "network"),
    (407, PAGE, LATER, "network"),
    (404, PAGE, FIRST, "network"),
    (400, b"", LATER, "network"),
    (408, error("Request timeout"), LATER, "outage"),
    (409, error("try again"), LATER, "outage"),
    (502, PAGE, LATER, "outage"),
    (599, b"", LATER, "outage"),
)


def test_only_what_an_agent_put_into_its_call_is_its_own_affair() -> None:
    wrong = [
        (status, body, found.kind)
        for status, body, asked, kind in REFUSALS
        if (found := classify_failure(answer(status), body, 0.0, json.dumps(asked).encode())).kind != kind
    ]
    assert wrong == []


def test_a_page_in_between_is_named_as_such() -> None:
    failure = classify_failure(answer(403), PAGE, 0.0)
    assert failure.reason == (
        "403 from something else than the model's API: a proxy, a firewall or a sign-in page may be in between"
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (answer(200, content_type="text/html; charset=utf-8"), "200 with text/html instead of the model's answer: "),
        (answer(302, location="http://login/"), "302 with a redirect to http://login/ instead of the model's answer: "),
        (answer(200, 0, content_type="application/json"), "200 with nothing instead of the model's answer: "),
        (answer(204, 0), "204 with nothing instead"),
    ],
)
def test_what_is_no_answer_of_a_model_is_not_passed_on(found: ProviderAnswer, words: str) -> None:
    failure = find_foreign_answer(found)
    assert failure is not None
    assert failure.kind == "network"
    assert failure.reason.startswith(words)


def test_answers_of_all_apis_are_passed_on() -> None:
    kinds = ("application/json", "text/event-stream; charset=utf-8", "application/x-ndjson", "")
    assert [kind for kind in kinds if find_foreign_answer(answer(200, content_type=kind))] == []


@pytest.mark.parametrize(
    ("outage_wait", "words"), [(60.0, ["parked", "resumed"]), (0.0, ["gave_up", "parked", "resumed"])]
)
def test_a_provider_that_sends_nothing_is_waited_for_as_long_as_an_outage(outage_wait: float, words: list[str]) -> None:
    silent, wait = ProviderFailure("network", "api.example.org has sent nothing for 90 seconds"), CallWait()
    options = read_model_options(build_model_options("http://x", outage_wait=outage_wait), {"key": SECRET})
    assert options is not None
    warden, gateway = socket.socketpair()
    with warden, gateway:
        account = AccountWait(options, "folder", StatusReporter(gateway), WaitTimes())
        account.report_silence(wait, silent)
        account.report_silence(wait, silent)
        account.stop_waiting(wait)
        assert [line.split()[0].decode() for line in warden.recv(65536).splitlines()] == words
