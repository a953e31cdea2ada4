"""Run probes one after the other, each as its own process: `python inside.py PROBES.json`.

Only the standard library: it runs inside and outside the sandbox. It judges nothing.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE = 4.0
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
CALLS = {
    "x86_64": {
        "add_key": 248, "request_key": 249, "keyctl": 250, "io_uring_setup": 425, "bpf": 321, "perf_event_open": 298,
        "userfaultfd": 323, "unshare": 272, "setns": 308, "mount": 165, "pivot_root": 155, "ptrace": 101, "kcmp": 312,
        "process_vm_readv": 310, "process_vm_writev": 311, "open_by_handle_at": 304, "name_to_handle_at": 303,
        "init_module": 175, "kexec_load": 246, "swapon": 167, "reboot": 169, "settimeofday": 164, "iopl": 172,
        "fsopen": 430, "move_mount": 429, "open_tree": 428, "pidfd_open": 434, "pidfd_getfd": 438, "clone3": 435,
        "acct": 163, "quotactl": 179, "syslog": 103, "shmget": 29, "memfd_create": 319, "mknod": 133, "clone": 56,
        "sethostname": 170, "personality": 135, "lookup_dcookie": 212, "nfsservctl": 180, "fanotify_init": 300,
        "ioperm": 173, "vhangup": 153, "modify_ldt": 154, "mount_setattr": 442, "landlock": 444,
    },
    "aarch64": {
        "add_key": 217, "request_key": 218, "keyctl": 219, "io_uring_setup": 425, "bpf": 280, "perf_event_open": 241,
        "userfaultfd": 282, "unshare": 97, "setns": 268, "mount": 40, "pivot_root": 41, "ptrace": 117, "kcmp": 272,
        "process_vm_readv": 270, "process_vm_writev": 271, "open_by_handle_at": 265, "name_to_handle_at": 264,
        "init_module": 105, "kexec_load": 104, "swapon": 224, "reboot": 142, "settimeofday": 170, "iopl": -1,
        "fsopen": 430, "move_mount": 429, "open_tree": 428, "pidfd_open": 434, "pidfd_getfd": 438, "clone3": 435,
        "acct": 89, "quotactl": 60, "syslog": 116, "shmget": 194, "memfd_create": 279, "mknod": -1, "clone": 220,
        "sethostname": 161, "personality": 92, "lookup_dcookie": 18, "nfsservctl": 42, "fanotify_init": 262,
        "ioperm": -1, "vhangup": 58, "modify_ldt": -1, "mount_setattr": 442, "landlock": 444,
    },
}  # fmt: skip


def call(name: str, *arguments: object) -> int:
    """Make a system call by its name; return its result, or -1."""
    number = CALLS.get(platform.machine(), {}).get(name, -1)
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(LIBC.syscall(ctypes.c_long(number), *whole)) if number >= 0 else -1


def escaped(what: object = "") -> None:
    """Report a success of the attack. The absence of a report proves nothing."""
    sys.stdout.write(f"ESCAPED {what}\n")
    sys.stdout.flush()


def connect(family: int, kind: int, address: str | tuple[str, int]) -> None:
    with contextlib.suppress(OSError), socket.socket(family, kind) as line:
        line.settimeout(1)
        line.connect(address)
        line.send(b"escaped\n")
        time.sleep(0.05)


NAMES = {
    "E": os.environ, "os": os, "sys": sys, "socket": socket, "ctypes": ctypes, "struct": struct, "time": time,
    "errno": errno, "fcntl": fcntl, "signal": signal, "resource": resource, "mmap": mmap, "array": array, "libc": LIBC,
    "call": call, "escaped": escaped, "connect": connect, "subprocess": subprocess, "contextlib": contextlib,
}  # fmt: skip


def run(probe: dict[str, Any]) -> None:
    out = Path(probe["env"]["OUT"])
    out.mkdir(parents=True, exist_ok=True)
    child = _fork()
    if child == 0:
        _become(probe, out)
    end = time.monotonic() + probe.get("patience", PATIENCE)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.002)
    if "patience" in probe:  # its children would be in the way of those who try their limits after it
        _kill_all(child)


def _kill_all(group: int) -> None:
    """Kill repeatedly: a process that forks while it is killed leaves a child that was not."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)


def _fork() -> int:
    """Fork; earlier processes may still be ending and count against the limit."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _become(probe: dict[str, Any], out: Path) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        said = os.open(out / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for handle, number in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(handle, number)
        os.close(said)
        os.close(nothing)
        os.environ.update(probe["env"])
        if probe["python"]:
            exec(compile(probe["code"], probe["id"], "exec"), dict(NAMES))
            code = 0
        else:
            os.execvp("sh", ["sh", "-c", probe["code"], probe["id"]])
    except BaseException as trouble:  # noqa: BLE001 (the child of a fork must not return into its parent's code)
        sys.stdout.write(f"{type(trouble).__name__} {trouble}\n")
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


def main() -> None:
    for probe in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        run(probe)


if __name__ == "__main__":
    main()
