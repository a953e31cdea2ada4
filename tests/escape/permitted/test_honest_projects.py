"""Real projects build and test in the sandbox, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from escape import inside
from escape.boxing import choose_for, everybody, machine, run, uid_of
from escape.outside import Outside
from escape.permitted.works import FILES, WORKS
from escape.sharing import once

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap here")

WHO = everybody()
DONE = "DONE\n"
SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def is_here(program: str) -> bool:
    return shutil.which(program, path=SYSTEM) is not None


def work(outside: Outside, names: Sequence[str]) -> dict[str, str]:
    """The output of each project, all in one sandbox."""
    folder = outside.tree / ".probes"
    folder.mkdir()
    for path, text in FILES.items():
        (outside.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (outside.tree / path).write_text(text)
    shutil.copyfile(inside.__file__, folder / "inside.py")
    orders = [
        {
            "id": name,
            "code": f"({code}) && printf {DONE!r}",
            "python": False,
            "patience": 60,
            "env": {"OUT": str(folder / name)},
        }
        for name, (program, code) in ((name, WORKS[name]) for name in names)
        if is_here(program)
    ]
    (folder / "works.json").write_text(outside.as_seen_inside(json.dumps(orders, ensure_ascii=False)))
    if os.geteuid() != outside.uid:
        subprocess.run(["chown", "-R", f"{outside.uid}:{outside.uid}", str(outside.tree)], check=True)
    done = run(outside, ["python3", ".probes/inside.py", ".probes/works.json"], walls=True)
    said = {name: _said(folder / name) for name in names}
    assert any(said.values()), f"the box did not start: {done.stderr}"
    return said


def _said(folder: Path) -> str:
    path = folder / "said.txt"
    return path.read_text(errors="replace") if path.exists() else ""


def outcome(who: str) -> dict[str, str]:
    uid = uid_of(who)
    if uid is None:
        pytest.skip("there is no Python of our version that the ordinary user may run")
    with machine(uid) as outside:
        return work(outside, choose_for(who, WORKS))


@pytest.mark.parametrize(("name", "who"), [(name, who) for who in WHO for name in choose_for(who, WORKS)])
def test_honest_work_ends_well_inside(name: str, who: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not is_here(WORKS[name][0]):
        pytest.skip(f"there is no {WORKS[name][0]} here")
    said = once(tmp_path_factory, f"honest-{who}", lambda: outcome(who))[name]
    assert said.endswith(DONE), said
