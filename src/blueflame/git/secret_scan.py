"""Search a result for secrets: the built-in rules on every result, a full scanner before a changeset lands.

The allow file is read from the base commit: with that of the result, an agent could allow its own leak.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from blueflame.checks.secrets.scan import (
    AddedLine,
    BadAllowFile,
    ScanResult,
    SecretAllowList,
    SecretFinding,
    Unscanned,
    compute_fingerprint,
    format_preview,
    judge_findings,
    parse_allow_file,
    scan_lines,
)
from blueflame.git.added_lines import read_added_lines
from blueflame.git.batch import find_objects
from blueflame.git.blobs import list_ways_to_read
from blueflame.git.command import explain_exit, run_git, split_nul
from blueflame.git.repository import Repository
from blueflame.git.results import list_commits
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Commit
from blueflame.model.errors import ProcessFailed, ProcessTimedOut, UsageError
from blueflame.model.settings.permissions import SecretSettings
from blueflame.model.verdict import Violation
from blueflame.system.files import explain_file_errors
from blueflame.system.process import run

KINGFISHER = "kingfisher"
CLEAN_EXIT_CODE, FOUND_EXIT_CODE = 0, 200
PLAIN_MODES = ("100644", "100755")
MAX_ALLOW_FILE_BYTES = 1_000_000
SCANNER_HINT = "reinstall it (pip install 'blueflame[secrets]'), or set validation.secrets.scanner to builtin"


def scan_result(repo: Repository, base: str, tip: str, settings: SecretSettings) -> tuple[Violation, ...]:
    """Apply the built-in rules to all that lands with tip: the added lines of every commit, and every message."""
    if not settings.enabled:
        return ()
    allowed = read_allow_list(repo, base, settings.allow_file)
    return judge_findings(scan_lines(read_added_lines(repo, base, tip), _read_commit_texts(repo, base, tip)), allowed)


def scan_changeset(
    repo: Repository,
    base: str,
    tip: str,
    settings: SecretSettings,
    *,
    below: Path,
    cache: Path | None = None,
) -> tuple[Violation, ...]:
    """Apply the built-in rules and those of kingfisher, which has hundreds more. `below`: where to copy what it reads.

    Raise ProcessFailed if a configured scanner is missing, fails, takes too long or has not scanned everything: the
    result is then unchecked and does not land.
    """
    program = find_scanner(settings)
    if program is None:
        return scan_result(repo, base, tip, settings)
    allowed = read_allow_list(repo, base, settings.allow_file)
    messages = _read_commit_texts(repo, base, tip)
    with _open_copies(below) as copies:
        scanned = scan_lines(copies.copy_lines(read_added_lines(repo, base, tip)), messages)
        for commit in messages:
            lines = enumerate(commit.message.split("\n"), start=1)
            copies.write_file([AddedLine(commit.sha, number, text) for number, text in lines])
        more = (
            _run_kingfisher(program, copies, cache or _get_default_cache(), settings.timeout) if copies.places else ()
        )
    known = {(finding.path, finding.line, finding.commit) for finding in scanned.findings}
    new = tuple(one for one in more if (one.path, one.line, one.commit) not in known)
    return judge_findings(ScanResult(findings=(*scanned.findings, *new), unscanned=scanned.unscanned), allowed)


def _read_commit_texts(repo: Repository, base: str, tip: str) -> tuple[Commit, ...]:
    """Return the commits with their headers behind the message: a name or an unknown header can hold a secret, too."""
    commits = list_commits(repo, base, tip)
    return tuple(
        replace(commit, message="\n".join([*list_ways_to_read(commit.message), commit.headers])) for commit in commits
    )


def find_scanner(settings: SecretSettings) -> str | None:
    """Return the program that scans a changeset before it lands; None: only the built-in rules do."""
    if not settings.enabled or settings.scanner == "builtin":
        return None
    found = which(KINGFISHER, path=str(Path(sys.executable).parent)) or which(KINGFISHER)
    if found is None and settings.scanner == KINGFISHER:
        raise ProcessFailed(f"validation.secrets.scanner is kingfisher, which is not installed: {SCANNER_HINT}")
    return found


def _get_default_cache() -> Path:
    """Return where kingfisher keeps its compiled rules: compiling takes eight seconds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blueflame" / KINGFISHER


# --- the allow file


