from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.documents.decisions import DecisionEntry, DecisionsFile, find_used_entries, load_decisions
from blueflame.model.errors import NoAnswer, PlanError, UsageError
from blueflame.model.gate import FORMS, Answer, Gate, GateKind
from blueflame.session.gates.edits import parse_edit_payload


def gate(
    kind: GateKind, subject: str = "plan", *, group: str = "", without: str = "", tasks: Sequence[str] = ()
) -> Gate:
    options = tuple(option for option in FORMS[kind].options if option.name != without)
    return Gate(
        id=f"{kind}-{subject}",
        kind=kind,
        subject=subject,
        title="Вопрос?",
        options=options,
        default=options[-1].name,
        group=group,
        evidence={"tasks": list(tasks)},
    )


def load(tmp_path: Path, text: str) -> DecisionsFile:
    path = tmp_path / "мои решения.yaml"
    path.write_text(text, encoding="utf-8")
    return load_decisions(path)


def refuse(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, text)
    return str(refused.value)


PLAN = """
schema_version: 1
tasks:
  - id: task-001
    title: Первая
    description: do it
    priority: 1
    file_locks: [src/]
"""


def test_bare_choices_are_given_in_order(tmp_path: Path) -> None:
    decisions = load(tmp_path, "session: [continue, stop]\n")
    first = decisions.find_answer(gate(GateKind.SESSION), frozenset())
    second = decisions.find_answer(gate(GateKind.SESSION), find_used_entries([first]))
    assert (first.choice, first.by) == ("continue", "decisions:session[0]")
    assert (second.choice, second.by) == ("stop", "decisions:session[1]")


def test_kinds_do_not_take_each_others_decisions(tmp_path: Path) -> None:
    decisions = load(tmp_path, "plan: [approve]\nchangeset: [skip]\n")
    assert decisions.find_answer(gate(GateKind.CHANGESET), frozenset()).choice == "skip"


@pytest.mark.parametrize("subject", ["cs-1-api", "api", "task-004", "changeset-cs-1-api"])
def test_a_decision_for_a_subject_goes_before_a_general_one(tmp_path: Path, subject: str) -> None:
    text = f"changeset:\n  - approve\n  - {{subject: {subject}, choose: reject, reason: no docs}}\n"
    asked = gate(GateKind.CHANGESET, "cs-1-api", group="api", tasks=["task-004"])
    answer = load(tmp_path, text).find_answer(asked, frozenset())
    assert (answer.choice, answer.note, answer.by) == ("reject", "no docs", "decisions:changeset[1]")


def test_a_decision_for_another_subject_is_left_alone(tmp_path: Path) -> None:
    decisions = load(tmp_path, "changeset:\n  - {subject: auth, choose: approve}\n")
    with pytest.raises(NoAnswer):
        decisions.find_answer(gate(GateKind.CHANGESET, "cs-1-api", group="api"), frozenset())


def test_a_repeated_decision_never_runs_out(tmp_path: Path) -> None:
    decisions = load(tmp_path, "changeset:\n  - {choose: approve, repeat: true}\n")
    answer = decisions.find_answer(gate(GateKind.CHANGESET), frozenset())
    assert decisions.find_answer(gate(GateKind.CHANGESET), find_used_entries([answer])) == answer


def test_running_out_names_the_gate_and_the_file(tmp_path: Path) -> None:
    decisions = load(tmp_path, "plan: [approve]\n")
    asked = gate(GateKind.PLAN)
    with pytest.raises(NoAnswer) as ran_out:
        decisions.find_answer(asked, frozenset({("plan", 0)}))
    said = str(ran_out.value)
    for part in ("мои решения.yaml", "plan-plan", "Вопрос?", "approve, edit, replan, single, quit", "blueflame resume"):
        assert part in said


@pytest.mark.parametrize(
    ("kind", "choice"),
    [(GateKind.CLARIFICATION, "guess"), (GateKind.ESCALATION, "abort"), (GateKind.ENVIRONMENT, "stop")],
)
def test_what_a_file_need_not_foresee_has_a_safe_answer_and_an_entry_takes_precedence(
    tmp_path: Path, kind: GateKind, choice: str
) -> None:
    asked, silent = gate(kind), load(tmp_path, "plan: [approve]\n")
    assert (silent.find_answer(asked, frozenset()).choice, asked.find_option(choice) is not None) == (choice, True)
    other = next(option.name for option in asked.options if option.name != choice)
    written = load(tmp_path, f"{kind}: [{{choose: {other}, note: why}}]\n")
    assert written.find_answer(asked, frozenset()).choice == other


def test_a_choice_that_the_gate_no_longer_offers_is_refused(tmp_path: Path) -> None:
    decisions = load(tmp_path, "plan: [{choose: re-plan, note: smaller tasks}]\n")
    with pytest.raises(NoAnswer, match="chooses 'replan', which is not offered"):
        decisions.find_answer(gate(GateKind.PLAN, without="replan"), frozenset())


def test_used_entries_are_read_from_the_journal() -> None:
    answers = [Answer(choice="approve", by=by) for by in ("decisions:plan[3]", "terminal", "")]
    assert find_used_entries(answers) == {("plan", 3)}


def test_an_edit_brings_the_tasks_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(PLAN, encoding="utf-8")
    answer = load(tmp_path, "plan: [{choose: edit, edit: tasks.yaml}]\n").find_answer(gate(GateKind.PLAN), frozenset())
    (task,) = parse_edit_payload(json.loads(json.dumps(answer.payload)))
    assert (task.id, task.title, task.file_locks) == ("task-001", "Первая", ("src/",))


