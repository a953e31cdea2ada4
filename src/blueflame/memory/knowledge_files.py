"""The knowledge files of a repository: read what a person changed, write what was learned, never over their words.

What the files held last is in the store (memory/shelves). A file is replaced only if it is as it was read; a crash
between writing a file and recording it is no edit of a person.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from blueflame.knowledge.archive import format_archive, is_archive_due, list_archive_names
from blueflame.knowledge.edits import ESSENTIAL, Recorded, assign_keys, digest_entries, find_edits
from blueflame.knowledge.page import KnowledgePage, build_page, parse_page, render_page, update_page
from blueflame.lazy_dataclass import dataclass
from blueflame.memory.shelves import Shelf, group_last_archived
from blueflame.memory.store import MemoryStore
from blueflame.model.errors import WorldError
from blueflame.model.memory import (
    DOMAIN_FOLDER,
    DOMAIN_TOKENS,
    FILE_KINDS,
    KNOWLEDGE_FILES,
    KnowledgeFile,
    Lesson,
    MemoryRecord,
    TaskFailure,
    TaskResult,
    get_knowledge_file,
)
from blueflame.system.fd import wait_for_lock
from blueflame.system.files import build_file_error, explain_file_errors
from blueflame.system.replace import replace_unchanged

MAX_FILE_BYTES = 1_000_000
LOCK_SECONDS = 10.0
ARCHIVE = "archive"
DOMAIN_NAME = re.compile(rb"(?m)\A---\r?\n(?:.*\r?\n)*?knowledge: *(domain/[^\r\n]+?) *\r?$")
FORMER_PAGE, FORMER_TITLE = "lessons.md", b"# What worked, and what people said\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A knowledge file as it is on disk."""

    file: KnowledgeFile
    path: Path
    content: bytes | None = None  # None: there is no such file
    page: KnowledgePage | None = None  # None: it cannot be read
    problems: tuple[str, ...] = ()  # with the path and the line

    @property
    def digest(self) -> str:
        return sha256(self.content).hexdigest() if self.content is not None else ""


