"""Make and remove an attempt's checkout: a separate repository that borrows our objects and cannot change ours.

It is made with `git init` and an alternates file rather than with `git clone --shared`: the result is the same, but it
also works from a shallow repository, has no remote to push to and no copy of the person's branches, and is faster.

A record beside each checkout (where an agent cannot write) has its base, its branch and whether it is complete. The
record is written first and removed last, so after a crash a checkout is complete or is made again, and a folder without
a record is never touched.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from blueflame.git.command import find_identity, read_settings, run_git
from blueflame.git.repository import Repository, list_tags
from blueflame.git.spares.index_file import count_entries
from blueflame.git.spares.store import (
    MIN_FILES,
    SPARES,
    find_spares_folder,
    have_same_attributes,
    list_remains,
    list_spares,
    move_foreign_aside,
    put_spare,
    take_spare,
)
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import WorldError
from blueflame.system.disk import spread_folders
from blueflame.system.files import build_file_error
from blueflame.system.proc import read_boot_id
from blueflame.system.process import run

RECORD_PREFIX, RECORD_SUFFIX = ".", ".checkout"
FEW = 20  # files
CHECKOUT_TIMEOUT = 1800.0  # a very large tree on a slow disk
WRITE_SETTINGS = ("-c", "checkout.workers=0", "-c", "index.version=2", "-c", "core.splitIndex=false")
UNFILTERED = "* -filter\n"  # before all other attributes, and whatever filters are configured (git/filters)
COARSE_CLOCK, MAX_TICK_WAITS = 5, 50  # Linux: CLOCK_REALTIME_COARSE, by which file systems stamp inodes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutRecord:
    base: str
    branch: str | None  # None: a detached scratch checkout
    ready: bool = False
    owner: str = ""  # the person who made it; "" for one of a session
    borrowed: str = ""  # the object folder that its git was given; "" in records of earlier versions
    boot: str = ""  # in which it was made, likewise; its files are not synced, so a power cut may have emptied them


def make_checkout(
    repo: Repository, path: Path, *, base: str, branch: str | None = None, head: str = "", owner: str = ""
) -> None:
    """Check out `base` on the new branch `branch`, or detached to run checks in; keep one that is complete already.

    With `head`, an ancestor, the branch is there, and what `base` has more is staged. One that was made before the
    machine started again is made again, unless it is a person's.
    """
    wanted = CheckoutRecord(base=base, branch=branch, owner=owner, borrowed=str(repo.objects), boot=read_boot_id())
    found = read_record(path)
    if found is not None and found.ready and path.is_dir() and (owner or found.boot == wanted.boot):
        if (found.base, found.branch) != (wanted.base, wanted.branch):
            raise WorldError(f"{path} is a checkout of {found.branch or found.base} already; remove that one first")
        return
    if found is None and (path.is_symlink() or path.exists()):
        raise WorldError(f"cannot make a checkout at {path}: something else is there; move it elsewhere")
    write_record(path, wanted)
    remove_tree(path)
    get_index_path(path).unlink(missing_ok=True)
    if not _write_on_spare(repo, path, wanted):
        _write_files(repo, path, wanted)
    if head and head != base:
        run_git(path, "reset", "-q", "--soft", head)
    _save_index(path)
    write_record(path, replace(wanted, ready=True))


def _write_on_spare(repo: Repository, path: Path, wanted: CheckoutRecord) -> bool:
    """Write only what differs from the files of an earlier checkout; False when no spare can be used."""
    if not (path.parent / SPARES).is_dir():
        return False
    index, is_sha256 = get_index_path(path), len(wanted.base) == 64
    if not take_spare(find_spares_folder(repo.root, path.parent), path, index):
        return False
    with suppress(WorldError, OSError):
        _write_files(repo, path, wanted, index)
        if have_same_attributes(index, path / ".git" / "index", is_sha256=is_sha256):
            return True
    remove_tree(path)
    return False


def _write_files(repo: Repository, path: Path, wanted: CheckoutRecord, index: Path | None = None) -> None:
    """With `index`, of the files that are there, git compares their inodes with it and writes the others again."""
    if index is None:
        spread_folders(str(path.parent))
    _init_with_alternates(repo, path, wanted.base)
    if index is not None:
        shutil.copy2(index, path / ".git" / "index")  # with its time, by which git knows what it must read
    # No agent has run there yet, so git may run in it; afterwards it may not.
    place = ("--detach", wanted.base) if wanted.branch is None else ("--no-track", "-b", wanted.branch, wanted.base)
    run_git(path, *WRITE_SETTINGS, "checkout", "-q", "-f", *place, timeout=CHECKOUT_TIMEOUT)


def _save_index(path: Path) -> None:
    """Copy the index of a large checkout to where an agent cannot write, for `keep_files`.

    The clock moves on before anything runs in the checkout, so that whatever is changed there gets a later time.
    """
    inside, saved = path / ".git" / "index", get_index_path(path)
    if sys.platform != "linux" or not inside.exists() or count_entries(inside) < MIN_FILES:
        return
    try:
        shutil.copy2(inside, saved)
        written = saved.stat().st_ctime_ns
        for _ in range(MAX_TICK_WAITS):
            if time.clock_gettime_ns(COARSE_CLOCK) > written:
                return
            time.sleep(0.001)
        saved.unlink()  # the clock was set back
    except OSError as e:
        raise build_file_error("write", saved, e) from e


def prepare_spare(repo: Repository, worktrees: Path, base: str) -> None:
    """Make a spare ahead, so that the next checkout is there at once."""
    path, record = worktrees / "spare", CheckoutRecord(base=base, branch=None, borrowed=str(repo.objects))
    remove_checkout(path)
    write_record(path, record)
    _write_files(repo, path, record)
    _save_index(path)
    write_record(path, replace(record, ready=True))
    keep_files(repo, path, most=sys.maxsize)


def keep_files(repo: Repository, path: Path, *, most: int) -> None:
    """Keep the files of a large checkout for the next one, unless there are `most` spares, and remove the rest of it.

    All that ran in it must have ended.
    """
    record, index = read_record(path), get_index_path(path)
    folder = find_spares_folder(repo.root, path.parent)
    if record is not None and record.ready and index.exists() and count_spares(repo, path.parent) < most:
        aside = _get_aside_path(path)
        remove_tree(aside)
        with suppress(OSError, WorldError):
            write_record(path, replace(record, ready=False))
            move_foreign_aside(path, index, aside, is_sha256=len(record.base) == 64)
            put_spare(folder, path, index)
    remove_checkout(path)


def sweep_spares(repo: Repository, worktrees: Path) -> None:
    """Remove what cannot be used of the spares, before any checkout is made."""
    if (worktrees / SPARES).is_dir():
        for path in list_remains(worktrees, find_spares_folder(repo.root, worktrees)):
            remove_tree(path)


def count_spares(repo: Repository, worktrees: Path) -> int:
    return len(list_spares(find_spares_folder(repo.root, worktrees)))


def remove_checkout(path: Path) -> None:
    """Remove a checkout of ours, whatever its agent did to it; refuse any other folder."""
    record = read_record(path)
    if record is None:
        _get_draft_path(get_record_path(path)).unlink(missing_ok=True)  # of a crash before anything was made
        if path.is_symlink() or path.exists():
            raise WorldError(
                f"will not remove {path}: Blue Flame did not make it (no {get_record_path(path)}); remove it yourself"
            )
        return
    # nothing is written before it: on a full disk this is what makes room
    remove_tree(_move_aside(path), get_fetch_path(path), get_home_path(path))
    get_index_path(path).unlink(missing_ok=True)
    _get_draft_path(get_record_path(path)).unlink(missing_ok=True)
    get_record_path(path).unlink(missing_ok=True)


def _move_aside(path: Path) -> Path:
    """Rename it before it is removed: no one takes a folder that is half removed for a checkout."""
    aside = _get_aside_path(path)
    remove_tree(aside)  # of a removal that was interrupted
    try:
        with suppress(FileNotFoundError):
            path.rename(aside)
    except OSError as e:
        raise build_file_error("remove", path, e) from e
    return aside


def list_checkouts(folder: Path) -> tuple[Path, ...]:
    """Return our checkouts in a folder, complete or not, sorted by name."""
    records = (*folder.glob(f"{RECORD_PREFIX}*{RECORD_SUFFIX}"), *folder.glob(f"{RECORD_PREFIX}*{RECORD_SUFFIX}.draft"))
    names = {each.name.removesuffix(".draft") for each in records}
    return tuple(folder / name.removeprefix(RECORD_PREFIX).removesuffix(RECORD_SUFFIX) for name in sorted(names))


def get_record_path(path: Path) -> Path:
    return path.with_name(f"{RECORD_PREFIX}{path.name}{RECORD_SUFFIX}")


def get_index_path(path: Path) -> Path:
    """Return the copy of a large checkout's index as git wrote it: out of the agent's reach."""
    return path.with_name(f"{RECORD_PREFIX}{path.name}.index")


def _get_aside_path(path: Path) -> Path:
    return path.with_name(f"{RECORD_PREFIX}{path.name}.removed")


def get_fetch_path(path: Path) -> Path:
    """Return the folder its commits are fetched from: out of the agent's reach, and found again after a crash."""
    return path.with_name(f"{RECORD_PREFIX}{path.name}.fetch")


