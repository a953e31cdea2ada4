"""Attempts that fail: tried again, reported, kept, and never counted as a success."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.git.seed_checkout import seed_checkout
from blueflame.model.attempt import AttemptOutcome, Ending
from blueflame.model.errors import WorldError
from blueflame.model.event import AttemptEnded, AttemptStarted, EnvironmentFailed, JournalEntry, TaskMoved
from blueflame.model.gate import Gate
from blueflame.model.task import Cause
from blueflame.orchestrator.attempts import run as attend
from blueflame.report.build import build_report
from blueflame.session.state import Session
from blueflame.text.event_lines import describe_event_briefly, format_log_lines
from blueflame.views.changeset import build_changeset_view, list_notes
from blueflame.views.items import build_item_json, build_item_view, find_item
from support.sessions import SessionRun, Stage, Watcher, task, writes

STOP = {"session": ["stop"]}
ONCE = {"max_retries": 0, "kill_grace": "1s"}


def endings(reported: SessionRun, subject: str = "task-001") -> list[AttemptOutcome]:
    return [
        e.ended for e in reported.of(AttemptEnded) if reported.session.attempts[e.attempt].attempt.subject == subject
    ]


def kept(stage: Stage, reported: SessionRun, n: int = 1, subject: str = "task-001") -> str:
    """The commit under which an attempt's work can be found."""
    return stage.git("rev-parse", f"refs/blueflame/attempts/{reported.session.id}/{subject}/worker/{n}").strip()


@pytest.mark.verification(20)
def test_a_worker_that_fails_is_tried_again_with_the_reason(stage: Stage) -> None:
    steps = {"1": [{"say": "no idea"}, {"exit": 7}], "2": "liar", "*": writes("src/1.txt", "one")}
    stage.play(task(1), workers={1: steps})
    reported = stage.run()
    assert [ended.ending for ended in endings(reported)] == [Ending.FAILED, Ending.NO_COMMITS, Ending.PASSED]
    assert endings(reported)[0].exit_code == 7
    assert reported.session.outcome == "completed"
    assert "exit code 7" in reported.prompt("task-001", n=2)
    assert "exit code 7" not in reported.prompt("task-001", n=1)
    record = reported.session.tasks["task-001"]
    assert (record.attempts, record.retries) == (3, 2)
    assert "exit code 7" in reported.prompt("task-001", n=3), "the whole history"
    assert "no commits" in reported.prompt("task-001", n=3)
    assert [moved.cause for moved in reported.of(TaskMoved)].count(Cause.RETRY) == 2
    assert len(reported.of(AttemptStarted)) == 3


@pytest.mark.verification(17, 43)
def test_an_attempt_is_judged_by_what_it_did_not_by_what_it_says(stage: Stage) -> None:
    cases = {
        1: ("liar", Ending.NO_COMMITS, "no commits"),
        2: ("crasher", Ending.CRASHED, "its program crashed: SIGSEGV"),
        3: ("secret-leaker", Ending.POSTCHECK, "AWS"),
        4: ("scope-breaker", Ending.POSTCHECK, "out-of-scope-task-004.md"),
    }
    stage.reconfigure(limits=ONCE)
    stage.play(*map(task, cases), workers={n: steps for n, (steps, _ending, _says) in cases.items()})
    before = stage.head()
    reported = stage.run(STOP)
    assert set(reported.states.values()) == {"failed"}
    for n, (_steps, ending, says) in cases.items():
        assert [ended.ending for ended in endings(reported, f"task-{n:03d}")] == [ending]
        assert says in reported.session.tasks[f"task-{n:03d}"].reason
    assert stage.head() == before


