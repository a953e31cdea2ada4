"""The defaults are those of the ledger, and the values that settings are made of are strict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from blueflame.model.settings import Settings
from blueflame.model.settings.fields import MAX_DURATION, format_duration, parse_duration
from blueflame.model.suggestions import find_closest, suggest
from support.commit_format import COMMIT_PATTERN


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"project": {"name": "x"}, **sections})


LEDGER = {
    "project.base_branch": "main",
    "project.worktree_dir": ".trees",
    "project.tasks_file": ".blueflame/tasks.yaml",
    "concurrency.planning": 1,
    "concurrency.development": 4,
    "concurrency.validation": 2,
    "concurrency.merge": 1,
    "concurrency.adaptive": True,
    "concurrency.adaptive_min_ram_per_agent_mb": 600,
    "limits.agent_timeout": 1800,
    "limits.heartbeat_interval": 30,
    "limits.max_retries": 2,
    "limits.max_wave_cycles": 5,
    "limits.max_session_cost_usd": 30,
    "limits.max_session_tokens": 0,
    "limits.warn_threshold": 0.8,
    "limits.kill_grace": 10,
    "sandbox.max_cpu_seconds": 7200,
    "sandbox.max_memory_mb": None,
    "sandbox.max_file_size_mb": 1024,
    "sandbox.max_open_files": 8192,
    "sandbox.allow_network": False,
    "planning.interactive": True,
    "gates.validator_retries": 1,
    "gates.max_replans": 3,
    "validation.file_scope.enforce": True,
    "validation.require_tests.enabled": True,
    "validation.validator_diagnostics.enabled": True,
    "validation.validator_diagnostics.timeout": 900,
    "superpowers.enabled": True,
    "beads.enabled": True,
    "beads.archive_after_wave": True,
    "beads.include_failure_notes": True,
    "beads.memory_decay": True,
    "beads.decay_policy.summarize_after_sessions": 3,
    "beads.decay_policy.preserve_failures_sessions": 5,
    "hooks.post_plan": "",
    "hooks.pre_validation": "",
    "hooks.post_merge": "",
    "hooks.on_failure": "",
}


@pytest.mark.parametrize(("key", "value"), LEDGER.items())
def test_a_minimal_configuration_is_completed_from_the_ledger(key: str, value: object) -> None:
    found: Any = settings()
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("role", "model", "usd"),
    [("planner", "sonnet", 2), ("worker", "sonnet", 5), ("validator", "sonnet", 1), ("merger", "sonnet", 2)],
)
def test_the_built_in_roles_have_the_models_and_budgets_of_the_ledger(role: str, model: str, usd: float) -> None:
    found = settings().roles[role]
    assert (found.model, found.budget_usd, found.budget_tokens) == (model, usd, 0)


def test_the_figures_of_earlier_defaults_stay_valid() -> None:
    limits = {"agent_timeout": "300s", "max_session_cost_usd": 10}
    roles = {"worker": {"budget_usd": 1.5}, "validator": {"model": "haiku", "budget_usd": 0.15}}
    found = settings(limits=limits, roles=roles, validation={"validator_diagnostics": {"timeout": "120s"}})
    assert (found.limits.agent_timeout, found.limits.max_session_cost_usd) == (300, 10)
    assert (found.roles["worker"].budget_usd, found.roles["validator"].model) == (1.5, "haiku")
    assert found.validation.validator_diagnostics.timeout == 120


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        settings().limits.max_retries = 9  # type: ignore[misc] # that it is refused is the point


def test_a_section_without_keys_has_its_defaults() -> None:
    assert settings(limits=None, roles=None, workflows=None, runtimes=None, hooks=None) == settings()


def test_one_key_of_a_built_in_role_leaves_its_others() -> None:
    found = settings(roles={"validator": {"model": "opus"}}).roles["validator"]
    assert (found.model, found.budget_usd, found.tools) == ("opus", 1, ("Read", "Glob", "Grep", "Bash"))


def test_a_role_of_ones_own_has_a_workers_defaults() -> None:
    found = settings(roles={"poet": None}).roles["poet"]
    assert (found.duty, found.model, found.budget_usd, found.offered_tools) == ("make", "sonnet", 5, None)


@pytest.mark.parametrize("duty", ["plan", "judge"])
def test_a_role_that_only_reads_is_offered_tools_that_read(duty: str) -> None:
    assert settings(roles={"poet": {"duty": duty}}).roles["poet"].offered_tools == ("Read", "Glob", "Grep", "Bash")
    assert settings(roles={"poet": {"duty": duty, "tools": ["Read"]}}).roles["poet"].offered_tools == ("Read",)


def test_the_duty_of_a_role_that_stages_rely_on_stays() -> None:
    with pytest.raises(ValidationError, match="is not the duty of validator; write judge"):
        settings(roles={"validator": {"duty": "make"}})
    assert settings(roles={"qa": {"duty": "make"}}).roles["qa"].duty == "make"


@pytest.mark.parametrize(
    ("persona", "wrong"),
    [
        ("Look at $tusk.", "uses \\$tusk, which has no value; use \\$role"),
        ("It costs 5$ each.", r"has a \$ without a name; write \$\$"),
        (" ", "is empty"),
        ("x" * 10_001, "too long"),
    ],
)
def test_a_persona_that_cannot_be_filled_in_is_refused(persona: str, wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        settings(roles={"poet": {"persona": persona}})


@pytest.mark.parametrize(
    "path", ["", "/etc/motd", "../x.md", "docs/../../x.md", "~/x.md", ".git/x", "a\\b.md", "docs//x.md"]
)
def test_the_file_of_a_persona_is_in_the_repository(path: str) -> None:
    with pytest.raises(ValidationError, match="is not the path of a file in the repository"):
        settings(roles={"poet": {"persona_file": path}})
    assert settings(roles={"poet": {"persona_file": "docs/poet.md"}}).roles["poet"].persona_file == "docs/poet.md"


@pytest.mark.verification(51, 52)
def test_tokens_alone_switch_the_default_in_dollars_off() -> None:
    found = settings(roles={"worker": {"budget_tokens": 9}}, limits={"max_session_tokens": 50_000})
    assert (found.roles["worker"].budget_usd, found.roles["worker"].budget_tokens) == (0, 9)
    assert (found.limits.max_session_cost_usd, found.limits.max_session_tokens) == (0, 50_000)


def test_no_tokens_alone_leave_the_default_in_dollars() -> None:
    assert settings(limits={"max_session_tokens": 0}).limits.max_session_cost_usd == 30


@pytest.mark.verification(52)
@pytest.mark.parametrize(
    "sections",
    [
        {"limits": {"max_session_cost_usd": 1, "max_session_tokens": 1}},
        {"roles": {"worker": {"budget_usd": 1, "budget_tokens": 1}}},
        {"roles": {"backend": {"budget_usd": 1, "budget_tokens": 1}}},
    ],
)
def test_both_units_at_once_are_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="both set"):
        settings(**sections)


@pytest.mark.verification(51)
def test_both_units_may_be_unlimited() -> None:
    found = settings(limits={"max_session_cost_usd": 0, "max_session_tokens": 0}).limits
    assert (found.max_session_cost_usd, found.max_session_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("300s", 300),
        ("5m", 300),
        ("1h30m", 5400),
        (300, 300),
        (0.5, 0.5),
        ("250ms", 0.25),
        ("2d", 172_800),
        ("1.5h", 5400),
    ],
)
def test_durations_are_read_in_every_notation(written: object, meant: float) -> None:
    assert parse_duration(written) == meant


@pytest.mark.parametrize("written", ["", "5", "5x", "s", "-5s", "5 m", "30s5m", "1h 30m", True, None, [5], {}, "١s"])
def test_other_notations_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(written)


@pytest.mark.parametrize("written", [0, "0s", -1, float("nan"), float("inf"), 10**30, "400d"])
def test_durations_out_of_range_are_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        settings(limits={"agent_timeout": written})


@hypothesis_settings(deadline=None)
@given(st.integers(min_value=0, max_value=int(MAX_DURATION * 1000)))
def test_a_duration_is_read_back_as_it_was_shown(milliseconds: int) -> None:
    value = milliseconds / 1000
    assert parse_duration(format_duration(value)) == value


GOOD_GLOBS = [
    "src/**",
    "*.py",
    ".env*",
    "/app.py",
    "a b/**",
    "док/**",
    "[ab].c",
    r"\[x\]/**",
    r"\{a\}",
    "**",
    "a/**/b",
    "[]a]",
]
BAD_GLOBS = [
    "src\\app",
    r"\/",
    "",
    " ",
    "!x",
    "#x",
    "~/x",
    ".",
    "./src",
    "/",
    "../x",
    "a/../b",
    "a//b",
    "***",
    "[z",
    "a{b,c}",
    "x\\",
    " x",
    "x ",
    "a\nb",
]


@pytest.mark.parametrize("glob", GOOD_GLOBS)
def test_globs_are_taken(glob: str) -> None:
    assert settings(permissions={"allowed_paths": [glob]}).permissions.allowed_paths == (glob,)


@pytest.mark.parametrize("glob", BAD_GLOBS)
def test_globs_that_would_silently_match_nothing_are_refused(glob: str) -> None:
    with pytest.raises(ValidationError):
        settings(permissions={"allowed_paths": [glob]})


@pytest.mark.verification(2)
@pytest.mark.parametrize("pattern", ["(", "[[:alpha:]]", "a{99999999999}", "*", "(?P<x", r"\g"])
def test_patterns_of_another_dialect_are_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        settings(validation={"commit_format": {"pattern": pattern}})
    with pytest.raises(ValidationError):
        settings(permissions={"bash_rules": {"blocked_patterns": [pattern]}})
    with pytest.raises(ValidationError):
        settings(permissions={"bash_rules": {"blocked_patterns": [""]}})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("concurrency", "development", 0),
        ("concurrency", "development", 9),
        ("concurrency", "development", True),
        ("concurrency", "development", "4"),
        ("concurrency", "planning", 2),
        ("concurrency", "merge", 0),
        ("limits", "max_wave_cycles", 0),
        ("limits", "max_retries", -1),
        ("limits", "max_retries", 10**30),
        ("limits", "max_session_cost_usd", float("nan")),
        ("limits", "max_session_cost_usd", -0.01),
        ("limits", "warn_threshold", 0),
        ("limits", "warn_threshold", 1.1),
        ("planning", "interactive", "yes"),
        ("planning", "interactive", 1),
        ("planning", "workflow", "wavs"),
        ("project", "base_branch", "a..b"),
        ("project", "base_branch", "-x"),
        ("project", "worktree_dir", "."),
        ("project", "worktree_dir", ".git/x"),
        ("project", "tasks_file", "../tasks.yaml"),
        ("project", "tasks_file", "/etc/tasks.yaml"),
        ("hooks", "post_plan", "   "),
        ("hooks", "post_plan", ["a"]),
        ("worktree", "setup", [""]),
        ("worktree", "setup", {"a": 1}),
        ("worktree", "ports_per_worktree", -1),
        ("cleanup", "stale_worktrees", "burn"),
        ("gates", "on_validation_failed", "pass"),
        ("permissions", "allowed_paths", None),
        ("permissions", "allowed_paths", "src/**"),
        ("permissions", "allowed_tools", ["Task"]),
        ("runtimes", "scripted", {"env": {"BAD NAME": "x"}}),
        ("runtimes", "scripted", {"command": ""}),
    ],
)
def test_wrong_values_are_refused(section: str, key: str, value: object) -> None:
    data: dict[str, Any] = {"project": {"name": "x"}}
    data.setdefault(section, {})[key] = value
    with pytest.raises(ValidationError):
        Settings.model_validate(data)


@pytest.mark.parametrize(
    "stages",
    [
        [],
        ["plan", "plan", "work"],
        ["merge", "work"],
        ["review-git", "backend"],
        ["validate"],
        ["poet"],
        ["check"],
        ["plan"],
        ["plan", "merge"],
        ["work", "plan"],
        ["work", "merge", "check"],
        ["wrok"],
        ["plan", "work", "valdate"],
        ["Work"],
        [1],
    ],
)
def test_workflows_that_make_no_sense_are_refused(stages: list[Any]) -> None:
    with pytest.raises(ValidationError):
        settings(workflows={"mine": {"stages": stages}})


def test_a_role_that_judges_cannot_do_the_work_stage() -> None:
    with pytest.raises(
        ValidationError, match="has the duty judge, and the work stage commits; name a role with duty make"
    ):
        settings(workflows={"mine": {"stages": ["work", "check"], "role": "qa"}})


def test_the_pipelines_of_the_seeds_can_be_written_down() -> None:
    stages = ["backend", "review-git", "frontend", "review-git", "qa"]
    found = settings(
        workflows={
            "default": {"stages": stages, "review_threshold": 0.8, "max_retries": 3, "retry_backoff_base_ms": 30_000},
            "backend_only": {"stages": ["backend", "review-git", "qa"], "review_threshold": 0.85},
            "full_stack": {"stages": stages, "database_first": True},
        }
    )
    assert found.workflows["default"].stages == tuple(stages)
    assert list(found.workflows)[:4] == ["waves", "flow", "single", "direct"]


def test_an_unknown_runtime_is_refused_and_one_of_ones_own_is_not() -> None:
    with pytest.raises(ValidationError, match="did you mean claude"):
        settings(roles={"worker": {"runtime": "cluade"}})
    assert settings(runtimes={"mine": {"command": "agent"}}, roles={"worker": {"runtime": "mine"}})


def test_one_setup_command_is_a_list_of_one() -> None:
    assert settings(worktree={"setup": "npm ci"}).worktree.setup == ("npm ci",)
    assert settings(worktree={"setup": ["a", "b"]}).worktree.setup == ("a", "b")
    assert settings(worktree={"setup": ""}).worktree.setup == ()


def test_the_commit_format_with_task_ids_takes_several_ids() -> None:
    import re

    pattern = settings(validation={"commit_format": {"pattern": COMMIT_PATTERN}}).validation.commit_format.pattern
    assert re.search(pattern, "feat(task-001,task-002): x")
    assert re.search(pattern, "feat(task-001): add JWT middleware")
    assert not re.search(pattern, "feat: x")


def test_an_author_is_the_person_the_agent_or_a_name_with_an_address() -> None:
    for author in ("person", "agent", "Ада Лавлейс <ada@example.org>"):
        assert settings(commits={"author": author}).commits.author == author
    with pytest.raises(ValidationError, match="is not an author"):
        settings(commits={"author": "somewhere <x"})


def test_an_example_must_match_its_pattern_and_may_be_left_out() -> None:
    with pytest.raises(ValidationError, match="does not match"):
        settings(validation={"commit_format": {"pattern": COMMIT_PATTERN, "example": "no"}})
    assert settings(validation={"commit_format": {"pattern": COMMIT_PATTERN}}).validation.commit_format.example
    own = settings(validation={"commit_format": {"pattern": r"^[A-Z]+-\d+: "}})
    assert own.validation.commit_format.example == ""
    assert Settings.model_validate(own.model_dump(mode="json")) == own


def test_what_was_probably_meant() -> None:
    assert find_closest("Max-Retries", ["max_retries", "agent_timeout"]) == "max_retries"
    assert suggest("zzz", ["max_retries"]) == ""
