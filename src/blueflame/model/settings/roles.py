"""Roles, runtimes and workflows as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from blueflame.model.attempt import COMMITTING, USUAL_ROLES, Duty
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.settings.built_in import (
    BUILT_IN_PIPELINES,
    BUILT_IN_ROLES,
    BUILT_IN_WORKFLOWS,
    LEAD,
    PIPELINE,
    READ_ONLY_TOOLS,
)
from blueflame.model.settings.fields import (
    Command,
    Duration,
    InvalidValue,
    InvalidValues,
    Persona,
    RepositoryPath,
    RoleName,
    Section,
    Text,
    VariableName,
    build_tuple_field,
)
from blueflame.model.settings.notifications import URL_HINT, find_url_problem
from blueflame.model.suggestions import suggest
from blueflame.model.workflow import STAGE_DUTIES

STAGES = tuple(STAGE_DUTIES)

if TYPE_CHECKING:
    SelectableRuntime: TypeAlias = str
else:  # a Literal made of the table's names: mypy takes only literal ones
    SelectableRuntime = Literal[*(name for name in RUNTIMES if name != "scripted")]

CORE_ROLES = (*USUAL_ROLES.values(), LEAD)


class RuntimeSettings(Section):
    command: Command | None = None
    """The program that drives the agent; left out, the runtime knows its own."""
    args: tuple[str, ...] = build_tuple_field()
    """Arguments put before those that the runtime adds itself."""
    env: Mapping[VariableName, str] = Field(default_factory=dict)
    """Environment variables for the agent. No secrets: this file is committed."""
    script: Text | None = None
    """Only for `scripted`: the file that says what the agents do, relative to this file. `--script` overrides it."""
    kind: SelectableRuntime | None = None
    """For a runtime with a name of your own: which built-in one drives it."""
    credential: Literal["auto", "environment", "login", "none"] = "auto"
    """What the gateway adds to model calls, outside of the sandbox: a key from your environment (ANTHROPIC_API_KEY and
    the like), else your login; only one of the two; or nothing."""
    upstream: Text | None = None
    """Where model calls go: https, or http on this machine only. Left out, as your environment says (ANTHROPIC_BASE_URL
    and the like), else the vendor's."""
    plugins: tuple[Text, ...] = build_tuple_field()
    """Folders of plugins for the agent, outside of the repository."""

    @field_validator("upstream")
    @classmethod
    def _is_encrypted(cls, upstream: str | None) -> str | None:
        """It gets the person's key."""
        if upstream is not None and (problem := find_url_problem(upstream)):
            raise InvalidValue(problem, URL_HINT)
        return upstream


class RoleSettings(Section):
    duty: Literal["size", "plan", "make", "judge", "merge", "curate"] = "make"
    """What the role is for: `plan` answers with a plan, `make` commits, `judge` answers with a verdict on a commit,
    `merge` resolves a conflict, `size` answers how large a request is, when `planning.triage` cannot say it."""
    persona: Persona | None = None
    """Who the agent is and what it looks at, in your words, added to its instructions. $role, $task, $session, $project
    and $base_branch stand for their values; $$ is a dollar sign."""
    persona_file: RepositoryPath | None = None
    """A file of the repository with more of it, word for word as the base branch has it; it need not exist yet.
    `blueflame memory propose --role` adds lessons to it, and they land only where you approve the changeset."""
    runtime: Text | None = None
    """How the agent is driven: scripted, claude, codex, gemini, opencode, acp, tmux, command, subagent, or a name under
    `runtimes`; left out, scripted when there is a script, else claude."""
    model: Text = "sonnet"
    """The model, in the runtime's own words."""
    timeout: Duration | None = None
    """Wall-clock limit of one attempt; left out, `limits.agent_timeout`, but 10 minutes at most
    for a role that judges. An interactive planner has none."""
    budget_usd: float = Field(default=5.00, ge=0, le=1_000_000)
    """What one attempt may cost in dollars; 0 = unlimited. Setting only budget_tokens switches this off."""
    budget_tokens: int = Field(default=0, ge=0, le=10**12)
    """What one attempt may use in tokens; 0 = unlimited. Only one of the two units can be set."""
    skills: tuple[Text, ...] = build_tuple_field()
    """Skills for this role besides `superpowers.skills`."""
    tools: tuple[Text, ...] | None = Field(default=None, strict=False)
    """Tools this role may use, out of `permissions.allowed_tools`; left out, all of those, but for a role that sizes,
    plans or judges Read, Glob, Grep and Bash."""

    @property
    def offered_tools(self) -> tuple[str, ...] | None:
        """The tools that it names, or those of its duty; None for all that are allowed."""
        only_reads = Duty(self.duty) not in COMMITTING
        return READ_ONLY_TOOLS if self.tools is None and only_reads else self.tools

    @model_validator(mode="before")
    @classmethod
    def _explicit_tokens_replace_the_default_in_dollars(cls, data: object) -> object:
        return drop_default_usd_limit(data, usd="budget_usd", tokens="budget_tokens")

    @model_validator(mode="after")
    def _not_both_units(self) -> RoleSettings:
        refuse_both_units(self.budget_usd, self.budget_tokens, tokens="budget_tokens")
        return self


