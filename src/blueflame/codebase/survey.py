"""The values of the map: files, symbols and past commits of a code base at one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from blueflame.lazy_dataclass import dataclass


class Symbol(NamedTuple):
    """What a file defines. `scope`: the class or module that it is in."""

    kind: str
    name: str
    line: int
    scope: str = ""


class CodeFile(NamedTuple):
    path: str
    size: int
    language: str = ""
    is_test: bool = False
    blob: str = ""  # the id of its content


class PastCommit(NamedTuple):
    """A commit before this one; without paths if it changed too many files to mean anything."""

    sha: str
    author: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of the code the parser has read."""

    parser: str = ""  # its name and version; "" without one
    problem: str = ""  # why it cannot be used, and what to do
    wanted: int = 0  # files that it could read
    parsed: int = 0
    failed: int = 0  # it could not, or not within its limits
    unknown: Mapping[str, int] = field(default_factory=dict)  # files in languages that it does not know

    @property
    def waiting(self) -> int:
        """Files that are read the next time, since there was no time left."""
        return self.wanted - self.parsed - self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSurvey:
    """A code base at a commit."""

    files: tuple[CodeFile, ...]
    history: tuple[PastCommit, ...] = ()  # newest first
    outlines: Mapping[str, tuple[Symbol, ...]] = field(default_factory=dict)  # of the files that matter most, by path
    coverage: Coverage = Coverage()
