"""The tmux runtime: Claude Code in a terminal, and a tmux session in which a person can watch it and talk with it.

Claude runs behind the walls of every agent, in its sandbox, on a terminal that its warden holds. The tmux session runs
`blueflame attach --stay` outside of the sandbox: it stays between tasks and shows the next attempt of the same seat.
The person can close and reopen it, and nothing depends on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blueflame.agents import claude
from blueflame.agents.claude import ClaudeRuntime
from blueflame.agents.runtime import AgentBrief, AgentLaunch, Signal
from blueflame.lazy_dataclass import dataclass
from blueflame.system import tmux as windows
from blueflame.system.files import write_atomically

NOTE_FILE = "tmux.json"  # in the attempt's folder: the tmux session that shows it
AD_HOC_IDLE = "30m"  # then the window of an ad hoc agent closes; the agent itself ends with its task
MAIN_CODE = "from blueflame.cli.main import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class TmuxRuntime:
    claude: ClaudeRuntime
    root: Path
    config: str = ""  # path for `blueflame attach`; empty: the one in `root`
    reports_end: bool = True

    def describe_program(self) -> str:
        return self.claude.describe_program()

    def find_problems(self) -> tuple[str, ...]:
        return (*windows.find_problems(), *self.claude.find_problems())

    def prepare_launch(self, brief: AgentBrief, *, directory: Path) -> AgentLaunch:
        launch = self.claude.prepare_launch(brief, directory=directory, in_terminal=True)
        if not brief.interactive:  # else the person already sees its terminal
            _open_window(brief, directory, self.root, self.config)
        return launch

    def parse_line(self, line: str) -> tuple[Signal, ...]:
        return self.claude.parse_line(line)


def build_runtime(options: Mapping[str, Any], root: Path) -> TmuxRuntime:
    return TmuxRuntime(claude=claude.build_runtime(options, root), root=root, config=str(options.get("config") or ""))


def _open_window(brief: AgentBrief, directory: Path, root: Path, config: str) -> None:
    """Open a window that stays for the seat; the one that shows it already connects to this attempt by itself."""
    shown = brief.seat or brief.role
    session = windows.format_session_name(brief.role, ad_hoc=brief.ad_hoc)
    argv = (*_build_attach_command(shown, config), *(("--idle", AD_HOC_IDLE) if brief.ad_hoc else ()))
    window = windows.open_window(session, f"{shown} {root.name}", argv, key=f"{root} {shown}", cwd=root)
    write_atomically(directory / NOTE_FILE, json.dumps(window._asdict()))


def _build_attach_command(agent: str, config: str) -> tuple[str, ...]:
    script = Path(sys.executable).with_name("blueflame")
    program = (str(script),) if script.is_file() else (sys.executable, "-c", MAIN_CODE)
    return (*program, "attach", agent, "--stay", *(("--config", config) if config else ()))
