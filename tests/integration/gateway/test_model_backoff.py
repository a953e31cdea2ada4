"""Rate limits, outages and dead networks: the agent's call is held and comes again, and everybody is told."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.model_gateways import build_model_options, start_model_gateway
from support.model_providers import answer_json, break_connection, build_error, build_message, start_provider
from support.wardens import wait_until

FINE = answer_json(200, build_message())
LIMITED = answer_json(429, build_error(), retry_after="3600")


def test_a_rate_limited_call_is_retried_when_the_provider_allows(tmp_path: Path) -> None:
    limited = answer_json(429, build_error(words="Slow down."), retry_after_ms="1500")
    with (
        start_provider(limited, FINE) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
        _pool() as pool,
    ):
        calling = pool.submit(door.send_call)
        parked = door.wait_until_parked()
        assert calling.result().status == 200
        heard, (line,) = door.read_status(), door.read_usage()

    assert (parked["kind"], parked["reason"]) == ("rate_limit", "429: Slow down.")
    assert parked["until"] >= parked["since"]
    assert (heard["parked"], heard["gave_up"]) == (None, None)
    assert (line["status"], line["tries"], line["refused"], line["input"]) == (200, 2, "", 100)


@pytest.mark.parametrize("failure", [answer_json(529, build_error("overloaded_error")), break_connection])
def test_an_outage_is_waited_out(tmp_path: Path, failure: Any) -> None:  # noqa: ANN401 (a play)
    with (
        start_provider(failure, FINE) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url)) as door,
        _pool() as pool,
    ):
        calling = pool.submit(door.send_call)
        parked = door.wait_until_parked()
        assert calling.result().status == 200
        assert door.read_status()["parked"] is None

    assert parked["kind"] == ("network" if failure is break_connection else "outage")
    assert parked["until"] is None
    assert len(far.asked) == 2


def test_a_network_failure_is_reported_as_such_and_waited_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with start_model_gateway(tmp_path / "a", build_model_options(f"http://127.0.0.1:{port}")) as door, _pool() as pool:
        calling = pool.submit(door.send_call)
        parked = door.wait_until_parked()
        assert parked["kind"] == "network"
        assert "Connection refused" in parked["reason"]
        with start_provider(FINE, port=port):
            assert calling.result().status == 200


def test_an_untrusted_provider_is_not_used(tmp_path: Path) -> None:
    with (
        start_provider(FINE) as far,
        start_model_gateway(
            tmp_path / "a", build_model_options(f"https://127.0.0.1:{far.port}", outage_wait=0)
        ) as door,
    ):
        heard = door.send_call()

    assert heard.status == 503
    assert "TLS failed" in heard.content["error"]["message"]
    assert far.asked == []


def test_a_call_that_may_not_wait_as_long_gets_the_error(tmp_path: Path) -> None:
    with (
        start_provider(LIMITED) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, rate_limit_wait=60)) as door,
    ):
        answers = [door.send_call(), door.send_call()]
        heard, lines = door.read_status(), door.read_usage()

    assert [answer.status for answer in answers] == [429, 429]
    assert answers[0].content == build_error()
    assert (answers[0].headers["x-should-retry"], answers[0].headers["retry-after"]) == ("false", "3600")
    assert heard["gave_up"] == {"kind": "rate_limit", "reason": "429: Slow down."}
    assert heard["parked"] is None
    assert [(line["refused"], line["status"], line["complete"]) for line in lines] == [("gave_up", 429, True)] * 2


def test_an_outage_that_lasts_too_long_ends_the_wait(tmp_path: Path) -> None:
    down = answer_json(503, build_error("api_error", "Down."))
    with (
        start_provider(down) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, outage_wait=0.5)) as door,
    ):
        heard = door.send_call()
        assert door.read_status()["gave_up"] == {"kind": "outage", "reason": "503: Down."}

    assert (heard.status, heard.content["error"]["message"]) == (503, "Down.")
    assert len(far.asked) == 2  # at the start, and once more at the very end


def test_a_rate_limit_is_shared_with_the_other_gateways_of_the_runtime(tmp_path: Path) -> None:
    """The first meets it and writes; the second does not even ask, until somebody wants it to try."""
    shared = tmp_path / "parked" / "claude.json"
    with (
        start_provider(LIMITED, FINE) as far,
        start_model_gateway(
            tmp_path / "a", build_model_options(far.url, shared=str(shared), rate_limit_wait=9000)
        ) as first,
        start_model_gateway(
            tmp_path / "b", build_model_options(far.url, shared=str(shared), rate_limit_wait=9000)
        ) as second,
        _pool() as pool,
    ):
        calling = [pool.submit(first.send_call)]
        wait_until(shared.exists, "the limit is shared")
        reported = json.loads(shared.read_text())
        calling.append(pool.submit(second.send_call))
        also = second.wait_until_parked()
        assert len(far.asked) == 1
        shared.unlink()  # "try now"
        assert [call.result().status for call in calling] == [200, 200]
        assert (first.read_status()["parked"], second.read_status()["parked"]) == (None, None)

    assert (reported["kind"], reported["reason"], reported["attempt"]) == ("rate_limit", "429: Slow down.", "a")
    assert reported["until"] > time.time() + 3000
    assert (also["kind"], also["reason"], also["until"]) == ("rate_limit", "429: Slow down.", reported["until"])


def test_the_first_success_lifts_the_limit_for_all(tmp_path: Path) -> None:
    shared = tmp_path / "claude.json"
    limited = answer_json(429, build_error(), retry_after_ms="200")
    with (
        start_provider(limited, FINE) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, shared=str(shared))) as door,
    ):
        assert door.send_call().status == 200
        assert not shared.exists()


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"until": "soon"}', '{"until": 17}'])
def test_an_invalid_shared_file_holds_no_call_up(tmp_path: Path, text: str) -> None:
    shared = tmp_path / "claude.json"
    shared.write_text(text)
    with (
        start_provider(FINE) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, shared=str(shared))) as door,
    ):
        assert door.send_call().status == 200


def test_a_call_of_a_disconnected_agent_stops_waiting(tmp_path: Path) -> None:
    options = {"rate_limit_wait": 9000.0}
    with (
        start_provider(LIMITED) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, **options)) as door,
    ):
        talk = door.start_call()
        door.wait_until_parked()
        talk.close()
        (line,) = door.wait_for_usage()
        wait_until(lambda: door.read_status()["parked"] is None, "nobody waits any more")

    assert (line["refused"], line["status"], line["complete"]) == ("parked", 429, True)
    assert len(far.asked) == 1


def test_the_end_of_the_attempt_ends_the_waiting(tmp_path: Path) -> None:
    options = {"rate_limit_wait": 9000.0}
    with (
        start_provider(LIMITED) as far,
        start_model_gateway(tmp_path / "a", build_model_options(far.url, **options)) as door,
        door.start_call(),
    ):
        door.wait_until_parked()
        assert door.read_status("close")["lives"] is False
        (line,) = door.read_usage()

    assert line["refused"] == "parked"


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)
