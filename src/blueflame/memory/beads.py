"""Save to and load from Beads through its program `bd`, with options that all versions from 1.0.5 on have.

It has its own folder below .blueflame: nothing of it is in the person's repository, and their own Beads is never
touched. Answers come in an envelope or, from older versions, without: both are read; unknown fields are ignored.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.knowledge.wording import describe_record
from blueflame.memory.codec import decode_record, encode_record
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
from blueflame.text.notes import clean_note
from blueflame.text.sanitize import shorten_line

MIN_VERSION = (1, 0, 5)
PREFIX, LABEL, MEMORY_PREFIX = "bf", "blueflame", "bf."
MAX_TITLE_CHARS = 480  # bd accepts 500
MAX_LOADED = 20
MAX_NOTE_CHARS = 600
FOREIGN_PREFIXES = ("BEADS_", "BD_")
LABELS: Mapping[type, str] = {
    TaskResult: "bf:result,bf:merged",
    TaskFailure: "bf:result,bf:failed",
    SessionSummary: "bf:session",
}
CLOSE_REASONS: Mapping[type, str] = {TaskResult: "merged", TaskFailure: "failed", SessionSummary: "recorded"}


class BeadsIssue(NamedTuple):
    """An issue of ours that is in Beads already."""

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
            return f"there is no program {self._program}: install Beads, or change memory.bd or memory.provider"
        try:
            answer = self._run("version").out
        except MemoryFailed as error:
            return str(error)
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", answer)
        if found is None:
            return f"{self._program} does not print its version ({shorten_line(answer, 80)!r}): is it Beads?"
        version = tuple(map(int, found.groups()))
        if version < MIN_VERSION:
            return f"{self._program} has version {found[0]}; {'.'.join(map(str, MIN_VERSION))} or newer is needed"
        return ""

    def prepare(self) -> None:
        """Create its folder, without what `bd init` does to a repository by default. Idempotent."""
        make_folder(self._folder.parent)
        if not self._folder.is_dir():
            options = ["--stealth", "--skip-agents", "--skip-hooks", "--non-interactive", "--quiet"]
            self._query("init", *options, "-p", PREFIX)

    def list_known_issues(self) -> Mapping[str, BeadsIssue]:
        """Return our issues by the keys of their records, also those that a crash kept us from recording."""
        rows = self._list_issues("--all", "--label", LABEL, "--limit", "0", "--flat")
        return {
            str(key): BeadsIssue(str(row.get("id", "")), row.get("status") == "closed")
            for row in rows
            if (key := _read_metadata(row).get("bf_key")) is not None
        }

    def save(self, record: MemoryRecord, known: BeadsIssue | None) -> str:
        """Create or update the issue of a record; return its id in Beads."""
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
        """Load failures and sessions, newest first, and memories, also from other copies of the repository."""
        chosen = ("--label", LABEL, "--label-any", "bf:failed,bf:session")
        rows = self._list_issues("--all", *chosen, "--sort", "updated", "--limit", str(MAX_LOADED), "--flat")
        return (*_read_records(rows), *self._list_memories())

    def _save_memory(self, record: Lesson) -> str:
        key = build_memory_key(record.key)
        # never a single word: newer versions would look it up instead of saving it
        answer = self._query("remember", f"lesson: {record.text}", "--key", key, "--json")
        return str(answer.get("key", key)) if isinstance(answer, Mapping) else key

    def _create(self, record: MemoryRecord) -> str:
        labels = f"{LABEL},{LABELS[type(record)]}"
        with tempfile.NamedTemporaryFile(
            "w", dir=self._folder.parent, prefix="metadata-", suffix=".json", encoding="utf-8"
        ) as file:
            file.write(json.dumps(build_metadata(record)))
            file.flush()
            options = ("-t", "task", "-p", "2", "-l", labels, "--metadata", f"@{file.name}", "--body-file", "-")
            body = describe_record(record, 0) + "\n"
            answer = self._query("create", build_title(record), *options, "--json", stdin=body)
        issue = answer.get("id") if isinstance(answer, Mapping) else None
        if not isinstance(issue, str) or not issue:
            raise MemoryFailed(f"{self._program} create did not print the id of the new issue")
        return issue

    def _list_memories(self) -> Iterator[Lesson]:
        answer = self._query("memories", MEMORY_PREFIX, "--json")
        for key, text in sorted(answer.items()) if isinstance(answer, Mapping) else ():
            if isinstance(text, str) and key.startswith(MEMORY_PREFIX):
                origin = Origin(session="beads", source=Source.IMPORT)
                yield Lesson(key=key, origin=origin, text=clean_note(text.removeprefix("lesson: "), MAX_NOTE_CHARS))

    def _list_issues(self, *options: str) -> Sequence[Mapping[str, Any]]:
        answer = self._query("list", *options, "--json")
        if not isinstance(answer, list):
            raise MemoryFailed(f"{self._program} list did not answer with a list")
        return [row for row in answer if isinstance(row, Mapping)]

    def _query(self, *args: str, stdin: str | None = None) -> object:
        """Return its answer without the envelope; None without --json."""
        done = self._run(*args, stdin=stdin)
        if done.code:
            raise MemoryFailed(f"{self._program} {args[0]} failed (exit code {done.code}): {_find_error_message(done)}")
        if "--json" not in args:
            return None
        try:
            return unwrap_envelope(json.loads(done.out))
        except (ValueError, RecursionError) as error:
            shown = shorten_line(done.out, 120)
            raise MemoryFailed(f"{self._program} {args[0]} did not answer with JSON: {shown!r}") from error

    def _run(self, *args: str, stdin: str | None = None) -> ProcessResult:
        """Run bd beside its folder; before that exists, in /."""
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
            why = str(error).rpartition(": ")[2]  # without its long arguments
            raise MemoryFailed(f"{self._program} {args[0]}: {shorten_line(why, 300)}") from error

    def _build_environment(self) -> dict[str, str]:
        """Without the person's own settings of Beads: a port among them would make ours use their server."""
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