class KnowledgeFolder:
    def __init__(self, folder: Path, store: MemoryStore) -> None:
        self.folder = folder
        self._store = store

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other processes of ours from the files and from what is recorded about them."""
        lock = self.folder.parent / "knowledge.lock"
        with explain_file_errors("open the lock", lock):
            lock.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not wait_for_lock(handle, LOCK_SECONDS):
                raise WorldError(f"another process has held {lock} for {LOCK_SECONDS:.0f} seconds; try again later")
            yield
        finally:
            os.close(handle)

    def read(self, names: Sequence[str] = ()) -> tuple[ReadFile, ...]:
        """Read every file that is there, and those of `names`; each entry has a key of its own."""
        paths = {self.build_path(name): build_file(name) for name in (*FILE_KINDS, *names)}
        for path in sorted((self.folder / DOMAIN_FOLDER).glob("*.md")):
            paths.setdefault(path, build_file(f"{DOMAIN_FOLDER}/{path.stem}"))
        files = [_read_file(path, file) for path, file in paths.items()]
        pages = iter(assign_keys([each.page for each in files if each.page is not None]))
        return tuple(replace(each, page=next(pages)) if each.page is not None else each for each in files)

    def has_changed(self) -> bool:
        """Whether a person has changed something since; also if a file or an entry could not be read."""
        paths = {self.build_path(name) for name in FILE_KINDS} | set((self.folder / DOMAIN_FOLDER).glob("*.md"))
        found = {path: digest for path in paths if (digest := _digest_file(path))}
        known = {self.build_path(name): each.digest for name, each in self._store.list_shelves().items() if each.digest}
        return found != known

    def list_problems(self) -> tuple[str, ...]:
        """What cannot be read, with its place."""
        return tuple(problem for each in self.read() for problem in each.problems)

    def pick_up(self, now: float) -> tuple[str, ...]:
        """Save what a person changed since the files were last read or written; return problems, with their place."""
        files, shelves = self.read(), self._store.list_shelves()
        problems = [problem for each in files for problem in each.problems]
        pages = [each.page for each in files if each.page is not None]
        known = {each.key: each for each in self._store.list_records() if isinstance(each, Lesson)}
        readable = all(each.page is not None or each.content is None for each in files)
        recorded = {name: shelf.recorded for name, shelf in shelves.items()}
        edits = find_edits(pages, known, recorded, readable=readable, at=now)
        held = {name: each for name, each in _build_shelves(files, shelves, edits.unsure) if each != shelves.get(name)}
        if held or edits.lessons or edits.forgotten:
            self._store.apply_edits(edits, held)
        problems += [f"{self.build_path(name)}: {UNSURE}" for name in edits.unsure]
        return tuple(problems)

    def write(self, lessons: Sequence[Lesson], contradicts: Mapping[str, Sequence[str]]) -> bool:
        """Write what is active; return False if a person saved a file meanwhile: read it and try again."""
        by_file: dict[str, list[Lesson]] = {}
        for lesson in lessons:
            if lesson.is_active and lesson.text.strip() and not lesson.key.startswith(ESSENTIAL):
                by_file.setdefault(get_knowledge_file(lesson).name, []).append(lesson)
        shelves = self._store.list_shelves()
        for each in self.read(tuple(by_file)):
            entries = by_file.get(each.file.name, [])
            shelf = shelves.get(each.file.name, Shelf())
            if _is_writable(each, shelf) and not self._write_file(each, entries, contradicts, shelf):
                return False
        self._remove_former_page()
        return True

    def _write_file(
        self, read: ReadFile, lessons: Sequence[Lesson], contradicts: Mapping[str, Sequence[str]], shelf: Shelf
    ) -> bool:
        if read.content is None and not lessons and read.file.name not in FILE_KINDS:
            return True
        if read.content is not None and read.digest != shelf.digest:
            return False  # saved since it was picked up
        page = read.page or build_page(read.file)
        content = render_page(update_page(page, lessons, contradicts)).encode("utf-8", "surrogateescape")
        entries = _digest_content(content, read.file)
        if content != read.content:
            begun = replace(shelf, recorded=Recorded(entries=shelf.recorded.entries, intended=entries))
            self._store.save_shelf(read.file.name, begun)
            if not replace_unchanged(read.path, read.content, content):
                return False
        done = Shelf(digest=sha256(content).hexdigest(), recorded=Recorded(entries=entries))
        if done != shelf:
            self._store.save_shelf(read.file.name, done)
        return True

    def archive(self, records: Sequence[MemoryRecord], now: float) -> tuple[Path, ...]:
        """Write the entries that left their files to the archive, where that is due; return the new files."""
        archived = self._store.list_archived()
        last = group_last_archived(archived)
        waiting: dict[str, list[Lesson]] = {}
        for record in records:
            if isinstance(record, Lesson) and record.archived and record.key not in archived:
                waiting.setdefault(get_knowledge_file(record).name, []).append(record)
        ended = [record.origin.at for record in records if isinstance(record, TaskResult | TaskFailure)]
        written: list[Path] = []
        for name, lessons in sorted(waiting.items()):
            since = last.get(name, 0.0)
            if is_archive_due(lessons, last=since, tasks=sum(at > since for at in ended), now=now):
                written.append(self._write_archive(name, lessons, now))
        return tuple(written)

    def _write_archive(self, name: str, lessons: Sequence[Lesson], now: float) -> Path:
        content = format_archive(name, lessons, now).encode("utf-8", "surrogateescape")
        for relative in list_archive_names(get_file_stem(name), now):
            path = self.folder / ARCHIVE / relative
            if replace_unchanged(path, None, content):
                self._store.note_archived([each.key for each in lessons], name, relative, now)
                return path
        raise WorldError(f"{self.folder / ARCHIVE} has a thousand archives of {name} of this day; move them away")

    def build_path(self, name: str) -> Path:
        return self.folder / f"{get_file_stem(name)}.md"

    def _remove_former_page(self) -> None:
        """The page of lessons that earlier versions wrote; one that a person wrote is theirs."""
        path = self.folder / FORMER_PAGE
        try:
            if path.read_bytes().startswith(FORMER_TITLE):
                path.unlink()
        except OSError:
            return


UNSURE = (
    "entries are missing, and so is its last line: is it being saved? Nothing is forgotten or taken over until that "
    "line is back"
)


def build_file(name: str) -> KnowledgeFile:
    kind = FILE_KINDS.get(name)
    return KNOWLEDGE_FILES[kind] if kind is not None else KnowledgeFile(name=name, tokens=DOMAIN_TOKENS)


def get_file_stem(name: str) -> str:
    """The path of a file without its ending; a domain whose name cannot be that of a file gets another."""
    folder, slash, domain = name.partition("/")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", domain).strip(".-")[:60]
    if plain != domain:
        plain = f"{plain or 'domain'}-{sha256(domain.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
    return f"{folder}{slash}{plain}" if slash else name


def _digest_file(path: Path) -> str:
    with explain_file_errors("read", path), suppress(FileNotFoundError):
        return "unusable" if _find_problem(path) else sha256(path.read_bytes()).hexdigest()
    return ""


def _find_problem(path: Path) -> str:
    """Why a file is not even opened. A link is not followed: an agent could have made it."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return f"{path}: it is a link or no file at all, and is not read"
    if found.st_size > MAX_FILE_BYTES:
        return f"{path}: it has {found.st_size:,} bytes; more than {MAX_FILE_BYTES:,} are not read"
    return ""


