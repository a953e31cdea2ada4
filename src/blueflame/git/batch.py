"""Git processes that answer many questions about one repository: starting git costs more than most answers.

Nothing is remembered here. Each question is answered from the repository as it is then: git looks up objects and refs
again every time, and a process is replaced when the repository's settings or object stores are. An idle process waits
at the end of its input, so it ends with us, however we end, and holds no lock meanwhile.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from blueflame.git.command import (
    MAX_GIT_MEMORY,
    build_environment,
    build_git_error,
    read_file_stamp,
)
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed
from blueflame.system.piped_process import PipedProcess
from blueflame.system.process import ProcessResult

OBJECTS = ("cat-file", "--batch-command=%(objectname) %(objecttype) %(objectsize)")
REFS = ("update-ref", "--no-deref", "--stdin", "-z")
LIMITED = frozenset({"diff-tree"})  # a few tree objects can stand for millions of names
MAX_IDLE = 12  # with eight, four workers and a landing took each other's processes
ANSWER_TIMEOUT = 300.0
MAX_ASKED = 1000  # objects in one request

_Key: TypeAlias = tuple[object, ...]
_Answer = TypeVar("_Answer")
_idle: list[tuple[_Key, PipedProcess]] = []  # the last one was used last
_guard = threading.Lock()


class FoundObject(NamedTuple):
    sha: str
    kind: str
    size: int


def find_objects(repo: Repository, names: Sequence[str]) -> list[FoundObject | None]:
    """Describe objects, by ids or expressions such as `id^{tree}` and full names of refs; None for what is missing."""
    return [found for part in _split(names) for found in ask(repo, OBJECTS, partial(_find, names=part))]


def read_objects(repo: Repository, shas: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of objects, by their full ids."""
    wanted = tuple(shas)
    parts = [ask(repo, OBJECTS, partial(_read, repo=repo, shas=part)) for part in _split(wanted)]
    return {sha: data for part in parts for sha, data in part.items()}


def find_ref(repo: Repository, ref: str) -> str | None:
    """Return what a ref names, given its full name."""
    (found,) = find_objects(repo, (ref,))
    return found.sha if found else None


def has_commit(repo: Repository, sha: str) -> bool:
    return not find_missing_commits(repo, (sha,))


def find_missing_commits(repo: Repository, shas: Iterable[str]) -> frozenset[str]:
    """Return those that are not in the object store."""
    wanted = sorted(set(shas))
    found = find_objects(repo, [f"{sha}^{{commit}}" for sha in wanted])
    return frozenset(sha for sha, commit in zip(wanted, found, strict=True) if commit is None)


def change_refs(repo: Repository, orders: Sequence[str]) -> None:
    """Carry out `update` and `delete` orders of `git update-ref -z`: all of them or none."""

    def commit(git: PipedProcess) -> None:
        git.send("".join(("start\0", *orders, "commit\0")).encode("utf-8", "surrogateescape"), timeout=ANSWER_TIMEOUT)
        for step in (b"start: ok", b"commit: ok"):
            if (line := git.read_line()) != step:
                raise GitFailed(f"git update-ref in {repo.root}: unexpected answer {line!r}")

    ask(repo, REFS, commit)


def ask(repo: Repository, args: tuple[str, ...], converse: Callable[[PipedProcess], _Answer]) -> _Answer:
    """Let an idle process answer, or a new one. An idle one may have died since, so then a new one is asked."""
    key = _build_key(repo, args)
    while True:
        idle = _take_idle(key)
        git = idle or _start(repo, args)
        try:
            answer = converse(git)
        except EOFError:
            code, err = git.close()
            if idle is None and code != -signal.SIGINT:  # by Ctrl-C before it had a session of its own
                raise build_git_error(repo.root, args, ProcessResult(code, "", err)) from None
        except BaseException:
            git.kill()  # the rest of its answer would be taken for the next one
            raise
        else:
            _keep_idle(key, git)
            return answer


def close_idle() -> None:
    """End the processes that wait for a question; the next question starts new ones."""
    with _guard:
        ended, _idle[:] = [git for _, git in _idle], []
    for git in ended:
        git.close()


def _find(git: PipedProcess, *, names: Sequence[str]) -> list[FoundObject | None]:
    git.send(_format_orders("info", names), timeout=ANSWER_TIMEOUT)
    return [_parse_found(git.read_line()) for _ in names]


def _read(git: PipedProcess, *, repo: Repository, shas: Sequence[str]) -> dict[str, bytes]:
    git.send(_format_orders("contents", shas), timeout=ANSWER_TIMEOUT)
    contents: dict[str, bytes] = {}
    for sha in shas:
        found = _parse_found(git.read_line())
        if found is None or found.sha != sha:
            raise GitFailed(f"git cat-file in {repo.root} did not return the content of {sha}: it is missing")
        contents[sha] = git.read_exactly(found.size)
        git.read_exactly(1)  # the end of the line
    return contents


def _format_orders(verb: str, names: Iterable[str]) -> bytes:
    return "".join(f"{verb} {name}\n" for name in names).encode("utf-8", "surrogateescape")


def _parse_found(line: bytes) -> FoundObject | None:
    words = line.decode("utf-8", "replace").split(" ")
    return FoundObject(words[0], words[1], int(words[2])) if len(words) == 3 and words[2].isdecimal() else None


def _split(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), MAX_ASKED):
        yield names[start : start + MAX_ASKED]


def _start(repo: Repository, args: tuple[str, ...]) -> PipedProcess:
    """Start it outside the work tree, whose .gitattributes agents can write."""
    place = repo.common_dir
    argv = ("git", f"--git-dir={place}", *args)
    limit = MAX_GIT_MEMORY if args[0] in LIMITED else None
    return PipedProcess(argv, cwd=place, env=build_environment(), max_memory=limit)


def _build_key(repo: Repository, args: tuple[str, ...]) -> _Key:
    names = ("objects", "objects/info/alternates", "config", "info/attributes")
    return (args, *(read_file_stamp(repo.common_dir / name) for name in names))


def _take_idle(key: _Key) -> PipedProcess | None:
    with _guard:
        at = next((n for n, (other, _) in enumerate(_idle) if other == key), None)
        return None if at is None else _idle.pop(at)[1]


def _keep_idle(key: _Key, git: PipedProcess) -> None:
    with _guard:
        _idle.append((key, git))
        too_many = [_idle.pop(0)[1] for _ in range(len(_idle) - MAX_IDLE)]
    for other in too_many:
        other.close()


def _forget_idle() -> None:
    """In a child of ours the pipes are the parent's."""
    global _guard  # noqa: PLW0603 (another thread may have held it at the fork)
    _guard = threading.Lock()
    _idle.clear()


atexit.register(close_idle)
os.register_at_fork(after_in_child=_forget_idle)
