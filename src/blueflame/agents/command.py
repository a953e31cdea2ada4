"""The command runtime: any program as it is, for `blueflame guard` and for agents that we do not know.

It has no hook of ours, so no watcher: the sandbox holds it while it runs, the gateway counts what its model costs, and
the postcheck judges what it made. Its prompt is on standard input, as for every agent. What it leaves uncommitted when
it ends well is committed for it: many agents do not commit.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from blueflame.agents.credentials import VENDORS, find_access, find_home
from blueflame.agents.programs import (
    CommandRuntime,
    Program,
    build_gateway_variables,
    check_variables,
    fill_placeholders,
    find_program,
    join_prompt,
)
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal, TextOutput
from blueflame.git.command import build_agent_identity
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused

RUN_AND_COMMIT = """\
subject=$1; shift
"$@" || exit
[ -z "$(git status --porcelain)" ] || { git add -A && git commit -q --no-verify -m "$subject"; }
"""
MAX_SUBJECT_CHARS = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCommandRuntime(CommandRuntime):
    options: Mapping[str, Any] = field(default_factory=dict)  # of its settings: where its models are
    reports_end: bool = False

    def describe_program(self) -> str:
        program = self.find_program()
        return shlex.join(program.argv) if program else ""

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:  # noqa: ARG002 (of the protocol)
        program, apis = self.require_program(), self._find_apis() if brief.gateway else ()
        values = {"gateway": brief.gateway, "token": brief.token, "model": brief.model}
        words = (fill_placeholders(word, values) for word in self.args)
        title = brief.task.title if brief.task else brief.request
        return AgentLaunch(
            argv=("/bin/sh", "-c", RUN_AND_COMMIT, "command", title[:MAX_SUBJECT_CHARS], *program.argv, *words),
            env=build_agent_identity(brief.agent_id) | build_gateway_variables(apis, self.env, values),
            stdin=join_prompt((brief.system, brief.prompt)),
            needs=program.needs,
            apis=apis,
        )

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return (TextOutput(line),) if line.strip() else ()

    def find_program(self) -> Program | None:
        """A relative path names a file of the repository: its copy in the checkout is run, in the sandbox."""
        name = self.command.partition(" ")[0]
        if "/" not in name or Path(name).is_absolute() or name.startswith("~"):
            return find_program(self.command, root=self.root) if self.command else None
        return Program(argv=tuple(shlex.split(self.command)), needs=()) if (self.root / name).is_file() else None

    def iter_problems(self) -> Iterator[str]:
        if self.find_program() is None:
            yield self.describe_missing()
        yield from check_variables(self.name, self.env, "")

    def _find_apis(self) -> tuple[str, ...]:
        """Find the model APIs for which the person has a credential: the gateway serves them, and nothing else."""
        return tuple(api for api in VENDORS if self._has_access(api))

    def _has_access(self, api: str) -> bool:
        with suppress(Refused):
            find_access(api, self.name, self.options, os.environ, find_home(os.environ))
            return True
        return False


def build_runtime(options: Mapping[str, Any], root: Path) -> PlainCommandRuntime:
    return replace(PlainCommandRuntime.from_options(options, root), options=dict(options))
