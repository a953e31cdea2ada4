"""Roles that ask their runtime for more than it can hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blueflame.model.runtime_support import CAPABILITIES, RUNTIMES, Enforcement
from blueflame.model.settings import Settings
from blueflame.session.from_settings import build_session_limits
from blueflame.session.unsupported_settings import (
    find_ignored_settings,
    find_ladder_problems,
    find_unsupported_settings,
)


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"schema_version": 2, "project": {"name": "x"}, **sections})


def test_every_runtime_says_of_everything_what_it_can_hold() -> None:
    assert all(set(row.enforcement) == set(CAPABILITIES) for row in RUNTIMES.values())


def test_a_role_that_asks_for_what_can_be_held_is_fine() -> None:
    given = settings(roles={"worker": {"runtime": "codex", "model": "gpt-5.5", "budget_usd": 1}})

    assert find_unsupported_settings(given, {"worker": "codex"}) == ()


def test_skills_are_refused_where_there_are_none() -> None:
    given = settings(roles={"worker": {"runtime": "gemini", "model": "gemini-x", "skills": ["tdd"]}})

    (problem,) = find_unsupported_settings(given, {"worker": "gemini"})

    assert problem.startswith("roles.worker asks for skills and plugins for roles, which the runtime gemini cannot do")
    assert "remove roles.worker.skills" in problem


def test_a_name_of_claudes_is_not_guessed_at() -> None:
    given = settings(
        roles={"worker": {"runtime": "codex"}, "planner": {"runtime": "bridge"}, "validator": {"runtime": "other"}},
        runtimes={
            "bridge": {"kind": "acp", "command": "claude-agent-acp"},
            "other": {"kind": "acp", "command": "some-agent"},
        },
    )

    problems = find_unsupported_settings(given, {"worker": "codex", "planner": "bridge", "validator": "other"})

    assert [problem.partition(",")[0] for problem in problems] == [
        "roles.validator.model is 'sonnet'",
        "roles.worker.model is 'sonnet'",
    ]


@pytest.mark.parametrize(("what", "key"), [("tools", "tools"), ("budget", "budget_usd"), ("metering", "budget_usd")])
def test_limits_are_refused_where_nothing_holds_them(monkeypatch: pytest.MonkeyPatch, what: str, key: str) -> None:
    without = {**RUNTIMES["codex"].enforcement, what: Enforcement.IMPOSSIBLE}
    table = {**RUNTIMES, "codex": replace(RUNTIMES["codex"], enforcement=without)}
    monkeypatch.setattr("blueflame.model.runtime_support.RUNTIMES", table)
    given = settings(roles={"worker": {"runtime": "codex", "model": "x", "tools": ["Read"], "budget_usd": 1}})

    (problem,) = find_unsupported_settings(given, {"worker": "codex"})

    assert f"asks for {CAPABILITIES[what]}" in problem
    assert f"remove roles.worker.{key}" in problem


def test_interactive_planning_without_support_is_a_warning_if_it_was_set() -> None:
    roles = {"planner": {"runtime": "codex", "model": "x"}}

    assert find_ignored_settings(settings(roles=roles), {"planner": "codex"}) == ()
    (warning,) = find_ignored_settings(settings(roles=roles, planning={"interactive": True}), {"planner": "codex"})
    assert warning == "planning.interactive: codex cannot talk with a person; it plans without questions"
    assert find_ignored_settings(settings(planning={"interactive": True}), {"planner": "claude"}) == ()


def test_the_scripted_runtime_is_not_checked() -> None:
    given = settings(roles={"worker": {"runtime": "scripted", "skills": ["tdd"]}})

    assert find_unsupported_settings(given, {"worker": "scripted"}) == ()
    assert RUNTIMES["scripted"].enforcement["skills"] is Enforcement.IMPOSSIBLE


def find_rung_problems(rung: object, **role: object) -> tuple[str, ...]:
    workflows = {"mine": {"stages": ["work", "check"], "escalate": [{"model": "opus"}, rung]}}
    given = settings(roles={"worker": {"runtime": "claude", **role}}, workflows=workflows)
    return find_ladder_problems(given, build_session_limits(given, "mine"), ("worker",))


def test_a_rung_must_be_able_to_do_the_work_of_the_role() -> None:
    assert find_rung_problems({"runtime": "codex", "model": "gpt-5.5"}) == ()
    (problem,) = find_rung_problems({"runtime": "codex"})
    assert problem == (
        "the model of rung 2 of `escalate` is 'sonnet', a name that only Claude's program knows; "
        "set it to a model that codex can use"
    )
    (problem,) = find_rung_problems({"runtime": "codex", "model": "gpt-5.5"}, skills=["tdd"])
    assert problem.startswith("roles.worker asks for skills and plugins for roles, which the runtime codex cannot do")