def test_a_retry_continues_with_the_commits_and_the_uncommitted_work_of_the_attempt_before(stage: Stage) -> None:
    """Also if the person has another name by then."""

    def rename(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptEnded):
            stage.git("config", "user.name", "Renamed Person")

    half = [*writes("src/1.txt", "half"), {"append": {"path": "src/2.txt", "text": "not committed\n"}}, {"exit": 1}]
    rest = [{"run": "test -e src/1.txt && test -e src/2.txt"}, {"commit": "The rest"}]
    stage.play(task(1, locks=["src/"]), workers={1: {"1": half, "*": rest}})
    reported = stage.run(observers=[Watcher(rename)])
    assert reported.session.outcome == "completed"
    assert [ended.ending for ended in endings(reported)] == [Ending.FAILED, Ending.PASSED]
    assert (stage.root / "src" / "2.txt").read_text() == "not committed\n"
    prompt = reported.prompt("task-001", n=2)
    assert "Continue from there" in prompt
    assert "+not committed" in prompt
    subjects = stage.git("log", "--no-merges", "--format=%s", "main").splitlines()
    assert subjects[:2] == ["The rest", "half"]
    assert not [each for each in subjects if "Unfinished" in each]


def test_no_attempt_is_lost_to_the_first_line_of_a_commit(stage: Stage) -> None:
    """Where no rewording matches the pattern, the next attempt continues with the commits, and its ticket is theirs."""
    ticket = {"pattern": r"^ABC-\d+: .+", "example": "ABC-1: say it"}
    stage.reconfigure(validation={"commit_format": ticket})
    half = [{"write": {"path": "src/1.txt", "text": "one\n"}}, {"commit": "First half"}]
    again = [{"append": {"path": "src/1.txt", "text": "two\n"}}, {"commit": "ABC-7: second half"}]
    stage.play(task(1), workers={1: {"1": half, "*": again}})
    reported = stage.run()
    assert [ended.ending for ended in endings(reported)] == [Ending.POSTCHECK, Ending.PASSED]
    subjects = stage.git("log", "--no-merges", "--topo-order", "--format=%s", "main").splitlines()
    assert subjects[:2] == ["ABC-7: second half", "ABC-7: First half"]


def test_commits_of_a_failed_attempt_are_kept(stage: Stage) -> None:
    stage.reconfigure(limits=ONCE)
    stage.play(
        task(1),
        task(2),
        workers={
            1: [*writes("src/1.txt", "half a solution"), {"exit": 1}],
            2: [
                {"write": {"path": "src/other.txt", "text": "not mine\n"}, "rogue": True},
                {"commit": "feat({task}): other"},
            ],
        },
    )
    reported = stage.run(STOP)
    assert stage.read("src/1.txt", kept(stage, reported)) == "half a solution\n"
    assert stage.read("src/other.txt", kept(stage, reported, subject="task-002")) == "not mine\n"
    assert [str(violation) for violation in endings(reported, "task-002")[0].violations] != []
    assert reported.states == {"task-001": "failed", "task-002": "failed"}


def test_a_refused_call_that_was_made_nevertheless_is_reported_wherever_the_result_is_shown(stage: Stage) -> None:
    """The agent's program does not obey its hook. The result itself breaks no rule: a person decides about it."""
    call = {"write": {"path": "elsewhere.txt", "text": "x"}, "rogue": True}
    stage.play(task(1), workers={1: [call, {"run": "rm elsewhere.txt", "rogue": True}, *writes("src/1.txt", "one")]})
    shown: list[str] = []
    evidence: list[str] = []

    def look(gate: Gate, session: Session) -> str:
        shown.extend(list_notes(build_changeset_view(session, gate.subject)))
        evidence.extend(gate.evidence["remarks"])
        return "approve"

    reported = stage.run({"changeset": [look], **STOP})

    session, (ended,) = reported.session, endings(reported)
    assert ended.ending is Ending.PASSED
    assert [each.split()[0] for each in ended.defied] == ["Write", "Bash"]
    item = find_item(session, next(iter(session.attempts)))
    report = build_report(reported.events, session, (), now=0.0)
    faces = {
        "the review": "\n".join(shown),
        "the gate of other faces": "\n".join(evidence),
        "the live line": "\n".join(line.words for each in reported.events if (line := describe_event_briefly(each))),
        "log": "\n".join(format_log_lines(reported.events)),
        "show": str(build_item_view(session, item)),
        "show --json": str(build_item_json(session, item, now=0.0)["attempt"]["defied"]),
        "report": str(report.attempts[0].reason),
        "report in short": "\n".join(incident.words for incident in report.incidents),
    }
    assert [name for name, text in faces.items() if "elsewhere.txt" not in text] == []


