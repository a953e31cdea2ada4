"""The runtimes that the roles of a configuration use, and why agents could not be started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from blueflame.agents.credentials import find_access, find_home
from blueflame.agents.registry import build_runtime
from blueflame.agents.runtime import AgentBrief, Runtime
from blueflame.agents.scripted import ScriptedRuntime
from blueflame.agents.scripted.script import build_attempt_steps
from blueflame.documents.plans import parse_tasks
from blueflame.lazy_dataclass import dataclass
from blueflame.model.attempt import PLAN_SUBJECT, Duty
from blueflame.model.errors import Refused
from blueflame.model.limits import Limits
from blueflame.model.runtime_support import RUNTIMES
from blueflame.model.settings import Settings
from blueflame.model.task import Task
from blueflame.model.workflow import Workflow
from blueflame.session.decide import build_single_task
from blueflame.session.from_settings import (
    build_ladder,
    build_session_limits,
    build_workflow,
    choose_runtime,
    find_runtime_kind,
    list_making_roles,
    list_required_roles,
)
from blueflame.session.unsupported_settings import find_ladder_problems, find_unsupported_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSet:
    """With a `script`, every role plays it; with a `replay` no model is called, so no key is needed."""

    settings: Settings
    config: Path
    repo: Path
    script: Path | None = None
    replay: Path | None = None

    def build_runtimes(self, also: Iterable[str] = ()) -> Mapping[str, Runtime]:
        """Build each runtime that a role or a ladder uses; raise Refused for one that this version lacks."""
        scripted, roles = self.script is not None, self.settings.roles.values()
        ladders = (build_ladder(self.settings, name, scripted=scripted) for name in self.settings.workflows)
        rungs = {rung.runtime for ladder in ladders for rung in ladder if rung.runtime}
        used = {choose_runtime(self.settings, role, scripted=scripted) for role in roles}
        return self._build(used | rungs | set(also))

    def build_usable(self, workflow: Workflow) -> Mapping[str, Runtime]:
        """As above; raise Refused with every reason why agents of this workflow could not be started."""
        reasons = self.find_reasons(workflow)
        if reasons:
            raise Refused("agents cannot be started: " + "; ".join(reasons))
        return self.build_runtimes()

    def find_reasons(self, workflow: Workflow) -> tuple[str, ...]:
        """Programs that are missing or too old, unsupported walls, missing credentials."""
        try:
            made = self.build_runtimes()
        except Refused as reason:
            return (str(reason),)
        by_role, limits = self._choose_runtimes(workflow), self._build_limits(workflow)
        names = sorted({*by_role.values(), *(rung.runtime for rung in limits.ladders if rung.runtime)})
        problems = (f"{name}: {problem}" for name in names for problem in made[name].find_problems())
        return (
            *problems,
            *find_unsupported_settings(self.settings, by_role),
            *find_ladder_problems(self.settings, limits, list_making_roles(self.settings, workflow.name)),
            *(() if self.replay else self.find_missing_credentials(names)),
        )

    def find_missing_credentials(self, names: Iterable[str]) -> Iterator[str]:
        """Why runtimes have no credential for their model, and what to do about it."""
        for name in names:
            kind = RUNTIMES.get(find_runtime_kind(self.settings, name))
            for api in kind.apis if kind else ():
                try:
                    find_access(api, name, self._build_options(name), os.environ, find_home(os.environ))
                except Refused as reason:
                    yield str(reason)

    def build_default(self) -> Mapping[str, Runtime | None]:
        """The runtimes of the default workflow; None for one that this version lacks."""
        names = sorted(set(self._choose_runtimes(build_workflow(self.settings)).values()))
        known = {each for each in names if find_runtime_kind(self.settings, each) in RUNTIMES}
        return {**dict.fromkeys(names), **self._build(known)}

    def find_known_plan(self, request: str, workflow: Workflow) -> tuple[Task, ...] | None:
        """The plan, if it is known without running a planner: a scripted one always answers the same."""
        paths = self.settings.permissions.allowed_paths
        if not workflow.is_planned:
            return (build_single_task(request, paths),)
        role = workflow.find_role(Duty.PLAN)
        planner = self.build_runtimes().get(self._choose_runtimes(workflow)[role])
        if not isinstance(planner, ScriptedRuntime):
            return None
        brief = AgentBrief(
            attempt="dry-run",
            agent_id=role,
            role=role,
            declared_duty=Duty.PLAN,
            subject=PLAN_SUBJECT,
            n=1,
            session="dry-run",
            worktree="",
            prompt="",
            request=request,
            allowed_paths=paths,
        )
        plans = [step["output"] for step in build_attempt_steps(planner.script, brief) if step["do"] == "answer"]
        return parse_tasks(plans[-1]) if plans else None

    def _choose_runtimes(self, workflow: Workflow) -> Mapping[str, str]:
        limits = self._build_limits(workflow)
        flows = (workflow, *limits.task_workflows.values())
        return {role: limits.get_runtime(role) for flow in flows for role in list_required_roles(flow)}

    def _build_limits(self, workflow: Workflow) -> Limits:
        return build_session_limits(self.settings, workflow.name, scripted=self.script is not None)

    def _build(self, names: Iterable[str]) -> Mapping[str, Runtime]:
        kinds = {name: find_runtime_kind(self.settings, name) for name in sorted(names)}
        lacking = [name for name, kind in kinds.items() if kind not in RUNTIMES]
        if lacking:
            raise Refused(
                f"the runtime {', '.join(lacking)} is not in this version of Blue Flame; it has: "
                f"{', '.join(RUNTIMES)}. Change roles.<role>.runtime in the configuration, or set "
                "runtimes.<name>.kind to one of them"
            )
        root = self.config.parent
        return {
            name: build_runtime(kind, {**self._build_options(name), **self._list_common_options()}, root)
            for name, kind in kinds.items()
        }

    def _build_options(self, runtime: str) -> Mapping[str, object]:
        found = self.settings.runtimes.get(runtime)
        options: dict[str, object] = {**(found.model_dump() if found else {}), "name": runtime}
        if self.script is not None and runtime == "scripted":
            options["script"] = str(self.script.absolute())
        return options

    def _list_common_options(self) -> Mapping[str, object]:
        """Options besides a runtime's own settings: the plugin with the skills, the repository, and the configuration
        with which a command of ours finds the session."""
        skills = self.settings.superpowers
        plugin = skills.plugin if skills.enabled else None
        return {"repo": str(self.repo), "superpowers": plugin, "config": str(self.config)}