def build_title(record: MemoryRecord) -> str:
    """Begins with the session, so that it never looks like an option."""
    return shorten_line(f"[{record.origin.session}] {get_headline(record)}", MAX_TITLE_CHARS)


def build_metadata(record: MemoryRecord) -> dict[str, str]:
    return {"bf_key": record.key, "bf_session": record.origin.session, "bf_record": encode_record(record)}


def build_memory_key(key: str) -> str:
    return MEMORY_PREFIX + re.sub(r"[^A-Za-z0-9-]+", ".", key)


def unwrap_envelope(answer: object) -> object:
    """Remove the envelope; in older versions, only the key schema_version."""
    if not isinstance(answer, dict):
        return answer
    if set(answer) == {"schema_version", "data"}:
        return answer["data"]
    return {name: value for name, value in answer.items() if name != "schema_version"}


def _find_error_message(done: ProcessResult) -> str:
    """Some commands print it on stderr, some on stdout."""
    for text in (done.err, done.out):
        try:
            answer = unwrap_envelope(json.loads(text))
        except (ValueError, RecursionError):
            continue
        if isinstance(answer, dict) and answer.get("error"):
            hint = f" ({answer['hint']})" if answer.get("hint") else ""
            return shorten_line(f"{answer['error']}{hint}", 300)
    return shorten_line(done.err.strip() or done.out.strip() or "no output", 300)


def _read_metadata(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """It is an object, or the same as text."""
    found = row.get("metadata")
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, Mapping) else {}


def _read_records(rows: Sequence[Mapping[str, Any]]) -> Iterator[MemoryRecord]:
    """Issues that are not ours, or of a newer version, are skipped."""
    for row in rows:
        body = _read_metadata(row).get("bf_record")
        if isinstance(body, str):
            try:
                yield decode_record(body, f"issue {row.get('id')}", foreign=True)
            except MemoryFailed:
                continue
