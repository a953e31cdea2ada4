"""What the doctor sends into a box: it tries to get out, by every way there is a guard for. `probes.py ORDERS ROLE`

Only the standard library: it runs inside. It judges nothing and knows no secret: what it gets hold of goes into its
own folder, where the doctor looks for it, and whatever it could do shows outside.
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
CALLS = {
    "x86_64": {"keyctl": 250, "ptrace": 101, "io_uring_setup": 425, "bpf": 321, "unshare": 272, "mount": 165},
    "aarch64": {"keyctl": 219, "ptrace": 117, "io_uring_setup": 425, "bpf": 280, "unshare": 97, "mount": 40},
}
NEW_USER, SESSION_KEYRING, TRACE_ME = 0x10000000, -3, 0
MB = 1 << 20
PATIENCE = 10.0
STAY = 5.0  # seconds in which somebody who watches must have seen it


def keep(orders: Orders, name: str, data: bytes) -> None:
    with _place(orders, "loot", name).open("ab") as file:
        file.write(data[:MB] + b"\n")


def escaped(orders: Orders, name: str) -> None:
    """Believed when it says so, never when it does not."""
    _place(orders, "escaped", name).touch()


def _place(orders: Orders, folder: str, name: str) -> Path:
    place = Path(orders["checkout"], folder)
    place.mkdir(exist_ok=True)
    return place / name


def call(name: str, *arguments: object) -> int:
    """A system call by its name: what it gives, or -1."""
    number = CALLS.get(platform.machine(), {}).get(name, -1)
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(LIBC.syscall(ctypes.c_long(number), *whole)) if number >= 0 else -1


def _read(orders: Orders, name: str, path: str) -> None:
    with contextlib.suppress(OSError):
        keep(orders, name, Path(path).read_bytes())


def _write(path: str) -> None:
    with contextlib.suppress(OSError), Path(path).open("ab") as file:
        file.write(b"escaped\n")


def read_outside(orders: Orders) -> None:
    _read(orders, "outside", f"{orders['outside']}/secret.txt")
    _read(orders, "outside", f"/proc/1/root{orders['outside']}/secret.txt")
    with contextlib.suppress(OSError):
        keep(orders, "outside", " ".join(os.listdir(orders["outside"])).encode())  # noqa: PTH208 (names alone)


def write_outside(orders: Orders) -> None:
    for name in ("written.txt", "new"):
        _write(f"{orders['outside']}/{name}")
    with contextlib.suppress(OSError):
        Path(orders["outside"], "victim.txt").unlink()


def write_system(orders: Orders) -> None:
    for folder in orders["folders"]:
        _write(f"{folder}/{orders['mark']}")


def history(orders: Orders) -> None:
    git = orders["git"]
    _read(orders, "objects", f"{git}/objects/shown")
    _read(orders, "git", f"{git}/config")
    for path in ("objects/shown", "objects/new", "objects/pack/new", "refs/heads/new", "hooks/post-commit", "config"):
        _write(f"{git}/{path}")


def file_id(about: os.stat_result) -> str:
    return f"{about.st_dev}:{about.st_ino}"


def home(orders: Orders) -> None:
    """The number of the file, which nobody can guess, and nothing of what is in it."""
    for path in orders["home"]:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            keep(orders, "home", f"{path}\0{file_id(os.fstat(handle))}".encode())
            os.close(handle)


def environment(orders: Orders) -> None:
    keep(orders, "environ", "\n".join(os.environ.values()).encode("utf-8", "surrogateescape"))
    for number in _numbers():
        _read(orders, "environ", f"/proc/{number}/environ")


def inherited(orders: Orders) -> None:
    for handle in range(3, 64):
        with contextlib.suppress(OSError):
            keep(orders, "inherited", os.pread(handle, 1000, 0))
        with contextlib.suppress(OSError):
            os.write(handle, b"escaped\n")


def processes(orders: Orders) -> None:
    for number in _numbers():
        _read(orders, "processes", f"/proc/{number}/cmdline")
    if orders["victim"] not in (os.getpid(), os.getppid()):
        with contextlib.suppress(OSError):
            os.kill(orders["victim"], signal.SIGKILL)


def _numbers() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (names alone)
    except OSError:
        return []


def network(orders: Orders) -> None:
    _knock(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", orders["tcp"]))
    _knock(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", orders["udp"]))


def sockets(orders: Orders) -> None:
    _knock(socket.AF_UNIX, socket.SOCK_STREAM, orders["unix"])
    _knock(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{orders['mark']}")


def _knock(family: int, kind: int, address: str | tuple[str, int]) -> None:
    with contextlib.suppress(OSError), socket.socket(family, kind) as line:
        line.settimeout(2)
        line.connect(address)
        line.send(b"escaped\n")


def capabilities(orders: Orders) -> None:
    place = _place(orders, "mounted", "x").parent
    if call("mount", b"none", os.fsencode(place), b"tmpfs", 0, 0) == 0:
        escaped(orders, "mount")


def system_calls(orders: Orders) -> None:
    """In a process that ends: whoever lets itself be traced is no use afterwards."""
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
        if call(name, *arguments) >= 0:
            escaped(orders, name)
    os._exit(0)


def kernel(orders: Orders) -> None:
    """Opened, not written: when this goes through, the machine stays as it is."""
    for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "vm/overcommit_memory", "kernel/panic"):
        with contextlib.suppress(OSError):
            os.close(os.open(f"/proc/sys/{name}", os.O_WRONLY))
            escaped(orders, name.replace("/", "."))


def gateway(orders: Orders) -> None:
    for target in (f"127.0.0.1:{orders['other']}", f"{orders['mark']}.invalid:443"):
        with contextlib.suppress(OSError, KeyError):
            port = int(os.environ["BLUEFLAME_GATEWAY_PORT"])
            with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                line.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                keep(orders, "gateway", line.recv(1000))


def watcher(orders: Orders) -> None:
    """Asks as an agent's hook does: calls that nobody may make, and calls that everybody may."""
    write = {"file_path": f"{orders['outside']}/written.txt", "content": ""}
    _ask(orders, "forbidden", "Write", write)
    _ask(orders, "honest", "Read", {"file_path": f"{orders['checkout']}/README.md"})
    _ask(orders, "hidden", "Bash", {"command": "git log && env -i sh -c 'git status; rm -r src'"})
    _ask(orders, "plain", "Bash", {"command": "git log && git status"})


