"""Build the walls around an agent and around commands that run its code: policy, watcher, sandbox, gateway."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from blueflame.agents.hook import HOOK_VARIABLE, find_hook
from blueflame.agents.runtime import AgentLaunch
from blueflame.git.checkouts import get_home_path
from blueflame.git.trees import list_tree_files
from blueflame.git.untrusted.status import build_status_argv
from blueflame.model.attempt import COMMITTING, Attempt, Duty
from blueflame.model.policy import Policy
from blueflame.model.runtime_support import can_take_messages
from blueflame.model.sandbox import MountKind, Network, SandboxLevel, SandboxSpec
from blueflame.model.schemas import OUTPUT_SCHEMAS
from blueflame.model.settings.registries import list_registry_hosts
from blueflame.orchestrator.attempts.instructions import build_blocked_globs
from blueflame.orchestrator.attempts.model_access import GATEWAY_PORT, ModelAccess, write_home
from blueflame.orchestrator.commit_rules import find_author
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import Walls
from blueflame.paths.globs import Globs
from blueflame.policy.compile import compile_policy, describe_commands, list_commands
from blueflame.policy.path_patterns import fold_text
from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox, choose_home, choose_inner_path
from blueflame.sandbox.bwrap import LOOPBACK_PORTS
from blueflame.sandbox.prepare import PreparedSandbox, prepare_sandbox
from blueflame.sandbox.toolchains import Toolchains
from blueflame.session.from_settings import find_runtime_kind, list_role_skills
from blueflame.session.state import Session
from blueflame.system.layout import make_folder
from blueflame.watcher.policy_file import find_shfmt, save_policy

HOOK_PORT = LOOPBACK_PORTS[1]
TERMINAL_SIZE = {"rows": 40, "columns": 120}  # until a person attaches
QUESTION_MARGIN_SECONDS = 60  # for the orchestrator to give up first
MAX_FROZEN = 100  # each is a mount; the rest is left to the postcheck


def build_agent_walls(
    context: SessionContext, session: Session, attempt: Attempt, *, checkout: Path, base: str, launch: AgentLaunch,
    variables: Mapping[str, str], access: ModelAccess | None = None,
) -> Walls:  # fmt: skip
    folder = context.engine.stage(attempt.id)
    hook = find_hook()
    variables = {**variables, **_build_home_variable(context, folder, launch)}
    request = SandboxRequest(
        worktree=checkout,
        inside=find_inner_path(context, checkout),
        folder=folder,
        variables={**variables, **launch.env, **_choose_author(context, attempt, launch), HOOK_VARIABLE: str(hook)},
        shown=(*launch.needs, hook),
        frozen=tuple(_list_frozen(context, base, checkout)) if attempt.duty in COMMITTING else (),
        watched=True,
        registries=_list_registries(context) if attempt.duty in COMMITTING else (),
    )
    spec = build_sandbox(_build_site(context), request)
    prepared = prepare_sandbox(spec, folder)
    policy = build_policy(context, session, attempt, spec, may_ask=launch.questions > 0)
    save_policy(policy, folder / "policy.json")
    make_folder(context.paths.logs)
    watch = {
        "port": HOOK_PORT,
        "policy": str(folder / "policy.json"),
        "audit": str(context.paths.audit(attempt.agent_id)),
        "agent": attempt.agent_id,
        "hook": str(hook),
        "shfmt": find_shfmt(),
        "mounts": dict(prepared.mounts),
        **({"questions": _limit_questions(session, launch)} if launch.questions else {}),
        **({"dialect": launch.dialect} if launch.dialect != "claude" else {}),
        **({} if can_take_messages(find_runtime_kind(context.settings, attempt.runtime)) else {"notices": False}),
    }
    write_home(folder / "home", launch.home)
    terminal = {"terminal": dict(TERMINAL_SIZE)} if launch.terminal else {}
    return _build_walls(spec, prepared, {"watch": watch, "survey": list(build_status_argv()), **terminal}, access)


def _limit_questions(session: Session, launch: AgentLaunch) -> Mapping[str, int]:
    """How many it may ask, and how long its warden lets it wait when no orchestrator answers."""
    wait = session.limits.question_wait
    return {"left": launch.questions, "wait": int(wait + QUESTION_MARGIN_SECONDS) if wait else 0}


def _choose_author(context: SessionContext, attempt: Attempt, launch: AgentLaunch) -> Mapping[str, str]:
    """The author of the agent's commits, unless `runtimes.<name>.env` has one; the committer is the agent."""
    is_agent = launch.env.get("GIT_AUTHOR_NAME") == attempt.agent_id
    return find_author(context.repo, context.settings) if is_agent else {}


def build_command_walls(
    context: SessionContext, checkout: Path, variables: Mapping[str, str], *, setup: bool = False
) -> Callable[[Path], Walls]:
    """For setup and diagnostics: they may run code that agents wrote. Only setup reaches registries."""

    def wall(folder: Path) -> Walls:
        request = SandboxRequest(
            worktree=checkout,
            inside=find_inner_path(context, checkout),
            folder=folder,
            variables=variables,
            registries=_list_registries(context) if setup else (),
            setup=setup,
            home=get_home_path(checkout),
        )
        spec = build_sandbox(_build_site(context), request)
        return _build_walls(spec, prepare_sandbox(spec, folder), {}, setup=setup)

    return wall


def _list_registries(context: SessionContext) -> tuple[str, ...]:
    worktree = context.settings.worktree
    return list_registry_hosts(worktree.registries) if worktree.setup else ()


