"""Plan files that people save in a repository: a checklist becomes a plan, other text a request.

The folder is the truth, an event of the watcher only a hint. Nothing is ever written into the repository.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from blueflame.config.load import load_config
from blueflame.dispatch.checklists import MAX_ITEMS, PlanDocument, build_plan, compute_digest, parse_plan_document
from blueflame.documents.plans import format_plan
from blueflame.git.command import split_nul, try_git
from blueflame.git.untrusted.live_changes import read_beneath
from blueflame.intake.source import MAX_WAIT_SECONDS, Clock, Intake, SourceContext, SourceProbe, parse_cursor
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import BlueFlameError, WorldError
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.settings.sources import PlanFileSettings, SourceSettings
from blueflame.system.files import build_file_error
from blueflame.system.wakeups import watch_folders
from blueflame.text.format import format_count
from blueflame.text.sanitize import clean_line, clean_text

KIND = "plans"
REST_SECONDS = 0.5  # a file that was not changed for so long is complete
MAX_PLAN_BYTES = 256_000
MAX_PLAN_FILES = 1_000


class PlanFileStamp(NamedTuple):
    size: int
    modified_at: int
    inode: int


class _Refused(Exception):
    """A file that is not read, and why."""


@dataclass(slots=True)
class PlanFileSource:
    repository: str
    root: Path
    config: Path
    settings: PlanFileSettings
    clock: Clock
    _seen: dict[str, PlanFileStamp] = field(default_factory=dict)  # at the last look
    _handled: dict[str, PlanFileStamp] = field(default_factory=dict)  # judged as they are

    @property
    def name(self) -> str:
        return f"{KIND}/{self.repository}"

    async def run(self, intake: Intake) -> None:
        hint = asyncio.Event()
        watcher = asyncio.create_task(self._watch(hint))
        try:
            while True:
                hint.clear()  # before the look: what changes during it is a hint for the next one
                await self._wait(await self.step(intake), hint)
        finally:
            watcher.cancel()
            await asyncio.wait({watcher})  # not `await watcher`: our own cancelling must not be taken for its

    async def _wait(self, seconds: float, hint: asyncio.Event) -> None:
        waits: set[asyncio.Future[object]] = {asyncio.ensure_future(self.clock.sleep(seconds))}
        if seconds > REST_SECONDS:
            waits.add(asyncio.ensure_future(hint.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _watch(self, hint: asyncio.Event) -> None:
        """Watch the folders, or what is there of the way to them; a folder that is made again is another one."""
        while True:
            places = self._find_places()
            async with aclosing(watch_folders(*places, pulse=MAX_WAIT_SECONDS)) as changes:
                async for paths in changes:
                    hint.set()
                    if self._find_places() != places or not paths.isdisjoint(places):
                        break

    def _find_places(self) -> dict[Path, int]:
        places = {}
        for folder in {self.root / Path(pattern).parent for pattern in self.settings.paths}:
            for place in (folder, *folder.parents):
                with suppress(OSError):  # also one that we may not look into
                    about = place.stat()
                    if stat.S_ISDIR(about.st_mode):
                        places[place] = about.st_ino
                        break
                if place == self.root:
                    break
        return places or {Path("/"): 0}  # the repository is gone: the look reports it

    # --- a look at the disk -------------------------------------------------------------------------------------

    async def step(self, intake: Intake) -> float:
        """Receive the files that are new or changed and at rest; return when to look again."""
        state = parse_cursor(intake.read_cursor(self.name))
        if problem := self._find_problem():
            intake.warn(self.name, f"no plan files are read: {problem}")
            return MAX_WAIT_SECONDS
        found = await asyncio.to_thread(lambda: dict(self._scan()))
        if len(found) > MAX_PLAN_FILES:
            intake.warn(
                self.name, f"there are {len(found)} plan files: only {MAX_PLAN_FILES} are read. Remove old ones"
            )
            found = dict(sorted(found.items())[:MAX_PLAN_FILES])
        if not state:
            state = {"files": await asyncio.to_thread(self._record_tracked)}
            self._report_tracked(intake, state["files"])
            intake.receive(self.name, (), cursor=json.dumps(state))
        due = {path: stamp for path, stamp in found.items() if self._handled.get(path) != stamp}
        at_rest = {path: stamp for path, stamp in due.items() if self._seen.get(path) == stamp}
        self._seen = found
        await self._take(intake, state["files"], at_rest)
        return MAX_WAIT_SECONDS if all(self._handled.get(path) == due[path] for path in due) else REST_SECONDS

    async def _take(self, intake: Intake, files: dict[str, Any], at_rest: Mapping[str, PlanFileStamp]) -> None:
        arrivals, handled = [], {}
        for path, stamp in sorted(at_rest.items()):
            try:
                text = await asyncio.to_thread(self._read, path, stamp)
                if text is None:
                    continue  # changed while it was read: at the next look
                arrivals += self._judge(path, text, files)
            except _Refused as refused:
                intake.warn(self.name, f"{clean_line(path)} is not read: {refused}")
            handled[path] = stamp
        if arrivals or files != parse_cursor(intake.read_cursor(self.name))["files"]:
            intake.receive(self.name, arrivals, cursor=json.dumps({"files": files}))
        self._handled |= handled  # after it: what could not be stored is taken at the next look

    def _find_problem(self) -> str:
        """Why plan files cannot be found; empty if they can. A folder for them need not be there."""
        for folder in (self.root, *(self.root / Path(pattern).parent for pattern in self.settings.paths)):
            try:
                os.scandir(folder).close()
            except (FileNotFoundError, NotADirectoryError):
                if folder == self.root:
                    return f"{self.root} is not a folder; restore it, or correct its path in house.yaml"
            except OSError as error:
                return str(build_file_error("list", folder, error))
        return ""

    def _scan(self) -> Iterator[tuple[str, PlanFileStamp]]:
        for pattern in self.settings.paths:
            folder, _, names = pattern.rpartition("/")
            with suppress(OSError), os.scandir(self.root / folder) as entries:
                for entry in entries:
                    if fnmatchcase(entry.name, names) and not entry.name.startswith("."):
                        with suppress(OSError):
                            about = entry.stat(follow_symlinks=False)
                            path = f"{folder}/{entry.name}".lstrip("/")
                            yield path, PlanFileStamp(about.st_size, about.st_mtime_ns, about.st_ino)

    def _read(self, path: str, stamp: PlanFileStamp) -> str | None:
        """Return its text; None when it has just changed. No link is followed, at any part of the path."""
        if clean_text(path) != path:
            raise _Refused("its name has characters that are not text. Rename it")
        data = read_beneath(self.root, path) if stamp.size <= MAX_PLAN_BYTES else None
        try:
            about = (self.root / path).lstat()
        except OSError:
            return None
        if PlanFileStamp(about.st_size, about.st_mtime_ns, about.st_ino) != stamp:
            return None
        if data is None:
            raise _Refused(self._explain_unread(path, about))
        if b"\0" in data:
            raise _Refused("it has a NUL character. Save it as UTF-8 text")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _Refused(f"it is not UTF-8 text (byte {error.start}). Save it as UTF-8") from None

    def _explain_unread(self, path: str, about: os.stat_result) -> str:
        if stat.S_ISLNK(about.st_mode) or any((self.root / part).is_symlink() for part in Path(path).parents[:-1]):
            return "it is behind a symbolic link. Put the file itself there"
        if not stat.S_ISREG(about.st_mode):
            return "it is not a plain file. Remove it"
        if about.st_size > MAX_PLAN_BYTES:
            return f"it has {about.st_size} bytes, and at most {MAX_PLAN_BYTES} are read. Split it"
        return "it is not readable for us. Fix its permissions"

    # --- what a file means --------------------------------------------------------------------------------------

    def _judge(self, path: str, text: str, files: dict[str, Any]) -> list[IncomingRequest]:
        digest, before = compute_digest(text), files.get(path)
        if not text.strip() or (before is not None and before["digest"] == digest):
            return []
        document = parse_plan_document(text)
        if len(document.open_items) > MAX_ITEMS:
            raise _Refused(f"it has more than {MAX_ITEMS} open items. Split it")
        items = [item.digest for item in document.open_items]
        was_taken = before is not None and before["taken"]
        if document.items and set(items) <= set(before["items"] if before and was_taken else ()):
            files[path] = {"digest": digest, "taken": was_taken, "items": items}  # items were done or removed
            return []
        files[path] = {"digest": digest, "taken": True, "items": items}
        return [self._build_request(path, text, document, is_new_version=was_taken)]

    def _build_request(self, path: str, text: str, document: PlanDocument, *, is_new_version: bool) -> IncomingRequest:
        # what was taken may be running or done: a person decides whether the new version is work, too
        trust = Trust.MEMBER if is_new_version else Trust(self.settings.trust)
        title = document.title or path
        plan = format_plan(build_plan(document, path, self._list_writable())) if document.open_items else ""
        return IncomingRequest(
            source=KIND,
            key=f"{self.repository}/{path}@{compute_digest(text)}",
            sender=Sender(name=clean_line(path), trust=trust, address=f"plans:{self.repository}/{clean_line(path)}"),
            at=self.clock.now(),
            text=text,
            repository=self.repository,
            title=f"New version of {path}: {title}" if is_new_version else title,
            plan=plan,
            origin=str(self.root / path),
        )

    def _list_writable(self) -> tuple[str, ...]:
        """List what agents may write here, as locks: a task without locks is refused where that is not everything."""
        try:
            allowed = load_config(self.config).settings.permissions.allowed_paths
        except BlueFlameError:
            return ()  # starting the session reports it
        return tuple(pattern.lstrip("/") for pattern in allowed if "\\" not in pattern)

    def _record_tracked(self) -> dict[str, Any]:
        """Files that are committed when the house first looks are the project's history, not requests."""
        folders = {pattern.rpartition("/")[0] or "." for pattern in self.settings.paths}
        try:
            listed = try_git(self.root, "ls-files", "-z", "--", *(f":(literal){each}" for each in sorted(folders)))
        except WorldError:
            return {}
        tracked, recorded = set(split_nul(listed.out)) if not listed.code else set(), {}
        for path, stamp in self._scan():
            with suppress(_Refused):
                if path in tracked and (text := self._read(path, stamp)) is not None:
                    recorded[path] = {"digest": compute_digest(text), "taken": False, "items": []}
        return recorded

    def _report_tracked(self, intake: Intake, files: Mapping[str, Any]) -> None:
        if files:
            some = ", ".join(clean_line(path) for path in sorted(files)[:3])
            intake.warn(
                self.name,
                f"{len(files)} plan files were committed before the house first looked and are left alone"
                f" ({some}{', ...' if len(files) > 3 else ''}). Edit one to request it, or use `blueflame run`",
            )

    async def probe(self) -> SourceProbe:
        if problem := self._find_problem():
            return SourceProbe(False, problem)
        found = dict(self._scan())
        watched = ", ".join(self.settings.paths)
        refused = []
        for path, stamp in found.items():
            try:
                self._read(path, stamp)
            except _Refused as error:
                refused.append(f"{clean_line(path)}: {error}")
        if refused:
            return SourceProbe(False, "; ".join(refused))
        return SourceProbe(True, f"{watched} in {self.root}: {format_count(len(found), 'file')}, readable")


def build_plan_sources(settings: SourceSettings, context: SourceContext) -> tuple[PlanFileSource, ...]:
    if not settings.plans.enabled:
        return ()
    return tuple(
        PlanFileSource(name, served.root, served.config, settings.plans, context.clock)
        for name, served in context.repositories.items()
    )