def read_allow_list(repo: Repository, sha: str, name: str) -> SecretAllowList:
    """Read the allow file of a commit; an empty list if it does not exist. UsageError names every bad line."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise UsageError(f"validation.secrets.allow_file is {name!r}; write a path in the repository")
    if find_objects(repo, (f"{sha}:{path}",)) == [None]:
        return SecretAllowList()
    found = split_nul(run_git(repo.root, "ls-tree", "-z", "--full-tree", "--long", sha, "--", str(path)))
    mode, kind, blob, size = found[0].partition("\t")[0].split()
    if kind != "blob" or mode not in PLAIN_MODES or int(size) > MAX_ALLOW_FILE_BYTES:
        raise UsageError(f"{name} at {sha[:12]} is not a plain, small file; make it one, or remove it")
    try:
        return parse_allow_file(run_git(repo.root, "cat-file", "blob", blob))
    except BadAllowFile as error:
        problems = "\n".join(f"  - {problem}" for problem in error.problems)
        raise UsageError(f"{name} at {sha[:12]} cannot be read; fix and commit it:\n{problems}") from error


# --- kingfisher


@dataclass(slots=True)
class _LineCopies:
    """Copies of added lines in files that we name, and the origin of each line."""

    folder: Path
    places: list[list[AddedLine]] = field(default_factory=list)
    size: int = 0

    def copy_lines(self, lines: Iterable[AddedLine | Unscanned]) -> Iterator[AddedLine | Unscanned]:
        """Pass the lines on, and write a copy of them, one file after the other."""
        group: list[AddedLine] = []
        for line in lines:
            if isinstance(line, AddedLine):
                if group and (group[0].path, group[0].commit) != (line.path, line.commit):
                    self.write_file(group)
                    group = []
                group.append(line)
            yield line
        self.write_file(group)

    def write_file(self, group: list[AddedLine]) -> None:
        # The number makes each file unique: kingfisher scans equal content only once.
        data = "".join(f"{line.text}\n" for line in group).encode("utf-8", "surrogateescape")
        if data.strip():
            marked = f"#{len(self.places)}\n".encode() + data
            (self.folder / f"{len(self.places):06d}.txt").write_bytes(marked)
            self.places.append([AddedLine(group[0].path, 0, ""), *group])
            self.size += len(marked)


@contextmanager
def _open_copies(below: Path) -> Iterator[_LineCopies]:
    """Make a folder for copies that only we can enter, and remove it after the scan."""
    with explain_file_errors("write lines to be searched for secrets below", below):
        below.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=below) as name:
            folder = Path(name, "lines")
            folder.mkdir()
            yield _LineCopies(folder=folder)


def _run_kingfisher(program: str, copies: _LineCopies, cache: Path, timeout: float) -> tuple[SecretFinding, ...]:
    options = (
        *("--no-validate", "--no-update-check"),  # otherwise it sends secrets that it found to their services
        *("--no-ignore", "--no-dedup", "--no-limits"),  # otherwise a comment in the line hides a secret
        *("--no-extract-archives", "--git-history", "none", "--quiet", "--format", "json"),
        *("--rule-cache-dir", str(cache)),
    )
    home = copies.folder.parent
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}
    try:
        done = run(program, "scan", str(copies.folder), *options, cwd=home, env=env, timeout=timeout)
    except ProcessTimedOut as e:
        hint = "see what holds it up, or raise validation.secrets.timeout"
        raise ProcessFailed(f"kingfisher searched for {timeout:g} s without an end, and was ended: {hint}") from e
    if done.code not in (CLEAN_EXIT_CODE, FOUND_EXIT_CODE):
        said = done.err.strip()[-500:]
        reason = f"exit code {done.code}: {said}; {SCANNER_HINT}" if said else explain_exit(done.code, SCANNER_HINT)
        raise ProcessFailed(f"kingfisher failed: {reason}")
    report = _parse_report(done.out)
    _check_complete(report, copies)
    return tuple(_build_finding(entry, copies) for entry in report["findings"])


def _parse_report(text: str) -> Mapping[str, Any]:
    """Parse the report; its text is never shown, because it has the secrets."""
    try:
        report = json.loads(text)
        if isinstance(report["findings"], list) and isinstance(report["metadata"]["summary"], dict):
            return dict(report)
    except (ValueError, KeyError, TypeError):
        pass
    raise ProcessFailed(f"kingfisher's report cannot be read; {SCANNER_HINT}")


def _check_complete(report: Mapping[str, Any], copies: _LineCopies) -> None:
    """Check that every file was scanned: a scanner does not report files that it skips."""
    summary = report["metadata"]["summary"]
    seen = (summary.get("blobs_scanned"), summary.get("bytes_scanned"))
    if seen != (len(copies.places), copies.size):
        raise ProcessFailed(
            f"kingfisher scanned {seen[0]} files of {seen[1]} bytes, not {len(copies.places)} of {copies.size}, "
            f"so the others were not scanned; {SCANNER_HINT}"
        )


def _build_finding(entry: Mapping[str, Any], copies: _LineCopies) -> SecretFinding:
    try:
        found = entry["finding"]
        rule = f"{KINGFISHER}.{str(entry['rule']['id']).rpartition('.')[2]}"
        line = copies.places[int(Path(found["path"]).stem)][int(found["line"]) - 1]
        secret = str(found["snippet"])
    except (KeyError, ValueError, TypeError, IndexError) as e:
        raise ProcessFailed(f"kingfisher reported a secret without a valid place; {SCANNER_HINT}") from e
    return SecretFinding(
        rule=rule,
        path=line.path,
        line=line.number,
        preview=format_preview(secret),
        fingerprint=compute_fingerprint(rule, secret),
        commit=line.commit,
    )
