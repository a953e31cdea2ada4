"""The model API from inside a real sandbox: at its port, and without the credential."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.model_gateways import TOKEN, build_model_options
from support.model_providers import answer_json, build_message, start_provider
from support.small_sandbox import (
    SystemUser,
    find_user,
    list_users,
    make_shared_folder,
    read_stdout,
    run_warden_as,
    write_sandboxed_launch,
)

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap is for Linux")
CALL = f"""
exec 5<>/dev/tcp/127.0.0.1/61128
printf 'POST /anthropic/v1/messages HTTP/1.1\\r\\nx-api-key: {TOKEN}\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&5
cat <&5
"""


@pytest.fixture(params=list_users())
def who(request: pytest.FixtureRequest) -> SystemUser:
    return find_user(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with make_shared_folder() as folder:
        yield folder


def test_a_sandboxed_agent_reaches_its_model_and_is_metered(who: SystemUser, folder: Path) -> None:
    with start_provider(answer_json(200, build_message())) as provider:
        options = build_model_options(provider.url)
        options["apis"] = {"anthropic": {"upstream": provider.url, "auth": "none"}}
        gateway = {"port": 61128, "hosts": [], "model": options}
        ended = run_warden_as(who, write_sandboxed_launch(folder, "bash", "-c", CALL, net="doors", gateway=gateway))

    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert "HTTP/1.1 200" in read_stdout(folder)
    (line,) = [json.loads(text) for text in (folder / "usage.jsonl").read_text().splitlines()]
    assert (line["input"], line["output"], line["complete"]) == (100, 20, True)
    (entry,) = [json.loads(text) for text in (folder / "gateway.jsonl").read_text().splitlines()]
    assert (entry["kind"], entry["host"], entry["decision"], entry["rule"]) == (
        "model",
        "127.0.0.1",
        "allow",
        "anthropic",
    )
