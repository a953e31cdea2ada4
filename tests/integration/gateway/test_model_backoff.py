"""Rate limits, outages and dead networks: the agent's call waits and is retried, and the warden is informed."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.model_gateways import build_model_options, start_model_gateway
from support.model_providers import (
    answer_json,
    break_connection,
    build_error,
    build_message,
    build_message_events,
    start_provider,
    stream_events,
)
from support.wardens import wait_until

FINE = answer_json(200, build_message())
LIMITED = answer_json(429, build_error(), retry_after="3600")


def test_a_rate_limited_call_is_retried_when_the_provider_allows(tmp_path: Path) -> None:
    limited = answer_json(429, build_error(words="Slow down."), retry_after_ms="1500")
    with (
        start_provider(limited, FINE) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        _start_pool() as pool,
    ):
        calling = pool.submit(gateway.send_call)
        parked = gateway.wait_until_parked()
        assert calling.result().status == 200
        received, (line,) = gateway.read_status(), gateway.read_usage()

    assert (parked["kind"], parked["reason"]) == ("rate_limit", "429: Slow down.")
    assert parked["until"] >= parked["since"]
    assert (received["parked"], received["gave_up"]) == (None, None)
    assert (line["status"], line["tries"], line["refused"], line["input"]) == (200, 2, "", 100)


@pytest.mark.parametrize("failure", [answer_json(529, build_error("overloaded_error")), break_connection])
def test_an_outage_is_waited_out(tmp_path: Path, failure: Any) -> None:  # noqa: ANN401 (a play)
    with (
        start_provider(failure, FINE) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        _start_pool() as pool,
    ):
        calling = pool.submit(gateway.send_call)
        parked = gateway.wait_until_parked()
        assert calling.result().status == 200
        assert gateway.read_status()["parked"] is None

    assert parked["kind"] == ("network" if failure is break_connection else "outage")
    assert parked["until"] is None
    assert len(provider.asked) == 2


def test_a_network_failure_is_reported_as_such_and_waited_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        start_model_gateway(tmp_path / "a", build_model_options(f"http://127.0.0.1:{port}")) as gateway,
        _start_pool() as pool,
    ):
        calling = pool.submit(gateway.send_call)
        parked = gateway.wait_until_parked()
        assert parked["kind"] == "network"
        assert "Connection refused" in parked["reason"]
        with start_provider(FINE, port=port):
            assert calling.result().status == 200


def test_an_untrusted_provider_is_not_used(tmp_path: Path) -> None:
    with (
        start_provider(FINE) as provider,
        start_model_gateway(
            tmp_path / "a", build_model_options(f"https://127.0.0.1:{provider.port}", outage_wait=0)
        ) as gateway,
    ):
        received = gateway.send_call()

    assert received.status == 503
    assert "TLS failed" in received.content["error"]["message"]
    assert provider.asked == []


def test_a_call_that_may_not_wait_as_long_gets_the_error(tmp_path: Path) -> None:
    with (
        start_provider(LIMITED) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, rate_limit_wait=60)) as gateway,
    ):
        answers = [gateway.send_call(), gateway.send_call()]
        received, lines = gateway.read_status(), gateway.read_usage()

    assert [answer.status for answer in answers] == [429, 429]
    assert answers[0].content == build_error()
    assert (answers[0].headers["x-should-retry"], answers[0].headers["retry-after"]) == ("false", "3600")
    assert received["gave_up"] == {"kind": "rate_limit", "reason": "429: Slow down."}
    assert received["parked"] is None
    assert [(line["refused"], line["status"], line["complete"]) for line in lines] == [("gave_up", 429, True)] * 2


def test_an_outage_that_lasts_too_long_ends_the_wait(tmp_path: Path) -> None:
    down = answer_json(503, build_error("api_error", "Down."))
    with (
        start_provider(down) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, outage_wait=0.5)) as gateway,
    ):
        received = gateway.send_call()
        assert gateway.read_status()["gave_up"] == {"kind": "outage", "reason": "503: Down."}

    assert (received.status, received.content["error"]["message"]) == (503, "Down.")
    assert len(provider.asked) == 2  # at the start, and once more at the very end


def test_a_rate_limit_is_shared_with_the_other_gateways_of_the_runtime(tmp_path: Path) -> None:
    """The first gateway gets the rate limit and writes the file; the second waits until it is removed."""
    shared = tmp_path / "parked" / "claude.json"
    with (
        start_provider(LIMITED, FINE) as provider,
        start_model_gateway(
            tmp_path / "a", build_model_options(provider.url, shared=str(shared), rate_limit_wait=9000)
        ) as first,
        start_model_gateway(
            tmp_path / "b", build_model_options(provider.url, shared=str(shared), rate_limit_wait=9000)
        ) as second,
        _start_pool() as pool,
    ):
        calling = [pool.submit(first.send_call)]
        wait_until(shared.exists, "the limit is shared")
        reported = json.loads(shared.read_text())
        calling.append(pool.submit(second.send_call))
        also = second.wait_until_parked()
        assert len(provider.asked) == 1
        shared.unlink()  # "try now"
        assert [call.result().status for call in calling] == [200, 200]
        assert (first.read_status()["parked"], second.read_status()["parked"]) == (None, None)

    assert (reported["kind"], reported["reason"], reported["folder"]) == (
        "rate_limit",
        "429: Slow down.",
        str(tmp_path / "a"),
    )
    assert reported["until"] > time.time() + 3000
    assert (also["kind"], also["reason"], also["until"]) == ("rate_limit", "429: Slow down.", reported["until"])


def test_the_first_success_lifts_the_limit_for_all(tmp_path: Path) -> None:
    shared = tmp_path / "claude.json"
    limited = answer_json(429, build_error(), retry_after_ms="200")
    with (
        start_provider(limited, FINE) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, shared=str(shared))) as gateway,
    ):
        assert gateway.send_call().status == 200
        assert not shared.exists()


def test_when_a_limit_ends_one_call_tries_first(tmp_path: Path) -> None:
    """Those who share the limit wait for its answer: they would only get the limit again. Repositories of a house may
    have attempts with the same id."""
    limited = answer_json(429, build_error(), retry_after_ms="500")
    shared = tmp_path / "shared.json"
    with start_provider(limited, limited, limited, FINE) as provider, ExitStack() as undo, _start_pool() as pool:
        options = build_model_options(provider.url, shared=str(shared))
        gateways = [undo.enter_context(start_model_gateway(tmp_path / name / "one", options)) for name in "abcd"]
        first = pool.submit(gateways[0].send_call)
        wait_until(shared.exists, "the limit is shared")
        others = [pool.submit(each.send_call) for each in gateways[1:]]
        assert [call.result().status for call in (first, *others)] == [200] * 4
        tries = [line["tries"] for each in gateways for line in each.read_usage()]

    assert tries == [4, 1, 1, 1]


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"until": "soon"}', '{"until": 17}'])
def test_an_invalid_shared_file_delays_no_call(tmp_path: Path, text: str) -> None:
    shared = tmp_path / "claude.json"
    shared.write_text(text)
    with (
        start_provider(FINE) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, shared=str(shared))) as gateway,
    ):
        assert gateway.send_call().status == 200


def test_a_call_of_a_disconnected_agent_stops_waiting(tmp_path: Path) -> None:
    options = {"rate_limit_wait": 9000.0}
    with (
        start_provider(LIMITED) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, **options)) as gateway,
    ):
        agent_call = gateway.start_call()
        gateway.wait_until_parked()
        agent_call.close()
        (line,) = gateway.wait_for_usage()
        wait_until(lambda: gateway.read_status()["parked"] is None, "no call waits any more")

    assert (line["refused"], line["status"], line["complete"]) == ("parked", 429, True)
    assert len(provider.asked) == 1


def test_the_end_of_the_attempt_ends_the_waiting(tmp_path: Path) -> None:
    options = {"rate_limit_wait": 9000.0}
    with (
        start_provider(LIMITED) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, **options)) as gateway,
        gateway.start_call(),
    ):
        gateway.wait_until_parked()
        assert gateway.read_status("close")["lives"] is False
        (line,) = gateway.read_usage()

    assert line["refused"] == "parked"


def _start_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)


ACCOUNT_ERRORS = {
    "login": answer_json(401, build_error("authentication_error", "invalid x-api-key")),
    "revoked": answer_json(403, build_error("permission_error", "OAuth token has been revoked.")),
    "gemini-key": answer_json(400, {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID"}}),
    "credit": answer_json(400, build_error("invalid_request_error", "Your credit balance is too low to access it.")),
    "quota": answer_json(429, {"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}),
    "openrouter": answer_json(402, {"error": {"message": "Insufficient credits", "code": 402}}),
    "model": answer_json(404, build_error("not_found_error", "model: claude-none")),
    "openai-model": answer_json(404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}),
}
KINDS = {"revoked": "login", "gemini-key": "login", "quota": "credit", "openrouter": "credit", "openai-model": "model"}


@pytest.mark.parametrize("name", ACCOUNT_ERRORS)
def test_an_error_of_the_account_is_reported_at_once_and_not_retried(tmp_path: Path, name: str) -> None:
    with (
        start_provider(ACCOUNT_ERRORS[name]) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        received = gateway.send_call()
        why = gateway.read_status()["gave_up"]

    kind = KINDS.get(name, name)
    assert (why["kind"], why["account"]) == (kind, True)
    assert received.status == (404 if kind == "model" else 402), "claude tries again after 400 and 401"
    assert received.headers["x-should-retry"] == "false"
    assert len(provider.asked) == 1


def test_a_call_that_the_provider_rejects_is_the_agents_own_affair_after_the_first_answer(tmp_path: Path) -> None:
    rejected = answer_json(400, build_error("invalid_request_error", "messages: text content blocks must be non-empty"))
    opening: list[dict[str, str]] = [{"role": "user", "content": "x"}]
    with (
        start_provider(rejected) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        reports = []
        for messages in ([*opening, {"role": "assistant", "content": ""}], opening):
            received = gateway.send_call(body={"model": "claude-test", "messages": messages})
            assert (received.status, received.content["type"]) == (400, "error")
            assert "x-should-retry" not in received.headers, "claude asks again without betas"
            reports.append(gateway.read_status()["gave_up"])

    assert reports[0] is None
    assert (reports[1]["kind"], reports[1]["account"]) == ("unsupported", True)


def test_an_address_that_is_gone_is_reported_also_after_the_first_answer(tmp_path: Path) -> None:
    gone = answer_json(404, {"detail": "Not Found"})
    rejected = answer_json(400, build_error("invalid_request_error", "tools.0: unknown"))
    with (
        start_provider(FINE, rejected, gone) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        reports = []
        for status in (200, 400, 404):
            assert gateway.send_call().status == status
            reports.append(gateway.read_status()["gave_up"])

    assert reports[:2] == [None, None], "what it sends itself may be wrong"
    assert (reports[2]["kind"], reports[2]["account"]) == ("unsupported", True)


def test_a_page_in_place_of_an_answer_is_waited_out(tmp_path: Path) -> None:
    page = answer_json(200, b"<html>Please sign in</html>", content_type="text/html")
    with (
        start_provider(page, FINE) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
        _start_pool() as pool,
    ):
        calling = pool.submit(gateway.send_call)
        assert gateway.wait_until_parked()["kind"] == "network"
        assert calling.result().status == 200

    assert len(provider.asked) == 2


def test_answers_that_are_cut_off_are_an_outage_and_not_the_agents_budget(tmp_path: Path) -> None:
    start, *_rest = build_message_events()
    with (
        start_provider(stream_events([start], whole=False)) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        for count in range(1, 6):
            with gateway.start_call() as call:
                call.read_head()
                gateway.wait_for_usage(count)
            assert gateway.read_status()["unanswered"]["kind"] == "network"
        assert gateway.send_call().status == 402
        received = gateway.read_status()

    assert (received["gave_up"]["kind"], received["refused"]) == ("network", None)
    assert len(provider.asked) == 5


def test_a_call_that_is_answered_shows_that_the_account_is_in_order(tmp_path: Path) -> None:
    """Then only the agent can have asked for another model that does not exist: that must not stop the others."""
    with (
        start_provider(ACCOUNT_ERRORS["model"], FINE, ACCOUNT_ERRORS["model"]) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url)) as gateway,
    ):
        reports = []
        for model in ("claude-test", "claude-test", "claude-other", "claude-test"):
            gateway.send_call(body={"model": model})
            reports.append(gateway.read_status()["gave_up"])

    assert [report is not None for report in reports] == [True, False, False, True], "the last one was withdrawn"


def test_a_limit_of_a_free_endpoint_parks_nothing(tmp_path: Path) -> None:
    shared = tmp_path / "parked" / "claude.json"
    with (
        start_provider(LIMITED) as provider,
        start_model_gateway(tmp_path / "a", build_model_options(provider.url, shared=str(shared))) as gateway,
    ):
        received = gateway.send_call("/anthropic/v1/messages/count_tokens")

        assert received.status == 429
        assert gateway.read_status()["parked"] is None
    assert not shared.exists()