def build_policy(
    context: SessionContext, session: Session, attempt: Attempt, spec: SandboxSpec, *, may_ask: bool = False
) -> Policy:
    secrets, outside = context.settings.validation.secrets, _works_outside(context, attempt)
    return compile_policy(
        permissions=context.settings.permissions,
        also_blocked=(
            f"/{context.settings.worktree.include}",
            *((f"/{secrets.allow_file}",) if secrets.enabled else ()),
        ),
        validation=context.settings.validation,
        role=attempt.role,
        role_settings=context.settings.roles.get(attempt.role),
        worktree=spec.cwd,
        scope=_find_scope(session, attempt),
        agent_id=attempt.agent_id,
        schema=attempt.duty not in COMMITTING,
        answers=attempt.duty in OUTPUT_SCHEMAS,
        scratch=() if outside else _list_scratch(spec),
        readable=tuple(
            mount.target for mount in spec.mounts if mount.kind is MountKind.RO and mount.target != spec.cwd
        ),
        skills=list_role_skills(context.settings, attempt.role),
        sandboxed=spec.level is not SandboxLevel.OFF and not outside,
        may_ask=may_ask,
    )


def _works_outside(context: SessionContext, attempt: Attempt) -> bool:
    """Whether only the watcher holds it: what a sandbox makes harmless, as other commands and /tmp, is refused then."""
    return find_runtime_kind(context.settings, attempt.runtime) == "subagent"


def describe_allowed_commands(context: SessionContext, attempt: Attempt) -> tuple[str, ...]:
    """For the prompt of an agent that works: what its policy lets it run."""
    settings = context.settings
    sandboxed = settings.sandbox.level != "off" and not _works_outside(context, attempt)
    commands = list_commands(settings.permissions, settings.validation, read_only=False, sandboxed=sandboxed)
    return describe_commands(commands)


def _find_scope(session: Session, attempt: Attempt) -> tuple[str, ...] | None:
    """Who works has the task's locks, a merger the files in conflict; no other writes."""
    if attempt.duty is Duty.MERGE:
        conflict = session.changesets[attempt.subject].conflict
        assert conflict is not None, f"{attempt.subject} has a merger and no conflict"
        return conflict.paths
    record = session.tasks.get(attempt.subject)
    return record.task.file_locks if record and attempt.duty is Duty.MAKE else None


def _list_scratch(spec: SandboxSpec) -> tuple[str, ...]:
    """Folders private to the sandbox; without one, the person's temporary folder."""
    if spec.level is SandboxLevel.OFF:
        return (os.path.realpath(os.environ.get("TMPDIR") or "/tmp"),)  # noqa: S108
    return ("/tmp", spec.home)  # noqa: S108


def _build_walls(
    spec: SandboxSpec,
    prepared: PreparedSandbox,
    more: Mapping[str, Any],
    access: ModelAccess | None = None,
    *,
    setup: bool = False,
) -> Walls:
    hosts = list(spec.hosts) if spec.network is Network.DOORS else []
    keys: dict[str, Any] = {**prepared.build_launch_keys(), **more}
    registries = {"registries": list(spec.registries), "setup": setup} if spec.registries else {}
    if access:
        keys["gateway"] = {"port": access.port, "hosts": hosts, "model": access.orders, **registries}
    elif hosts or registries:
        keys["gateway"] = {"port": GATEWAY_PORT, "hosts": hosts, **registries}
    return Walls(env=prepared.env, limits=prepared.limits, keys=keys)


def _build_home_variable(context: SessionContext, folder: Path, launch: AgentLaunch) -> Mapping[str, str]:
    """A HOME of its own also without a sandbox: a real agent sees neither the person's settings nor their login."""
    bare = context.settings.sandbox.level == "off"
    return {"HOME": find_home(context, folder)} if bare and (launch.apis or launch.home) else {}


def find_home(context: SessionContext, folder: Path) -> str:
    """The HOME of an agent, as seen inside its sandbox."""
    return str(folder / "home") if context.settings.sandbox.level == "off" else choose_home(_build_site(context))


def find_inner_path(context: SessionContext, checkout: Path) -> str:
    """The path of a checkout, as seen inside its sandbox."""
    return choose_inner_path(_build_site(context), checkout)


def _build_site(context: SessionContext) -> SandboxContext:
    return SandboxContext(
        settings=context.settings.sandbox,
        environ=context.environ,
        tools=Toolchains() if context.settings.sandbox.level == "off" else context.find_tools(),
        home=Path.home(),
        repo_root=context.repo.root,
        objects=context.repo.objects,
        common=context.paths.state / "box",
        agents=context.settings.concurrency.development,
    )


def _list_frozen(context: SessionContext, base: str, checkout: Path) -> Iterator[str]:
    """Blocked files that exist: they are mounted read-only."""
    is_blocked = _build_name_judge(build_blocked_globs(context).patterns)
    yield from islice(filter(is_blocked, _list_files(context, base, checkout)), MAX_FROZEN)


@lru_cache(maxsize=4)
def _build_name_judge(blocked: tuple[str, ...]) -> Callable[[str], bool]:
    """Judge each name once in a session, not once in an attempt: a large repository has many."""
    globs = Globs(blocked)
    return lru_cache(maxsize=1 << 17)(lambda name: globs.touches(fold_text(name)))


def _list_files(context: SessionContext, base: str, checkout: Path) -> Iterable[str]:
    """Tracked files, and untracked ones at the top (.env), before the agent starts."""
    top = sorted(entry.name for entry in checkout.iterdir() if entry.is_file() and not entry.is_symlink())
    return dict.fromkeys((*list_tree_files(context.repo, base), *top))
