"""The paths of the state folder, all below one repository, and the folder of what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blueflame.lazy_dataclass import dataclass
from blueflame.system.files import explain_file_errors

STATE_FOLDER = ".blueflame"
POOL_VARIABLE = "BLUEFLAME_POOL"  # in a session that a house started: the folder of that house


def find_person_state(environ: Mapping[str, str]) -> Path:
    """Find the folder with what a person decided on this machine, outside of every repository.

    A relative XDG_STATE_HOME is ignored, as its specification says: it would lead into the repository.
    """
    given, home = Path(environ.get("XDG_STATE_HOME", "")), Path(environ.get("HOME") or Path.home())
    return (given if given.is_absolute() else home / ".local" / "state") / "blueflame"


def find_house_folder(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """The folder that was named, that of BLUEFLAME_HOUSE, or the one of this person."""
    named = given or Path(environ.get("BLUEFLAME_HOUSE") or find_person_state(environ) / "house")
    return named.expanduser().absolute()


@dataclass(frozen=True, slots=True)
class HousePaths:
    """The folder of a house."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "house.yaml"

    @property
    def journal(self) -> Path:
        return self.root / "house.db"

    @property
    def lock(self) -> Path:
        return self.root / "house.lock"

    @property
    def signals(self) -> Path:
        return self.root / "signals"

    @property
    def requests(self) -> Path:
        """The texts of requests, for the processes that work on them."""
        return self.root / "requests"

    def parked(self, account: str) -> Path:
        """As `StatePaths.parked`, for all repositories that use the account."""
        return self.root / "parked" / f"{account}.json"


@dataclass(frozen=True, slots=True)
class StatePaths:
    """The state folder of a repository: known without the configuration."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / STATE_FOLDER

    @property
    def journal(self) -> Path:
        return self.state / "journal.db"

    @property
    def lock(self) -> Path:
        return self.state / "orchestrator.lock"

    @property
    def signals(self) -> Path:
        return self.state / "signals"

    @property
    def attempts(self) -> Path:
        return self.state / "attempts"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def baseline(self) -> Path:
        """How the checks ended on base trees (orchestrator/baseline.py)."""
        return self.state / "baseline.json"

    @property
    def activity_log(self) -> Path:
        return self.logs / "activity.log"

    def parked(self, runtime: str) -> Path:
        """Written by the gateway that met a limit of the account, read by the others (docs/explanation/gateway.md)."""
        return self.state / "parked" / f"{runtime}.json"

    def audit(self, agent: str) -> Path:
        """The tool calls of an agent and the decisions about them; written by its warden."""
        return self.logs / f"{agent}.audit.jsonl"

    @property
    def memory(self) -> Path:
        return self.state / "memory.db"

    @property
    def code_map(self) -> Path:
        """What is known of contents and commits (codebase/cache.py)."""
        return self.state / "code_map.db"

    @property
    def dependencies(self) -> Path:
        """What setups installed, by lock files (git/dependencies.py)."""
        return self.state / "dependencies"

    @property
    def scans(self) -> Path:
        """Copies of what is searched for secrets, during the search (git/secret_scan.py)."""
        return self.state / "scans"

    @property
    def knowledge(self) -> Path:
        """The memory, for people to read."""
        return self.state / "knowledge"

    @property
    def beads(self) -> Path:
        """Our own folder of Beads, not the person's."""
        return self.state / "beads" / ".beads"

    @property
    def agents_file(self) -> Path:
        return self.state / "agents.json"

    @property
    def resolved_config(self) -> Path:
        return self.state / "resolved-config.json"

    @property
    def sessions(self) -> Path:
        return self.state / "sessions"

    def session_config(self, session: str, digest: str = "") -> Path:
        """A configuration that the session runs with, or that was proposed at a gate; a resume uses no other."""
        return self.sessions / session / f"config-{digest[:16]}.json"

    def make_folders(self) -> None:
        for folder in (self.state, self.signals, self.attempts, self.logs):
            make_folder(folder)


@dataclass(frozen=True, slots=True)
class ProjectPaths(StatePaths):
    """With the folders that the configuration names."""

    worktrees: Path
    tasks_file: Path

    def checkout(self, name: str) -> Path:
        return self.worktrees / name


def make_folder(path: Path) -> None:
    """Make the folder and its parents; an existing one is fine."""
    with explain_file_errors("make the folder", path):
        path.mkdir(parents=True, exist_ok=True)
