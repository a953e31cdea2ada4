"""The doctor's probes: run inside a sandbox, they try to get out in every way that has a guard. `probes.py ORDERS ROLE`

Only the standard library, because it runs inside. Probes judge nothing and know no secret: what they can read goes into
their checkout, where the doctor finds it, and what they can change shows outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Orders: TypeAlias = Mapping[str, Any]
LIBC = ctypes.CDLL(None, use_errno=True)
SYSTEM_CALL_NUMBERS = {
    "x86_64": {"keyctl": 250, "ptrace": 101, "io_uring_setup": 425, "bpf": 321, "unshare": 272, "mount": 165},
    "aarch64": {"keyctl": 219, "ptrace": 117, "io_uring_setup": 425, "bpf": 280, "unshare": 97, "mount": 40},
}
NEW_USER, SESSION_KEYRING, TRACE_ME = 0x10000000, -3, 0
MB = 1 << 20
OWN_PROCESS = ("cpu", "nested", "daemon")
WAIT_TIMEOUT = 10.0
STAY_SECONDS = 5.0  # long enough to be noticed by the warden


def capture(orders: Orders, name: str, data: bytes) -> None:
    with _make_path(orders, "captured", name).open("ab") as file:
        file.write(data[:MB] + b"\n")


def mark_escaped(orders: Orders, name: str) -> None:
    """Leave a mark for an attack that succeeded; a missing mark proves nothing."""
    _make_path(orders, "escaped", name).touch()


def _make_path(orders: Orders, folder: str, name: str) -> Path:
    place = Path(orders["checkout"], folder)
    place.mkdir(exist_ok=True)
    return place / name


def make_system_call(name: str, *arguments: object) -> int:
    """Make a system call by name; -1 when it fails."""
    number = SYSTEM_CALL_NUMBERS.get(platform.machine(), {}).get(name, -1)
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(LIBC.syscall(ctypes.c_long(number), *whole)) if number >= 0 else -1


def _capture_file(orders: Orders, name: str, path: str) -> None:
    with contextlib.suppress(OSError):
        capture(orders, name, Path(path).read_bytes())


def _append_mark(path: str) -> None:
    with contextlib.suppress(OSError), Path(path).open("ab") as file:
        file.write(b"escaped\n")


def try_read_outside(orders: Orders) -> None:
    _capture_file(orders, "outside", f"{orders['outside']}/secret.txt")
    _capture_file(orders, "outside", f"/proc/1/root{orders['outside']}/secret.txt")
    with contextlib.suppress(OSError):
        capture(orders, "outside", " ".join(os.listdir(orders["outside"])).encode())  # noqa: PTH208 (names alone)


def try_write_outside(orders: Orders) -> None:
    for name in ("written.txt", "new"):
        _append_mark(f"{orders['outside']}/{name}")
    with contextlib.suppress(OSError):
        Path(orders["outside"], "victim.txt").unlink()


def try_write_system(orders: Orders) -> None:
    for folder in orders["folders"]:
        _append_mark(f"{folder}/{orders['mark']}")


def try_history(orders: Orders) -> None:
    git = orders["git"]
    _capture_file(orders, "objects", f"{git}/objects/shown")
    _capture_file(orders, "git", f"{git}/config")
    for path in ("objects/shown", "objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit", "config"):
        _append_mark(f"{git}/{path}")


def format_file_id(about: os.stat_result) -> str:
    return f"{about.st_dev}:{about.st_ino}"


def try_home(orders: Orders) -> None:
    """Capture the number of the file, which cannot be guessed, and none of its content."""
    for path in orders["home"]:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            capture(orders, "home", f"{path}\0{format_file_id(os.fstat(handle))}".encode())
            os.close(handle)


def try_environment(orders: Orders) -> None:
    capture(orders, "environ", "\n".join(os.environ.values()).encode("utf-8", "surrogateescape"))
    for number in _list_pids():
        _capture_file(orders, "environ", f"/proc/{number}/environ")


def try_inherited(orders: Orders) -> None:
    for handle in range(3, 64):
        with contextlib.suppress(OSError):
            capture(orders, "inherited", os.pread(handle, 1000, 0))
        with contextlib.suppress(OSError):
            os.write(handle, b"escaped\n")


def try_processes(orders: Orders) -> None:
    for number in _list_pids():
        _capture_file(orders, "processes", f"/proc/{number}/cmdline")
    if orders["victim"] not in (os.getpid(), os.getppid()):
        with contextlib.suppress(OSError):
            os.kill(orders["victim"], signal.SIGKILL)


def _list_pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (names alone)
    except OSError:
        return []


def try_network(orders: Orders) -> None:
    _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", orders["tcp"]))
    _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", orders["udp"]))


def try_sockets(orders: Orders) -> None:
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, orders["unix"])
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{orders['mark']}")


def _connect(family: int, kind: int, address: str | tuple[str, int]) -> None:
    with contextlib.suppress(OSError), socket.socket(family, kind) as line:
        line.settimeout(2)
        line.connect(address)
        line.send(b"escaped\n")


def try_capabilities(orders: Orders) -> None:
    place = _make_path(orders, "mounted", "x").parent
    if make_system_call("mount", b"none", os.fsencode(place), b"tmpfs", 0, 0) == 0:
        mark_escaped(orders, "mount")


def try_system_calls(orders: Orders) -> None:
    """In a child process: a traced process is of no use afterwards."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    for name, arguments in (
        ("keyctl", (0, SESSION_KEYRING, 0)),
        ("io_uring_setup", (2, ctypes.create_string_buffer(120))),
        ("bpf", (0, ctypes.create_string_buffer(b"\2\0\0\0\4\0\0\0\4\0\0\0\1", 116), 116)),
        ("ptrace", (TRACE_ME, 0, 0, 0)),
    ):
        if make_system_call(name, *arguments) >= 0:
            mark_escaped(orders, name)
    os._exit(0)


