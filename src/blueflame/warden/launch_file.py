"""Read launch.json, the engine's order for an attempt, and check all of it before anything starts.

Unknown keys about the sandbox, the watcher or the gateway are refused: one may be a wall that the engine relies on.
"""

from __future__ import annotations

import resource

from blueflame.text.strict_json import (
    check_keys,
    read_absolute_path,
    read_choice,
    read_integer,
    read_object,
    read_string,
    read_strings,
)
from blueflame.warden.attempt_folder import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RLIMITS = {  # not "as": agents written in JavaScript map more than a hundred gigabytes and use a few hundred megabytes
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
SETUP_TIMEOUT = 300.0
DEFAULT_GRACE_SECONDS = 5.0


class CannotStart(Exception):
    """The program was not started; the message names it and the reason."""


class LaunchStep:
    """A command that prepares the worktree before the agent starts."""

    def __init__(self, name: str, argv: list[str], timeout: float) -> None:
        self.name = name
        self.argv = argv
        self.timeout = timeout


class LaunchFile:
    def __init__(self, read: Mapping[str, Any]) -> None:
        self.attempt = str(read["attempt"])
        self.argv = read_strings(read["argv"], "argv")
        self.env = _parse_environment(read.get("env", {}))
        self.cwd = str(read["cwd"])
        self.stdin = str(read.get("stdin") or "/dev/null")
        self.setup = [_parse_step(step, n) for n, step in enumerate(read.get("setup", ()), start=1)]
        self.timeout = float(read.get("timeout", 0))  # 0: no limit, here and below
        self.grace = float(read.get("grace", DEFAULT_GRACE_SECONDS))
        self.silence = float(read.get("silence", 0))
        self.max_output = int(read.get("max_output", 0))
        self.signal = str(read.get("signal", ""))
        self.limits = _parse_limits(read.get("limits", {}))
        self.memory_mb = read_integer(read.get("memory_mb", 0), "memory_mb")
        self.processes = read_integer(read.get("processes", 0), "processes")
        self.min_free_disk_mb = read_integer(read.get("min_free_disk_mb", 0), "min_free_disk_mb")
        self.sandbox = parse_sandbox(read.get("sandbox"))
        self.survey = read_strings(read["survey"], "survey") if read.get("survey") else []
        self.watch = parse_watch(read.get("watch"))
        self.gateway = parse_gateway(read.get("gateway"))
        self.terminal = parse_terminal(read.get("terminal"))
        if self.sandbox is not None and self.sandbox.net == "none" and (self.watch or self.gateway):
            raise ValueError("sandbox: net is 'none': watch and gateway cannot be reached from inside")


def read_launch(folder: str) -> LaunchFile:
    path = f"{folder}/launch.json"
    try:
        return LaunchFile(read_json(path))
    except KeyError as e:
        raise CannotStart(f"{path}: {e.args[0]} is missing") from e
    except (OSError, ValueError, TypeError) as e:
        raise CannotStart(f"{path}: {e}") from e


def _parse_environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("env must map names to strings")
    return value


def _parse_step(value: Mapping[str, Any], n: int) -> LaunchStep:
    shell = value.get("shell")
    argv = (
        ["/bin/sh", "-c", str(shell)] if shell is not None else read_strings(value.get("argv"), f"setup step {n}: argv")
    )
    return LaunchStep(str(value.get("name") or shell or argv[0]), argv, float(value.get("timeout") or SETUP_TIMEOUT))


def _parse_limits(value: Mapping[str, Any]) -> dict[int, int]:
    unknown = sorted(set(value) - set(RLIMITS))
    if unknown:
        raise ValueError(f"limits: {unknown[0]} is not one of {', '.join(RLIMITS)}")
    return {RLIMITS[name]: int(value[name]) for name in sorted(value)}


NETWORKS = ("none", "doors", "host")
DIALECTS = ("claude", "codex", "gemini")  # as in policy/dialects, which an unwatched attempt does not load
WATCH_TEXT_KEYS = ("policy", "audit", "agent", "hook", "shfmt")


class SandboxOptions:
    """`argv` is the sandbox command up to where the program's follows."""

    def __init__(self, read: Mapping[str, Any]) -> None:
        check_keys(read, ("argv", "seccomp", "net"), "sandbox")
        self.argv = read_strings(read.get("argv"), "sandbox: argv")
        self.seccomp = "" if read.get("seccomp") is None else read_absolute_path(read["seccomp"], "sandbox: seccomp")
        self.net = read_choice(read.get("net"), NETWORKS, "sandbox: net")


def parse_sandbox(value: object) -> SandboxOptions | None:
    return None if value is None else SandboxOptions(read_object(value, "sandbox"))


def parse_watch(value: object) -> dict[str, Any] | None:
    """Return the hook server's options unchanged, once all of them are valid."""
    if value is None:
        return None
    read = read_object(value, "watch")
    check_keys(read, ("port", "mounts", "dialect", "notices", "questions", *WATCH_TEXT_KEYS), "watch")
    questions = read_object(read.get("questions", {"left": 0, "wait": 0}), "watch: questions")
    check_keys(questions, ("left", "wait"), "watch: questions")
    for name in ("left", "wait"):
        read_integer(questions.get(name), f"watch: questions: {name}")
    read_integer(read.get("port"), "watch: port", most=65535, least=1)
    for name in WATCH_TEXT_KEYS:
        read_string(read.get(name), f"watch: {name}")
    read_absolute_path(read["hook"], "watch: hook")
    read_choice(read.get("dialect", DIALECTS[0]), DIALECTS, "watch: dialect")
    mounts = read_object(read.get("mounts", {}), "watch: mounts")
    for inside, outside in mounts.items():
        read_absolute_path(inside, "watch: mounts")
        read_absolute_path(outside, f"watch: mounts: {inside}")
    return read


def parse_gateway(value: object) -> dict[str, Any] | None:
    """Return the gateway's options unchanged; the gateway checks hosts and model in detail."""
    if value is None:
        return None
    read = read_object(value, "gateway")
    check_keys(read, ("port", "hosts", "allow_private", "model", "registries", "setup"), "gateway")
    read_integer(read.get("port"), "gateway: port", most=65535, least=1)
    for name in ("hosts", "registries"):
        hosts = read.get(name, [] if name == "registries" else None)
        if not isinstance(hosts, list) or not all(isinstance(host, str) and host for host in hosts):
            raise ValueError(f"gateway: {name} must be a list of names, not {hosts!r:.80}")
    if read.get("setup", False) not in (True, False):
        raise ValueError(f"gateway: setup must be true or false, not {read['setup']!r:.80}")
    if read.get("model") is not None:
        read_object(read["model"], "gateway: model")
    return read


def parse_terminal(value: object) -> tuple[int, int] | None:
    """Return rows and columns of the agent's terminal until a viewer has another size."""
    if value is None:
        return None
    read = read_object(value, "terminal")
    check_keys(read, ("rows", "columns"), "terminal")
    rows, columns = (
        read_integer(read.get(name), f"terminal: {name}", most=1000, least=1) for name in ("rows", "columns")
    )
    return rows, columns
