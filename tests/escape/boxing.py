"""Run probes: in the sandbox through the command line, or without walls to prove that they would succeed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from blueflame.config.load import load_config
from blueflame.config.trust_file import remove_trusted, save_trusted
from blueflame.policy.trust import list_outside_settings
from escape import inside
from escape.attack import Attack, Probe
from escape.inside import call
from escape.outside import Outside, Watch, build
from escape.probes_resources import TIGHT
from support.command_line import MAIN

PATIENCE = 120
SYSTEM_PYTHON = "/usr/bin/python3"
ORDINARY_UID = 54321
EVERYTHING = "BLUEFLAME_EVERY_USER" in os.environ  # `make escape`
T = TypeVar("T")
CONFIG: Mapping[str, Any] = {"schema_version": 2, "project": {"name": "sample"}}


def everybody() -> tuple[str, ...]:
    """The users that the probes run as: the one that runs the tests, and an ordinary one if that is root."""
    return ("root", "user") if os.geteuid() == 0 else ("user",)


def choose_for(who: str, rows: Iterable[T]) -> list[T]:
    """The rows that this user tries: one and the next by turns; `make escape` tries each as all of them."""
    users = everybody()
    return list(rows) if EVERYTHING else list(rows)[users.index(who) :: len(users)]


def ordinary_user() -> int | None:
    """The other user that the probes run as; None if the tests are not run by root."""
    if os.geteuid() != 0:
        return None
    users = [user.pw_uid for user in pwd.getpwall() if 1000 <= user.pw_uid < 60000]
    return min(users, default=ORDINARY_UID)


@lru_cache
def interpreter(uid: int) -> str | None:
    """A Python that this user may run: ours may be in a home that they cannot enter."""
    for python in (sys.executable, SYSTEM_PYTHON):
        with suppress(OSError, subprocess.SubprocessError):
            result = f"import sys; print(sys.version_info[:2] == {sys.version_info[:2]!r})"
            done = subprocess.run([python, "-c", result], capture_output=True, text=True, check=True, **as_user(uid))
            if done.stdout == "True\n":
                return python
    return None


def as_user(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []} if uid != os.geteuid() else {}


def uid_of(who: str) -> int | None:
    """The uid; None if the user has no Python to run."""
    user = ordinary_user()
    uid = 0 if who == "root" else os.geteuid() if user is None else user
    return uid if interpreter(uid) is not None else None


def python_path() -> str:
    """The folders of our packages, for another interpreter."""
    return os.pathsep.join(path for path in sys.path if path and not path.startswith(sys.base_prefix))


@contextmanager
def machine(uid: int) -> Iterator[Outside]:
    """Make a folder that the user may enter, unlike pytest's own, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="escape-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "m").mkdir(mode=0o755)
        yield build(Path(folder) / "m", uid)


def attempt(
    outside: Outside, attacks: Sequence[Attack], *, walls: bool = True, sandbox: Mapping[str, Any] | None = None
) -> dict[str, list[str]]:
    """Run the probes and return what each of them reached."""
    with Watch(outside, attacks) as watch:
        orders = _orders(outside, watch, attacks, walls=walls)
        done = run(
            outside,
            ["python3", *(str(path.relative_to(outside.tree)) for path in (orders.with_name("inside.py"), orders))],
            walls=walls,
            sandbox=sandbox,
            attacks=attacks,
        )
        found = watch.breaches()
    if walls and found and all("the probe did not run" in breaches for breaches in found.values()):
        raise AssertionError(f"the box did not start: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return found


def _orders(outside: Outside, watch: Watch, attacks: Sequence[Attack], *, walls: bool) -> Path:
    folder = outside.tree / ".probes"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(inside.__file__, folder / "inside.py")
    probes = [
        {"id": attack.id, "code": attack.deed.code, "python": attack.deed.python, "env": watch.variables(attack)}
        for attack in attacks
        if isinstance(attack.deed, Probe)
    ]
    for attack, probe in zip(attacks, probes, strict=True):
        if isinstance(attack.deed, Probe) and attack.deed.most:
            probe["patience"] = 15
    orders = folder / "probes.json"
    text = json.dumps(probes, ensure_ascii=False)
    orders.write_text(outside.as_seen_inside(text) if walls else text)
    for path in (folder, folder / "inside.py", orders):
        os.chown(path, outside.uid, outside.uid)
    return orders


def run(
    outside: Outside,
    argv: Sequence[str],
    *,
    walls: bool,
    sandbox: Mapping[str, Any] | None = None,
    attacks: Sequence[Attack] = (),
) -> subprocess.CompletedProcess[str]:
    with _forgotten(outside, attacks) as handles, _key(outside):
        return subprocess.run(
            [*box_command(outside, sandbox), *argv] if walls else argv,
            env=build_environment(outside, walls=walls),
            cwd=outside.tree,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            pass_fds=handles,
            check=False,
            **as_user(outside.uid),
        )


def box_command(outside: Outside, sandbox: Mapping[str, Any] | None = None) -> list[str]:
    python = interpreter(outside.uid)
    assert python is not None, "there is no Python that the ordinary user may run"
    config = outside.root / "blueflame.yaml"
    text = json.dumps({**CONFIG, "project": {"name": "sample", "repo": str(outside.main)}, "sandbox": sandbox or {}})
    config.write_text(text)
    os.chown(config, outside.uid, outside.uid)
    _trust(config, outside)
    return [python, "-c", MAIN, "sandbox", "run", "--config", str(config), "--worktree", str(outside.tree), "--"]


def _trust(config: Path, outside: Outside) -> None:
    """As the user would, but without a process: it is one for each sandbox."""
    environ = build_environment(outside, walls=True)
    remove_trusted(config, environ)  # it belongs to the user
    save_trusted(config, environ, [setting.digest for setting in list_outside_settings(load_config(config).settings)])
    subprocess.run(["chown", "-R", f"{outside.uid}:{outside.uid}", str(outside.root / "state")], check=True)


def build_environment(outside: Outside, *, walls: bool) -> dict[str, str]:
    """What the person trusts is kept apart from their home, in which nothing may change."""
    ours = {"PYTHONPATH": python_path(), "XDG_STATE_HOME": str(outside.root / "state")}
    return outside.environment() | (ours if walls else {})


@contextmanager
def _forgotten(outside: Outside, attacks: Sequence[Attack]) -> Iterator[tuple[int, ...]]:
    """Files that the caller left open: they reach the command line, and must not reach the sandbox."""
    handles = []
    for attack in attacks:
        if attack.id == "box-inherited-file":
            handles.append(os.open(outside.canary(attack) / "loot", os.O_WRONLY | os.O_APPEND))
        if attack.id == "box-inherited-folder":
            handles.append(os.open(outside.canary(attack), os.O_RDONLY | os.O_DIRECTORY))
    try:
        yield tuple(handles)
    finally:
        for handle in handles:
            os.close(handle)


@contextmanager
def _key(outside: Outside) -> Iterator[None]:
    """Add a secret to the session's key ring, as desktops do, if the kernel has key rings."""
    name, secret = f"blueflame-{outside.nonce}".encode(), outside.loot("key").encode()
    call("keyctl", 1, 0)
    number = call("add_key", b"user", name, secret, len(secret), -3)
    if number > 0:
        call("keyctl", 5, number, 0x3F3F3F3F)
    yield
    if number > 0:
        call("keyctl", 9, number, -3)


def tight(**more: object) -> dict[str, object]:
    return {**TIGHT, **more}
