"""The filter in the kernel's hands: calls made for real from inside of a sandbox."""

from __future__ import annotations

import errno
import json
import platform
from pathlib import Path

import pytest

from blueflame.sandbox.seccomp import ARCHITECTURES, REFUSED
from support.sandboxes import make_sandbox_fixture, needs_sandbox

pytestmark = [
    needs_sandbox,
    pytest.mark.skipif(platform.machine().lower() not in ARCHITECTURES, reason="no table for this machine"),
]
CALLS = ARCHITECTURES.get(platform.machine().lower(), ARCHITECTURES["x86_64"]).calls
PROBE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
found = {}
for name, number, args in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in args))
    if result == 0 and name.startswith("clone"): os._exit(0)
    found[name] = 0 if result >= 0 else ctypes.get_errno()
print(json.dumps(found))
"""


def probe(tmp_path: Path, calls: list[tuple[str, int, list[int]]]) -> dict[str, int]:
    said = make_sandbox_fixture(tmp_path).run("/usr/bin/python3", "-c", PROBE, json.dumps(calls))
    assert said.code == 0, said.err
    found: dict[str, int] = json.loads(said.out.splitlines()[-1])
    return found


def test_every_refused_call_is_refused_by_the_kernel(tmp_path: Path) -> None:
    """With arguments that are wrong for all of them: a call that got through would say so differently."""
    wanted = [(name, CALLS[name], [-1] * 6) for name in REFUSED if name in CALLS]
    assert probe(tmp_path, wanted) == {name: errno.EPERM for name, _, _ in wanted}


def test_calls_are_judged_by_their_arguments(tmp_path: Path) -> None:
    table = [
        ("clone3", [0, 0], errno.ENOSYS),
        ("openat2", [0, 0, 0, 0], errno.ENOSYS),
        ("clone new user", [0x10000011, 0, 0, 0, 0], errno.EPERM),
        ("ioctl TIOCSTI", [0, 0x5412, 0], errno.EPERM),
        ("socket vsock", [40, 1, 0], errno.EAFNOSUPPORT),
        ("socket packet", [17, 3, 0], errno.EAFNOSUPPORT),
        ("socket raw", [2, 3, 1], errno.EPERM),
        ("socket alg", [38, 5, 0], errno.EAFNOSUPPORT),
        ("socket netfilter", [16, 3, 12], errno.EAFNOSUPPORT),
        ("socket route", [16, 3, 0], 0),
        ("socket unix", [1, 1, 0], 0),
        ("socket tcp", [2, 1, 0], 0),
        ("socketpair tipc", [30, 1, 0, 0], errno.EAFNOSUPPORT),
        ("personality exec", [0x0400000], errno.EPERM),
        ("personality asked", [0xFFFFFFFF], 0),
    ]
    calls = [(name, CALLS[name.split()[0]], args) for name, args, _ in table]
    assert probe(tmp_path, calls) == {name: expected for name, _, expected in table}


def test_another_abi_ends_the_process(tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("x86_64 only: int 0x80 is the way into its 32-bit calls")
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "page.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n"  # getpid of i386
        "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print('pid', ctypes.CFUNCTYPE(ctypes.c_int)(address)())\n"
    )
    said = make_sandbox_fixture(tmp_path).run("/usr/bin/python3", "-c", code)
    assert "pid" not in said.out
    assert said.code == 128 + 31  # SIGSYS


def test_threads_processes_and_pipes_work(tmp_path: Path) -> None:
    code = (
        "import multiprocessing as m, threading as t, subprocess as s, socket, tempfile\n"
        "def work(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn'):\n"
        "        with m.get_context(how).Pool(2) as pool: assert pool.map(work, range(4)) == [0, 1, 4, 9]\n"
        "    each = t.Thread(target=print, args=('thread',)); each.start(); each.join()\n"
        "    a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "    assert s.run(['true']).returncode == 0\n"
        "    print('done')\n"
    )
    room = make_sandbox_fixture(tmp_path)
    (room.worktree / "work.py").write_text(code)
    said = room.run("/usr/bin/python3", "work.py")
    assert said.out.split() == ["thread", "done"], said.err