def _ask(orders: Orders, name: str, tool: str, given: Mapping[str, str]) -> None:
    said = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
    question = json.dumps({**said, "tool_use_id": name, "cwd": orders["checkout"]}).encode()
    reader, writer = os.pipe()
    os.write(writer, question)
    os.close(writer)
    quiet = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_WRONLY, 0) for number in (1, 2)]
    with contextlib.suppress(OSError):
        files = [(os.POSIX_SPAWN_DUP2, reader, 0), *quiet]
        os.waitpid(os.posix_spawn(orders["hook"], [orders["hook"]], os.environ, file_actions=files), 0)
    os.close(reader)


def audit(orders: Orders) -> None:
    for path in orders["records"]:
        _read(orders, "records", path)
        _write(path)
        with contextlib.suppress(OSError):
            Path(path).unlink()


def file_size(orders: Orders) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with contextlib.suppress(OSError), Path(orders["checkout"], "large").open("wb", 0) as file:
        for _ in range(3):
            file.write(bytes(MB))


def open_files(orders: Orders) -> None:
    held: list[int] = []
    with contextlib.suppress(OSError):
        while len(held) < orders["files"]:
            held.append(os.open(_place(orders, "open", str(len(held))), os.O_CREAT | os.O_WRONLY))
    for handle in held:
        os.close(handle)


def cpu(orders: Orders) -> None:
    while time.process_time() < orders["cpu"]:
        pass
    escaped(orders, "cpu")


def nested(orders: Orders) -> None:
    if call("unshare", NEW_USER) == 0:
        escaped(orders, "unshare")
    _place(orders, "tried", "nested").touch()
    _until(orders, "seen")


def daemon(orders: Orders) -> None:
    """Away from whoever started it, and deaf."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        _place(orders, "tried", "daemon").touch()
        time.sleep(60)
    os._exit(0)


def memory(orders: Orders) -> None:
    held = []
    for _ in range(orders["memory_mb"] // 4):
        held.append(bytearray(b"x" * (4 * MB)))
        keep(orders, "memory", b"4")
    escaped(orders, "memory")
    time.sleep(STAY)


def many(orders: Orders) -> None:
    """Each that lives leaves a file."""
    for number in range(orders["children"]):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            _place(orders, "children", str(number)).touch()
            time.sleep(STAY)
            os._exit(0)
    time.sleep(STAY)


def _until(orders: Orders, name: str) -> None:
    end = time.monotonic() + PATIENCE
    while not Path(orders["checkout"], name).exists() and time.monotonic() < end:
        time.sleep(0.005)


def _start(orders: Orders, role: str) -> int:
    argv = [sys.executable, "-I", "-S", "-E", __file__, str(Path(orders["checkout"], "orders.json")), role]
    return os.posix_spawn(sys.executable, argv, os.environ)


def everything(orders: Orders) -> None:
    """Then wait until the doctor has looked at us from outside."""
    burner = _start(orders, "cpu") if "cpu" in orders["tries"] else 0
    for role in ("nested", "daemon"):
        if role in orders["tries"]:
            _start(orders, role)
    for name in orders["tries"]:
        if name in TRIES:
            TRIES[name](orders)
            _place(orders, "tried", name).touch()
    for role in ("nested", "daemon"):
        if role in orders["tries"]:
            _until(orders, f"tried/{role}")
    Path(orders["checkout"], "waiting").touch()
    _until(orders, "seen")
    if burner:
        os.waitpid(burner, 0)
        _place(orders, "tried", "cpu").touch()


def stay(orders: Orders) -> None:
    _start(orders, "daemon")
    time.sleep(PATIENCE * 3)


Try: TypeAlias = Callable[[Orders], None]
TRIES: Mapping[str, Try] = {
    each.__name__: each
    for each in (
        *(read_outside, write_outside, write_system, history, home, environment, inherited, processes, network),
        *(sockets, capabilities, system_calls, kernel, gateway, watcher, audit, file_size, open_files),
    )
}
ROLES: Mapping[str, Try] = {each.__name__: each for each in (everything, cpu, nested, daemon, memory, many, stay)}


def main() -> None:
    ROLES[sys.argv[2]](json.loads(Path(sys.argv[1]).read_bytes()))


if __name__ == "__main__":
    main()