def get_home_path(path: Path) -> Path:
    """Return the folder that is home to all commands in a scratch checkout: a setup fills caches for the checks."""
    return path.with_name(f"{RECORD_PREFIX}{path.name}.home")


def _init_with_alternates(repo: Repository, path: Path, base: str) -> None:
    tags = "".join(f"{sha} {name}\n" for name, sha in list_tags(repo).items())  # many builds read them
    inside = path / ".git"
    try:
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (inside / folder).mkdir(parents=True)
        (inside / "HEAD").write_text("ref: refs/heads/none\n", "utf-8")
        (inside / "packed-refs").write_text(tags, "utf-8", "surrogateescape")
        write_own_files(repo, path, base)
    except OSError as e:
        raise build_file_error("make the checkout", path, e) from e


def write_own_files(repo: Repository, path: Path, base: str) -> None:
    """Write what a checkout's git folder has of ours: where to find objects, what to ignore, and all its settings."""
    inside = path / ".git"
    (inside / "objects" / "info" / "alternates").write_text(f"{repo.objects}\n", "utf-8", "surrogateescape")
    (inside / "info").mkdir(exist_ok=True)
    for name in ("shallow", "info/exclude"):
        with suppress(FileNotFoundError):
            shutil.copyfile(repo.common_dir / name, inside / name)
    (inside / "info" / "attributes").write_text(UNFILTERED, "utf-8")
    (inside / "config").write_text(_format_config(repo, path, base), "utf-8", "surrogateescape")