def test_an_agent_that_takes_too_long_is_ended_and_tried_again(stage: Stage) -> None:
    hurried = {"runtime": "scripted", "timeout": "1s"}
    stage.reconfigure(roles=dict.fromkeys(("planner", "worker", "validator", "merger"), hurried))
    stage.play(task(1), workers={1: {"1": "stuck", "*": writes("src/1.txt", "one")}})
    reported = stage.run()
    assert [ended.ending for ended in endings(reported)] == [Ending.TIMEOUT, Ending.PASSED]
    assert reported.session.outcome == "completed"


def test_a_setup_that_agents_commits_break_fails_the_task(stage: Stage) -> None:
    """It works on the base: the commits of the first attempt are at fault, which the next one continues."""
    stage.reconfigure(limits={**ONCE, "max_retries": 1}, worktree={"setup": ["echo first", "! grep ruined src/1.txt"]})
    stage.play(task(1), workers={1: {"1": [*writes("src/1.txt", "ruined"), {"exit": 3}], "*": "good"}})
    reported = stage.run(STOP)
    found = endings(reported)
    assert [each.ending for each in found] == [Ending.FAILED, Ending.ENVIRONMENT, Ending.SETUP]
    assert "grep ruined" in found[-1].notes, "the command that failed is named"
    assert "first" in reported.session.tasks["task-001"].reason


@pytest.mark.usefixtures("quick_retries")
def test_the_setup_commands_share_one_time_limit(stage: Stage) -> None:
    stage.reconfigure(limits=ONCE, worktree={"setup": ["sleep 0.1", "sleep 30"], "setup_timeout": "0.2s"})
    stage.play(task(1))
    reported = stage.run({"environment": ["stop"]})
    assert {each.ending for each in endings(reported)} == {Ending.ENVIRONMENT}
    assert "longer than 0.2 s" in endings(reported)[0].notes


def test_a_task_whose_foundations_conflict_waits_until_they_have_changed(stage: Stage) -> None:
    stage.reconfigure(limits=ONCE, validation={"file_scope": {"enforce": False}})
    both = [{"write": {"path": "src/same.txt", "text": "only {task}\n"}}, {"commit": "feat({task}): same"}]
    stage.play(task(1), task(2), task(3, after=[1, 2]), workers={1: both, 2: both})
    reported = stage.run({"session": ["continue"]})
    assert [ended.ending for ended in endings(reported, "task-003")] == [Ending.CONFLICT, Ending.PASSED]
    assert "src/same.txt" in endings(reported, "task-003")[0].notes
    assert reported.session.tasks["task-003"].retries == 0
    assert reported.states == dict.fromkeys(("task-001", "task-002", "task-003"), "merged")


def test_what_was_made_for_an_attempt_that_could_not_start_is_taken_away_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, quick_retries: None
) -> None:
    """The rollback of a failed start: no checkout and no ref of it is left, and the same attempt is tried again."""
    calls = list[Path]()

    def fails_once(root: Path, checkout: Path, include: str) -> None:
        calls.append(checkout)
        if len(calls) == 1:
            raise WorldError("no room for what should be copied")
        seed_checkout(root, checkout, include)

    monkeypatch.setattr(attend, "seed_checkout", fails_once)
    stage.play(task(1), task(2, locks=["src/1.txt"]))
    reported = stage.run()
    assert [ended.ending for ended in endings(reported)] == [Ending.PASSED]
    assert reported.states == {"task-001": "merged", "task-002": "merged"}
    assert [(each.act, each.reason) for each in reported.of(EnvironmentFailed)] == [
        ("worker of task-001", "no room for what should be copied")
    ]
    assert calls[0] == calls[1]
    assert not calls[0].exists()
    assert stage.git("for-each-ref", f"refs/blueflame/bases/{reported.session.id}").strip() == ""
