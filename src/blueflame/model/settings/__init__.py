"""The whole of blueflame.yaml, schema version 2, as one typed object.

Built once, by `config/`. Every field is described here and nowhere else: the reference and the JSON schema are
generated from these sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, WrapValidator, field_validator, model_validator

from blueflame.model.attempt import Duty
from blueflame.model.limits import MAX_WORKERS
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.settings.fields import (
    Command,
    Duration,
    DurationOrOff,
    Globs,
    HookCommand,
    InvalidValue,
    InvalidValues,
    Label,
    RegistryName,
    RoleName,
    Section,
    Text,
    build_tuple_field,
)
from blueflame.model.settings.landing import CommitSettings, LandingSettings, MergingSettings
from blueflame.model.settings.mirrors import MirrorUrl
from blueflame.model.settings.notifications import NotifierSettings
from blueflame.model.settings.permissions import PermissionSettings, SandboxSettings, ValidationSettings
from blueflame.model.settings.roles import (
    RoleSettings,
    RuntimeSettings,
    WorkflowSettings,
    add_built_in_roles,
    begins_with,
    drop_default_usd_limit,
    is_planned,
    read_workflows,
    refuse_bad_stages,
    refuse_both_units,
    refuse_changed_duties,
    refuse_unknown_rungs,
    refuse_unknown_runtimes,
)
from blueflame.model.suggestions import suggest

SCHEMA_VERSION = 2
INVALID_BRANCH_NAME = re.compile(r"^[-/]|[\s~^:?*\[\\\x7f]|\.\.|@\{|//|/$|\.$|\.lock(/|$)|(^|/)\.")


class ProjectSettings(Section):
    name: Text
    """What the project is called."""
    repo: Text = "."
    """The git repository, relative to this file; left out, the folder of this file."""
    base_branch: Text = "main"
    """The branch that work starts from and lands on."""
    worktree_dir: Text = ".trees"
    """Where agents' checkouts are kept, relative to the repository."""
    tasks_file: Text = ".blueflame/tasks.yaml"
    """Where the tasks are exported to, relative to the repository."""

    @field_validator("base_branch")
    @classmethod
    def _a_branch_name(cls, name: str) -> str:
        if INVALID_BRANCH_NAME.search(name):
            raise InvalidValue("is not a name that git allows for a branch", "write a branch such as main")
        return name

    @field_validator("worktree_dir", "tasks_file")
    @classmethod
    def _not_the_repository_itself(cls, path: str) -> str:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not parts or parts[0] == ".git":
            raise InvalidValue("is the repository itself or its .git", "write a separate path, such as .trees")
        return path

    @field_validator("tasks_file")
    @classmethod
    def _inside_the_repository(cls, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/") or path.endswith("/"):
            raise InvalidValue(
                "is not a file in the repository", "write a relative path, such as .blueflame/tasks.yaml"
            )
        return path


class ConcurrencySettings(Section):
    planning: Literal[1] = 1
    """Planners at once: always 1."""
    development: int = Field(default=4, ge=1, le=MAX_WORKERS)
    """Workers at once, 1 to 8."""
    validation: int = Field(default=2, ge=1, le=8)
    """Validators at once, 1 to 8."""
    merge: Literal[1] = 1
    """Mergers at once: always 1."""
    adaptive: bool = True
    """Start fewer agents when memory is short."""
    adaptive_min_ram_per_agent_mb: int = Field(default=600, ge=1, le=10**8)
    """Free memory that each agent needs."""


class LimitSettings(Section):
    agent_timeout: Duration = 1800.0
    """Wall-clock limit of one attempt, for roles that do not set their own."""
    heartbeat_interval: Duration = 30.0
    """How often running agents are checked."""
    stall_timeout: DurationOrOff = 120.0
    """An agent without output for this long counts as stalled; 0 = never."""
    on_stall: Literal["warn", "ask", "kill"] = "warn"
    """What happens to a stalled agent: warn and wait, ask a person, or end it and retry its task."""
    kill_grace: DurationOrOff = 10.0
    """Time between asking an agent to end (TERM) and ending it (KILL)."""
    max_retries: int = Field(default=2, ge=0, le=100)
    """Retries of a task whose attempt failed."""
    max_attempts: int | None = Field(default=None, ge=1, le=1000)
    """Attempts at one task that may fail or be sent back in the whole session, whatever was answered in between; then
    a person is asked before each further one. Left out, twice as many as its retries and its ladder allow in a row."""
    retry_from: Literal["continue", "scratch"] = "continue"
    """Where a task that is tried again starts: continue, from its own commits and what was not committed yet; scratch,
    from the base. After a violation it always starts from the base."""
    max_wave_cycles: int = Field(default=5, ge=1, le=1000)
    """Cycles of plan, work, validate and merge before a session stops."""
    max_history: int = Field(default=10, ge=1, le=1000)
    """Earlier attempts that a task remembers."""
    max_session_cost_usd: float = Field(default=30.0, ge=0, le=10_000_000)
    """What a session may cost in dollars; 0 = unlimited. Setting only max_session_tokens switches this off."""
    max_session_tokens: int = Field(default=0, ge=0, le=10**13)
    """What a session may use in tokens; 0 = unlimited. Only one of the two units can be set."""
    max_task_cost_usd: float = Field(default=0.0, ge=0, le=10_000_000)
    """What all attempts at one task, its reviews included, may cost in dollars; 0 = no separate limit."""
    max_task_tokens: int = Field(default=0, ge=0, le=10**13)
    """What they may use in tokens; 0 = no separate limit. Only one of the two units can be set."""
    max_day_cost_usd: float = Field(default=0.0, ge=0, le=10_000_000)
    """What all sessions of this repository may cost in dollars from midnight to midnight; 0 = unlimited."""
    max_day_tokens: int = Field(default=0, ge=0, le=10**13)
    """What they may use in tokens; 0 = unlimited. Only one of the two units can be set."""
    warn_threshold: float = Field(default=0.8, gt=0, le=1)
    """The part of a budget at which a warning is given."""
    rate_limit_wait: DurationOrOff = 6 * 3600.0
    """How long an agent waits when it is rate-limited by the provider; then a person is asked."""
    outage_wait: DurationOrOff = 1800.0
    """How long an agent waits when the model cannot be reached: overloaded, failing, no network."""

    @model_validator(mode="before")
    @classmethod
    def _explicit_tokens_replace_the_default_in_dollars(cls, data: object) -> object:
        return drop_default_usd_limit(data, usd="max_session_cost_usd", tokens="max_session_tokens")

    @model_validator(mode="after")
    def _not_both_units(self) -> LimitSettings:
        refuse_both_units(self.max_session_cost_usd, self.max_session_tokens, tokens="max_session_tokens")
        refuse_both_units(self.max_task_cost_usd, self.max_task_tokens, tokens="max_task_tokens")
        refuse_both_units(self.max_day_cost_usd, self.max_day_tokens, tokens="max_day_tokens")
        return self


class PlanningSettings(Section):
    interactive: bool = True
    """true: the planner talks with the person before it plans. false: one shot."""
    workflow: Label = "waves"
    """The workflow of a session when the command line names none; with triage, that of requests which need a plan."""
    triage: Literal["auto", "code", "suggest", "off"] | None = None
    """auto: size each request, by code and, where that is not sure, by an agent (role triager), and run small ones
    without a plan (direct, single); code: never ask an agent; suggest: only say what the size is; off: neither.
    Left out: suggest where `workflow` is written, else auto."""
    tier_1: Label = "direct"
    """The workflow of requests of tier 1: an obvious change in one place. It has no plan."""
    tier_2: Label = "single"
    """The workflow of requests of tier 2: one part of the code, clear in scope. It has no plan."""
    workflows: tuple[Label, ...] = build_tuple_field()
    """Workflows that a plan may choose for a task instead of the session's; only where that has no barrier (flow)."""
    models: tuple[Text, ...] = build_tuple_field()
    """Models that a plan may choose for a task, in the runtime's own words; the plan gate shows each choice."""


class ScheduleSettings(Section):
    dependents: Literal["reviewed", "passed"] | None = None
    """When a task that depends on another may start: reviewed, after the other's verdict; passed, at once, on a result
    that may still be rejected. Left out: reviewed in workflows with a barrier and a review (waves), else passed."""


class GateSettings(Section):
    on_validation_failed: Literal["ask", "requeue", "drop"] = "ask"
    """What happens to a task whose verdict is fail: ask a person, send it back with the notes, or drop it."""
    validator_retries: int = Field(default=1, ge=0, le=100)
    """Retries when a validator itself fails, before a person is asked."""
    on_exhausted: Literal["ask", "fail"] = "ask"
    """What happens to a task that failed and has no retry left: ask a person, or let it fail."""
    on_rate_limit: Literal["wait", "ask"] = "wait"
    """What happens when the provider limits the rate: wait until the limit ends, or ask a person."""
    on_overlap: Literal["warn", "ask", "off"] = "warn"
    """What happens when two running agents change the same file: warn, ask a person, or do not check."""
    max_questions: int = Field(default=3, ge=0, le=100)
    """Questions that the agents of one task may ask a person; 0 = agents decide themselves."""
    question_wait: DurationOrOff = 1800.0
    """How long a question waits for an answer; then the agent continues with its best guess, and the changeset says
    so. 0 = without limit."""
    max_replans: int = Field(default=3, ge=0, le=100)
    """Re-plans in a row before writing the plan by hand is suggested."""


def _wrap_single_command(value: object) -> object:
    return ([value] if value else []) if isinstance(value, str) else value


class WorktreeSettings(Section):
    setup: Annotated[tuple[Command, ...], BeforeValidator(_wrap_single_command)] = build_tuple_field()
    """A command, or a list of them, that prepares a fresh checkout (npm ci, uv sync) before the agent starts."""
    registries: tuple[RegistryName, ...] = build_tuple_field()
    """Package registries that setup commands may reach, and agents may not: npm, pypi, crates, go, maven, rubygems,
    packagist, nuget, hex, pub, clojars, or the name of a host."""
    setup_timeout: Duration = 600.0
    """Limit for all setup commands of one checkout together."""
    ports_per_worktree: int = Field(default=10, ge=0, le=1000)
    """Free ports reserved for each checkout and given to it in its environment; 0 = none."""
    include: Text = ".worktreeinclude"
    """File that lists, as globs, untracked files to copy into each checkout (.env.test, local settings)."""


class InstructionSettings(Section):
    enabled: bool = True
    """Whether every agent is given the instructions that the repository itself has, read from the base branch."""
    files: tuple[Text, ...] = build_tuple_field(("AGENTS.md", "CLAUDE.md"))
    """The names of the files with instructions: at the top, and in the folders that a task works in."""
    max_bytes: int = Field(default=32_768, ge=1, le=1_000_000)
    """How much of them goes into a prompt; what does not fit is named, for the agent to read itself."""


class SuperpowersSettings(Section):
    enabled: bool = True
    """Whether agents are given the skills of `plugin`; without a plugin there are none."""
    skills: tuple[Text, ...] = build_tuple_field(
        ("test-driven-development", "systematic-debugging", "requesting-code-review", "brainstorming", "writing-plans")
    )
    """The skills; brainstorming and writing-plans are the planner's."""
    plugin: Text | None = None
    """The folder of the plugin that has them, outside of the repository; left out, no skills are loaded."""


class Price(Section):
    input: float = Field(ge=0, le=1_000_000)
    """Dollars for a million tokens that the model reads."""
    output: float = Field(ge=0, le=1_000_000)
    """Dollars for a million tokens that it writes."""
    cache_read: float | None = Field(default=None, ge=0, le=1_000_000)
    """Dollars for a million tokens read from its cache; left out, as `input`."""
    cache_write: float | None = Field(default=None, ge=0, le=1_000_000)
    """Dollars for a million tokens written to its cache; left out, as `input`."""
    cache_write_1h: float | None = Field(default=None, ge=0, le=1_000_000)
    """The same for an hour's cache; left out, as `cache_write`."""


class DecayPolicy(Section):
    summarize_after_sessions: int = Field(default=3, ge=1, le=10_000)
    """Closed tasks older than this many sessions are summarised."""
    preserve_failures_sessions: int = Field(default=5, ge=1, le=10_000)
    """What failed is kept in full for this many sessions."""


class BeadsSettings(Section):
    enabled: bool = True
    """Whether sessions are remembered."""
    archive_after_wave: bool = True
    """Write to memory after each wave."""
    include_failure_notes: bool = True
    """Remember why attempts failed."""
    memory_decay: bool = True
    """Let old memories fade."""
    decay_policy: DecayPolicy = Field(default_factory=DecayPolicy)
    """How they fade."""


class MemorySettings(Section):
    provider: Literal["builtin", "beads", "none"] = "builtin"
    """Where: builtin, in .blueflame/memory.db; beads, mirrored to Beads through `bd` as well; none, nowhere."""
    context_tokens: int = Field(default=8_000, ge=0, le=15_000)
    """How much of it a planner gets at most; 0 = nothing."""
    lesson_tokens: int = Field(default=1_500, ge=0, le=15_000)
    """How much of it any other agent gets at most, about its own work; 0 = nothing."""
    shared_tokens: int = Field(default=1_500, ge=0, le=15_000)
    """How much of what people said about the whole project all agents get at most; 0 = nothing."""
    control_every: int = Field(default=10, ge=0, le=1_000)
    """One lesson in so many is left out of a prompt, to see whether it helps; 0 = never."""
    codebase_tokens: int = Field(default=3_000, ge=0, le=15_000)
    """Maximum size of the code map that a planner gets; 0 = none."""
    stale_commits: int = Field(default=20, ge=0)
    """A lesson is stale when more commits than this changed its files since, archived at twice as many; 0 = never."""
    mirrors: tuple[MirrorUrl, ...] = Field(default=(), strict=False, max_length=8)
    """Redis servers that get a copy: redis://, rediss:// or unix://, or env:NAME for one in an environment variable."""
    sync_after_tasks: int = Field(default=5, ge=0, le=1_000)
    """Save and mirror after so many landed or failed tasks; 0 = only when a cycle, a session or the process ends."""
    bd: Text = "bd"
    """The program of Beads."""
    bd_timeout: Duration = 20.0
    """Limit for each call of `bd`; if it takes longer, it is not used until the next session."""


class SeatSettings(Section):
    conversation: bool = True
    """Whether a seat continues its conversation with its next task, where its runtime can: of the same domain and
    session, and only if what it made is part of what the next task starts from."""
    context_tokens: int = Field(default=40_000, ge=1, le=10**6)
    """A longer conversation ends: the next task begins without it."""
    tasks: int = Field(default=6, ge=1, le=1_000)
    """Tasks of one conversation; with the last one the agent is asked what it has learned."""
    max_age: Duration = 3600.0
    """A conversation that began longer ago ends."""


class HookSettings(Section):
    post_plan: HookCommand = ""
    """Command run after a plan is approved; empty = off. All hooks get JSON on stdin."""
    pre_validation: HookCommand = ""
    """Command run before validation; a non-zero exit code vetoes."""
    post_merge: HookCommand = ""
    """Command run after a landing."""
    on_failure: HookCommand = ""
    """Command run when a task fails."""
    timeout: Duration = 60.0
    """Limit for each hook."""


class CleanupSettings(Section):
    log_max_age: DurationOrOff = 30 * 86_400.0
    """Logs older than this are removed by `blueflame cleanup`; 0 = never."""
    stale_worktrees: Literal["clean", "ask", "warn"] = "warn"
    """Checkouts that a crash left behind, found at the start: remove them, ask, or only warn."""


def _list_runtimes(own: Mapping[str, RuntimeSettings]) -> tuple[str, ...]:
    return (*RUNTIMES, *(name for name in own if name not in RUNTIMES))


class Settings(Section):
    schema_version: Literal[2] = 2
    """The version of this file's format."""
    project: ProjectSettings
    """Which repository, which branch."""
    concurrency: ConcurrencySettings = Field(default_factory=ConcurrencySettings)
    """How many agents at once."""
    limits: LimitSettings = Field(default_factory=LimitSettings)
    """Time, retries and money."""
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    """What the operating system allows one agent."""
    runtimes: Annotated[
        Mapping[Label, RuntimeSettings], BeforeValidator(lambda given: {} if given is None else given)
    ] = Field(default_factory=dict)
    """How agents are driven, by name."""
    roles: Annotated[Mapping[RoleName, RoleSettings], BeforeValidator(add_built_in_roles)] = Field(
        default_factory=dict, validate_default=True
    )
    """The agents: triager, planner, worker, validator, merger and lead are built in, and those of the pipelines; add
    your own by name, with their duty."""
    workflows: Annotated[Mapping[Label, WorkflowSettings], WrapValidator(read_workflows)] = Field(
        default_factory=dict, validate_default=True
    )
    """In which order: waves, flow, single and direct are built in, and pipelines of roles."""
    prices: Annotated[Mapping[Text, Price], BeforeValidator(lambda given: {} if given is None else given)] = Field(
        default_factory=dict
    )
    """What models cost, where the built-in table is wrong or lacks one: by name, with * for any letters."""
    planning: PlanningSettings = Field(default_factory=PlanningSettings)
    """How a request becomes tasks."""
    seats: SeatSettings = Field(default_factory=SeatSettings)
    """How long members of the team keep what they have in mind."""
    domains: Annotated[Mapping[Label, Globs], BeforeValidator(lambda given: {} if given is None else given)] = Field(
        default_factory=dict
    )
    """Parts of the code base for which seats and knowledge are kept, by name: `billing: [src/billing/**]`. Other paths
    are in the domain of the first folder that tells parts apart."""
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    """When tasks start."""
    gates: GateSettings = Field(default_factory=GateSettings)
    """When a person is asked."""
    merging: MergingSettings = Field(default_factory=MergingSettings)
    """How finished work is merged."""
    landing: LandingSettings = Field(default_factory=LandingSettings)
    """How it reaches the base branch."""
    commits: CommitSettings = Field(default_factory=CommitSettings)
    """What the commits that land look like."""
    worktree: WorktreeSettings = Field(default_factory=WorktreeSettings)
    """How a fresh checkout is prepared."""
    permissions: PermissionSettings = Field(default_factory=PermissionSettings)
    """What agents may touch and run."""
    validation: ValidationSettings = Field(default_factory=ValidationSettings)
    """What a result must look like."""
    instructions: InstructionSettings = Field(default_factory=InstructionSettings)
    """The repository's own instructions to agents."""
    superpowers: SuperpowersSettings = Field(default_factory=SuperpowersSettings)
    """Skills for agents."""
    beads: BeadsSettings = Field(default_factory=BeadsSettings)
    """Memory across sessions."""
    memory: MemorySettings = Field(default_factory=MemorySettings)
    """Where it is kept, and how much of it agents get."""
    hooks: HookSettings = Field(default_factory=HookSettings)
    """Your commands at four points of a session."""
    notifications: Annotated[
        Mapping[Label, NotifierSettings], BeforeValidator(lambda given: {} if given is None else given)
    ] = Field(default_factory=dict)
    """Who is notified when a person is needed, by names of your choice."""
    cleanup: CleanupSettings = Field(default_factory=CleanupSettings)
    """What is kept, and for how long."""

    @field_validator("roles")
    @classmethod
    def _runtimes_are_known(cls, roles: Mapping[str, RoleSettings], info: ValidationInfo) -> Mapping[str, RoleSettings]:
        own = info.data.get("runtimes")
        if own is not None:
            refuse_unknown_runtimes(roles, _list_runtimes(own))
        refuse_changed_duties(roles)
        return roles

    @field_validator("workflows")
    @classmethod
    def _stages_can_run(
        cls, workflows: Mapping[str, WorkflowSettings], info: ValidationInfo
    ) -> Mapping[str, WorkflowSettings]:
        roles = info.data.get("roles")
        if roles is not None:
            refuse_bad_stages(workflows, roles)
        own = info.data.get("runtimes")
        if own is not None:
            refuse_unknown_rungs(workflows, _list_runtimes(own))
        return workflows

    @field_validator("planning")
    @classmethod
    def _workflows_exist(cls, planning: PlanningSettings, info: ValidationInfo) -> PlanningSettings:
        workflows, roles = info.data.get("workflows"), info.data.get("roles")
        if workflows is not None and roles is not None:
            refuse_unknown_workflows(planning, workflows)
            refuse_planned_tiers(planning, workflows, roles)
            refuse_curation(planning, workflows, roles)
        return planning


def _list_named_workflows(planning: PlanningSettings) -> list[tuple[tuple[str | int, ...], str]]:
    return [
        (("workflow",), planning.workflow),
        (("tier_1",), planning.tier_1),
        (("tier_2",), planning.tier_2),
        *((("workflows", n), name) for n, name in enumerate(planning.workflows)),
    ]


def refuse_unknown_workflows(planning: PlanningSettings, workflows: Mapping[str, WorkflowSettings]) -> None:
    known = ", ".join(workflows)
    wrongs = tuple(
        InvalidValue(
            "is not a workflow of this file",
            f"{suggest(name, workflows)} Use one of {known}, or add it under workflows".lstrip(),
            at=place,
            got=name,
        )
        for place, name in _list_named_workflows(planning)
        if name not in workflows
    )
    if wrongs:
        raise InvalidValues(wrongs)


def refuse_planned_tiers(
    planning: PlanningSettings, workflows: Mapping[str, WorkflowSettings], roles: Mapping[str, RoleSettings]
) -> None:
    for place, name in (("tier_1", planning.tier_1), ("tier_2", planning.tier_2)):
        if is_planned(workflows[name], roles):
            right = "name one without a plan, such as single; requests that need a plan run planning.workflow"
            raise InvalidValue("has a plan", right, at=(place,), got=name)


def refuse_curation(
    planning: PlanningSettings, workflows: Mapping[str, WorkflowSettings], roles: Mapping[str, RoleSettings]
) -> None:
    for place, name in _list_named_workflows(planning):
        if begins_with(Duty.CURATE, workflows[name], roles):
            right = "name one that makes something; 'blueflame memory curate --agent' runs it"
            raise InvalidValue("only curates knowledge files", right, at=place, got=name)
