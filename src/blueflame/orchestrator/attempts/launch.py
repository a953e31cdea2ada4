"""Build what the engine runs for an attempt: program, prompt, environment, setup and limits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from blueflame.agents.runtime import AgentBrief, AgentLaunch, ResumingRuntime
from blueflame.git.blobs import read_files_at
from blueflame.model.attempt import COMMITTING, Attempt, Duty, Ending
from blueflame.model.ids import build_attempt_id
from blueflame.model.policy import ASK_TOOL
from blueflame.model.runtime_support import Enforcement, find_enforcement
from blueflame.model.schemas import OUTPUT_SCHEMAS, build_plan_schema
from blueflame.model.settings.fields import MAX_PERSONA_CHARS
from blueflame.orchestrator.attempts.curator import build_curator_prompt
from blueflame.orchestrator.attempts.lessons import word_shared_lessons
from blueflame.orchestrator.attempts.merger import build_merger_prompt
from blueflame.orchestrator.attempts.model_access import ModelAccess, build_model_access, find_gateway_port
from blueflame.orchestrator.attempts.planner import build_planner_prompt, is_interactive
from blueflame.orchestrator.attempts.triager import build_triager_prompt
from blueflame.orchestrator.attempts.validator import build_validator_prompt
from blueflame.orchestrator.attempts.walls import build_agent_walls, find_home, find_inner_path
from blueflame.orchestrator.attempts.worker import build_worker_prompt, find_start
from blueflame.orchestrator.context import SessionContext
from blueflame.orchestrator.engine.interface import AttemptSpec, SetupStep
from blueflame.orchestrator.prompts import build_system_prompt, clip_lines, describe_asking, render_persona
from blueflame.policy.compile import list_tools
from blueflame.policy.dialects import GEMINI, GEMINI_ASK
from blueflame.sandbox.environment import list_online_variables
from blueflame.session.clarifications import count_questions_left
from blueflame.session.from_settings import find_runtime_kind, list_role_skills
from blueflame.session.retries import KILL
from blueflame.session.state import Session
from blueflame.system.environment import build_worktree_variables
from blueflame.system.machine import FIRST_PORT, PORT_CEILING, find_port_block

PROMPT_BUILDERS = {
    Duty.SIZE: build_triager_prompt,
    Duty.PLAN: build_planner_prompt,
    Duty.JUDGE: build_validator_prompt,
    Duty.MERGE: build_merger_prompt,
    Duty.CURATE: build_curator_prompt,
}
BLOCKS_PER_SLOT = 5
MAX_SLOTS = 9  # 8 workers at most; with large blocks each has fewer of them, but no two share one
# What setup leaves is not the agent's work: `git add -A` must not commit it.
IGNORE_LEFTOVERS = (
    "git -c core.quotePath=false ls-files --others --exclude-standard --directory"
    r""" | sed 's/[][*?\\!# ]/\\&/g; s#^#/#' >> .git/info/exclude"""
)
SETUP_FUNCTION = """set_up() { printf '+ %s\\n' "$1"; /bin/sh -c "$1"; }\n"""  # prints each command before its output


def build_spec(context: SessionContext, session: Session, attempt: Attempt, checkout: Path, base: str) -> AttemptSpec:
    ports = _reserve_ports(context, attempt)
    folder = context.engine.stage(attempt.id)
    folder.mkdir(parents=True, exist_ok=True)
    port = find_gateway_port(context)
    brief = replace(
        _build_brief(context, session, attempt, find_inner_path(context, checkout), base, ports),
        ports=tuple(ports or ()),
        home=find_home(context, folder),
        gateway=f"http://127.0.0.1:{port}",
        token=f"bf-{token_hex(24)}",
    )
    launch = context.runtimes[attempt.runtime].prepare_launch(brief, directory=folder)
    timeout = _find_timeout(session, attempt, brief)
    access = _build_access(context, attempt, brief, launch, port=port, timeout=timeout) if launch.apis else None
    variables = _build_variables(context, session, attempt, brief.worktree, ports)
    walls = build_agent_walls(
        context, session, attempt, checkout=checkout, base=base, launch=launch, variables=variables, access=access
    )
    return AttemptSpec(
        attempt=attempt.id,
        argv=launch.argv,
        env=walls.env,
        limits=walls.limits,
        walls=walls.keys,
        cwd=str(checkout),
        prompt=launch.stdin,
        setup=_build_setup(context) if attempt.duty in COMMITTING else (),
        timeout=timeout,
        silence=_find_stall_timeout(context, brief),
        grace=context.settings.limits.kill_grace,
        secrets=access.secrets if access else {},
    )


def _find_timeout(session: Session, attempt: Attempt, brief: AgentBrief) -> float:
    """An interactive planner without a person has the time of its role."""
    timed_as_planned = brief.interactive == attempt.interactive
    return attempt.timeout if timed_as_planned else session.limits.get_timeout(attempt.role)


def _find_stall_timeout(context: SessionContext, brief: AgentBrief) -> float:
    """The warden ends silent agents only where limits.on_stall says so; else monitors/stalls reports them."""
    limits = context.settings.limits
    return limits.stall_timeout if limits.on_stall == KILL and not brief.interactive else 0.0


def _build_access(
    context: SessionContext, attempt: Attempt, brief: AgentBrief, launch: AgentLaunch, *, port: int, timeout: float
) -> ModelAccess:
    limits = context.settings.limits
    return build_model_access(
        context,
        attempt,
        launch,
        port=port,
        token=brief.token,
        places={"{{worktree}}": brief.worktree, "{{agent}}": brief.agent_id, "{{session}}": brief.session},
        web_search="WebSearch" in brief.tools,
        model=brief.model,
        silence=compute_silence(timeout, limits.stall_timeout if limits.on_stall != "warn" else 0.0),
    )


def _build_variables(
    context: SessionContext, session: Session, attempt: Attempt, inside: str, ports: range | None
) -> Mapping[str, str]:
    return build_worktree_variables(
        root=context.repo.root,
        worktree=inside,
        branch=attempt.branch or "",
        session=session.id,
        task=attempt.subject,
        base_branch=session.base_branch,
        agent=attempt.agent_id,
        role=attempt.role,
        ports=ports,
    )


def compute_silence(timeout: float, stall_timeout: float) -> float:
    """Compute after how many seconds a provider's silence is its own and no longer the agent's: before it would be used
    against the agent, by its time limit or as a stall. 0: neither is limited."""
    return min((part for part in (timeout / 4, stall_timeout / 2) if part), default=0.0)


def _build_setup(context: SessionContext) -> tuple[SetupStep, ...]:
    """One step, because the commands share one time limit; each still has its own shell."""
    worktree = context.settings.worktree
    if not worktree.setup:
        return ()
    command = " && ".join([*(f"set_up {shlex.quote(each)}" for each in worktree.setup), IGNORE_LEFTOVERS])
    online = list_online_variables(context.find_tools(), context.environ) if worktree.registries else {}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in online.items())
    return (SetupStep(name="setup", command=exports + SETUP_FUNCTION + command, timeout=worktree.setup_timeout),)


def _build_brief(  # noqa: PLR0917 (an attempt is built in one place, of all that it needs)
    context: SessionContext, session: Session, attempt: Attempt, inside: str, base: str, ports: range | None
) -> AgentBrief:
    record, talks = session.tasks.get(attempt.subject), is_interactive(context, attempt)
    if attempt.duty is Duty.MAKE:
        prompt = build_worker_prompt(context, session, attempt, base, ports)
    else:
        prompt = PROMPT_BUILDERS[attempt.duty](context, session, attempt, base)
    system = build_system_prompt(
        attempt.role,
        duty=attempt.duty,
        interactive=talks,
        timeout=attempt.timeout,
        budget=attempt.budget,
        persona=fill_persona(context, session, attempt),
        asking=_describe_asking(context, session, attempt),
        shared=word_shared_lessons(context, session),
    )
    return AgentBrief(
        attempt=attempt.id,
        agent_id=attempt.agent_id,
        role=attempt.role,
        declared_duty=attempt.duty,
        subject=attempt.subject,
        n=attempt.n,
        session=session.id,
        worktree=inside,
        prompt=_word_request(session.request) if talks else prompt,
        model=attempt.model,
        schema=_find_schema(session, attempt.duty),
        base=base,
        branch=attempt.branch or "",
        request=session.request,
        task=record.task if record else None,
        allowed_paths=session.limits.allowed_paths,
        watched=True,
        tools=list_tools(context.settings.permissions, context.settings.roles.get(attempt.role)),
        system="\n\n".join([system, prompt] if talks else [system]),
        budget=attempt.budget,
        skills=list_role_skills(context.settings, attempt.role),
        interactive=talks,
        conversation=_find_conversation(context, session, attempt, base),
        questions=_count_questions(context, session, attempt),
        seat=attempt.seat,
        ad_hoc=attempt.ad_hoc,
    )


def _find_schema(session: Session, duty: Duty) -> Mapping[str, Any] | None:
    if duty is Duty.PLAN:
        return build_plan_schema(session.limits.task_models, tuple(session.limits.task_workflows))
    return OUTPUT_SCHEMAS.get(duty)


def _describe_asking(context: SessionContext, session: Session, attempt: Attempt) -> str:
    """By the tool, or else as an ending: not if its program holds it to a schema."""
    kind = find_runtime_kind(context.settings, attempt.runtime)
    if left := _count_questions(context, session, attempt):
        return describe_asking(left, tool=GEMINI_ASK if kind == GEMINI else ASK_TOOL)
    free = attempt.duty not in OUTPUT_SCHEMAS or find_enforcement(kind, "structured_output") is Enforcement.DETECTED
    return describe_asking(count_questions_left(session, attempt.subject) if free else 0)


def _count_questions(context: SessionContext, session: Session, attempt: Attempt) -> int:
    """Count how many questions it may ask by the tool: none where its program cannot be given one."""
    kind = find_runtime_kind(context.settings, attempt.runtime)
    can_ask = find_enforcement(kind, "questions") is not Enforcement.IMPOSSIBLE
    talks = is_interactive(context, attempt)
    return count_questions_left(session, attempt.subject) if can_ask and not talks else 0


def fill_persona(context: SessionContext, session: Session, attempt: Attempt) -> str:
    role = context.settings.roles.get(attempt.role)
    if role is None:
        return ""
    values = {
        "role": attempt.role,
        "task": attempt.subject,
        "session": session.id,
        "project": session.project,
        "base_branch": session.base_branch,
    }
    own = render_persona(role.persona, values) if role.persona else ""
    return "\n\n".join(filter(None, (own, _read_persona_file(context, session, role.persona_file))))


def _read_persona_file(context: SessionContext, session: Session, path: str | None) -> str:
    """As the base branch has it: never from a checkout, where an agent can write."""
    found = read_files_at(context.repo, session.base_sha, (path,)).get(path, b"") if path else b""
    return clip_lines(found.decode("utf-8", "replace").strip(), MAX_PERSONA_CHARS).text


def _find_conversation(
    context: SessionContext, session: Session, attempt: Attempt, base: str
) -> tuple[Mapping[str, Any], ...]:
    """The conversation of the attempt before, when its work is continued and the same runtime can continue both; or
    that of its seat (session/team/conversations)."""
    before = session.attempts.get(build_attempt_id(session.id, attempt.subject, attempt.label, attempt.n - 1))
    runtime = context.runtimes[attempt.runtime]
    if not isinstance(runtime, ResumingRuntime):
        return ()
    if attempt.allocation is not None and attempt.allocation.continues:
        return runtime.read_conversation(context.engine.mirror(attempt.allocation.continues))
    if before is None or before.attempt.runtime != attempt.runtime:
        return ()
    asked = before.ended is not None and before.ended.ending is Ending.QUESTION  # perhaps before it changed anything
    if not asked and (attempt.continues is None or find_start(context.repo, attempt, base).tree == base):
        return ()
    return runtime.read_conversation(context.engine.mirror(before.attempt.id))


def _word_request(request: str) -> str:
    """The person's first message in a conversation; one that begins with / ! # or @ would be taken for a command."""
    text = request.strip()
    return text if text[:1].isalnum() else f"My request: {text}"


def _reserve_ports(context: SessionContext, attempt: Attempt) -> range | None:
    """Each slot has its own range of blocks; take the first block on whose ports no process listens."""
    size = context.settings.worktree.ports_per_worktree
    if not size or attempt.duty not in COMMITTING:
        return None
    blocks = (PORT_CEILING - FIRST_PORT) // size
    region = max(1, min(BLOCKS_PER_SLOT, blocks // MAX_SLOTS))
    first = attempt.slot * region % blocks
    return find_port_block(size=size, base=FIRST_PORT + first * size, ceiling=FIRST_PORT + (first + region) * size)
