"""Beads through its program `bd`, which is called by the recipe that its versions from 1.0.5 on share.

It has a folder of its own below .blueflame: nothing of it shows in the person's repository, and a Beads of their own is
never touched. Answers come in an envelope or, from older versions, bare: both are read; what is not known is ignored.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.memory.codec import decode_record, encode_record
from blueflame.memory.recall import describe_record
from blueflame.memory.records import clean_note
from blueflame.model.errors import MemoryFailed, ProcessFailed
from blueflame.model.memory import (
    Lesson,
    MemoryRecord,
    Origin,
    SessionSummary,
    Source,
    TaskFailure,
    TaskResult,
    get_headline,
)
from blueflame.system.layout import make_folder
from blueflame.system.process import ProcessResult, run
from blueflame.text.sanitize import shorten_line

MIN_VERSION = (1, 0, 5)
PREFIX, LABEL, MEMORY_PREFIX = "bf", "blueflame", "bf."
MAX_TITLE_CHARS = 480  # bd takes 500
MAX_LOADED = 20  # MEM-06
MAX_NOTE_CHARS = 600
FOREIGN_PREFIXES = ("BEADS_", "BD_")
LABELS: Mapping[type, str] = {
    TaskResult: "bf:result,bf:merged",
    TaskFailure: "bf:result,bf:failed",
    SessionSummary: "bf:session",
}
CLOSE_REASONS: Mapping[type, str] = {TaskResult: "merged", TaskFailure: "failed", SessionSummary: "recorded"}


class BeadsIssue(NamedTuple):
    """An issue of ours that Beads has already."""

    issue: str
    closed: bool


class BeadsClient:
    def __init__(self, program: str, folder: Path, environ: Mapping[str, str], *, timeout: float) -> None:
        self._program = program
        self._folder = folder
        self._environ = environ
        self._timeout = timeout

    def find_problem(self) -> str:
        """Why it cannot be used, and what to do; "" when it can."""
        if shutil.which(self._program, path=self._environ.get("PATH")) is None:
            return f"there is no program {self._program}: install Beads, or set memory.bd or memory.provider otherwise"
        try:
            said = self._run("version").out
        except MemoryFailed as error:
            return str(error)
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
        if found is None:
            return f"{self._program} does not tell its version ({shorten_line(said, 80)!r}): is it Beads?"
        version = tuple(map(int, found.groups()))
        if version < MIN_VERSION:
            return f"{self._program} is of version {found[0]}; {'.'.join(map(str, MIN_VERSION))} or newer is needed"
        return ""

    def prepare(self) -> None:
        """Idempotent. Nothing of what `bd init` does to a repository by default is wanted here."""
        make_folder(self._folder.parent)
        if not self._folder.is_dir():
            self._query(
                "init", "--stealth", "--skip-agents", "--skip-hooks", "--non-interactive", "--quiet", "-p", PREFIX
            )

    def list_known_issues(self) -> Mapping[str, BeadsIssue]:
        """Every issue of ours by the key of its record: what a crash kept us from noting is found again."""
        rows = self._list_issues("--all", "--label", LABEL, "--limit", "0", "--flat")
        keyed = ((_read_metadata(row).get("bf_key"), row) for row in rows)
        return {
            str(key): BeadsIssue(str(row.get("id", "")), row.get("status") == "closed")
            for key, row in keyed
            if key is not None
        }

    def save(self, record: MemoryRecord, known: BeadsIssue | None) -> str:
        """Its id there. One that is there already is brought up to date instead of made again."""
        if isinstance(record, Lesson):
            return self._save_memory(record)
        if known is None:
            issue = self._create(record)
        else:
            issue = known.issue
            self._query("update", issue, "--set-metadata", f"bf_record={encode_record(record)}", "--json")
        if known is None or not known.closed:
            reason = CLOSE_REASONS[type(record)]
            self._query("close", issue, "--reason", reason, "--session", record.origin.session, "--json")
        return issue

    def load(self) -> tuple[MemoryRecord, ...]:
        """Failures and sessions, the newest first, and memories: also those of other copies of the repository."""
        rows = self._list_issues(
            "--all",
            "--label",
            LABEL,
            "--label-any",
            "bf:failed,bf:session",
            "--sort",
            "updated",
            "--limit",
            str(MAX_LOADED),
            "--flat",
        )
        return (*_read_records(rows), *self._list_memories())

    def _save_memory(self, record: Lesson) -> str:
        key = build_memory_key(record.key)
        # never a bare word: newer versions would look that up instead of keeping it
        said = self._query("remember", f"lesson: {record.text}", "--key", key, "--json")
        return str(said.get("key", key)) if isinstance(said, Mapping) else key

    def _create(self, record: MemoryRecord) -> str:
        title = shorten_line(
            f"[{record.origin.session}] {get_headline(record)}", MAX_TITLE_CHARS
        )  # so it never looks like a flag
        metadata = {"bf_key": record.key, "bf_session": record.origin.session, "bf_record": encode_record(record)}
        with _open_temporary_file(self._folder.parent, json.dumps(metadata)) as file:
            labels = f"{LABEL},{LABELS[type(record)]}"
            options = (
                "-t",
                "task",
                "-p",
                "2",
                "-l",
                labels,
                "--metadata",
                f"@{file}",
                "--body-file",
                "-",
                "--json",
            )
            said = self._query("create", title, *options, stdin=describe_record(record, 0) + "\n")
        issue = said.get("id") if isinstance(said, Mapping) else None
        if not isinstance(issue, str) or not issue:
            raise MemoryFailed(f"{self._program} create did not tell the id of what it made")
        return issue

    def _list_memories(self) -> Iterator[Lesson]:
        said = self._query("memories", MEMORY_PREFIX, "--json")
        for key, text in sorted(said.items()) if isinstance(said, Mapping) else ():
            if isinstance(text, str) and key.startswith(MEMORY_PREFIX):
                origin = Origin(session="beads", source=Source.IMPORT)
                yield Lesson(key=key, origin=origin, text=clean_note(text.removeprefix("lesson: "), MAX_NOTE_CHARS))

    def _list_issues(self, *options: str) -> Sequence[Mapping[str, Any]]:
        said = self._query("list", *options, "--json")
        if not isinstance(said, list):
            raise MemoryFailed(f"{self._program} list answered with something else than a list")
        return [row for row in said if isinstance(row, Mapping)]

    def _query(self, *args: str, stdin: str | None = None) -> object:
        """What it answered, out of its envelope; None when it said nothing."""
        done = self._run(*args, stdin=stdin)
        if done.code:
            raise MemoryFailed(f"{self._program} {args[0]} failed (exit code {done.code}): {_find_error_message(done)}")
        if "--json" not in args:
            return None
        return unwrap_envelope(_parse_json(done.out, f"{self._program} {args[0]}"))

    def _run(self, *args: str, stdin: str | None = None) -> ProcessResult:
        """Beside its folder; a mere look, before there is one, happens nowhere in particular."""
        home = self._folder.parent
        try:
            return run(
                self._program,
                *args,
                cwd=home if home.is_dir() else Path("/"),
                env=self._build_environment(),
                stdin=stdin,
                timeout=self._timeout,
            )
        except ProcessFailed as error:
            why = str(error).rpartition(": ")[2]  # not its long arguments
            raise MemoryFailed(f"{self._program} {args[0]}: {shorten_line(why, 300)}") from error

    def _build_environment(self) -> dict[str, str]:
        """Without what the person's shell says to their own Beads: a port there would make ours talk to a server."""
        kept = {
            name: value
            for name, value in self._environ.items()
            if not name.startswith(FOREIGN_PREFIXES) and name != "CLAUDE_SESSION_ID"
        }
        return kept | {
            "BEADS_DIR": str(self._folder.absolute()),
            "BEADS_ACTOR": "blueflame",
            "BD_NON_INTERACTIVE": "1",
            "BD_JSON_ENVELOPE": "1",
        }


