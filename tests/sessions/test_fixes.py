"""`blueflame fix` in whole sessions: landed work after its session, running work, and input that changes nothing."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from hashlib import sha1

import pytest

from blueflame.model.event import AttemptIntended, AttemptStarted, FixRequested, JournalEntry
from blueflame.model.task import FixedWork
from blueflame.orchestrator.attempts.fixed_work import read_fixed_work
from blueflame.orchestrator.sessions import open_journal
from blueflame.orchestrator.wiring import build_context
from blueflame.session.state import Session
from support.command_line import MAIN, YES, Said, here, trust, write
from support.repositories import make_repository
from support.sessions import Stage, Watcher, find_stage, make_stage, task, writes
from support.snapshots import Snapshots

LEFT = json.dumps({"summary": ["Added a discount"], "learnings": ["Prices are floats here"], "confidence": 0.7})
REPAIRS = [
    {"expect": {"prompt": "A person found this fault in work that was done before"}},
    {"expect": {"prompt": "Do number 1."}},
    {"expect": {"prompt": "Prices are floats here"}},
    {"expect": {"prompt": "- verdict of check on "}},
    {"write": {"path": "src/1.txt", "text": "x * 0.9\n"}},
    {"commit": "Lower the price"},
]


@pytest.fixture
def landed(snapshots: Snapshots) -> Stage:
    """The stage after a session that landed two changesets."""
    folder = snapshots.open("fix", lambda new: land(make_stage(make_repository(new / "мой repo"))))
    stage = find_stage(folder / "мой repo")
    trust(stage.config)
    return stage


def land(stage: Stage) -> None:
    stage.play(
        task(1, cohesion_group="a"),
        task(2, cohesion_group="b"),
        workers={1: [*writes("src/1.txt", "x * 1.1"), {"say": LEFT}], 2: writes("src/2.txt", "two")},
    )
    stage.run()


def fix(stage: Stage, capsys: pytest.CaptureFixture[str], *words: object) -> Said:
    script = write(stage.root.parent / "fix.json", {"schema_version": 1, "tasks": {"task-001": {"worker": REPAIRS}}})
    yes = write(stage.root.parent / "yes.json", {"changeset": YES["changeset"]})
    given = ("--script", script, "--decisions-file", yes, "--config", stage.config)
    return here(capsys, "fix", *words, *given)


def count_events(stage: Stage) -> list[tuple[str, int]]:
    with open_journal(stage.project()) as journal:
        return [(name, journal.find_last_seq(name)) for name in journal.list_ids()]


@pytest.mark.parametrize("name", ["task", "changeset", "landing", "commit"])
def test_landed_work_is_fixed_by_a_session_of_its_own(
    landed: Stage, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = landed.look()[0]
    record = before.changesets["cs-001"]
    made = before.tasks["task-001"].result
    assert made is not None
    names = {"task": "task-001", "changeset": "cs-001", "landing": record.landed_as, "commit": made.sha[:10]}
    said = fix(landed, capsys, names[name], "The discount raises the price", "--json")
    assert said.code == 0, said.err
    assert said.json["outcome"] == "completed"
    assert landed.read("src/1.txt") == "x * 0.9\n"
    session, _events = landed.look()
    assert session.id != before.id
    asked = session.fixes["task-001"]
    assert (asked.work.session, asked.work.tasks, asked.work.commit) == (before.id, ("task-001",), record.landed_as)
    assert not any(gate.kind.value == "plan" for gate in session.gates.values())
    assert session.tasks["task-001"].task.file_locks == ("src/1.txt",)
    lessons = here(capsys, "memory", "list", "--json", "--config", landed.config).json["memories"]
    assert f"fix:{session.id}:task-001" in [each["key"] for each in lessons]
    assert "FIX_REQUESTED" in here(capsys, "log", "--config", landed.config).out
    shown = here(capsys, "show", "task-001", "--json", "--config", landed.config).json["task"]["fixes"]
    assert shown["session"] == before.id


def test_a_fix_joins_the_running_session_ahead_of_its_queue(stage: Stage) -> None:
    said, go = stage.root.parent / "said", stage.root.parent / "go"
    stage.reconfigure(concurrency={"development": 1, "adaptive": False})
    stage.play(
        *(task(n) for n in (1, 2, 3)),
        workers={
            1: writes("src/1.txt", "one", {"run": f"while [ ! -e '{go}' ]; do sleep 0.02; done"}),
            4: [{"expect": {"prompt": "Do number 1."}}, *writes("src/1.txt", "two")],
        },
    )
    order = [
        sys.executable,
        "-c",
        MAIN,
        "fix",
        "task-001",
        "One is not enough",
        "--json",
        "-c",
        str(trust(stage.config)),
    ]
    asking: list[subprocess.Popen[bytes]] = []

    def see(_session: Session, recorded: JournalEntry) -> None:
        if isinstance(recorded.event, AttemptStarted) and not asking:
            script = f"{shlex.join(order)} > {shlex.quote(str(said))} 2>&1; touch {shlex.quote(str(go))}"
            asking.append(subprocess.Popen(["sh", "-c", script], cwd=stage.root))

    reported = stage.run(observers=[Watcher(see)])
    assert asking[0].wait() == 0
    assert json.loads(said.read_text())["state"] == "taken", said.read_text()
    assert reported.states == {f"task-{n:03d}": "merged" for n in (1, 2, 3, 4)}
    begun = [event.attempt.subject for event in reported.of(AttemptIntended)]
    assert begun == ["task-001", "task-004", "task-002", "task-003"]
    assert stage.read("src/1.txt").splitlines()[-2:] == ["one", "two"]
    assert "It has not landed yet." in reported.prompt("task-004")


BAD_INPUT = (
    (["task-009", "x"], 2, "has no task or changeset 'task-009', and git has no such commit: did you mean task-00"),
    (["cs-009", "x"], 2, "did you mean cs-00"),
    (["ffff", "x"], 2, "git has no such commit"),
    (["main~9", "x"], 2, "git has no such commit"),
    (["--", "-x", "x"], 2, "git has no such commit"),
    (["", "x"], 2, "git has no such commit"),
    (["HEAD~2", "x"], 3, "was not landed by Blue Flame (1 sessions were searched)"),
    (["task-001", " \n"], 2, "what is wrong is not said"),
    (["task-001", "x" * 200_001], 2, "what is wrong is longer than 200,000 characters"),
    (["task-001", "x", "--lock", "../x"], 2, "climbs"),
    (["task-001", "x", "--workflow", "nope"], 2, "there is no workflow 'nope'"),
    (["task-001", "x", "--session", "ses-1"], 2, "no session is called 'ses-1'"),
)


def test_bad_input_changes_nothing_and_says_what_to_do(landed: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    before = (count_events(landed), landed.head(), landed.git("status", "--porcelain"))
    said = {said: here(capsys, "fix", "--config", landed.config, *words) for words, _code, said in BAD_INPUT}
    wrong = [
        (words, said[says]) for words, code, says in BAD_INPUT if said[says].code != code or says not in said[says].err
    ]
    assert wrong == []
    assert (count_events(landed), landed.head(), landed.git("status", "--porcelain")) == before


def test_a_commit_that_several_begin_like_is_not_guessed(landed: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    taken: dict[str, str] = {}
    for n in range(100_000):
        blob = f"blob {len(str(n))}\0{n}".encode()
        name = sha1(blob, usedforsecurity=False).hexdigest()
        if (other := taken.setdefault(name[:4], str(n))) != str(n):
            break
    for content in (other, str(n)):
        subprocess.run(["git", "hash-object", "-w", "--stdin"], cwd=landed.root, input=content.encode(), check=True)
    said = here(capsys, "fix", name[:4], "x", "--config", landed.config)
    assert said.code == 2
    assert "is ambiguous: 2 objects begin so; give more characters of it" in said.err


def test_what_was_undone_or_is_gone_from_the_base_cannot_be_fixed(
    landed: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(capsys, "undo", "cs-002", "--yes", "--config", landed.config).code == 0
    assert "nothing of it is left to fix" in here(capsys, "fix", "cs-002", "x", "--config", landed.config).err
    landed.git("reset", "-q", "--hard", "HEAD~3")
    assert "is not on main any more" in here(capsys, "fix", "cs-001", "x", "--config", landed.config).err


def test_an_unfinished_session_is_not_pushed_aside(landed: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    first = landed.look()[0].id
    landed.play(task(1))
    landed.run({"plan": ["wait"]}, until=lambda session: bool(session.open_gates))
    said = here(capsys, "fix", "task-001", "x", "--session", first, "--config", landed.config)
    assert said.code == 3
    assert "is unfinished: continue it with 'blueflame resume'" in said.err


def test_a_fix_of_a_session_that_was_cleaned_up_says_so_in_its_prompt(landed: Stage) -> None:
    old = landed.look()[0]
    context = build_context(landed.project(), old)
    gone = FixRequested(
        task="task-001",
        work=FixedWork(session="ses-20200101-000000", tasks=("task-001",), title="Add a cart", commit="a" * 40),
        wrong="x",
    )
    old.fixes["task-001"] = gone
    assert read_fixed_work(context, old, "task-001").startswith("Add a cart\nIt landed as commit aaaa")
    assert read_fixed_work(context, old, "task-002") == ""
