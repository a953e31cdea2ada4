"""The instructions that a repository has for agents (AGENTS.md, CLAUDE.md), read from a commit.

Never from a checkout: there an agent can write what the next one would be instructed by.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from blueflame.git.blobs import read_files_at
from blueflame.git.repository import Repository
from blueflame.git.trees import list_tree_files
from blueflame.lazy_dataclass import dataclass
from blueflame.paths.locks import LockPath, covers, fold_path

MAX_FILES = 20
HIDDEN_FOLDER = ".claude"  # its CLAUDE.md is about the folder that it is in
IMPORT = re.compile(r"(?:^|\s)@([^\s`*,;:]+)")


@dataclass(frozen=True, slots=True)
class InstructionFile:
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Instructions:
    files: tuple[InstructionFile, ...] = ()  # from the top of the repository to the nearest
    others: tuple[str, ...] = ()  # for other folders


NO_INSTRUCTIONS = Instructions()


def read_instructions(
    repo: Repository,
    sha: str,
    names: Sequence[str],
    *,
    locks: Sequence[LockPath] = (),
    may_import: Callable[[str], bool] = lambda _path: True,
) -> Instructions:
    """Read those at the top and, for these locks, those in the folders above and below them.

    As Claude Code does, `@path` in one of them imports that file, unless `may_import` refuses it.
    """
    tree = frozenset(list_tree_files(repo, sha))
    every = sorted((path for path in tree if path.rpartition("/")[2] in names), key=_rank_by_depth)
    near = [path for path in every if _applies(fold_path(_find_folder(path)), locks)]
    texts: dict[str, str] = {}
    waiting = near[::-1]
    while waiting and len(texts) < MAX_FILES:
        path = waiting.pop()
        if path in texts:
            continue
        text = read_files_at(repo, sha, (path,)).get(path, b"").decode("utf-8", "replace").strip()
        imports = [named for named in _find_imports(path, text, tree) if may_import(named)]
        texts[path] = "" if imports and _is_pointer(text) else text
        waiting += [named for named in imports[::-1] if named not in texts]
    files = tuple(InstructionFile(path, text) for path, text in texts.items() if text)
    return Instructions(files, tuple(path for path in every if path not in texts))


def _rank_by_depth(path: str) -> tuple[int, str]:
    return len(_find_folder(path)), path


def _find_folder(path: str) -> LockPath:
    folder = tuple(path.split("/")[:-1])
    return folder[:-1] if folder and folder[-1] == HIDDEN_FOLDER else folder


def _applies(folder: LockPath, locks: Iterable[LockPath]) -> bool:
    return not folder or any(covers(folder, lock) or covers(lock, folder) for lock in locks if lock)


def _find_imports(path: str, text: str, tree: frozenset[str]) -> Iterator[str]:
    """Yield the files that a text imports. The text of a symbolic link is the path that it links to."""
    folder = posixpath.dirname(path)
    for name in (*IMPORT.findall(text), *([text] if _is_pointer(text) else [])):
        named = posixpath.normpath(posixpath.join(folder, name.rstrip(".)")))
        if named in tree and named != path:
            yield named


def _is_pointer(text: str) -> bool:
    return len(text.split()) == 1
