"""An attack on the walls: a row of a table, with what it tries and what must stop it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

Group: TypeAlias = Literal[
    "paths",
    "links",
    "shell",
    "git",
    "environment",
    "processes",
    "network",
    "secrets",
    "resources",
    "tampering",
    "output",
    "model",
    "money",
    "requests",
]
Wall: TypeAlias = Literal["watcher", "sandbox", "postcheck", "orchestrator", "warden", "gateway", "house"]

GROUPS: tuple[Group, ...] = Group.__args__  # type: ignore[attr-defined] # typing does not tell what a Literal holds
WALLS: tuple[Wall, ...] = Wall.__args__  # type: ignore[attr-defined] # the same


@dataclass(frozen=True, slots=True)
class Ask:
    """A call for the hook. `{tree}` is the worktree, `{main}` the repository, `{home}` the person's home."""

    line: str
    role: str = "worker"


@dataclass(frozen=True, slots=True)
class Probe:
    """Code that tries the attack in the sandbox. It is judged by the state outside afterwards.

    In its environment: CANARY, a folder outside with a file `loot` in it; MARK, a word for names of files and
    processes; TCP and UDP, ports that the test listens on; SOCKET and ABSTRACT, unix sockets of the test's; VICTIM, a
    process outside; MAIN, the main repository; OUT, a folder in the checkout.
    """

    code: str
    python: bool = False
    bites: bool = False  # harmless on this machine, so that it is also run without walls, where it must succeed
    alone: bool = False  # in a box of its own: it would take the others down
    most: int = 0  # the highest number that it may write into $OUT/count, in a box with tight limits
    least: int = 1  # and the lowest; 0: it may also be ended before it begins


@dataclass(frozen=True, slots=True)
class Poison:
    """What a session leaves in its checkout before the orchestrator reads it: shell, run in the checkout.

    $RUN is a program that leaves the canary when it runs, $MAIN the main repository.
    """

    code: str
    takes: bool | None = False  # the commits of such a session are still good; None: taken or not, no harm is done


@dataclass(frozen=True, slots=True)
class Result:
    """A result of an agent: shell, run in the checkout, that makes commits."""

    code: str
    commit: bool = True  # add and commit everything with a good message afterwards


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository that a person has just cloned: what its blueflame.yaml adds, and shell that makes the rest of it.

    In both, `$RUN` is a program that leaves the canary when it runs, `$OUT` a folder outside, `$PORT` a port that the
    test listens on; tools/run is the program in the repository.
    """

    settings: Mapping[str, Any]
    code: str = ""
    config: str = "blueflame.yaml"
    bites: str = ""  # doctor or session: it succeeds there once a person has trusted it


@dataclass(frozen=True, slots=True)
class Call:
    """A request of an agent to its model, through the gateway; its role's model is sonnet.

    The provider must not get it, or without `leak` where the request may go on without that. `body` is JSON or bytes.
    """

    body: object
    target: str = "/anthropic/v1/messages"
    headers: tuple[tuple[str, str], ...] = ()
    leak: str = ""


@dataclass(frozen=True, slots=True)
class Spree:
    """What an agent does to spend more than it may, or to stop others: `act` uses a running gateway.

    It is judged by what the provider charged, the memory of the gateway and the limits that it reports to others.
    """

    act: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Forgery:
    """Python that an agent's command runs in the sandbox to write `FORGED` to the agent's output. AGENT is its pid."""

    code: str
    bites: bool = True  # it succeeds where the agent's output is a pipe and no wall holds


@dataclass(frozen=True, slots=True)
class Delivery:
    """What others send to the house. `attempt` sends it to a real source, in a folder, and returns what it reported.

    It raises when a request was received that starts work, or holds what the attack wanted.
    """

    attempt: Callable[[Path], str]


Deed: TypeAlias = Ask | Probe | Poison | Result | Clone | Call | Spree | Forgery | Delivery


@dataclass(frozen=True, slots=True)
class Attack:
    """`rule` is the name of the rule that refuses it, or the part of the wall that holds."""

    id: str
    group: Group
    wall: Wall
    attack: str
    rule: str
    deed: Deed


def call(tool: object, given: object, *, cwd: str = "{tree}", **more: object) -> str:
    """A hook call as an agent's CLI writes it."""
    body = {
        "session_id": "s-1",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given,
        "cwd": cwd,
        "tool_use_id": "toolu_1",
        **more,
    }
    return json.dumps(body)


def bash(id: str, group: Group, command: str, rule: str, *, role: str = "worker", cwd: str = "{tree}") -> Attack:
    deed = Ask(call("Bash", {"command": command}, cwd=cwd), role)
    return Attack(id, group, "watcher", command, rule, deed)


def tool(
    id: str, group: Group, name: str, given: Mapping[str, Any], rule: str, *, role: str = "worker", says: str = ""
) -> Attack:
    said = says or f"{name} {', '.join(str(value)[:80] for value in given.values())}"
    return Attack(id, group, "watcher", said, rule, Ask(call(name, given), role))


def write(id: str, group: Group, path: str, rule: str, *, role: str = "worker", says: str = "") -> Attack:
    return tool(
        id, group, "Write", {"file_path": path, "content": "x\n"}, rule, role=role, says=says or f"Write {path}"
    )


def read(id: str, group: Group, path: str, rule: str, *, role: str = "worker", says: str = "") -> Attack:
    return tool(id, group, "Read", {"file_path": path}, rule, role=role, says=says or f"Read {path}")


def raw(id: str, group: Group, says: str, line: str, rule: str) -> Attack:
    return Attack(id, group, "watcher", says, rule, Ask(line))


def probe(
    id: str, group: Group, says: str, held: str, code: str, *, bites: bool = False, alone: bool = False
) -> Attack:
    return Attack(id, group, "sandbox", says, held, Probe(code, bites=bites, alone=alone))


def python(
    id: str, group: Group, says: str, held: str, code: str, *, bites: bool = False, alone: bool = False
) -> Attack:
    return Attack(id, group, "sandbox", says, held, Probe(code, python=True, bites=bites, alone=alone))


def poison(id: str, group: Group, says: str, held: str, code: str, *, takes: bool | None = False) -> Attack:
    return Attack(id, group, "orchestrator", says, held, Poison(code, takes))


def clone(
    id: str,
    group: Group,
    says: str,
    held: str,
    settings: Mapping[str, Any],
    *,
    code: str = "",
    config: str = "blueflame.yaml",
    bites: str = "",
) -> Attack:
    return Attack(id, group, "orchestrator", says, held, Clone(settings, code, config, bites))


def result(id: str, group: Group, says: str, rule: str, code: str, *, commit: bool = True) -> Attack:
    return Attack(id, group, "postcheck", says, rule, Result(code, commit))


def ask_model(
    id: str, says: str, body: object, target: str = "", rule: str = "not_allowed", *, leak: str = "", **headers: str
) -> Attack:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    deed = Call(body, target or "/anthropic/v1/messages", named, leak)
    plain = re.sub(r"[^a-z0-9]+", "-", id.casefold()).strip("-")
    return Attack(plain, "model", "gateway", says, rule, deed)
