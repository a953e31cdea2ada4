"""`make repositories`: from a fresh clone to the first landed change, in a repository of each ecosystem.

Each runs for real where its toolchain is installed and its registry can be reached: `blueflame init`, then `blueflame
run` with an honest scripted agent, with the configuration as it was written. The others are checked for what is
generated. The table goes to the terminal and to docs/evidence/repositories.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blueflame.model.settings.registries import REGISTRIES

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.skeletons import SKELETONS, Skeleton

HERE = Path(__file__).resolve().parent
BY_HAND = "## Public repositories\n"  # from here on, the page is not generated
PAGE = HERE.parents[1] / "docs" / "evidence" / "repositories.md"
BLUEFLAME = Path(sys.executable).with_name("blueflame")
DECISIONS = """\
changeset: [{choose: approve, repeat: true}]
plan: [{choose: approve, repeat: true}]
session: [stop]
"""
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    skeleton: Skeleton
    init_seconds: float = 0.0
    run_seconds: float = 0.0
    skipped: str = ""  # why only what is generated was checked
    problem: str = ""

    @property
    def works(self) -> str:
        return "NO: " + self.problem if self.problem else "generated" if self.skipped else "yes"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="run this one; repeatable")
    parser.add_argument("--no-write", action="store_true", help="leave the page as it is")
    options = parser.parse_args(argv)
    chosen = [each for each in SKELETONS if not options.only or each.name in options.only]
    rows = []
    for skeleton in chosen:
        show(f"{skeleton.name} ...")
        rows.append(try_skeleton(skeleton))
        show(f"  {rows[-1].works}  {rows[-1].skipped}")
    show(format_table(rows))
    if not options.only and not options.no_write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        by_hand = "".join(PAGE.read_text("utf-8").partition(BY_HAND)[1:]) if PAGE.exists() else ""
        PAGE.write_text("\n".join(filter(None, [format_page(rows), by_hand])), "utf-8")
    return 1 if any(row.problem for row in rows) else 0


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def try_skeleton(skeleton: Skeleton) -> Row:
    with tempfile.TemporaryDirectory(prefix="repository-") as folder:
        repo = make_repository(Path(folder) / "project", skeleton)
        skipped = find_obstacle(skeleton)
        begun = time.monotonic()
        found = run_json(repo, "init", "--json", *(["--no-try"] if skipped else []))
        row = Row(skeleton=skeleton, init_seconds=time.monotonic() - begun, skipped=skipped)
        problem = find_wrong_commands(skeleton, found) or ("" if skipped else find_left_out(skeleton, found))
        if skipped or problem:
            return Row(skeleton=skeleton, init_seconds=row.init_seconds, skipped=skipped, problem=problem)
        begun = time.monotonic()
        problem = land_change(repo, Path(folder), skeleton, found)
        return Row(
            skeleton=skeleton,
            init_seconds=row.init_seconds,
            run_seconds=time.monotonic() - begun,
            problem=problem,
        )


def make_repository(path: Path, skeleton: Skeleton) -> Path:
    for name, text in skeleton.files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    for args in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *args], cwd=path, check=True, env={**os.environ, **GIT})
    return path


def find_obstacle(skeleton: Skeleton) -> str:
    missing = [program for program in skeleton.programs if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    shut = [name for name in skeleton.registries if not can_reach(REGISTRIES[name][0])]
    return f"registry {', '.join(shut)} cannot be reached" if shut else ""


def can_reach(host: str) -> bool:
    try:
        with (
            socket.create_connection((host, 443), timeout=10) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=host) as secure,
        ):
            secure.sendall(f"HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return secure.recv(12).startswith(b"HTTP/1.")
    except OSError:
        return False


def run_json(repo: Path, *args: str) -> dict[str, Any]:
    done = subprocess.run(
        [str(BLUEFLAME), *args], cwd=repo, env={**os.environ, **GIT}, capture_output=True, text=True, check=False
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"problem": (done.stderr or done.stdout)[-400:]}
    return found


def find_wrong_commands(skeleton: Skeleton, found: dict[str, Any]) -> str:
    if "problem" in found:
        return f"init failed: {found['problem']}"
    written = [*found["tests"], *found["lints"]]
    missing = [check for check in skeleton.checks if not any(line.startswith(check) for line in written)]
    if missing:
        return f"init did not write {missing[0]}; {found['left_out']}"
    wrong = set(skeleton.registries) ^ set(found["registries"])
    return f"registries differ: {sorted(wrong)}" if wrong else ""


def find_left_out(skeleton: Skeleton, found: dict[str, Any]) -> str:
    red = [left for left in found["left_out"] if any(left["command"].startswith(check) for check in skeleton.checks)]
    return f"{red[0]['command']} was left out: {red[0]['reason']}" if red else ""


def land_change(repo: Path, folder: Path, skeleton: Skeleton, found: dict[str, Any]) -> str:
    """Run a session in which an honest agent makes the change and runs the checks; "" when it has landed."""
    path, text = skeleton.change
    checks = [{"run": {"command": line, "allow_failure": skeleton.red}} for line in found["tests"]]
    steps = [{"write": {"path": path, "text": text}}, *checks, {"commit": "feat({task}): add what was asked"}]
    task = {"id": "task-001", "title": "Add it", "description": "As asked.", "priority": 1, "file_locks": [path]}
    files = {
        "play.json": json.dumps({"schema_version": 1, "defaults": {"worker": steps}}),
        "plan.json": json.dumps({"schema_version": 1, "tasks": [task]}),
        "decisions.yaml": DECISIONS,
    }
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    given = ("--plan", folder / "plan.json", "--script", folder / "play.json", "--decisions-file")
    argv = [str(BLUEFLAME), "run", "Add it", *map(str, given), str(folder / "decisions.yaml")]
    done = subprocess.run(argv, cwd=repo, env={**os.environ, **GIT}, capture_output=True, text=True, check=False)
    landed = subprocess.run(["git", "show", f"main:{path}"], cwd=repo, capture_output=True, text=True, check=False)
    if done.returncode == 0 and landed.stdout == text:
        return ""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "✗" in line or "refused" in line]
    return f"run ended with {done.returncode}: {' | '.join(lines)[:600] or done.stderr[-400:]}"


def format_table(rows: Sequence[Row]) -> str:
    lines = [
        "| repository | what is special | init s | first landed change s | works without editing the configuration |",
        "|---|---|---:|---:|---|",
    ]
    for row in rows:
        seconds = "" if row.skipped or row.problem else f"{row.run_seconds:.0f}"
        why = f" ({row.skipped})" if row.skipped else ""
        lines.append(
            f"| {row.skeleton.name} | {row.skeleton.traits} | {row.init_seconds:.0f} | {seconds} | {row.works}{why} |"
        )
    return "\n".join(lines)


def format_page(rows: Sequence[Row]) -> str:
    ran = [row for row in rows if not row.skipped]
    good = [row for row in ran if not row.problem]
    share = f"{len(good)} of {len(ran)} that could run work without editing the configuration"
    return "\n".join([*INTRODUCTION, "", f"**{share}; {len(rows) - len(ran)} were checked for what is generated.**", "",
                      format_table(rows), ""])  # fmt: skip


INTRODUCTION = (
    "# Repositories",
    "",
    "Written by `make repositories`: small projects, one for each ecosystem, each from a first commit in two steps:",
    "`blueflame init`, then `blueflame run` with a scripted agent that makes an honest change, runs the checks and"
    " commits.",
    "Nothing is edited in between; at the end the change has landed on `main`.",
    "Where a toolchain or its registry is missing on the machine, only what `init` generates is checked.",
)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
