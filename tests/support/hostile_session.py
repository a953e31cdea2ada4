"""A session in which all texts try to run, hide or break out of a page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from blueflame.model.attempt import Attempt, AttemptOutcome, Ending
from blueflame.model.audit import AuditLine, hash_audit_line
from blueflame.model.changes import Risk, Weakening
from blueflame.model.changeset import Build, Changeset, FileChange, MergeLoss
from blueflame.model.event import (
    AttemptEnded,
    AttemptIntended,
    AttemptStalled,
    AttemptStarted,
    ChangesetBuilt,
    ChangesetsFormed,
    Checked,
    CycleStarted,
    Event,
    GateAnswered,
    JournalEntry,
    OrchestratorStarted,
    PlanApproved,
    PlanProposed,
    RuntimeParked,
    SessionOpened,
    TaskMoved,
    VerdictGiven,
)
from blueflame.model.gate import Answer
from blueflame.model.ids import build_agent_id, build_attempt_id
from blueflame.model.limits import Limits
from blueflame.model.task import Cause, Result, Task
from blueflame.model.verdict import Check, Verdict, VerdictStatus, Violation
from blueflame.model.workflow import Workflow
from blueflame.session.gates.questions import open_changeset_gate, open_plan_gate
from blueflame.session.replay import apply_event, open_session

SESSION = "ses-20260206-143022"
BEGAN = 1_770_388_222.0
RAN = "it-ran"  # what the page has when something of this was run


def payloads() -> tuple[str, ...]:
    run = f"document.documentElement.setAttribute('{RAN}','1')"
    return (
        f"<script>{run}</script>",
        f'"><img src=x onerror="{run}">',
        f"</title></style></script><svg onload={run}>",
        f"' onmouseover='{run}' x='",
        f"javascript:{run}",
        "{{ 7 * 7 }}{% for x in y %}",
        "]]>--><!-- \u202egnp.exe \x1b[31m\x00 \ud800",
    )


HOSTILE = " ".join(payloads())


def story(root: Path, base: str, commit: str, path: str) -> list[JournalEntry]:
    """An unfinished session: two gates, one failed attempt, a changeset of real commits at review."""
    task = Task(id="task-001", title=HOSTILE, description=HOSTILE, cohesion_group=HOSTILE)
    other = Task(id="task-002", title=HOSTILE, description="", dependencies=("task-001",), cohesion_group=HOSTILE)
    opened = SessionOpened(
        session=SESSION,
        request=HOSTILE + "\nand more\n" + HOSTILE,
        project=HOSTILE,
        base_branch=HOSTILE,
        base_sha=base,
        workflow=Workflow(),
        limits=Limits(),
    )
    recorded = [JournalEntry(1, BEGAN, opened)]
    session = open_session(recorded[0])

    def tell(*events: Event, seconds: float = 30.0) -> None:
        for event in events:
            each = JournalEntry(len(recorded) + 1, recorded[-1].at + seconds, event)
            recorded.append(each)
            apply_event(session, each)

    tell(OrchestratorStarted(pid=1), PlanProposed(round=1, tasks=(task, other), origin="planner"))
    tell(open_plan_gate(session), GateAnswered(gate="plan", answer=Answer(choice="approve", note=HOSTILE, by=HOSTILE)))
    tell(PlanApproved(tasks=(task, other)), CycleStarted(cycle=1, base_sha=base))
    for n, ending in ((1, Ending.POSTCHECK), (2, Ending.PASSED)):
        name = build_attempt_id(SESSION, "task-001", "worker", n)
        agent = build_agent_id("worker", name)
        attempt = Attempt(
            id=name, session=SESSION, subject="task-001", role="worker", n=n, agent_id=agent, model=HOSTILE
        )
        tell(TaskMoved(task="task-001", cause=Cause.CLAIM), AttemptIntended(attempt=attempt))
        tell(AttemptStarted(attempt=name, base=base, worktree="/w", warden_pid=1))
        tell(AttemptStalled(attempt=name, seconds=130.0))
        broken = (Violation(rule="scope", path=HOSTILE, detail=HOSTILE),) if n == 1 else ()
        ended = AttemptOutcome(
            ending=ending, notes=HOSTILE, violations=broken, commits=1, base=base, tip=commit, seconds=60.0
        )
        tell(AttemptEnded(attempt=name, ended=ended))
        if n == 1:
            tell(TaskMoved(task="task-001", cause=Cause.FAIL, reason=HOSTILE))
            tell(TaskMoved(task="task-001", cause=Cause.RETRY, reason=HOSTILE))
        _audit(root, agent, name)
    tell(OrchestratorStarted(pid=2))
    tell(RuntimeParked(runtime="claude", kind="rate_limit", reason=HOSTILE, agents=1))
    tell(TaskMoved(task="task-001", cause=Cause.COMPLETE, result=Result(sha=commit, base=base)))
    red = Check(name=HOSTILE, exit_code=1, seconds=2.0, output=HOSTILE)
    tell(Checked(task="task-001", sha=commit, checks=(red, Check(name="make test", exit_code=0, seconds=1.0))))
    verdict = Verdict(status=VerdictStatus.PASS, notes=HOSTILE, issues=(HOSTILE,), by=HOSTILE, confidence=0.9)
    tell(VerdictGiven(task="task-001", sha=commit, verdict=verdict))
    tell(TaskMoved(task="task-001", cause=Cause.VALIDATE))
    made = Changeset(id="cs-001", cycle=1, group=HOSTILE, title=HOSTILE, tasks=("task-001",), missing=(HOSTILE,))
    tell(ChangesetsFormed(changesets=(made,)))
    files = (FileChange(path=path, added=3, deleted=1),)
    build = Build(
        base=base,
        commit=commit,
        files=files,
        checks=(red,),
        losses=(MergeLoss(task="task-001", path=HOSTILE, count=2, lines=(HOSTILE,)),),
        risks=(Risk(kind="config", words=HOSTILE, paths=(HOSTILE,)),),
        weakened=(Weakening(kind="skip", path=HOSTILE, words=HOSTILE, line=3, lines=(HOSTILE,)),),
    )
    tell(ChangesetBuilt(changeset="cs-001", build=build))
    tell(open_changeset_gate(session, session.changesets["cs-001"]))
    return recorded


def _audit(root: Path, agent: str, attempt: str) -> None:
    """Write the audit log of a watcher that refused such calls."""
    folder = root / ".blueflame" / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    prev, lines = "", []
    for n in range(8):
        line = AuditLine(
            timestamp="2026-02-06T14:31:00Z",
            agent_id=agent,
            attempt=attempt,
            tool="Bash",
            target=HOSTILE,
            decision="block" if n % 2 else "allow",
            rule="blocked_paths",
            details=HOSTILE,
            call=f"c{n}",
            digest="",
            prev=prev,
        )
        raw = json.dumps(asdict(line)).encode()
        lines.append(raw + b"\n")
        prev = hash_audit_line(raw)
    (folder / f"{agent}.audit.jsonl").write_bytes(b"".join(lines))
