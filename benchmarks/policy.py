"""What one decision of the watcher costs in process: for paths, and for shell commands new and seen before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks import Figure, Report
from blueflame.model.policy import Policy, ToolCall
from blueflame.model.settings.permissions import BashRules, PermissionSettings, ValidationSettings
from blueflame.policy.access import prepare_policy
from blueflame.policy.compile import compile_policy
from blueflame.policy.decide import decide
from blueflame.watcher.policy_file import find_shfmt, format_policy, parse_policy
from blueflame.watcher.world import LocalWorld

CALLS, COMMANDS = 3_000, 300
MANY = 1_000
SMALL = {"CALLS": 30, "COMMANDS": 5}
DEFAULTS = PermissionSettings()

Given = tuple[str, Mapping[str, Any]]


def run() -> Report:
    with TemporaryDirectory(prefix="policy-") as folder:
        top = Path(folder).resolve() / "a checkout" / "of an attempt"
        (top / "src" / "package" / "deep").mkdir(parents=True)
        figures = [
            figure
            for name, permissions in (("defaults", DEFAULTS), (f"{MANY:,} patterns of each kind", _build_many_rules()))
            for figure in _build_figures(name, _build_policy(permissions, top), top)
        ]
    return Report(name="policy", about="one decision, in process, as the warden makes it", figures=tuple(figures))


def _build_policy(permissions: PermissionSettings, top: Path) -> Policy:
    return compile_policy(
        permissions=permissions,
        validation=ValidationSettings(),
        role="worker",
        role_settings=None,
        worktree=str(top),
        scope=("src",),
        sandboxed=True,
    )


def _build_many_rules() -> PermissionSettings:
    """A large repository's list: folders, endings, names at any depth, and commands with patterns against some."""
    blocked = (
        *(f"vault/team{n}/**" for n in range(400)),
        *(f"*.secret{n}" for n in range(300)),
        *(f".env.{n}*" for n in range(200)),
        *(f"gen/**/out{n}/*.bin" for n in range(100)),
    )
    allowed = (*(f"apps/service{n}/**" for n in range(MANY - 1)), "src/**")
    commands = (*(f"tool{n} run" for n in range(MANY - 2)), "make", "git status")
    patterns = tuple(rf"forbidden{n}\s+--really" for n in range(MANY))
    return PermissionSettings(
        allowed_paths=allowed,
        blocked_paths=blocked,
        bash_rules=BashRules(allowed_commands=commands, blocked_patterns=patterns),
    )


def _build_figures(name: str, policy: Policy, top: Path) -> Iterator[Figure]:
    begun = perf_counter()
    prepare_policy(parse_policy(format_policy(policy), "policy.json"))
    yield Figure(name=f"{name}: read and made ready, once", value=(perf_counter() - begun) * 1e3, unit="ms")
    world = LocalWorld(str(top), shfmt=find_shfmt())
    asked: dict[str, tuple[Callable[[int], Given], int, float]] = {
        "path": (_build_path_call, CALLS, 1.0),
        "command never seen": (_build_new_command, COMMANDS, 8.0),
        "command seen before": (_build_repeated_command, CALLS, 1.0),
    }
    for what, (make, times, aim) in asked.items():
        clock = perf_counter if make is _build_new_command else process_time
        costs = [_measure_cost(policy, world, top, make(n), clock) for n in range(times + 20)][20:]
        shares = quantiles(costs, n=100)
        yield Figure(name=f"{name}: {what}, p50", value=shares[49] * 1e3, unit="ms")
        yield Figure(name=f"{name}: {what}, p99", value=shares[98] * 1e3, unit="ms", aim=aim)


def _measure_cost(policy: Policy, world: LocalWorld, top: Path, given: Given, clock: Callable[[], float]) -> float:
    """In processor time where we do all the work: another process must not count. The parser is another process."""
    call = ToolCall(tool=given[0], input=given[1], cwd=str(top))
    begun = clock()
    decide(policy, call, world)
    return clock() - begun


def _build_path_call(n: int) -> Given:
    """Writes, reads and searches in turn; no name comes twice."""
    path = f"src/package/deep/er/module_{n}/name of file {n}.py"
    turns: tuple[Given, ...] = (
        ("Write", {"file_path": path, "content": "x"}),
        ("Read", {"file_path": path}),
        ("Edit", {"file_path": f"README-{n}.md", "old_string": "a", "new_string": "b"}),
        ("Glob", {"pattern": f"src/**/module_{n}/*.{{py,pyi}}"}),
        ("Read", {"file_path": f"../{path}"}),
    )
    return turns[n % len(turns)]


def _build_new_command(n: int) -> Given:
    return "Bash", {"command": f"git status --short && make test-{n} 2>&1 > src/package/log-{n}.txt"}


def _build_repeated_command(n: int) -> Given:
    return _build_new_command(n % 20)
