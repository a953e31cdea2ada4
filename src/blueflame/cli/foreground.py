"""Carrying a session on in this terminal: the view, whoever answers, and what to say at the end."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from blueflame.cli.console import make_console, show
from blueflame.cli.gates.answerers import Answerer, AtTerminal, Elsewhere, FromDecisions
from blueflame.cli.gates.chat import AfterConversation, Conversation
from blueflame.cli.live.view import Doings, LiveView, live_view
from blueflame.cli.output import say, tell
from blueflame.cli.render.session import session_json, show_summary
from blueflame.documents.decisions import Decisions
from blueflame.git.results import diff_text
from blueflame.journal.journal import Journal
from blueflame.model.changeset import Build
from blueflame.model.errors import BlueFlameError, UsageError
from blueflame.model.exit_codes import Exit, exit_for
from blueflame.model.gate import Gate, GateKind
from blueflame.orchestrator import project as app
from blueflame.orchestrator.context import NO_CASSETTE, Cassette, Flame
from blueflame.session.estimate import cost_range
from blueflame.session.from_settings import may_talk, workflow_of
from blueflame.session.state import Session
from blueflame.system.terminal import is_attended
from blueflame.telemetry.activity import Follower
from blueflame.text.sanitize import clean

TICK = 0.25
LONGEST_DIFF = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How this terminal takes part."""

    script: Path | None = None
    decisions: Decisions | None = None
    cassette: Cassette = NO_CASSETTE
    as_json: bool = False
    quiet: bool = False
    config: Path | None = None  # as the person gave it, to be given again
    kept: bool = True  # the repository is still there afterwards, so that the session can be resumed

    @property
    def why_silent(self) -> str:
        """Why no agent can talk with a person here; "" when one can."""
        reasons = {
            "a decisions file speaks for you": self.decisions is not None,
            "a cassette can be played only without you": self.cassette != NO_CASSETTE,
            "--json is given": self.as_json,
            "--quiet is given": self.quiet,
            "there is no terminal": not is_attended(),
        }
        return next((words for words, holds in reasons.items() if holds), "")


def carry(
    ground: app.Grounds,
    journal: Journal,
    session: Session,
    manner: Manner,
    *,
    until: Callable[[Session], bool] = lambda _session: False,
    also: Mapping[str, Callable[[], object]] | None = None,
) -> int:
    """Until it ends or stops; gives the exit code. `also` is added to what --json prints."""
    flame = app.ignite(ground, session, script=manner.script, cassette=manner.cassette)
    console = make_console()
    doings = Doings(Follower(flame.runtimes, flame.engine.directory, flame.places.audit), session)
    view = live_view(console, doings, quiet=manner.quiet or manner.as_json)
    answerer = _answerer(flame, view, manner)
    if not manner.why_silent:
        conversation = Conversation(console, view)
        flame, answerer = replace(flame, converse=conversation), AfterConversation(answerer, conversation, console)
    try:
        asyncio.run(_carry(flame, journal, session, answerer, view, _warner(console), until))
    except BlueFlameError as error:
        if manner.as_json:  # a machine gets its one object even so: it says how far the session came
            _print_json(session, flame, also or {}, error=str(error))
        raise
    finally:
        view.close()
    if manner.as_json:
        _print_json(session, flame, also or {})
    else:
        _sum_up(session, flame, manner, done=until(session))
    return Exit.OK if until(session) else exit_code(session)


def planner_talks(ground: app.Grounds, manner: Manner, *, workflow: str | None, planned: bool) -> bool:
    """Whether the planner of a new session can talk with the person first; says so when they may expect it in vain."""
    settings = ground.settings
    flow = workflow_of(settings, workflow)
    if planned or not flow.has("plan") or not may_talk(settings, flow.name, scripted=manner.script is not None):
        return False
    asked_for = manner.decisions is not None or "interactive" in settings.planning.model_fields_set
    if manner.why_silent and asked_for:
        say(
            f"blueflame: the planner does not talk with you first (planning.interactive): {manner.why_silent}", err=True
        )
    return not manner.why_silent