class RungSettings(Section):
    """One rung of a ladder: who tries a task next."""

    model: Text | None = None
    """The model, in the runtime's own words; left out, that of the role, or of a role with this runtime."""
    runtime: Text | None = None
    """How the agent is driven; left out, as the role says."""

    @model_validator(mode="after")
    def _changes_something(self) -> RungSettings:
        if self.model is None and self.runtime is None:
            raise InvalidValue("names neither a model nor a runtime", "write {model: NAME} or {runtime: NAME}")
        return self


class WorkflowSettings(Section):
    stages: tuple[RoleName, ...] = Field(strict=False, min_length=1)
    """In order: plan, work, check, validate, merge, or the name of a role for what its duty says. A role may occur more
    than once. Without merge at the end it is added: what has passed all stages lands."""
    barrier: bool = False
    """true: every task waits at the end of a stage for all others. false: a task moves on as soon as it may."""
    role: RoleName | None = None
    """Who does the `work` stage; left out, worker."""
    review_threshold: float | None = Field(default=None, ge=0, le=1)
    """The confidence that an agent's verdict must have to pass (inclusive); a verdict without one counts as 0.
    Left out, as in workflow `default` of the file, else none is needed."""
    max_retries: int | None = Field(default=None, ge=0, le=100)
    """Retries per task; left out, as in workflow `default` of the file, else `limits.max_retries`."""
    retry_backoff_base_ms: int | None = Field(default=None, ge=0, le=86_400_000)
    """Milliseconds before the first retry of a task, doubled for each further one; other work goes on meanwhile.
    Left out, as in workflow `default` of the file, else 0: at once."""
    escalate: tuple[RungSettings, ...] | None = Field(default=None, strict=False, max_length=20)
    """The ladder: who tries a task after its retries, one rung at a time, such as {model: opus}, {runtime: codex}.
    Then a person is asked. Left out, as in workflow `default` of the file, else none."""
    database_first: bool | None = None
    """true puts a `database` stage before the first `backend`; left out, as in workflow `default` of the file."""


def is_planned(workflow: WorkflowSettings, roles: Mapping[str, RoleSettings]) -> bool:
    return begins_with(Duty.PLAN, workflow, roles)


def begins_with(duty: Duty, workflow: WorkflowSettings, roles: Mapping[str, RoleSettings]) -> bool:
    first = workflow.stages[0]
    return STAGE_DUTIES.get(first) is duty or (first in roles and roles[first].duty == duty)


def drop_default_usd_limit(data: object, *, usd: str, tokens: str) -> object:
    """A limit in tokens that is written in the file switches off the default limit in dollars."""
    if isinstance(data, dict) and data.get(tokens) and usd not in data:
        return {**data, usd: 0}
    return data


