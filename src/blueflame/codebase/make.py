"""Make the map of a commit: list its files, read its history, and parse what was never parsed before."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic

from blueflame.codebase.cache import CodeCache, Content, open_cache, remove_damaged
from blueflame.codebase.ctags import Ctags, Source, SymbolReader, find_ctags
from blueflame.codebase.history import count_changes, read_history
from blueflame.codebase.survey import CodeFile, CodeSurvey, Coverage, Symbol
from blueflame.git.batch import read_objects
from blueflame.git.blobs import split_batches
from blueflame.git.command import run_git, split_nul, try_git
from blueflame.git.repository import Repository
from blueflame.model.errors import ProcessFailed
from blueflame.paths.file_kinds import LANGUAGE_OF, THIRD_PARTY_FOLDERS, is_test_file

MAX_FILES = 200_000
MAX_PARSED_BYTES = 500_000  # larger ones are generated
BATCH_BYTES, FILE_BYTES = 1_000_000, 1000  # of one batch, and what a file counts beside its content
SAVED_FILES = 5000  # in one transaction
LEADING_FILES = 200  # whose symbols a survey has
PARSE_SECONDS = 7.0  # the rest is parsed the next time
LOOK_UP_SECONDS = 2.0  # for the files with one word
SEARCH_SECONDS = 10
GIT_SECONDS = 60
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def survey_code(repo: Repository, sha: str, cache: Path | None, *, seconds: float | None = PARSE_SECONDS) -> CodeSurvey:
    """Make the map of a commit. `seconds`: how long to parse at most; what is left is parsed the next time."""
    try:
        with open_cache(cache) as opened:
            return _survey(repo, sha, opened, seconds)
    except sqlite3.Error as error:
        if cache is not None:
            remove_damaged(cache, error)
        with open_cache(None) as opened:
            return _survey(repo, sha, opened, seconds)


def find_definitions(
    survey: CodeSurvey, cache: Path | None, names: Iterable[str]
) -> Mapping[str, Mapping[str, tuple[Symbol, ...]]]:
    """Return for each name the files that define it, as far as they have been parsed."""
    with suppress(sqlite3.Error), open_cache(cache) as opened:
        return {name: _place_definitions(survey, opened, name) for name in names}
    return {name: {} for name in names}


def _place_definitions(survey: CodeSurvey, cache: CodeCache, name: str) -> dict[str, tuple[Symbol, ...]]:
    contents = cache.find_definitions(name)
    blobs = {content.blob for content in contents}
    found = ((file.path, file.blob) for file in survey.files if file.blob in blobs)
    return {
        path: symbols
        for path, blob in found
        for content, symbols in contents.items()
        if content.blob == blob and content.suffix == get_suffix(path)
    }


def select_files(files: Iterable[CodeFile], place: str) -> tuple[CodeFile, ...]:
    """Return the files at or below a path; all for ""."""
    return tuple(file for file in files if not place or f"{file.path}/".startswith(f"{place}/"))


def read_outlines(cache: Path | None, files: Iterable[CodeFile]) -> dict[str, tuple[Symbol, ...]]:
    """Return the symbols of files, as far as they have been parsed."""
    with suppress(sqlite3.Error), open_cache(cache) as opened:
        return _load_outlines(opened, files)
    return {}


def find_word(repo: Repository, sha: str, word: str) -> tuple[str, ...]:
    """Return the files of a commit that contain the word; none where it takes too long to look."""
    with suppress(ProcessFailed):
        found = try_git(repo.root, "grep", "-l", "-z", "-I", "-w", "-F", "-e", word, sha, "--", timeout=SEARCH_SECONDS)
        return tuple(sorted(name.partition(":")[2] for name in split_nul(found.out)))
    return ()


def find_defining_files(
    repo: Repository, cache: Path | None, files: Iterable[CodeFile], words: Mapping[str, Sequence[str]]
) -> Mapping[str, tuple[str, ...]]:
    """Return for each name the files that define it, out of those with the word; they are parsed if they never were.

    `words`: the files that contain each name. Empty without a parser.
    """
    ctags, named = find_ctags(os.environ), {path for paths in words.values() for path in paths}
    wanted = [file for file in files if file.path in named]
    if not isinstance(ctags, Ctags) or not wanted:
        return {}
    with suppress(sqlite3.Error), open_cache(cache) as opened:
        opened.use_parser(_name_parser(ctags))
        _parse_missing(repo, ctags, opened, _list_contents(wanted, ctags), opened.list_read(), seconds=LOOK_UP_SECONDS)
        outlines = _load_outlines(opened, wanted)
        names = {path: {symbol.name for symbol in symbols} for path, symbols in outlines.items()}
        return {word: tuple(path for path in paths if word in names.get(path, ())) for word, paths in words.items()}
    return {}


def _name_parser(ctags: Ctags) -> str:
    return f"{ctags.version} {MAX_PARSED_BYTES}"


def _survey(repo: Repository, sha: str, cache: CodeCache, seconds: float | None) -> CodeSurvey:
    files = list_files(repo, sha)
    history = read_history(repo, sha, cache)
    ranked = rank_files(files, count_changes(history, (file.path for file in files)))
    ctags = find_ctags(os.environ)
    if not isinstance(ctags, Ctags):
        return CodeSurvey(files=files, history=history, coverage=Coverage(problem=ctags.reason))
    cache.use_parser(_name_parser(ctags))
    contents = _list_contents(ranked, ctags)
    read = cache.list_read()
    problem = _parse_missing(repo, ctags, cache, contents, read, seconds=seconds)
    cache.drop_unused(contents, (commit.sha for commit in history))
    return CodeSurvey(
        files=files,
        history=history,
        outlines=_load_outlines(cache, ranked[:LEADING_FILES]),
        coverage=_measure_coverage(read, ctags, contents, files, problem),
    )


def list_files(repo: Repository, sha: str) -> tuple[CodeFile, ...]:
    """Return the files of a commit: no submodules, no links."""
    args = ("ls-tree", "-r", "-z", "--full-tree", "--format=%(objectmode) %(objectname) %(objectsize)\t%(path)", sha)
    entries = split_nul(run_git(repo.root, *args, timeout=GIT_SECONDS))
    return tuple(_parse_entry(entry) for entry in entries[:MAX_FILES] if entry.startswith("100"))


def _parse_entry(entry: str) -> CodeFile:
    head, _, path = entry.partition("\t")
    _, blob, size = head.split(" ")
    return CodeFile(path, int(size), LANGUAGE_OF.get(get_suffix(path), ""), is_test_file(path), blob)


def get_suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    at = name.rfind(".")
    return name[at:].lower() if at > 0 else ""


def rank_files(files: Iterable[CodeFile], changes: Mapping[str, int]) -> tuple[CodeFile, ...]:
    """Sort source files by what a reader should know first: what changes often, then what is not deep."""
    sources = [file for file in files if file.language and not _is_foreign(file.path)]
    return tuple(
        sorted(sources, key=lambda file: (file.is_test, -changes.get(file.path, 0), file.path.count("/"), file.path))
    )


def _is_foreign(path: str) -> bool:
    return _is_foreign_folder(path.rpartition("/")[0])


@lru_cache(maxsize=100_000)
def _is_foreign_folder(folder: str) -> bool:
    return not THIRD_PARTY_FOLDERS.isdisjoint(folder.split("/"))


def _list_contents(ranked: Iterable[CodeFile], ctags: Ctags) -> dict[Content, int]:
    """Return what can be parsed and its size, in the order of the files."""
    known = {suffix: ctags.find_syntax(suffix) for suffix in LANGUAGE_OF}
    return {
        Content(file.blob, suffix): file.size
        for file in ranked
        if file.size <= MAX_PARSED_BYTES and known[suffix := get_suffix(file.path)]
    }


def _parse_missing(
    repo: Repository,
    ctags: Ctags,
    cache: CodeCache,
    contents: Mapping[Content, int],
    read: dict[tuple[str, str], bool],
    *,
    seconds: float | None,
) -> str:
    """Parse what is not in the cache, and note it in `read`; return why it was not possible, or ""."""
    missing = [content for content in contents if content not in read]
    give_up = None if seconds is None else monotonic() + seconds
    found: list[tuple[Content, tuple[Symbol, ...] | None]] = []
    try:
        with SymbolReader(ctags) as reader:
            for batch in split_batches(missing, lambda each: contents[each] + FILE_BYTES, BATCH_BYTES):
                if give_up is not None and monotonic() > give_up:
                    break
                parsed = list(_parse_batch(repo, ctags, reader, batch))
                read |= {content: symbols is not None for content, symbols in parsed}
                found += parsed
                if len(found) >= SAVED_FILES:
                    cache.save_outlines(found)
                    found = []
    except ProcessFailed as error:
        return str(error)
    finally:
        cache.save_outlines(found)
    return ""


def _parse_batch(
    repo: Repository, ctags: Ctags, reader: SymbolReader, batch: Sequence[Content]
) -> Iterator[tuple[Content, tuple[Symbol, ...] | None]]:
    data = read_objects(repo, sorted({content.blob for content in batch}))
    texts = [b"" if data[each.blob].startswith(LFS_POINTER) else data[each.blob] for each in batch]
    sources = [Source(ctags.find_syntax(each.suffix), text) for each, text in zip(batch, texts, strict=True)]
    return zip(batch, reader.read(sources), strict=True)


def _load_outlines(cache: CodeCache, files: Iterable[CodeFile]) -> dict[str, tuple[Symbol, ...]]:
    found = {file.path: cache.load_outline(Content(file.blob, get_suffix(file.path))) for file in files}
    return {path: symbols for path, symbols in found.items() if symbols}


def _measure_coverage(
    read: Mapping[tuple[str, str], bool],
    ctags: Ctags,
    contents: Mapping[Content, int],
    files: Iterable[CodeFile],
    problem: str,
) -> Coverage:
    tried = [read[content] for content in contents if content in read]
    missing = {suffix: language for suffix, language in LANGUAGE_OF.items() if not ctags.find_syntax(suffix)}
    ends = tuple(missing)
    unknown = Counter(
        missing[suffix]
        for file in files
        if file.language and file.path.lower().endswith(ends) and (suffix := get_suffix(file.path)) in missing
    )
    return Coverage(
        parser=f"Universal Ctags {ctags.version}",
        problem=problem,
        wanted=len(contents),
        parsed=sum(tried),
        failed=len(tried) - sum(tried),
        unknown=dict(sorted(unknown.items())),
    )
