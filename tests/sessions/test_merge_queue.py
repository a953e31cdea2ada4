"""The merge queue: a culprit goes back alone, a flaky check blames no task, a merger resolves conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blueflame.model.attempt import MERGER
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    ChangesetBuilt,
    ChangesetConflicted,
    ChangesetEvicted,
    ChangesetJudged,
    ChangesetTrimmed,
    ConflictResolved,
    Landed,
)
from blueflame.model.gate import Gate
from blueflame.model.verdict import Check
from blueflame.orchestrator.try_commands import save_baseline
from blueflame.session.state import Session
from blueflame.text.event_lines import format_log_lines
from support.sessions import Stage, task, writes

GO_ON = ["continue"]
Step = Mapping[str, Any]


def checks(stage: Stage, *commands: str, **more: object) -> None:
    stage.reconfigure(validation={"validator_diagnostics": {"enabled": True, "commands": list(commands)}}, **more)


def unscoped(stage: Stage, *commands: str, **more: object) -> None:
    diagnostics = {"enabled": bool(commands), "commands": list(commands)}
    stage.reconfigure(validation={"file_scope": {"enforce": False}, "validator_diagnostics": diagnostics}, **more)


def line_in(path: str, text: str) -> list[Step]:
    """A worker that puts a line of its own in the middle of a file."""
    return [{"write": {"path": path, "text": text}}, {"commit": "feat({task}): a line"}]


def test_a_red_batch_is_traced_to_its_culprit_and_the_rest_lands(stage: Stage) -> None:
    checks(stage, "test ! -e src/1.txt -o ! -e src/3.txt")
    stage.play(
        *(task(n) for n in range(1, 6)),
    )
    result = stage.run({"session": ["stop"]})
    (trimmed,) = result.of(ChangesetTrimmed)
    assert trimmed.tasks == ("task-003",)
    assert trimmed.waiting == ()
    assert "as soon as task-003 is in it" in trimmed.reason
    assert result.states == {f"task-{n:03d}": "requeued" if n == 3 else "merged" for n in range(1, 6)}
    gate = next(gate for gate in result.answers.asked if gate.kind == "changeset")
    assert gate.evidence["tasks"] == ["task-001", "task-002", "task-004", "task-005"]
    assert gate.evidence["missing"] == ["task-003"]
    assert gate.title == "[main] Task 1 (and 3 more)"
    assert result.session.tasks["task-003"].history[-1].notes.startswith("checks are red")


def test_what_is_built_on_the_culprit_waits_and_is_not_blamed(stage: Stage) -> None:
    unscoped(stage, "test ! -e src/1.txt -o ! -e src/2.txt")
    stage.play(
        task(1),
        task(2),
        task(3, after=[2]),
        workers={
            2: {"1": writes("src/2.txt", "two"), "*": [{"run": "git rm -q src/2.txt"}, *writes("src/4.txt", "two")]}
        },
    )
    result = stage.run({"session": GO_ON})
    (trimmed,) = result.of(ChangesetTrimmed)
    assert (trimmed.tasks, trimmed.waiting) == (("task-002",), ("task-003",))
    assert [landed.changeset for landed in result.of(Landed)] == ["cs-001", "cs-002"]
    assert result.session.outcome == "completed"
    assert "src/2.txt" not in stage.files()


def test_a_check_that_is_red_and_then_green_on_the_same_tree_is_flaky_and_blames_no_task(stage: Stage) -> None:
    counter = stage.root.parent / "counter"
    flips = f"test -e src/1.txt -a -e src/2.txt || exit 0; echo x >> {counter}; test $(wc -l < {counter}) -gt 1"
    checks(stage, flips)
    stage.play(task(1), task(2))
    result = stage.run()
    assert result.session.outcome == "completed"
    (built,) = result.of(ChangesetBuilt)
    assert built.build.flaky == (flips,)
    assert result.answers.asked[-1].evidence["flaky"] == [flips]
    assert any("flaky" in line for line in format_log_lines(result.events) if "CHANGESET_BUILT" in line)
    assert counter.read_text() == "x\nx\n"


def test_a_base_that_is_red_in_another_way_blames_no_task_and_the_work_is_kept(stage: Stage) -> None:
    checks(stage, "test ! -e docs/broken.md || exit $(ls src | wc -l)")

    def breaks(_gate: Gate, _session: Session) -> str:
        stage.commit("docs/broken.md", "oh\n")
        return "approve"

    def repairs(_gate: Gate, _session: Session) -> str:
        stage.git("rm", "-q", "docs/broken.md")
        stage.git("commit", "-q", "-m", "fix(task-000): repair")
        return "continue"

    stage.play(task(1), task(2))
    result = stage.run({"changeset": [breaks], "session": [repairs]})
    skipped = next(event for event in result.of(ChangesetJudged) if event.choice == "skip")
    assert "red on main itself" in skipped.note
    assert not result.of(ChangesetEvicted)
    assert not result.of(ChangesetTrimmed)
    assert result.session.outcome == "completed"
    assert [result.session.tasks[f"task-00{n}"].attempts for n in (1, 2)] == [1, 1], "nothing was done twice"


def test_what_is_red_on_the_base_fails_no_task_and_a_new_failure_does(stage: Stage) -> None:
    broken = (
        "echo FAILED tests/test_old.py::test_a; test ! -e src/2.txt || echo FAILED tests/test_new.py::test_b; exit 1"
    )
    checks(stage, broken)
    stage.play(task(1), task(2))
    result = stage.run({"validation": ["drop"], "session": ["stop"]})
    assert result.states == {"task-001": "merged", "task-002": "dropped"}
    (built,) = result.of(ChangesetBuilt)
    assert [check.state for check in built.build.checks] == ["red before, same failures"]
    gate = next(gate for gate in result.answers.asked if gate.kind == "changeset")
    assert [check["red_before"] for check in gate.evidence["checks"]] == [True]


BASE = "one\ntwo\nthree\n"
FIRST = "one\nfirst\nthree\n"
SECOND = "one\nsecond\nthree\n"
BOTH = "one\nfirst\nsecond\nthree\n"


def clash(stage: Stage, merger: object, **more: object) -> None:
    """Two groups that change the same line of a file."""
    stage.commit("src/same.txt", BASE)
    unscoped(stage, **more)
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers={
            1: line_in("src/same.txt", FIRST),
            2: {"1": line_in("src/same.txt", SECOND), "*": line_in("src/2.txt", "two\n")},
        },
        merger=merger,
    )


def resolves(text: str = BOTH, *more: Step) -> Sequence[Step]:
    return [
        {"expect": {"path": "src/same.txt", "contains": "<<<<<<<"}},
        {"write": {"path": "src/same.txt", "text": text}},
        *more,
        {"commit": "fix(task-002): keep both lines"},
        {"verdict": {"status": "pass", "notes": "both lines are kept"}},
    ]


def test_a_merger_gets_the_conflict_and_its_resolution_is_checked_shown_and_landed(stage: Stage) -> None:
    clash(stage, resolves())
    result = stage.run()
    (conflicted,) = result.of(ChangesetConflicted)
    assert conflicted.conflict.paths == ("src/same.txt",)
    assert conflicted.conflict.task == "task-002"
    prompt = result.prompt("cs-002", role=MERGER)
    assert "<<<<<<<" in prompt
    assert "first" in prompt
    assert "second" in prompt
    assert stage.read("src/same.txt") == BOTH
    assert result.session.outcome == "completed"
    assert result.answers.asked[-1].evidence["resolved"] == [
        f"src/same.txt by {result.of(ConflictResolved)[0].resolution.by}: both lines are kept"
    ]
    assert stage.git("rev-list", "--count", "--merges", "main").strip() == "2"
    assert "Conflict of" not in stage.git("log", "--format=%s", "main"), "the prepared conflict itself never lands"


def test_a_merger_that_drops_a_line_is_found_out_at_the_gate(stage: Stage) -> None:
    clash(stage, resolves(FIRST))
    result = stage.run()
    assert result.answers.asked[-1].evidence["losses"] == [
        "1 line of task-002 in src/same.txt is not in the result: second"
    ]


def test_a_merger_may_report_that_both_sides_cannot_be_kept(stage: Stage) -> None:
    clash(
        stage, [{"verdict": {"status": "fail", "notes": "first and second exclude each other", "issues": ["which?"]}}]
    )
    result = stage.run({"session": GO_ON})
    assert not result.of(ConflictResolved)
    (evicted,) = result.of(ChangesetEvicted)
    assert evicted.paths == ("src/same.txt",)
    assert "exclude each other" in result.prompt("task-002", n=2)
    assert stage.read("src/same.txt") == FIRST
    assert result.session.outcome == "completed"


UNION: Sequence[Step] = [
    {"run": "sed -i -e '/^<<<<<<< /d' -e '/^=======$/d' -e '/^>>>>>>> /d' src/same.txt"},
    {"commit": "fix: keep both lines"},
    {"verdict": {"status": "pass", "notes": "both lines are kept"}},
]


def test_each_of_four_changes_of_one_line_costs_one_merger_and_no_task_goes_back(stage: Stage) -> None:
    """The conflict of the third is another one when the second has landed: its merger starts after that."""
    stage.commit("src/same.txt", BASE)
    unscoped(stage)
    stage.play(
        *(task(n, cohesion_group=f"g{n}") for n in range(1, 5)),
        workers={n: line_in("src/same.txt", BASE.replace("two", f"line of {n}")) for n in range(1, 5)},
        merger=UNION,
    )
    result = stage.run()
    assert result.session.outcome == "completed"
    assert sorted(stage.read("src/same.txt").splitlines()) == [*(f"line of {n}" for n in range(1, 5)), "one", "three"]
    assert len(result.of(ConflictResolved)) == 3
    assert not result.of(ChangesetEvicted)


def test_a_merger_starts_while_a_changeset_of_other_files_waits_for_a_person(stage: Stage) -> None:
    stage.commit("src/same.txt", BASE)
    stage.commit("src/more.txt", BASE)
    unscoped(stage)
    paths = {1: "src/same.txt", 2: "src/same.txt", 3: "src/more.txt", 4: "src/more.txt"}
    both = {"run": f"{UNION[0]['run']} src/more.txt"}
    stage.play(
        *(task(n, cohesion_group=f"g{n}") for n in range(1, 5)),
        workers={n: line_in(path, BASE.replace("two", f"line of {n}")) for n, path in paths.items()},
        merger=[both, *UNION[1:]],
    )
    result = stage.run()
    happened = [each.event for each in result.events]
    started = next(
        n for n, event in enumerate(happened) if isinstance(event, AttemptIntended) and "cs-004" in event.attempt.id
    )
    landed = next(n for n, event in enumerate(happened) if isinstance(event, Landed) and event.changeset == "cs-002")
    assert result.session.outcome == "completed"
    assert started < landed


STRAY = {"write": {"path": "src/other.txt", "text": "mine\n"}, "rogue": True}


def test_a_merger_whose_result_breaks_a_rule_has_failed_and_the_task_goes_back(stage: Stage) -> None:
    clash(stage, resolves(BOTH, STRAY))
    result = stage.run({"session": ["stop"]})
    (ended,) = [e.ended for e in result.of(AttemptEnded) if f".{MERGER}." in e.attempt]
    assert "outside_file_scope" in {violation.rule for violation in ended.violations}
    assert result.states == {"task-001": "merged", "task-002": "requeued"}
    assert stage.read("src/same.txt") == FIRST


def test_of_one_group_only_the_task_that_does_not_fit_goes_back(stage: Stage) -> None:
    stage.commit("src/same.txt", BASE)
    unscoped(stage, merging={"on_conflict": "requeue"})
    stage.play(
        task(1),
        task(2),
        task(3),
        workers={
            1: line_in("src/same.txt", FIRST),
            2: {"1": line_in("src/same.txt", SECOND), "*": line_in("src/2.txt", "two\n")},
        },
    )
    result = stage.run({"session": GO_ON})
    (trimmed,) = result.of(ChangesetTrimmed)
    assert trimmed.tasks == ("task-002",)
    assert trimmed.paths == ("src/same.txt",)
    assert result.session.changesets["cs-001"].changeset.tasks == ("task-001", "task-003")
    assert result.session.outcome == "completed"


def test_a_base_that_was_tried_before_its_configuration_changed_is_not_checked_again(stage: Stage) -> None:
    checks(stage, "true")
    project = stage.project()
    save_baseline(project, project.settings, [Check(name="true", exit_code=0, seconds=1.0, tests=3)])
    checks(stage, "true", limits={"max_wave_cycles": 3})
    assert stage.project().repo.base_sha != project.repo.base_sha
    stage.play(task(1))
    result = stage.run({"session": ["stop"]})
    (built,) = result.of(ChangesetBuilt)
    assert [check.tests_before for check in built.build.checks] == [3], "the command prints no number of tests"
