"""What the settings mean for a session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from blueflame.model.attempt import Duty
from blueflame.model.errors import UsageError
from blueflame.model.limits import PASSED, REVIEWED
from blueflame.model.settings import Settings
from blueflame.model.spend import UNLIMITED, Budget, Unit
from blueflame.model.task import Assignment
from blueflame.session.from_settings import (
    build_budget,
    build_ladder,
    build_session_limits,
    build_workflow,
    find_doubtful_settings,
    list_differences,
)


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"project": {"name": "x"}, **sections})


PIPELINES = {
    "default": {"stages": ["backend", "review-git", "qa"], "max_retries": 3, "review_threshold": 0.7},
    "strict": {"stages": ["backend", "qa"], "review_threshold": 0.9},
    "full_stack": {"stages": ["backend", "frontend"], "database_first": True},
}


def test_the_limits_of_a_minimal_configuration() -> None:
    limits = build_session_limits(settings())
    assert (limits.workers, limits.validators, limits.max_retries, limits.max_cycles) == (4, 2, 2, 5)
    assert limits.session_budget == Budget(Unit.USD, 30_000_000)
    assert limits.get_budget("worker") == Budget(Unit.USD, 5_000_000)
    assert (limits.get_timeout("worker"), limits.get_timeout("validator")) == (1800, 600)
    assert limits.get_model("validator") == "sonnet"
    assert limits.get_runtime("worker") == "claude"
    assert build_session_limits(settings(), scripted=True).get_runtime("worker") == "scripted"


def test_a_rehearsal_starts_no_agent_that_costs_money() -> None:
    paid = settings(roles={"worker": {"runtime": "codex", "model": "gpt-5.5"}, "planner": {"runtime": "claude"}})
    limits = build_session_limits(paid, scripted=True)
    assert set(limits.role_runtimes.values()) == {"scripted"}
    assert build_session_limits(paid).role_runtimes["worker"] == "codex"
    assert (limits.hooks, limits.checks) == ((), ())


def test_a_role_has_its_own_timeout_and_unit() -> None:
    limits = build_session_limits(
        settings(roles={"worker": {"timeout": "15m", "budget_tokens": 7}}, limits={"agent_timeout": 60})
    )
    assert (limits.get_timeout("worker"), limits.get_timeout("planner")) == (900, 60)
    assert limits.get_budget("worker") == Budget(Unit.TOKENS, 7)


def test_a_review_has_ten_minutes_unless_less_is_written_for_all_or_more_for_itself() -> None:
    short = settings(limits={"agent_timeout": "5m"})
    own = settings(roles={"validator": {"timeout": "20m"}})
    assert [build_session_limits(given).get_timeout("validator") for given in (short, own)] == [300, 1200]


def test_hooks_that_are_empty_are_off_and_the_order_is_fixed() -> None:
    limits = build_session_limits(settings(hooks={"on_failure": "b", "post_plan": "a", "timeout": "5s"}))
    assert limits.hooks == ("post_plan", "on_failure")


def test_diagnostics_that_are_switched_off_are_no_checks() -> None:
    commands = {"commands": ["make test"]}
    assert build_session_limits(settings(validation={"validator_diagnostics": commands})).checks == ("make test",)
    assert (
        build_session_limits(settings(validation={"validator_diagnostics": {**commands, "enabled": False}})).checks
        == ()
    )


def test_a_group_can_have_a_stronger_validator() -> None:
    assert build_session_limits(
        settings(validation={"validator_models": {"payments": "opus"}})
    ).group_validator_models == {"payments": "opus"}


def test_a_workflow_lends_its_role_to_the_work_and_its_retries_to_the_tasks() -> None:
    given_settings = settings(
        roles={"lead": {"model": "opus", "timeout": "1h"}}, workflows={"single": {"max_retries": 0}}
    )
    assert build_session_limits(given_settings, "direct").get_model("lead") == "opus"
    assert build_session_limits(given_settings, "direct").get_timeout("lead") == 3600
    assert build_session_limits(given_settings).get_model("worker") == "sonnet"
    assert build_session_limits(given_settings, "single").max_retries == 0


def test_nothing_is_unlimited_by_rounding() -> None:
    assert build_budget(0.0000001, 0) == Budget(Unit.USD, 1)
    assert build_budget(0, 0) == UNLIMITED


@hypothesis_settings(deadline=None)
@given(st.floats(min_value=0, max_value=10_000), st.integers(min_value=0, max_value=10**9))
def test_a_budget_is_unlimited_exactly_when_nothing_is_set(usd: float, tokens: int) -> None:
    assert build_budget(usd, tokens).unlimited == (not usd and not tokens)


@pytest.mark.parametrize(
    ("name", "stages", "barrier"),
    [
        (None, ("plan", "work", "validate", "merge"), True),
        ("flow", ("plan", "work", "validate", "merge"), False),
        ("single", ("work", "check", "merge"), False),
        ("direct", ("work", "check", "merge"), False),
    ],
)
def test_the_built_in_workflows(name: str | None, stages: tuple[str, ...], barrier: bool) -> None:
    found = build_workflow(settings(), name)
    assert (found.stages, found.barrier) == (stages, barrier)


def test_the_workflow_of_the_configuration_is_the_default() -> None:
    assert build_workflow(settings(planning={"workflow": "flow"})).name == "flow"


def test_an_unknown_workflow_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no workflow 'wave'.*did you mean waves\?.*waves, flow, single, direct"):
        build_workflow(settings(), "wave")


def test_a_workflow_of_roles_has_a_stage_for_each_and_lands() -> None:
    workflow = build_workflow(settings(workflows=PIPELINES), "default")
    assert [(stage.role, stage.duty) for stage in workflow.steps] == [
        ("backend", Duty.MAKE),
        ("review-git", Duty.JUDGE),
        ("qa", Duty.JUDGE),
        ("merger", Duty.MERGE),
    ]


def test_what_the_last_making_stage_made_must_be_judged() -> None:
    with pytest.raises(UsageError, match=r"'full_stack' cannot run: no stage judges what its last making stage made"):
        build_workflow(settings(workflows=PIPELINES), "full_stack")


def test_a_role_that_occurs_twice_has_two_names_in_ids() -> None:
    twice = {"mine": {"stages": ["backend", "review-git", "frontend", "review-git"]}}
    workflow = build_workflow(settings(workflows=twice), "mine")
    assert [stage.key for stage in workflow.steps] == ["backend", "review-git", "frontend", "review-git-2", "merger"]


def test_the_role_of_a_workflow_does_its_work_stage() -> None:
    assert build_workflow(settings(), "direct").find_role(Duty.MAKE) == "lead"


def test_others_build_on_a_task_of_several_making_stages_when_it_has_passed_all() -> None:
    several = {"mine": {"stages": ["backend", "frontend", "qa"]}}
    assert build_session_limits(settings(workflows=several), "mine").dependents == REVIEWED
    assert build_session_limits(settings(), "flow").dependents == PASSED
    assert build_session_limits(settings(), "waves").dependents == REVIEWED


def test_a_workflow_has_the_threshold_that_it_or_default_sets() -> None:
    found = settings(workflows=PIPELINES)
    assert build_session_limits(found, "strict").review_threshold == 0.9
    assert build_session_limits(found, "waves").review_threshold == 0.7
    assert build_session_limits(settings(), "waves").review_threshold is None


def test_a_workflow_takes_what_it_does_not_set_from_default() -> None:
    found = settings(workflows=PIPELINES)
    assert build_session_limits(found, "strict").max_retries == 3


def test_a_workflow_has_the_wait_the_ladder_and_the_ceiling_that_it_or_default_sets() -> None:
    default = {"stages": ["work", "check"], "retry_backoff_base_ms": 30_000, "escalate": [{"model": "opus"}]}
    given = settings(workflows={"default": default, "own": {"stages": ["work", "check"], "escalate": []}})
    limits = build_session_limits(given, "waves")
    assert (limits.retry_wait, limits.ladder) == (30.0, (Assignment(model="opus"),))
    assert limits.max_attempts == 2 * (1 + 2 + 1)
    assert build_session_limits(given, "own").ladder == ()
    plain = build_session_limits(settings())
    assert (plain.retry_wait, plain.ladder, plain.max_attempts, plain.on_exhausted) == (0.0, (), 6, "ask")
    assert build_session_limits(settings(limits={"max_attempts": 1})).max_attempts == 1
    assert {"worker", "backend", "lead"} <= set(plain.makers)
    assert not {"planner", "validator", "qa", "merger"} & set(plain.makers)


def test_a_rung_that_names_only_its_runtime_has_a_model_that_the_runtime_knows() -> None:
    flow = {"default": {"stages": ["work", "check"], "escalate": [{"runtime": "codex"}, {"runtime": "tmux"}]}}
    assert build_ladder(settings(workflows=flow)) == (Assignment(runtime="codex"), Assignment(runtime="tmux"))
    docs = {"docs": {"runtime": "codex", "model": "gpt-5.5"}}
    first, second = build_ladder(settings(workflows=flow, roles=docs))
    assert (first, second.model) == (Assignment(runtime="codex", model="gpt-5.5"), "")
    assert [rung.runtime for rung in build_ladder(settings(workflows=flow), scripted=True)] == ["", ""]


def test_database_first_puts_a_database_stage_before_backend() -> None:
    full = {"mine": {"stages": ["backend", "frontend", "qa"], "database_first": True}}
    assert build_workflow(settings(workflows=full), "mine").stages == ("database", "backend", "frontend", "qa", "merge")


def test_no_differences_between_the_same() -> None:
    assert list_differences(settings(), settings(limits={"agent_timeout": "30m"})) == ()


def test_differences_are_sorted_and_written_as_in_the_file() -> None:
    old = settings(validation={"validator_models": {"a": "opus"}})
    new = settings(limits={"agent_timeout": "10m", "max_retries": 3}, permissions={"allowed_paths": ["x/**"]})
    assert list_differences(old, new) == (
        'limits.agent_timeout: "1800s" -> "600s"',
        "limits.max_retries: 2 -> 3",
        'permissions.allowed_paths: ["src/**", "tests/**", "docs/**"] -> ["x/**"]',
        'validation.validator_models.a: "opus" -> (not set)',
    )


def test_a_new_role_is_a_difference() -> None:
    assert any(
        line.startswith("roles.tester.model: (not set) ->")
        for line in list_differences(settings(), settings(roles={"tester": {}}))
    )


def test_doubts_name_the_place() -> None:
    found = settings(
        permissions={"allowed_paths": [], "bash_rules": {"blocked_patterns": ["curl|"]}},
        validation={"commit_format": {"pattern": r"^feat\(task-\d+\): .+"}},
    )
    assert [".".join(place) for place, _ in find_doubtful_settings(found)] == [
        "validation.validator_diagnostics.commands",
        "permissions.allowed_paths",
        "permissions.bash_rules.blocked_patterns",
        "validation.commit_format.pattern",
    ]


@pytest.mark.parametrize("stages", [["plan", "work"], ["work", "merge"], ["work", "check", "docs", "merge"]])
def test_a_workflow_that_would_land_unchecked_work_is_refused(stages: list[str]) -> None:
    with pytest.raises(UsageError, match="add check, validate or a role with duty judge after it"):
        build_workflow(settings(workflows={"odd": {"stages": stages}}), "odd")


def test_a_plan_may_choose_the_workflows_that_are_listed_where_there_is_no_barrier() -> None:
    found = settings(planning={"workflows": ["backend_only", "full_stack"], "models": ["opus"]})
    limits = build_session_limits(found, "flow")
    assert limits.task_models == ("opus",)
    assert list(limits.task_workflows) == ["backend_only", "full_stack"]
    assert limits.task_workflows["backend_only"].review_threshold == 0.85
    assert limits.task_workflows["full_stack"].max_retries == 3
    assert limits.dependents == REVIEWED, "a task that is made in several stages may be chosen"
    assert build_session_limits(found, "waves").task_workflows == {}
    assert build_session_limits(settings()).task_models == ()


def test_a_workflow_that_a_plan_chooses_has_its_own_threshold_retries_wait_and_ladder() -> None:
    climb = {"stages": ["work", "check"], "max_retries": 1, "retry_backoff_base_ms": 500, "escalate": [{"model": "x"}]}
    found = settings(
        limits={"max_retries": 4},
        planning={"workflow": "usual", "workflows": ["climb", "plain"]},
        workflows={
            "usual": {"stages": ["plan", "work", "check"], "max_retries": 0, "barrier": False},
            "climb": {**climb, "review_threshold": 0.7},
            "plain": {"stages": ["work", "check"]},
        },
    )
    flows = build_session_limits(found).task_workflows
    chosen = {name: (f.review_threshold, f.max_retries, f.retry_wait, len(f.ladder)) for name, f in flows.items()}
    assert chosen == {"climb": (0.7, 1, 0.5, 1), "plain": (None, 4, 0.0, 0)}, "what one leaves out is not the session's"


def test_choices_that_a_barrier_forbids_are_doubtful() -> None:
    (doubt,) = [
        text for at, text in find_doubtful_settings(settings(planning={"workflows": ["flow"]})) if at[0] == "planning"
    ]
    assert doubt == "has no effect in waves: its barrier leads all tasks through the same stages; use flow"


@pytest.mark.parametrize("planning", [{"workflows": ["flwo"]}, {"tier_2": "flwo"}, {"workflow": "flwo"}])
def test_planning_names_only_workflows_that_exist(planning: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"is not a workflow of this file.*did you mean flow\?"):
        settings(planning=planning)


def test_a_tier_without_a_plan_runs_no_workflow_with_one() -> None:
    with pytest.raises(ValidationError, match="has a plan; name one without a plan, such as single"):
        settings(planning={"tier_2": "flow"})


def test_roles_that_a_session_does_not_have_make_no_difference_to_it() -> None:
    new = settings(
        roles={"qa": {"model": "opus"}, "worker": {"model": "opus"}},
        workflows={"flow": {"max_retries": 1}, "waves": {"max_retries": 1}},
    )
    assert list_differences(settings(), new, {"roles": {"worker"}, "workflows": {"flow"}}) == (
        'roles.worker.model: "sonnet" -> "opus"',
        "workflows.flow.max_retries: null -> 1",
    )


def test_a_role_with_the_name_of_a_stage_is_doubtful() -> None:
    roles = {"check": {"duty": "judge"}, "checks": {"duty": "judge"}}
    doubts = [(at, text) for at, text in find_doubtful_settings(settings(roles=roles)) if at[0] == "roles"]
    assert doubts == [
        (("roles", "check"), "it is never used: in a list of stages, check is the stage; give it another name")
    ]