async def _carry(
    flame: Flame,
    journal: Journal,
    session: Session,
    answerer: Answerer,
    view: LiveView,
    warn: Callable[[str], None],
    until: Callable[[Session], bool],
) -> None:
    ticking = asyncio.create_task(_tick(flame, view))
    try:
        await app.conduct(flame, journal, session, answerer=answerer, onlookers=[view], warn=warn, until=until)
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking


async def _tick(flame: Flame, view: LiveView) -> None:
    while True:
        await flame.clock.sleep(TICK)
        view.tick(flame.clock.now())


def _warner(console: Console) -> Callable[[str], None]:
    """On a terminal through the console that draws the frame, else the frame would be drawn over what is said."""

    def warn(text: str) -> None:
        if console.is_terminal:
            console.print(Text(f"blueflame: {clean(text)}", "warn"), soft_wrap=True)
        else:
            say(f"blueflame: {text}", err=True)

    return warn


def read_cassette(record: Path | None, replay: Path | None) -> Cassette:
    if record is not None and replay is not None:
        raise UsageError("--record and --replay exclude each other: a cassette is written or played, not both")
    if replay is not None and not replay.is_file():
        raise UsageError(f"--replay: there is no cassette at {replay}; --record {replay} makes one")
    if record is not None and not record.absolute().parent.is_dir():
        raise UsageError(f"--record: there is no folder {record.absolute().parent} to keep the cassette in")
    return Cassette(record=record and record.absolute(), replay=replay and replay.absolute())


def _answerer(flame: Flame, view: LiveView, manner: Manner) -> Answerer:
    """A decisions file speaks for the person who wrote it; else they are asked here, else gates wait for an answer."""
    if manner.decisions is not None:
        return FromDecisions(manner.decisions)
    if is_attended() and not manner.as_json:
        return AtTerminal(make_console(), view, diff_of(flame))
    return Elsewhere(make_console(stderr=True))


def diff_of(flame: Flame) -> Callable[[Session, Gate], Callable[[], str] | None]:
    def diff(session: Session, gate: Gate) -> Callable[[], str] | None:
        build = session.changesets[gate.subject].build if gate.kind is GateKind.CHANGESET else None
        return _reader(flame, build) if build else None

    return diff


def _reader(flame: Flame, build: Build) -> Callable[[], str]:
    return lambda: diff_text(flame.repo, build.base, build.commit, max_bytes=LONGEST_DIFF)


def _print_json(
    session: Session, flame: Flame, also: Mapping[str, Callable[[], object]], *, error: str | None = None
) -> None:
    told = session_json(session, now=flame.clock.now()) | {"error": error}
    told |= {name: read() for name, read in also.items()}
    tell(told)


def _sum_up(session: Session, flame: Flame, manner: Manner, *, done: bool) -> None:
    now = flame.clock.now()
    tasks = [record.task for record in session.tasks.values()]
    if not manner.quiet:
        say()
    show(make_console(), show_summary(session, now=now, estimate=cost_range(tasks, session.limits, session.workflow)))
    if session.live:
        names = ", ".join(attempt.agent_id for attempt in session.live.values())
        say(f"\nStill at work: {names} ('blueflame status' shows how they are).")
    if not session.ended:
        say(f"\n{_what_now(manner, done=done)}")


def _what_now(manner: Manner, *, done: bool) -> str:
    """Flags are not remembered: a resume without them would play other agents or ask at the terminal."""
    if not manner.kept:
        return "Stopped, and the throw-away repository is gone. To keep one: blueflame demo --in FOLDER"
    decisions = manner.decisions.path if manner.decisions else None
    given = {
        "--config": manner.config,
        "--script": manner.script,
        "--decisions-file": decisions,
        "--record": manner.cassette.record,
        "--replay": manner.cassette.replay,
    }
    flags = [word for flag, path in given.items() if path is not None for word in (flag, str(path))]
    words = "The plan is approved" if done else "Stopped; nothing is lost"
    return f"{words}. Go on with: {shlex.join(['blueflame', 'resume', *flags])}"


def exit_code(session: Session) -> Exit:
    """A session without a plan has landed nothing, though nothing is left to do in it."""
    return exit_for(session.outcome or None, all_landed=bool(session.tasks) and session.all_finished)