def try_kernel(orders: Orders) -> None:
    """Opened, not written: if this succeeds, the machine is not changed."""
    for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "vm/overcommit_memory", "kernel/panic"):
        with contextlib.suppress(OSError):
            os.close(os.open(f"/proc/sys/{name}", os.O_WRONLY))
            mark_escaped(orders, name.replace("/", "."))


def try_gateway(orders: Orders) -> None:
    for target in (f"127.0.0.1:{orders['other']}", f"{orders['mark']}.invalid:443"):
        with contextlib.suppress(OSError, KeyError):
            port = int(os.environ["BLUEFLAME_GATEWAY_PORT"])
            with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                line.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                capture(orders, "gateway", line.recv(1000))


def try_watcher(orders: Orders) -> None:
    """Ask as an agent's hook does: two forbidden calls and two allowed ones."""
    write = {"file_path": f"{orders['outside']}/written.txt", "content": ""}
    _ask_watcher(orders, "forbidden", "Write", write)
    _ask_watcher(orders, "honest", "Read", {"file_path": f"{orders['checkout']}/README.md"})
    _ask_watcher(orders, "hidden", "Bash", {"command": "git log && env -i sh -c 'git status; git push'"})
    _ask_watcher(orders, "plain", "Bash", {"command": "git log && git status"})


def _ask_watcher(orders: Orders, name: str, tool: str, given: Mapping[str, str]) -> None:
    call = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
    question = json.dumps({**call, "tool_use_id": name, "cwd": orders["checkout"]}).encode()
    reader, writer = os.pipe()
    os.write(writer, question)
    os.close(writer)
    quiet = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_WRONLY, 0) for number in (1, 2)]
    with contextlib.suppress(OSError):
        files = [(os.POSIX_SPAWN_DUP2, reader, 0), *quiet]
        os.waitpid(os.posix_spawn(orders["hook"], [orders["hook"]], os.environ, file_actions=files), 0)
    os.close(reader)


