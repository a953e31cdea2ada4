"""What the reader finds in a shell command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.shell.state import ShellState
from blueflame.policy.shell.syntax import SyntaxNode, UnreadableSyntax

MAX_STEPS = 4000
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """A redirection. `target` is marked text: a file, or the descriptor after >& and <&."""

    op: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """A simple command that may run; without words a bare redirection or assignment."""

    argv: tuple[str, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    cwds: tuple[str, ...] | None = ("",)
    feed: tuple[str, ...] | None = None  # patterns of the file names piped into it, if known


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueConstruct:
    """A construct that cannot be followed, with the rule that refuses it."""

    rule: str
    what: str
    defines: str = ""  # the name of a function


@dataclass(slots=True)
class ReadLog:
    """The findings so far. Steps are counted, so that no command takes long to read."""

    source: bytes
    run: Callable[[list[SyntaxNode], ShellState, ReadLog], None]  # reads the commands inside a substitution
    found: list[SimpleCommand | OpaqueConstruct] = field(default_factory=list)
    last: tuple[tuple[str, ...], tuple[str, ...] | None] | None = None  # the last simple command and what it was fed
    left: list[ShellState] = field(default_factory=list)  # where break and continue jump out of a loop
    steps: int = 0
    depth: int = 0
    backquoted: int = 0

    def add_opaque(self, rule: str, what: str, defines: str = "") -> None:
        self.found.append(OpaqueConstruct(rule=rule, what=what, defines=defines))

    def count_step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise UnreadableSyntax("the command is too long to judge; run it in parts")

    def enter_level(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableSyntax("the command is nested too deeply")

    def leave_level(self) -> None:
        self.depth -= 1

    def fork(self) -> ReadLog:
        """Return an empty log that keeps counting, to look ahead."""
        return ReadLog(source=self.source, run=self.run, steps=self.steps, depth=self.depth, backquoted=self.backquoted)
