"""What every test gets: an empty home, git without the person's configuration, UTC."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import shutil
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from blueflame.cli import foreground
from blueflame.cli.agent_shell import AGENT_SHELLS
from blueflame.cli.commands import doctor
from blueflame.doctor.guards import GuardReport
from blueflame.orchestrator.engine import local
from support.command_forks import prepare_fork
from support.command_line import START
from support.repositories import GIT_IDENTITY, make_repository, run_git
from support.snapshots import Snapshots
from support.unsynced import drop_syncs
from support.warden_forks import WardenForks, start_warden_forks

examine_guards = doctor._examine_guards

# no assertions about time: a busy machine is not a failure
settings.register_profile("blueflame", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
settings.register_profile("quick", settings.get_profile("blueflame"), max_examples=20)  # make quick
settings.register_profile("full", settings.get_profile("blueflame"), max_examples=200)  # make full
settings.load_profile("blueflame")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and the list of tests are no garbage: they are not searched for any, now or during the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        drop_syncs(patch)
        yield


@pytest.fixture(scope="session")
def worker_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_home(worker_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test reads or writes the person's home or git configuration; a folder for each test would cost 22 s."""
    home = worker_home
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "EDITOR", "VISUAL", "BLUEFLAME_CONFIG", *AGENT_SHELLS):
        monkeypatch.delenv(name, raising=False)
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    yield home
    for entry in home.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


@pytest.fixture(name="git")
def git_fixture() -> Callable[..., str]:
    return run_git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A real repository with one commit on main, at a path with a space and non-ASCII letters."""
    return make_repository(tmp_path / "мой repo")


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    return Snapshots(tmp_path_factory.mktemp("готово"))


@pytest.fixture(scope="session")
def warden_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WardenForks]:
    with start_warden_forks(tmp_path_factory.mktemp("wardens") / "log") as running:
        yield running


@pytest.fixture
def forked_wardens(warden_forks: WardenForks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orchestrators in the test's own process fork their wardens."""
    monkeypatch.setattr(local, "start_warden", warden_forks.start_warden)
    monkeypatch.setattr(foreground, "prepare_wardens", lambda _logs: None)


@pytest.fixture
def forked_commands(warden_forks: WardenForks, forked_wardens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are processes of their own are forked, and so are their wardens."""
    monkeypatch.setattr(START, "prepare", partial(prepare_fork, warden_forks))


@pytest.fixture(scope="session")
def known_guards(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[[], GuardReport]:
    """Those of the defaults, tried once by the first worker that needs them: it takes two seconds of CPU time."""
    folder = tmp_path_factory.getbasetemp()
    shared = (folder if worker_id == "master" else folder.parent) / "guards.pickle"

    @cache
    def examine() -> GuardReport:
        with shared.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.seek(0, os.SEEK_END) == 0:
                pickle.dump(examine_guards(None), file)
            file.seek(0)
            report: GuardReport = pickle.load(file)
            return report

    return examine


@pytest.fixture
def guards_are_known(known_guards: Callable[[], GuardReport], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_examine_guards", lambda _project: known_guards())