def _read_file(path: Path, file: KnowledgeFile) -> ReadFile:
    try:
        problem = _find_problem(path)
        if problem:
            return ReadFile(file=file, path=path, content=b"", problems=(problem,))
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        return ReadFile(file=file, path=path)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return ReadFile(file=file, path=path, content=content, problems=(f"{path}:{line}: it is not UTF-8 text",))
    except OSError as error:
        raise build_file_error("read", path, error) from error
    found = DOMAIN_NAME.match(content)
    if found is not None and f"{get_file_stem(found[1].decode())}.md" == f"{DOMAIN_FOLDER}/{path.name}":
        file = build_file(found[1].decode())
    page = parse_page(text, file)
    if not isinstance(page, KnowledgePage):
        problem = f"{path}:{page.problem.line}: {page.problem.text}. The file stays as it is"
        return ReadFile(file=file, path=path, content=content, problems=(problem,))
    problems = tuple(f"{path}:{each.line}: {each.text}. The entry stays as it is" for each in page.problems)
    return ReadFile(file=page.file, path=path, content=content, page=page, problems=problems)


def _build_shelves(
    files: Sequence[ReadFile], shelves: Mapping[str, Shelf], unsure: Sequence[str]
) -> Iterator[tuple[str, Shelf]]:
    """What the files hold now. Of one that could not be read, or only in part, the record stays."""
    for each in files:
        name, known = each.file.name, shelves.get(each.file.name, Shelf())
        if each.content is None and name in shelves:
            yield name, Shelf()  # a file that is gone is written again: only entries can be deleted
        elif each.page is not None and name not in unsure:
            held = {block.key: known.recorded.entries.get(block.key, "") for block in each.page.blocks if block.key}
            entries = held | digest_entries(each.page)
            yield name, Shelf(digest=each.digest, recorded=Recorded(entries=entries))


def _is_writable(read: ReadFile, shelf: Shelf) -> bool:
    """A file that cannot be read stays as it is; one that lacks entries and its last line may be half saved."""
    if read.page is None:
        return read.content is None
    return read.page.complete or set(shelf.recorded.entries) <= {block.key for block in read.page.blocks}


def _digest_content(content: bytes, file: KnowledgeFile) -> dict[str, str]:
    page = parse_page(content.decode("utf-8", "surrogateescape"), file)
    return digest_entries(assign_keys([page])[0]) if isinstance(page, KnowledgePage) else {}
