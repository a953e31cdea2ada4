"""Programs that are run as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.agents import registry
from blueflame.agents.command import PlainCommandRuntime
from blueflame.model.errors import Refused
from support.agent_briefs import GATEWAY, build_brief


def make_runtime(root: Path, command: str, **options: object) -> PlainCommandRuntime:
    runtime = registry.build_runtime("command", {"name": "mine", "command": command, "repo": root, **options}, root)
    assert isinstance(runtime, PlainCommandRuntime)
    return runtime


def test_it_reaches_the_models_that_the_person_has_a_key_for_through_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    runtime = make_runtime(tmp_path, "sh", args=["-c", "{model}"], env={"MY_URL": "{gateway}/openai"})
    launch = runtime.prepare_launch(build_brief(), directory=tmp_path)
    assert launch.apis == ("openai",)
    assert launch.env["OPENAI_BASE_URL"] == launch.env["MY_URL"] == f"{GATEWAY}/openai"
    assert launch.env["OPENAI_API_KEY"] == "bf-token"
    assert launch.argv[-2:] == ("-c", "some-model")
    assert "Do it." in launch.stdin


def test_a_relative_path_is_run_in_the_checkout_and_never_outside(tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("#!/bin/sh\n")
    launch = make_runtime(tmp_path, "./agent.sh --fast").prepare_launch(build_brief(), directory=tmp_path)
    assert launch.argv[-2:] == ("./agent.sh", "--fast")
    assert launch.needs == ()
    assert make_runtime(tmp_path, "./agent.sh").find_problems() == ()


@pytest.mark.parametrize("command", ["", "./gone.sh", "no-such-program-anywhere", "'open quote"])
def test_a_program_that_is_not_there_is_named(tmp_path: Path, command: str) -> None:
    runtime = make_runtime(tmp_path, command)
    assert "runtimes.mine.command" in runtime.find_problems()[0]
    with pytest.raises(Refused):
        runtime.prepare_launch(build_brief(), directory=tmp_path)


def test_variables_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    assert "LD_PRELOAD" in make_runtime(tmp_path, "sh", env={"LD_PRELOAD": "x"}).find_problems()[0]
