"""The model door as an agent in a real box sees it: at its port, and with nothing of the credential inside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.model_gateways import TOKEN, build_model_options
from support.model_providers import answer_json, build_message, start_provider
from support.small_sandbox import Person, boxed, open_to_all, people, person, run, said

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap is for Linux")
CALL = f"""
exec 5<>/dev/tcp/127.0.0.1/61128
printf 'POST /anthropic/v1/messages HTTP/1.1\\r\\nx-api-key: {TOKEN}\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&5
cat <&5
"""


@pytest.fixture(params=people())
def who(request: pytest.FixtureRequest) -> Person:
    return person(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_to_all() as folder:
        yield folder


def test_an_agent_in_a_box_reaches_its_model_and_is_metered(who: Person, folder: Path) -> None:
    with start_provider(answer_json(200, build_message())) as far:
        orders = build_model_options(far.url)
        orders["apis"] = {"anthropic": {"upstream": far.url, "auth": "none"}}
        gateway = {"port": 61128, "hosts": [], "model": orders}
        ended = run(who, boxed(folder, "bash", "-c", CALL, net="doors", gateway=gateway))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert "HTTP/1.1 200" in said(folder)
    (line,) = [json.loads(text) for text in (folder / "usage.jsonl").read_text().splitlines()]
    assert (line["input"], line["output"], line["complete"]) == (100, 20, True)
    (entry,) = [json.loads(text) for text in (folder / "gateway.jsonl").read_text().splitlines()]
    assert (entry["kind"], entry["host"], entry["decision"], entry["rule"]) == (
        "model",
        "127.0.0.1",
        "allow",
        "anthropic",
    )
