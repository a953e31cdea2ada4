"""The environment of a decision: resolve links, read small files, parse shell commands with shfmt.

Runs in the warden under `python -I -S -E`, so it imports only light modules of the standard library.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from io import FileIO
from typing import Any

from blueflame.model.policy import UnparsableCommand

NOWHERE = "/\0"
"""The real path of a name that cannot be resolved: it is in no folder, so it is always refused."""

MAX_LINKS = 40  # as the kernel does
NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EINVAL})  # EINVAL: exists, but is not a link
UNCERTAIN_FOLDERS = ("/proc", "/sys", "/dev")  # targets of links in here depend on the process that reads them
MAX_TEXT_BYTES = 1_000_000
PARSE_TIMEOUT = 2.0
MAX_PARSER_FAILURES = 2
PLAIN_COMMAND = ":"  # a parser that cannot read this reads nothing
MAX_TREE_BYTES = 16_000_000
MAX_CACHED_TREES, MAX_CACHED_BYTES = 512, 4_000_000
PIPE_BYTES = 65_536
ENVIRONMENT = {"LC_ALL": "C"}
DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the parser must not ignore these


class LocalWorld:
    """`mounts` maps folders of the sandbox to folders outside: {"/tmp": "<attempt>/tmp"}."""

    def __init__(self, worktree: str, *, shfmt: str, mounts: Mapping[str, str] | None = None) -> None:
        self._worktree = worktree
        self._shfmt = shfmt
        outside = {worktree: worktree, **(mounts or {})}  # bound at its own path unless a mount of its name says where
        self._mounts = sorted(outside.items(), key=lambda mount: -len(mount[0]))
        self._trees: OrderedDict[str, tuple[Mapping[str, Any], int]] = OrderedDict()
        self._cached = 0
        self.hindrance = ""  # why no command can be read on this machine: not the agent's doing

    def resolve(self, path: str) -> str:
        """Resolve every link as the agent sees it; missing parts are kept by name."""
        if not path.startswith("/") or "\0" in path:
            return NOWHERE
        done: list[str] = []
        ahead = path.split("/")[::-1]
        links = 0
        while ahead:
            part = ahead.pop()
            if part == "..":
                del done[-1:]
            elif part not in ("", "."):
                done.append(part)
                target = self._read_link(done)
                if target is None:
                    continue
                links += 1
                if links > MAX_LINKS or not target:
                    return NOWHERE
                done = [] if target.startswith("/") else done[:-1]
                ahead += target.split("/")[::-1]
        return "/" + "/".join(done)

    def _read_link(self, parts: list[str]) -> str | None:
        """Return the target of a link; None if it is not a link; "" if it cannot be read."""
        name = "/" + "/".join(parts)
        if _is_uncertain(name):
            return None  # outside every worktree, so it is refused by its name
        try:
            return os.readlink(self._map_outside(name))  # noqa: PTH115 - pathlib is a tenth of the warden's start
        except OSError as error:
            return None if error.errno in NOT_THERE else ""
        except ValueError:  # a name that cannot be encoded
            return ""

    def _map_outside(self, name: str) -> str:
        for inside, outside in self._mounts:
            if name == inside or name.startswith(f"{inside}/"):
                return outside + name[len(inside) :]
        return name

    def read_text(self, path: str) -> str | None:
        """Return the text of a regular file in the worktree; None for anything else, and if it is too large."""
        real = self.resolve(path if path.startswith("/") else f"{self._worktree}/{path}")
        if not real.startswith(f"{self._worktree}/"):
            return None
        try:
            handle = os.open(self._map_outside(real), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            return _read_text(handle)
        except OSError:
            return None
        finally:
            os.close(handle)

    def parse(self, command: str) -> Mapping[str, Any]:
        known = self._trees.get(command)
        if known is not None:
            self._trees.move_to_end(command)
            return known[0]
        output = self._run_parser(command)
        tree = _parse_tree(output)
        self._cache_tree(command, tree, len(output))
        return tree

    def _run_parser(self, command: str) -> bytes:
        """Run the parser again when it failed by itself: the command is hardly to blame for that."""
        for _try in range(MAX_PARSER_FAILURES):
            with suppress(ParserFailed):
                return _run_shfmt(self._shfmt, command)
        try:
            return _run_shfmt(self._shfmt, command)
        except ParserFailed as failed:
            self._find_hindrance(failed)
            raise

    def _find_hindrance(self, failed: ParserFailed) -> None:
        try:
            _run_shfmt(self._shfmt, PLAIN_COMMAND)
        except ParserFailed:
            self.hindrance = f"no shell command can be read on this machine: {failed}"

    def _cache_tree(self, command: str, tree: Mapping[str, Any], size: int) -> None:
        if size > MAX_CACHED_BYTES // 4:
            return
        self._trees[command] = (tree, size)
        self._cached += size
        while len(self._trees) > MAX_CACHED_TREES or self._cached > MAX_CACHED_BYTES:
            self._cached -= self._trees.popitem(last=False)[1][1]


class ParserFailed(UnparsableCommand):
    """The parser could not be started, got a signal that we did not send, or has no memory."""


def _is_uncertain(name: str) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in UNCERTAIN_FOLDERS)


def _read_text(handle: int) -> str | None:
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_TEXT_BYTES:
        return None
    pieces: list[bytes] = []
    left = MAX_TEXT_BYTES + 1
    while left > 0 and (piece := os.read(handle, min(left, PIPE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces).decode("utf-8", "replace") if left > 0 else None


def _parse_tree(output: bytes) -> Mapping[str, Any]:
    try:
        tree = json.loads(output)
    except RecursionError:
        raise UnparsableCommand("it is nested too deeply") from None
    except ValueError:
        raise UnparsableCommand("the parser's answer is not JSON") from None
    if not isinstance(tree, dict):
        raise UnparsableCommand("the parser's answer is not a tree")
    return tree


def _run_shfmt(program: str, command: str) -> bytes:
    try:
        source = command.encode("utf-8")
    except UnicodeEncodeError:
        raise UnparsableCommand("it is not valid Unicode") from None
    with ExitStack() as ends:
        try:
            (their_in, to), (out, their_out), (err, their_err) = (_open_pipe(ends) for _ in range(3))
            pid = _spawn_shfmt(program, (their_in, their_out, their_err))
        except (OSError, ValueError) as error:
            raise ParserFailed(f"the parser {program} cannot be started: {error}") from None
        for end in (their_in, their_out, their_err):
            end.close()
        return _read_answer(pid, source, to, out, err)


def _open_pipe(ends: ExitStack) -> tuple[FileIO, FileIO]:
    read, write = os.pipe()
    return ends.enter_context(FileIO(read, "r")), ends.enter_context(FileIO(write, "w"))


def _spawn_shfmt(program: str, streams: tuple[FileIO, FileIO, FileIO]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, stream.fileno(), n) for n, stream in enumerate(streams)]
    argv = [program, "--to-json", "-ln", "bash"]
    return os.posix_spawn(program, argv, ENVIRONMENT, file_actions=actions, setsigmask=(), setsigdef=DEFAULT_SIGNALS)


def _read_answer(pid: int, source: bytes, to: FileIO, out: FileIO, err: FileIO) -> bytes:
    output: dict[FileIO, bytearray] = {out: bytearray(), err: bytearray()}
    whole = False
    try:
        _exchange(memoryview(source), to, output)
        whole = True
    finally:
        if not whole:
            os.kill(pid, signal.SIGKILL)  # not waited for yet, so the pid is still valid
        code = _wait_for(pid)
    if code < 0:
        raise ParserFailed(f"the parser was killed by signal {-code}: repeat the call")
    said = output[err].decode("utf-8", "replace").strip().replace("<standard input>:", "") or "no reason"
    if code > 1:  # the Go runtime gave up, as it does without memory
        raise ParserFailed(f"the parser failed: {said.splitlines()[0]}")
    if code:
        raise UnparsableCommand(said)
    return bytes(output[out])


def _exchange(unsent: memoryview, to: FileIO, output: Mapping[FileIO, bytearray]) -> None:
    """Write and read at the same time, so that neither side blocks."""
    until = time.monotonic() + PARSE_TIMEOUT
    waiting = select.poll()
    streams = {stream.fileno(): stream for stream in (to, *output)}
    for number, stream in streams.items():
        os.set_blocking(number, False)
        waiting.register(number, select.POLLOUT if stream is to else select.POLLIN)
    while any(not stream.closed for stream in output):
        left = until - time.monotonic()
        if left <= 0:
            raise UnparsableCommand(f"parsing takes more than {PARSE_TIMEOUT:g} seconds")
        for number, _ in waiting.poll(left * 1000):
            stream = streams[number]
            if stream is to:
                unsent = unsent[_write_some(to, unsent) :]
            if not (unsent if stream is to else _read_some(stream, output[stream])):
                waiting.unregister(number)
                stream.close()


def _write_some(to: FileIO, data: memoryview) -> int:
    try:
        return to.write(data[:PIPE_BYTES]) or 0  # None: it would block
    except BrokenPipeError:  # it stopped reading: its error message is in the other pipes
        return len(data)


def _read_some(stream: FileIO, into: bytearray) -> bool:
    piece = stream.read(PIPE_BYTES)
    into += piece or b""
    if len(into) > MAX_TREE_BYTES:
        raise UnparsableCommand("its syntax tree is too large")
    return piece != b""  # None: it would block


def _wait_for(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # reaped elsewhere; an incomplete tree is not valid JSON
        return 0
