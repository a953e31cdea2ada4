"""What a result changed, file by file and commit by commit, and hints for its reviewers."""

from __future__ import annotations

from dataclasses import field

from blueflame.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the comparison of two commits."""

    status: str  # A added, M modified, D deleted, R renamed, T type changed
    path: str  # the name in the result; of a deletion, the name that went
    old_path: str | None = None  # the name in the base, when it was another
    mode: str = "100644"  # in the result; 000000 when deleted
    added: int = 0
    deleted: int = 0
    binary: bool = False
    symlink: bool = False  # in the result
    submodule: bool = False  # in the result
    link_target: str | None = None  # where a symlink points; unknown means that it is not trusted
    old_mode: str = field(default="", compare=False)  # in the base; 000000 when it was not there
    blob: str = field(default="", compare=False)  # the content in the result, by its name in the object store
    old_blob: str = field(default="", compare=False)  # the content in the base

    @property
    def paths(self) -> tuple[str, ...]:
        """Both names of a rename: moving a file away changes the place it came from too."""
        if self.old_path is None or self.old_path == self.path:
            return (self.path,)
        return (self.old_path, self.path)

    @property
    def created(self) -> bool:
        """Its name is new in the result."""
        return self.status in {"A", "R"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    sha: str
    author: str
    subject: str
    message: str  # the whole message, subject included
    headers: str = field(default="", compare=False)  # all that is before the message, as it is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A hint where to look; a person decides."""

    kind: str  # checks/risks.KINDS
    words: str
    paths: tuple[str, ...] = ()  # the first of them

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """One way in which a test checks less than before, with the lines that show it."""

    kind: str  # checks/weakened_tests.KINDS
    path: str
    words: str
    line: int | None = None  # in the result; of what is gone, in the base
    lines: tuple[str, ...] = ()  # as a diff shows them: `-` what went, `+` what came

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.words}"