def test_an_edit_of_another_task_is_refused_at_a_validation_gate(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(PLAN, encoding="utf-8")
    decisions = load(tmp_path, "validation: [{choose: edit, edit: tasks.yaml}]\n")
    assert decisions.find_answer(gate(GateKind.VALIDATION, "task-001"), frozenset()).choice == "edit"
    with pytest.raises(PlanError, match="expected exactly the task task-002"):
        decisions.find_answer(gate(GateKind.VALIDATION, "task-002"), frozenset())


def test_a_raise_carries_its_limit(tmp_path: Path) -> None:
    answer = load(tmp_path, "budget: [{choose: raise, limit: 25.5}]\n").find_answer(gate(GateKind.BUDGET), frozenset())
    assert answer.payload == {"limit": 25.5}


def test_all_problems_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    said = refuse(
        tmp_path,
        "plan: [aprove, re-plan]\n"
        "changset: [approve]\n"
        "changeset:\n"
        "  - {choose: reject}\n"
        "  - choose: approve\n"
        "    subjct: api\n"
        "  - 3\n"
        "  - {note: well}\n"
        "budget:\n"
        "  - raise\n"
        "  - {choose: raise, limit: much}\n"
        "  - {choose: stop, limit: 3}\n"
        "session: continue\n"
        "drift:\n"
        "  - {choose: use, repeat: often}\n"
        "  - {choose: keep, payload: 7}\n"
        "  - {choose: stop, subject: ''}\n"
        "validation:\n"
        "  - edit\n"
        "  - {choose: edit, edit: nowhere.yaml}\n"
        "  - {choose: drop, edit: nowhere.yaml}\n"
        "resume:\n"
        "  - {choose: resume, note: a, reason: b}\n",
    )
    expected = {
        1: ["did you mean approve?", "'replan' needs a 'note'"],
        2: ["unknown kind of gate 'changset', did you mean changeset?"],
        4: ["'reject' needs a 'note'"],
        6: ["unknown key 'subjct', did you mean subject?"],
        7: ["changeset[2] must be a choice or a mapping"],
        8: ["changeset[3] needs 'choose', one of approve, reject, skip"],
        10: ["'raise' needs 'limit'"],
        11: ["'limit' must be a number"],
        12: ["'limit' goes only with 'raise'"],
        13: ["'session' must be a list, as in 'session: [continue]'"],
        15: ["'repeat' must be true or false"],
        16: ["'payload' must be a mapping"],
        17: ["'subject' must be a text that is not empty"],
        19: ["needs 'edit: PATH'"],
        20: ["there is no file 'nowhere.yaml'"],
        21: ["goes only with 'choose: edit'"],
        23: ["keep one of them"],
    }
    for line, parts in expected.items():
        for part in parts:
            assert any(f"yaml:{line}: " in each and part in each for each in said.splitlines()), (line, part, said)
    assert said.count("\n") == sum(map(len, expected.values()))


def test_what_can_never_be_reached_is_a_problem(tmp_path: Path) -> None:
    said = refuse(tmp_path, "plan:\n  - {choose: approve, repeat: true}\n  - quit\n")
    assert "yaml:3: plan[1] is never reached: plan[0] repeats" in said


def test_a_decision_for_a_subject_is_reached_after_a_repeated_general_one(tmp_path: Path) -> None:
    text = "changeset:\n  - {choose: approve, repeat: true}\n  - {subject: api, choose: skip}\n"
    assert load(tmp_path, text).find_answer(gate(GateKind.CHANGESET, group="api"), frozenset()).choice == "skip"


@pytest.mark.parametrize("text", ["", "# nothing\n", "[approve]\n", "approve\n"])
def test_a_file_without_decisions_is_refused(tmp_path: Path, text: str) -> None:
    assert "expected lists of decisions by kind of gate" in refuse(tmp_path, text)


@pytest.mark.parametrize("text", ["plan: [approve\n", "plan: [approve]\nplan: [quit]\n", "plan: &a [*b]\n"])
def test_what_is_not_yaml_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    assert "мои решения.yaml:" in refuse(tmp_path, text)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the decisions file"):
        load_decisions(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_decisions(tmp_path / "binary.yaml")


@given(st.lists(st.sampled_from(["continue", "stop"]), min_size=1, max_size=8), st.integers(0, 8))
def test_a_crash_anywhere_repeats_no_decision_and_skips_none(choices: list[str], crash_after: int) -> None:
    """The answers given so far are all that is remembered, as after a crash."""
    entries = tuple(DecisionEntry(kind=GateKind.SESSION, index=n, choose=choice) for n, choice in enumerate(choices))
    decisions = DecisionsFile(path=Path("d.yaml"), entries=entries)
    journal: list[Answer] = []
    for _ in choices[:crash_after]:
        journal.append(decisions.find_answer(gate(GateKind.SESSION), find_used_entries(journal)))
    for _ in choices[crash_after:]:
        journal.append(decisions.find_answer(gate(GateKind.SESSION), find_used_entries(list(journal))))
    assert [answer.choice for answer in journal] == choices
    with pytest.raises(NoAnswer):
        decisions.find_answer(gate(GateKind.SESSION), find_used_entries(journal))