def _format_config(repo: Repository, path: Path, base: str) -> str:
    """As `git init` writes it, but what it finds out about the file system is taken from the repository beside it, if
    both are on one.

    The person's name is put on the agents' commits, without their encoding and signature. Background gc, which would
    copy the borrowed objects, is off.
    """
    name, email = find_identity(repo.root)
    device = path.stat().st_dev
    known = read_settings(repo.root) if repo.root.stat().st_dev == device else _probe_file_system(path.parent, device)
    found = {"core.filemode": "true", **known}
    core = (f"{key[5:]} = {_quote_config_value(value)}" for key, value in found.items() if key.startswith("core."))
    is_sha256 = len(base) == 64
    lines = (
        *("[core]", f"repositoryFormatVersion = {int(is_sha256)}", "bare = false", "logAllRefUpdates = true", *core),
        *(("[extensions]", "objectFormat = sha256") if is_sha256 else ()),
        *("[user]", f"name = {_quote_config_value(name)}", f"email = {_quote_config_value(email)}"),
        *("[i18n]", "commitEncoding = UTF-8"),
        *("[commit]", "gpgSign = false", "[gc]", "auto = 0", "[maintenance]", "auto = false"),
    )
    return "".join(f"{line}\n" for line in lines)


@lru_cache(maxsize=16)
def _probe_file_system(folder: Path, _device: int) -> Mapping[str, str]:
    """Find out whether it keeps modes, symbolic links and upper and lower case, as git does."""
    with TemporaryDirectory(prefix=".", suffix=".probe", dir=folder) as place:
        run_git(Path(place), "init", "-q", "--template=")
        return read_settings(Path(place))


def _quote_config_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def read_record(path: Path) -> CheckoutRecord | None:
    try:
        text = get_record_path(path).read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as e:
        raise build_file_error("read", get_record_path(path), e) from e
    if not text.strip("\0\n"):  # what a power cut leaves of a file: it is ours, and not complete
        return CheckoutRecord(base="", branch=None)
    try:
        return CheckoutRecord(**json.loads(text))
    except (ValueError, TypeError) as e:
        raise WorldError(f"{get_record_path(path)} is not a checkout record; remove it and {path} yourself") from e


def write_record(path: Path, record: CheckoutRecord) -> None:
    """Write it through a draft of fixed name: the next write replaces what a crash left.

    Without a sync, which would wait until the disk has all that others wrote: after a power cut the record is there
    before its checkout, because file systems keep the order of names; an empty one counts as not complete.
    """
    place = get_record_path(path)
    draft = _get_draft_path(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(record)) + "\n", "utf-8")
        draft.replace(place)
    except OSError as e:
        raise build_file_error("write", place, e) from e


def _get_draft_path(record: Path) -> Path:
    return record.with_name(f"{record.name}.draft")


def _remove_few(path: Path) -> bool:
    """Remove a folder of few files, as most are of those that we make ourselves, without another process."""
    try:
        if path.is_symlink():
            return False
        with os.scandir(path) as entries:
            found = list(islice(entries, FEW + 1))
        if len(found) > FEW or any(entry.is_dir(follow_symlinks=False) for entry in found):
            return False
        for entry in found:
            (path / entry.name).unlink()
        path.rmdir()
    except OSError:  # not a folder, or not an empty one now
        return False
    return True


def remove_tree(*paths: Path) -> None:
    """Remove with rm, which can remove folders a thousand deep; Python needs as many open files for them."""
    present = [path for path in paths if os.path.lexists(path) and not _remove_few(path)]
    names = [str(path) for path in present]
    if not present or run("rm", "-rf", "--", *names, cwd=present[0].parent, timeout=CHECKOUT_TIMEOUT).code == 0:
        return
    for path in present:
        if path.is_dir() and not path.is_symlink():  # an agent may leave folders without permissions
            run("chmod", "-R", "u+rwx", "--", str(path), cwd=path.parent, timeout=CHECKOUT_TIMEOUT)
    done = run("rm", "-rf", "--", *names, cwd=present[0].parent, timeout=CHECKOUT_TIMEOUT)
    if done.code:
        raise WorldError(f"cannot remove {', '.join(names)}: {done.err.strip()[-500:]}; remove it yourself")