def refuse_both_units(in_usd: float, in_tokens: int, *, tokens: str) -> None:
    if in_usd and in_tokens:
        raise InvalidValue(
            "a limit in dollars and a limit in tokens are both set",
            "keep one of the two and set the other to 0: a budget has one unit",
            at=(tokens,),
            got=f"${in_usd:g} and {in_tokens} tokens",
        )


def add_built_in_roles(given: object) -> object:
    if isinstance(given, dict):
        given = {
            name: drop_default_usd_limit(role, usd="budget_usd", tokens="budget_tokens") for name, role in given.items()
        }
    return overlay_built_ins(given, BUILT_IN_ROLES)


def read_workflows(given: object, read: ValidatorFunctionWrapHandler) -> Mapping[str, WorkflowSettings]:
    """Read the workflows of a file with the built-in ones; each takes what it does not set from `default`.

    The built-in `default` is not of the file: only the built-in pipelines take anything from it.
    """
    workflows: Mapping[str, WorkflowSettings] = read(overlay_built_ins(given, _BUILT_IN, replaces=_replace_stages))
    written = given if isinstance(given, dict) else {}
    default, of_file = workflows[PIPELINE], _list_keys(written.get(PIPELINE))
    return {
        name: _inherit(workflow, default, INHERITED if _is_built_in(name, written) else INHERITED & of_file)
        for name, workflow in workflows.items()
    }


INHERITED = frozenset({"review_threshold", "max_retries", "retry_backoff_base_ms", "escalate", "database_first"})
_BUILT_IN = {**BUILT_IN_WORKFLOWS, **BUILT_IN_PIPELINES}


def _is_built_in(name: str, written: Mapping[str, object]) -> bool:
    return name in BUILT_IN_PIPELINES and "stages" not in _list_keys(written.get(name))


def _list_keys(entry: object) -> frozenset[str]:
    return frozenset(entry) if isinstance(entry, dict) else frozenset()


def _inherit(workflow: WorkflowSettings, default: WorkflowSettings, keys: frozenset[str]) -> WorkflowSettings:
    """Set every inherited key, also to none: read again, the workflow takes nothing more."""
    missing = INHERITED - workflow.model_fields_set
    return workflow.model_copy(update={key: getattr(default, key) if key in keys else None for key in missing})


def _replace_stages(entry: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a built-in pipeline asks for holds for its own stages; with others it is a workflow of the user's own."""
    kept = {key: value for key, value in entry.items() if "stages" not in given or key not in INHERITED}
    return {**kept, **given}


def _replace_values(entry: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Null is as left out."""
    return {**entry, **{key: value for key, value in given.items() if value is not None or key not in entry}}


def overlay_built_ins(
    given: object,
    built_in: Mapping[str, Mapping[str, Any]],
    *,
    replaces: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]] = _replace_values,
) -> object:
    """The built-in entries, each overridden key by key by what is written in the file; then the other entries."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        return given
    both = {name: _overlay_entry(entry, given.get(name), replaces) for name, entry in built_in.items()}
    return both | {name: entry for name, entry in given.items() if name not in built_in}


def _overlay_entry(
    entry: Mapping[str, Any],
    given: object,
    replaces: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]],
) -> object:
    if given is None:
        return dict(entry)
    return replaces(entry, given) if isinstance(given, dict) else given


def refuse_unknown_runtimes(roles: Mapping[str, RoleSettings], known: tuple[str, ...]) -> None:
    wrongs = tuple(
        _describe_unknown_runtime((name, "runtime"), runtime, known)
        for name, role in roles.items()
        if (runtime := role.runtime) is not None and runtime not in known
    )
    if wrongs:
        raise InvalidValues(wrongs)


def refuse_unknown_rungs(workflows: Mapping[str, WorkflowSettings], known: tuple[str, ...]) -> None:
    wrongs = tuple(
        _describe_unknown_runtime((name, "escalate", n, "runtime"), rung.runtime, known)
        for name, workflow in workflows.items()
        for n, rung in enumerate(workflow.escalate or ())
        if rung.runtime is not None and rung.runtime not in known
    )
    if wrongs:
        raise InvalidValues(wrongs)


