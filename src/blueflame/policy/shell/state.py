"""The state of the shell at one point of a command: its variables and the folders in which it may be."""

from __future__ import annotations

from dataclasses import field, replace
from itertools import product

from blueflame.lazy_dataclass import dataclass
from blueflame.policy.shell.marks import MARKS, NUMBER, ROOT, START
from blueflame.policy.shell.words import Values

MAX_VALUES = 32
MAX_CHOICES = 64
MAX_CWDS = 16


@dataclass(slots=True)
class ShellState:
    """`cwds` are the folders in which the shell may be, "" where it started; None: it may be anywhere.

    `cwds_on_success` is the same if the last command succeeded: `cd a && …` is in a, `cd a; …` may not be.
    """

    variables: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    cwds: tuple[str, ...] | None = ("",)
    cwds_on_success: tuple[str, ...] | None = ("",)
    stack: tuple[tuple[str, ...] | None, ...] = ()
    feed: tuple[str, ...] | None = None  # patterns of the file names that come in by a pipe, if it is those
    looping: bool = False  # inside a loop: break and continue apply
    careful: bool = False  # set -e: a command that fails ends the script

    def copy(self) -> ShellState:
        return replace(self, variables=dict(self.variables))

    def fork(self) -> ShellState:
        """Return a copy for a subshell, whose changes stay there."""
        return replace(self, variables=dict(self.variables), looping=False)

    def replace_with(self, other: ShellState) -> None:
        self.variables = dict(other.variables)
        self.cwds, self.cwds_on_success = other.cwds, other.cwds_on_success
        self.stack, self.feed = other.stack, other.feed
        self.careful, self.looping = other.careful, other.looping


def merge_cwds(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return None
    both = tuple(dict.fromkeys((*one, *other)))
    return both if len(both) <= MAX_CWDS else None


def join_states(one: ShellState, other: ShellState) -> ShellState:
    """Return the state after either of two branches."""
    names = dict.fromkeys((*one.variables, *other.variables))
    return ShellState(
        variables={name: _join_values(one.variables, other.variables, name) for name in names},
        cwds=merge_cwds(one.cwds, other.cwds),
        cwds_on_success=merge_cwds(one.cwds_on_success, other.cwds_on_success),
        stack=one.stack if one.stack == other.stack else (),
        feed=one.feed if one.feed == other.feed else None,
        careful=one.careful and other.careful,
        looping=one.looping and other.looping,
    )


def _join_values(
    one: dict[str, tuple[str, ...] | None], other: dict[str, tuple[str, ...] | None], name: str
) -> tuple[str, ...] | None:
    if name not in one or name not in other:
        return None  # on the other branch its value comes from outside
    first, second = one[name], other[name]
    if first is None or second is None:
        return None
    both = tuple(dict.fromkeys((*first, *second)))
    return both if len(both) <= MAX_VALUES else None


def list_choices(state: ShellState, names: tuple[str, ...]) -> list[Values]:
    """Return every combination of the values of `names`; other variables only where they have one value."""
    known: dict[str, str | None] = {"PWD": _find_pwd(state)}
    several: dict[str, tuple[str, ...]] = {}
    for name, values in state.variables.items():
        if values is not None and len(values) == 1:
            known[name] = values[0]
        elif values and name in names:
            several[name] = values
        else:
            known[name] = None
    count = 1
    for values in several.values():
        count *= len(values)
    if count > MAX_CHOICES:
        return [{**known, **dict.fromkeys(several, None)}]
    return [{**known, **dict(zip(several, each, strict=True))} for each in product(*several.values())]


def _find_pwd(state: ShellState) -> str | None:
    if state.cwds is None or len(state.cwds) != 1:
        return None
    cwd = state.cwds[0]
    if cwd.startswith("/") or not MARKS.isdisjoint(cwd):
        return cwd if cwd.startswith("/") else None
    return f"{START}/{cwd}" if cwd else START


def is_numeric_variable(state: ShellState, name: str) -> bool:
    """Return whether arithmetic may use the variable: the shell evaluates its value again, commands included."""
    values = state.variables.get(name, ())
    if values is None:
        return False
    return all(value == "" or value.lstrip("+-").isdigit() or value == NUMBER for value in values)


def join_cwd(cwd: str, path: str) -> str:
    """Return `path` relative to where the command starts."""
    if path.startswith(("/", START, ROOT)) or not cwd:
        return path
    return cwd if path in ("", ".") else f"{cwd.rstrip('/')}/{path}"