def build_memory_key(key: str) -> str:
    return MEMORY_PREFIX + re.sub(r"[^A-Za-z0-9-]+", ".", key)


def unwrap_envelope(said: object) -> object:
    """Out of the envelope; an older version's bare object carries one key too many."""
    if not isinstance(said, dict):
        return said
    if set(said) == {"schema_version", "data"}:
        return said["data"]
    return {name: value for name, value in said.items() if name != "schema_version"}


def _parse_json(text: str, who: str) -> object:
    try:
        said: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MemoryFailed(f"{who} answered with something else than JSON: {shorten_line(text, 120)!r}") from error
    return said


def _find_error_message(done: ProcessResult) -> str:
    """Some commands put it on one stream, some on the other."""
    for text in (done.err, done.out):
        try:
            said = unwrap_envelope(json.loads(text))
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and said.get("error"):
            hint = f" ({said['hint']})" if said.get("hint") else ""
            return shorten_line(f"{said['error']}{hint}", 300)
    return shorten_line(done.err.strip() or done.out.strip() or "it said nothing", 300)


def _read_metadata(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object, or the same as text."""
    found = row.get("metadata")
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, Mapping) else {}


def _read_records(rows: Sequence[Mapping[str, Any]]) -> Iterator[MemoryRecord]:
    """What is not ours, or of a newer form, is passed over."""
    for row in rows:
        body = _read_metadata(row).get("bf_record")
        if isinstance(body, str):
            try:
                yield decode_record(body, f"issue {row.get('id')}", foreign=True)
            except MemoryFailed:
                continue


@contextmanager
def _open_temporary_file(folder: Path, text: str) -> Iterator[str]:
    """The absolute name of a file that holds the text for as long as the block lasts."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="metadata-", suffix=".json", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield file.name