def try_audit(orders: Orders) -> None:
    for path in orders["records"]:
        _capture_file(orders, "records", path)
        _append_mark(path)
        with contextlib.suppress(OSError):
            Path(path).unlink()


def try_file_size(orders: Orders) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with contextlib.suppress(OSError), Path(orders["checkout"], "large").open("wb", 0) as file:
        for _ in range(3):
            file.write(bytes(MB))


def try_open_files(orders: Orders) -> None:
    held: list[int] = []
    with contextlib.suppress(OSError):
        while len(held) < orders["files"]:
            held.append(os.open(_make_path(orders, "open", str(len(held))), os.O_CREAT | os.O_WRONLY))
    for handle in held:
        os.close(handle)


def try_cpu(orders: Orders) -> None:
    while time.process_time() < orders["cpu"]:
        pass
    mark_escaped(orders, "cpu")


def try_nested(orders: Orders) -> None:
    if make_system_call("unshare", NEW_USER) == 0:
        mark_escaped(orders, "unshare")
    _make_path(orders, "tried", "nested").touch()
    _wait_for_file(orders, "seen")


def try_daemon(orders: Orders) -> None:
    """Detached from its parent, and ignoring signals."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        _make_path(orders, "tried", "daemon").touch()
        time.sleep(60)
    os._exit(0)


def try_memory(orders: Orders) -> None:
    held = []
    for _ in range(orders["memory_mb"] // 4):
        held.append(bytearray(b"x" * (4 * MB)))
        capture(orders, "memory", b"4")
    mark_escaped(orders, "memory")
    time.sleep(STAY_SECONDS)


def try_many(orders: Orders) -> None:
    """Each running child leaves a file."""
    for number in range(orders["children"]):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            _make_path(orders, "children", str(number)).touch()
            time.sleep(STAY_SECONDS)
            os._exit(0)
    time.sleep(STAY_SECONDS)


def _wait_for_file(orders: Orders, name: str) -> None:
    end = time.monotonic() + WAIT_TIMEOUT
    while not Path(orders["checkout"], name).exists() and time.monotonic() < end:
        time.sleep(0.005)


def _start_role(orders: Orders, role: str) -> int:
    argv = [sys.executable, "-I", "-S", "-E", __file__, str(Path(orders["checkout"], "orders.json")), role]
    return os.posix_spawn(sys.executable, argv, os.environ)


def try_everything(orders: Orders) -> None:
    """Run all probes, then wait until the doctor has read the kernel's view of us."""
    burner = _start_role(orders, "cpu") if "cpu" in orders["tries"] else 0
    for role in ("nested", "daemon"):
        if role in orders["tries"]:
            _start_role(orders, role)
    for name in orders["tries"]:
        if name not in OWN_PROCESS:
            PROBES[name](orders)
            _make_path(orders, "tried", name).touch()
    for role in ("nested", "daemon"):
        if role in orders["tries"]:
            _wait_for_file(orders, f"tried/{role}")
    Path(orders["checkout"], "waiting").touch()
    _wait_for_file(orders, "seen")
    if burner:
        os.waitpid(burner, 0)
        _make_path(orders, "tried", "cpu").touch()


def try_stay(orders: Orders) -> None:
    _start_role(orders, "daemon")
    time.sleep(WAIT_TIMEOUT * 3)


def try_wait(_orders: Orders) -> None:
    time.sleep(STAY_SECONDS)


PROBES: Mapping[str, Callable[[Orders], None]] = {
    name.removeprefix("try_"): each for name, each in list(globals().items()) if name.startswith("try_")
}


def main() -> None:
    PROBES[sys.argv[2]](json.loads(Path(sys.argv[1]).read_bytes()))


if __name__ == "__main__":
    main()