def _describe_unknown_runtime(place: tuple[str | int, ...], runtime: str, known: tuple[str, ...]) -> InvalidValue:
    hint = f"{suggest(runtime, known)} Use one of {', '.join(known)}, or add it under runtimes".lstrip()
    return InvalidValue("unknown runtime", hint, at=place, got=runtime)


def refuse_changed_duties(roles: Mapping[str, RoleSettings]) -> None:
    """What is decided about plan, work, validate and merge relies on the duties of the built-in roles."""
    wrongs = tuple(
        InvalidValue(f"is not the duty of {name}", f"write {usual}, or give another role that duty", at=place, got=duty)
        for name, usual, place in ((name, BUILT_IN_ROLES[name]["duty"], (name, "duty")) for name in CORE_ROLES)
        if name in roles and (duty := roles[name].duty) != usual
    )
    if wrongs:
        raise InvalidValues(wrongs)


def refuse_bad_stages(workflows: Mapping[str, WorkflowSettings], roles: Mapping[str, RoleSettings]) -> None:
    wrongs = tuple(wrong for name, workflow in workflows.items() for wrong in _list_wrong_stages(name, workflow, roles))
    if wrongs:
        raise InvalidValues(wrongs)


def _list_wrong_stages(
    name: str, workflow: WorkflowSettings, roles: Mapping[str, RoleSettings]
) -> Iterator[InvalidValue]:
    duties = {**{role: Duty(each.duty) for role, each in roles.items()}, **STAGE_DUTIES}
    unknown = [(place, each) for place, each in _list_named_roles(name, workflow) if each not in duties]
    for place, each in unknown:
        hint = suggest(each, (*roles, *STAGES)) or f"Add it under roles, with its duty: {', '.join(Duty)}"
        yield InvalidValue("is neither a stage nor a role", hint, at=place, got=each)
    if workflow.role in duties and duties[workflow.role] is not Duty.MAKE:
        wrong = f"has the duty {duties[workflow.role]}, and the work stage commits"
        yield InvalidValue(wrong, "name a role with duty make", at=(name, "role"), got=workflow.role)
    if not unknown:
        yield from _check_order(name, workflow.stages, [duties[stage] for stage in workflow.stages])


def _check_order(name: str, stages: Sequence[str], duties: Sequence[Duty]) -> Iterator[InvalidValue]:
    """A plan comes first and a merge last; what is judged must have been made before."""
    begun = False
    for n, (stage, duty) in enumerate(zip(stages, duties, strict=True)):
        place = (name, "stages", n)
        if duty is Duty.SIZE:
            hint = "remove it: planning.triage decides when it is asked"
            yield InvalidValue("sizes, which is no stage", hint, at=place, got=stage)
        if duty is Duty.CURATE and len(stages) > 1:
            hint = "remove the others: it changes no file of the repository"
            yield InvalidValue("curates, and is not the only stage", hint, at=place, got=stage)
        if duty is Duty.PLAN and n:
            hint = "put it first: the others work on its tasks"
            yield InvalidValue("plans, but is not the first stage", hint, at=place, got=stage)
        if duty is Duty.MERGE and n < len(stages) - 1:
            hint = "put it last: it lands what others made"
            yield InvalidValue("merges, but is not the last stage", hint, at=place, got=stage)
        if duty is Duty.JUDGE and not begun:
            yield InvalidValue(
                "judges, but nothing is made before it",
                "put work, or a role with duty make, before it",
                at=place,
                got=stage,
            )
        begun = begun or duty is Duty.MAKE
    if not begun and not {Duty.JUDGE, Duty.CURATE} & set(duties):
        yield InvalidValue(
            "has no stage that makes anything",
            "add work, or a role with duty make",
            at=(name, "stages"),
            got=list(stages),
        )


def _list_named_roles(name: str, workflow: WorkflowSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    yield from (((name, "stages", n), stage) for n, stage in enumerate(workflow.stages))
    if workflow.role:
        yield (name, "role"), workflow.role
