"""Read the symbols of source files with Universal Ctags, in a child that can do nothing but read and answer.

It is given contents through a pipe, runs in the sandbox that it has built in (seccomp: it can open no file and start
no program), without the options that a repository or a home folder may hold, and with limits of time and memory. A
file that breaks it costs only itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from blueflame.codebase.survey import Symbol
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ProcessFailed
from blueflame.paths.file_kinds import LANGUAGE_OF
from blueflame.system.piped_process import PipedProcess
from blueflame.system.process import run

PROGRAMS = ("ctags", "ctags-universal", "universal-ctags", "uctags")
PLAIN = "--options=NONE"  # .ctags.d of the repository and the home folder define parsers and run their code
FEATURES = ("interactive", "json", "sandbox")
INSTALL = "install universal-ctags (apt-get install universal-ctags)"
ANSWER_END = b'{"_type": "completed", "command": "generate-tags"}\n'  # quotes in names are escaped: it cannot be faked
START_SECONDS, FILE_SECONDS = 10.0, 5.0
MAX_MEMORY = 512_000_000
MAX_ANSWER_BYTES = 4_000_000
MAX_SYMBOLS = 400  # of one file
MAX_NAME_CHARS = 120
SAME_SYNTAX: Mapping[str, str] = {
    **dict.fromkeys((".tsx", ".mts", ".cts"), ".ts"),
    **dict.fromkeys((".cjs", ".mjs", ".jsx"), ".js"),
    ".pyi": ".py",
    ".rake": ".rb",
}
"""Suffixes that ctags does not know, and one that it does."""

_KINDS = (
    "class constant constructor define enum exception func function functor generator getter guard implementation "
    "instance interface macro message method module namespace object operator package procedure protocol record rpc "
    "service setter signature singletonMethod struct structure subroutine subprogram table trait type typedef union "
    "val view"
)
KINDS = frozenset(_KINDS.split())
"""What is a definition for a reader: no local variables, fields, labels or headings."""
METHODS = {".py": "member"}  # what ctags calls the methods of a language, where others have fields of that name


@dataclass(frozen=True, slots=True)
class Ctags:
    """A ctags that can be used."""

    program: str
    version: str
    suffixes: frozenset[str]

    def find_syntax(self, suffix: str) -> str:
        """Return the suffix by which it knows the language; "" if it does not."""
        known = SAME_SYNTAX.get(suffix, suffix)
        return known if known in self.suffixes else ""


class NoCtags(NamedTuple):
    reason: str


def find_ctags(environ: Mapping[str, str]) -> Ctags | NoCtags:
    reasons = []
    for program in PROGRAMS:
        place = shutil.which(program, path=environ.get("PATH"))
        if place is not None:
            found = _examine(place)
            if isinstance(found, Ctags):
                return found
            reasons.append(found.reason)
    return NoCtags(reasons[0] if reasons else f"there is no ctags: {INSTALL}")


def _examine(program: str) -> Ctags | NoCtags:
    try:
        version, features, maps = (_ask(program, what) for what in ("--version", "--list-features", "--list-maps"))
    except ProcessFailed as error:
        return NoCtags(str(error))
    found = re.match(r"Universal Ctags (\S+?)[,(]", version)
    if found is None:
        return NoCtags(f"{program} is not Universal Ctags: {INSTALL}")
    missing = [name for name in FEATURES if not re.search(rf"^{name}\s", features, re.MULTILINE)]
    if missing:
        return NoCtags(f"{program} was built without {', '.join(missing)}, so it cannot be confined: {INSTALL}")
    names = {word[1:] for word in maps.split() if word.startswith("*.")}
    return Ctags(program, found[1], frozenset(names & LANGUAGE_OF.keys()))


def _ask(program: str, what: str) -> str:
    return run(program, PLAIN, what, cwd=Path("/"), env=_build_environment(), timeout=START_SECONDS).out


def _build_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


class Source(NamedTuple):
    suffix: str
    content: bytes


class SymbolReader:
    """One child of ctags; a context manager. Not for two threads at once."""

    def __init__(self, ctags: Ctags) -> None:
        self._argv = (
            ctags.program,
            PLAIN,
            "--_interactive=sandbox",
            "--sort=no",
            "--fields=NnKsZ",
            "--extras=-F",
            "--pseudo-tags=",
        )
        self._child: PipedProcess | None = None

    def __enter__(self) -> SymbolReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()

    def read(self, sources: Sequence[Source]) -> list[tuple[Symbol, ...] | None]:
        """Return what each defines; None for one that ctags could not read within its limits.

        ProcessFailed: ctags cannot be started.
        """
        found: list[tuple[Symbol, ...] | None] = []
        while len(found) < len(sources):
            found += self._read_some(sources[len(found) :])
        return found

    def _read_some(self, sources: Sequence[Source]) -> Iterator[tuple[Symbol, ...] | None]:
        """Read up to and with the first that breaks the child."""
        child = self._child = self._child or self._start()
        child.send(b"".join(map(_build_request, sources)), timeout=FILE_SECONDS)
        for source in sources:
            child.send(b"", timeout=FILE_SECONDS)
            try:
                answer = child.read_until(ANSWER_END, MAX_ANSWER_BYTES)
            except (EOFError, OverflowError, ProcessFailed):
                child.kill()
                self._child = None
                yield None
                return
            yield _parse_answer(answer, source.suffix)

    def _start(self) -> PipedProcess:
        child = PipedProcess(self._argv, cwd=Path("/"), env=_build_environment(), max_memory=MAX_MEMORY)
        try:
            child.send(b"", timeout=START_SECONDS)
            child.read_line()  # its name and version
        except EOFError:
            code, err = child.close()
            raise ProcessFailed(f"{self._argv[0]} ended at once (exit code {code}): {err.strip()}") from None
        except ProcessFailed:
            child.kill()
            raise
        return child


def _build_request(source: Source) -> bytes:
    """The name is ours: one from a repository could be anything."""
    order = {"command": "generate-tags", "filename": f"file{source.suffix}", "size": len(source.content)}
    return json.dumps(order).encode() + b"\n" + source.content


def _parse_answer(answer: bytes, suffix: str) -> tuple[Symbol, ...] | None:
    lines = [line for line in answer.splitlines() if line.startswith(b'{"_type": "tag"')]
    try:
        tags = json.loads((b"[" + b",".join(lines) + b"]").decode("utf-8", "replace"))
    except ValueError:
        return None
    kept = (tag for tag in tags if tag["kind"] in KINDS or tag["kind"] == METHODS.get(suffix))
    return tuple(_build_symbol(tag) for tag in kept if "name" in tag)[:MAX_SYMBOLS]


def _build_symbol(tag: Mapping[str, object]) -> Symbol:
    kind = "method" if tag["kind"] == "member" else str(tag["kind"])
    line = tag.get("line", 0)
    name, scope = (str(tag.get(each, ""))[:MAX_NAME_CHARS] for each in ("name", "scope"))
    return Symbol(kind, name, line if isinstance(line, int) else 0, scope)
