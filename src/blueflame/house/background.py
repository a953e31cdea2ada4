"""Start a command of ours that outlives the process that starts it: the only way to start a background session."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.orchestrator.project import Project
from blueflame.system.files import rotate_log
from blueflame.system.process import BackgroundProcess, start_background
from blueflame.text.sanitize import clean_text

MAX_OUTPUT_CHARS = 2_000
PARENT_VARIABLES = re.compile(r"CLAUDECODE|CLAUDE_(PROJECT|PLUGIN)_.*|CLAUDE_CODE_(SESSION|MESSAGING|ENTRYPOINT|SSE).*")
"""A client's conversation with its own processes: no session of ours is part of it."""


@dataclass(frozen=True, slots=True)
class BackgroundCommand:
    process: BackgroundProcess
    log: Path
    begin: int  # where its output begins in the log

    def read_output(self) -> str:
        """Return what it has printed, the last part of it."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self.begin, file.seek(0, 2) - MAX_OUTPUT_CHARS))
                printed = file.read().decode("utf-8", "replace")
        except OSError:  # it was deleted, maybe with the repository
            return ""
        return clean_text(printed).strip().removeprefix("blueflame: ")

    def describe_failure(self) -> str:
        """Return its last message without the warnings before it; of a process that was killed, by what."""
        code = self.process.code or 0
        if code < 0:  # what it printed before is not the cause
            return f"its process was ended by signal {-code}; see {self.log}"
        return self.read_output().rpartition("\nblueflame: ")[2] or f"it ended with exit code {code}; see {self.log}"


def start_command(
    project: Project, verb: str, *words: str, environ: Mapping[str, str], stdin: Path | None = None
) -> BackgroundCommand:
    """Start it with its output in the log of the project, and return at once."""
    from blueflame.orchestrator.lifecycle import prepare_folders

    prepare_folders(project)
    log = project.state.logs / "background.log"
    rotate_log(log)
    begin = log.stat().st_size if log.exists() else 0
    argv = [sys.executable, "-m", "blueflame", verb, "--config", str(project.config), *words]
    return BackgroundCommand(start_background(argv, log=log, env=environ, stdin=stdin), log, begin)


def build_session_environment(environ: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not PARENT_VARIABLES.fullmatch(name)} | dict(keys)
