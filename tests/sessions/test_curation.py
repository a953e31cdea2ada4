"""An agent that curates proposes, a person decides, and the knowledge files change only then."""

from __future__ import annotations

import json

import pytest

from blueflame.model.event import CurationProposed, GateOpened, JournalEntry, KnowledgeCurated, SessionEnded
from blueflame.model.exit_codes import ExitCode
from blueflame.model.memory import Lesson
from blueflame.orchestrator.wiring import open_memory
from blueflame.session.replay import replay
from blueflame.session.state import Session
from support.lessons import learned
from support.sessions import SessionRun, Stage, Watcher, plan_of, task, writes

OLD = "Totals are rounded twice."
NEW = "Totals are rounded once, at the end."
OWN = "Amounts are cents."


@pytest.fixture
def known(stage: Stage) -> Stage:
    """A repository with two entries of agents and one of a person."""
    entries = [learned("a", OLD), learned("b", "Tests are in spec."), learned("own", OWN, confirmed=True)]
    stage.reconfigure(roles={"curator": {"runtime": "scripted"}})
    memory = open_memory(stage.project())
    memory.remember(entries[:2])
    memory.add(entries[2])
    return stage


def propose(stage: Stage, *changes: object) -> None:
    script = {"defaults": {"curator": [{"answer": {"changes": changes}}, {"usage": {"cost_usd": 0.02}}]}}
    stage.script.write_text(json.dumps({"schema_version": 1, **script}))


def read(stage: Stage) -> str:
    return (stage.root / ".blueflame" / "knowledge" / "mistakes.md").read_text(encoding="utf-8")


CHANGES = ({"ids": ["a"], "text": NEW, "reason": "since last week"}, {"ids": ["b"], "reason": "not so"})


def curate(stage: Stage, answer: str, **how: object) -> SessionRun:
    return stage.run({"curation": [answer]}, workflow="curate", **how)  # type: ignore[arg-type]  # those of a run


def test_what_a_person_approves_is_in_the_files_with_its_cost_in_the_session(known: Stage) -> None:
    propose(known, *CHANGES, {"ids": ["own"], "text": "Amounts are dollars.", "reason": "poison"})
    run = curate(known, "approve")
    (gate,) = run.of(GateOpened)
    words = ("@@ mistakes: since last week", f"-{OLD}", f"+{NEW}", "@@ mistakes: not so", "-Tests are in spec.")
    assert tuple(gate.gate.evidence["diff"]) == words
    assert gate.gate.evidence["refused"] == ["change 3: a person wrote or confirmed own, so it stays"]
    assert (run.session.outcome, run.session.spend.micro_usd) == ("completed", 20_000)
    text = read(known)
    assert NEW in text and OWN in text
    assert OLD not in text and "spec" not in text and "dollars" not in text
    (line,) = run.of(KnowledgeCurated)
    assert line.steps[0] == "mistakes: archived a (curated)"
    ended, last = run.events[-2:]
    assert (type(ended.event), last.event, last.at) == (SessionEnded, line, ended.at), "no session lasts longer for it"
    assert replay(run.events).ended
    log = (known.root / ".blueflame" / "logs" / "activity.log").read_text(encoding="utf-8")
    assert "] [orchestrator] [KNOWLEDGE_CURATED] 3 changes: mistakes: archived a (curated); " in log


def test_the_agent_sees_every_entry_as_data_and_may_not_write(known: Stage) -> None:
    propose(known)
    run = curate(known, "approve")
    prompt = run.prompt("curation", "curator")
    data = prompt[prompt.index("entries\n") :]
    assert f"- [a] {OLD} (about no file)" in data
    assert f"- [own] {OWN} (a person's: it stays as it is)" in data
    policy = json.loads((run.folder("curation", "curator") / "policy.json").read_text())
    assert policy["read_only"] is True
    assert run.gates == []
    assert [(each.outcome, each.reason) for each in run.of(SessionEnded)] == [("completed", "nothing to change")]


def test_what_a_person_rejects_changes_nothing(known: Stage) -> None:
    before = read(known)
    propose(known, *CHANGES)
    run = curate(known, "reject")
    assert (run.session.outcome, run.session.exit_code, read(known)) == ("stopped", ExitCode.OK, before)


@pytest.mark.parametrize("answer", [[{"say": "I would drop all"}], [{"answer": {"changes": "all"}}], [{"exit": 3}]])
def test_an_agent_that_proposes_nothing_of_use_ends_the_session(known: Stage, answer: list[object]) -> None:
    before = read(known)
    known.script.write_text(json.dumps({"schema_version": 1, "defaults": {"curator": answer}}))
    run = curate(known, "approve")
    assert "curator proposed nothing: " in run.session.outcome_reason
    assert (run.session.outcome, run.gates, read(known)) == ("stopped", [], before)
    assert run.session.exit_code is ExitCode.NOT_LANDED


def test_an_entry_that_a_person_edits_while_the_gate_is_open_stays_theirs(known: Stage) -> None:
    def edit(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, CurationProposed):
            path = known.root / ".blueflame" / "knowledge" / "mistakes.md"
            path.write_text(read(known).replace(OLD, "Totals are rounded by the bank."), encoding="utf-8")

    propose(known, *CHANGES)
    curate(known, "approve", observers=[Watcher(edit)])
    words = read(known)
    assert "Totals are rounded by the bank." in words
    assert NEW not in words and "spec" not in words


class Crash(Exception):
    """The orchestrator dies."""


def test_approved_changes_that_were_not_made_before_a_crash_are_made_by_the_next_session(
    known: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, SessionEnded):
            monkeypatch.setattr("blueflame.orchestrator.observers.memory.MemoryWriter.save", _save_nothing)
            raise Crash

    propose(known, *CHANGES)
    with pytest.raises(Crash):
        curate(known, "approve", observers=[Watcher(crash)])
    assert OLD in read(known)
    monkeypatch.undo()
    known.play(planner=plan_of(task(1)), workers={1: writes("src/1.txt", "two")})
    known.run({"plan": ["quit"]})
    assert NEW in read(known) and OLD not in read(known)
    kept = [each for each in open_memory(known.project()).list_records() if isinstance(each, Lesson)]
    assert {each.key: each.archived for each in kept if each.key in "ab"} == {"a": "curated", "b": "curated"}


async def _save_nothing(_self: object) -> None:
    return None
