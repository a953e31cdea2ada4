"""The machine outside the sandbox: the targets of the probes, and the proof that they are unchanged."""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from blueflame.git.checkouts import get_record_path, make_checkout
from blueflame.git.repository import open_repository
from escape.attack import Attack, Probe
from escape.inside import call
from escape.probes_kernel import FILES, KEPT, VARIABLES
from support.repositories import GIT_IDENTITY

PLACES = (
    *("/tmp", "/var/tmp", "/dev/shm", "/run", "/", "/etc", "/etc/cron.d", "/etc/cron.hourly", "/var/spool/cron"),
    *("/var/spool/cron/crontabs", "/var/spool/cron/atjobs", "/etc/systemd/system", "/usr/lib/systemd/system"),
    *("/run/systemd/system", "/etc/profile.d", "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr", "/var/lib", "/opt"),
    *("/srv", "/mnt", "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/run/user/0"),
)
SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/etc/ld.so.preload",
)
SYSTEM_V = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
HANDLE_LENGTH = 128


@dataclass
class Outside:
    root: Path
    uid: int
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def main(self) -> Path:
        return self.root / "мой repo"

    @property
    def tree(self) -> Path:
        return self.main / ".trees" / "worker-1"

    def as_seen_inside(self, text: str) -> str:
        """Name the checkout as a process in the sandbox does."""
        return text.replace(str(self.tree), "/work/repo")

    @property
    def word(self) -> str:
        return f"LOOT-{self.nonce}"

    def loot(self, name: str) -> str:
        return f"{self.word}-{name}\n"

    def canary(self, attack: Attack) -> Path:
        return self.root / "canaries" / attack.id

    def out(self, attack: Attack) -> Path:
        return self.tree / ".probes" / attack.id

    def mark(self, attack: Attack) -> str:
        return f"bf-{self.nonce}-{attack.id}"

    def environment(self) -> dict[str, str]:
        """The caller's environment, with its secrets."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SSH_AUTH_SOCK": str(self.root / "agent.sock"),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.root}/bus",
            "TMUX": f"{self.root}/tmux,1,0",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{name: self.loot(name).strip() for name in VARIABLES},
        }


def build(root: Path, uid: int) -> Outside:
    outside = Outside(root=root, uid=uid)
    for name, path in FILES.items():
        _write(outside.home / path, outside.loot(name))
    _repository(outside)
    for name, (path, _) in KEPT.items():
        _append(outside.main / path, f"# {outside.loot(name)}")
    _write(outside.root / "canaries" / "nothing", "")
    if os.geteuid() != uid:
        subprocess.run(["chown", "-R", f"{uid}:{uid}", str(root)], check=True)
    return outside


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def _repository(outside: Outside) -> None:
    main = outside.main
    for path, text in {
        "src/app.py": "def answer():\n    return 42\n",
        "README.md": "# sample\n",
        "node_modules/left-pad/index.js": "module.exports = 1\n",
        "node_modules/.bin/eslint": "#!/bin/sh\n",
        ".venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n",
        ".venv/bin/tool": "#!/bin/sh\n",
        ".venv/lib/python3.11/site-packages/module.py": "x = 1\n",
        ".gitignore": "node_modules\n.venv\n.env\nnotes\n.probes\n.blueflame\n.trees\n",
        "blueflame.yaml": "schema_version: 2\nproject: {name: sample}\n",
        ".blueflame/signals/keep": "",
    }.items():
        _write(main / path, text)
    (main / ".venv/bin/tool").chmod(0o755)
    (main / ".venv/bin/python").symlink_to("/usr/bin/python3")
    git = ["git", "-C", str(main)]
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("config", "credential.helper", "store"),
        ("add", "-A"),
        ("commit", "-q", "-m", "chore(task-000): begin"),
    ):
        subprocess.run([*git, *arguments], check=True, capture_output=True, env={**os.environ, **GIT_IDENTITY})
    repo = open_repository(main, base_branch="main")
    for name in ("worker-1", "worker-2"):
        make_checkout(repo, main / ".trees" / name, base=repo.base_sha, branch=f"work/{name}")
    for name in ("node_modules", ".venv"):
        shutil.copytree(main / name, outside.tree / name, symlinks=True)


@dataclass
class Watch:
    """The listeners, the victims and the snapshots for a batch of probes."""

    outside: Outside
    attacks: Sequence[Attack]
    heard: set[str] = field(default_factory=set)
    victims: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _ports: dict[str, tuple[int, int]] = field(default_factory=dict)
    _before: dict[str, object] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _left: dict[int, bytes] = field(default_factory=dict)
    _named: dict[str, list[Path]] = field(default_factory=dict)

    def __enter__(self) -> Watch:
        for attack in self.attacks:
            self._prepare(attack)
        self._before = self._facts()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._restore()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr] # only sockets are registered
        self._selector.close()
        for victim in self.victims.values():
            victim.kill()
            victim.wait()

    def _restore(self) -> None:
        """Restore the machine if a wall failed."""
        before = self._before["settings"]
        assert isinstance(before, dict)
        for path, text in before.items():
            if _text(path) != text:
                with suppress(OSError):
                    Path(path).unlink() if text is None else Path(path).write_text(text)

    def _prepare(self, attack: Attack) -> None:
        canary = self.outside.canary(attack)
        canary.mkdir(parents=True)
        loot = canary / "loot"
        loot.write_text(self.outside.loot(attack.id))
        for path in (canary, loot):
            os.chown(path, self.outside.uid, self.outside.uid)
            os.utime(path, (10**9, 10**9))
        self._ports[attack.id] = (self._door(attack, socket.SOCK_STREAM), self._door(attack, socket.SOCK_DGRAM))
        code = attack.deed.code if isinstance(attack.deed, Probe) else ""
        if "SOCKET" in code or "ABSTRACT" in code or "SSH_AUTH" in code:
            self._unix(attack)
        if "VICTIM" in code:
            self.victims[attack.id] = self._victim()

    def _door(self, attack: Attack, kind: socket.SocketKind) -> int:
        door = socket.socket(socket.AF_INET, kind)
        door.bind(("127.0.0.1", 0))
        self._register(door, attack)
        return int(door.getsockname()[1])

    def _unix(self, attack: Attack) -> None:
        mark = self.outside.mark(attack)
        for kind, name in (
            (socket.SOCK_STREAM, str(self._socket(attack))),
            (socket.SOCK_STREAM, f"\0{mark}"),
            (socket.SOCK_DGRAM, f"\0{mark}-d"),
        ):
            door = socket.socket(socket.AF_UNIX, kind)
            door.bind(name)
            self._register(door, attack)
        self._socket(attack).chmod(0o777)

    def _socket(self, attack: Attack) -> Path:
        """A short path: the kernel allows 107 bytes."""
        return self.outside.root / f"s{hashlib.sha256(attack.id.encode()).hexdigest()[:6]}"

    def _register(self, door: socket.socket, attack: Attack) -> None:
        door.setblocking(False)
        if door.type == socket.SOCK_STREAM:
            door.listen()
        self._selector.register(door, selectors.EVENT_READ, attack.id)

    def _victim(self) -> subprocess.Popen[bytes]:
        """A process of the user that starts the sandbox: processes inside must not reach it."""
        return subprocess.Popen(
            ["sh", "-c", f"while :; do sleep 30; done; : victim-{self.outside.nonce} {self.outside.loot('victim')}"],
            start_new_session=True,
            user=self.outside.uid if os.geteuid() == 0 else None,
        )

    def _listen(self) -> None:
        while not self._ended.wait(0.02):
            self._hear()
        self._hear()

    def _hear(self) -> None:
        for key, _ in self._selector.select(0):
            self.heard.add(key.data)
            with suppress(OSError):
                if key.fileobj.type == socket.SOCK_STREAM:  # type: ignore[union-attr] # only sockets are registered
                    key.fileobj.accept()[0].close()  # type: ignore[union-attr] # the same
                else:
                    key.fileobj.recv(100)  # type: ignore[union-attr] # the same

    def variables(self, attack: Attack) -> dict[str, str]:
        """The variables of the probe. None of them is secret."""
        outside, (tcp, udp) = self.outside, self._ports[attack.id]
        victim = self.victims.get(attack.id)
        return {
            "CANARY": str(outside.canary(attack)),
            "OUT": str(outside.out(attack)),
            "MARK": outside.mark(attack),
            "MAIN": str(outside.main),
            "TREE": str(outside.tree),
            "REALHOME": str(outside.home),
            "TCP": str(tcp),
            "UDP": str(udp),
            "DOOR": str(40000 + int(hashlib.sha256(attack.id.encode()).hexdigest()[:4], 16) % 20000),
            "SOCKET": str(self._socket(attack)),
            "ABSTRACT": outside.mark(attack),
            "VICTIM": str(victim.pid if victim else 0),
            "VICTIMWORD": f"victim-{outside.nonce}",
            "LOOTWORD": outside.word,
            "KEYNAME": f"blueflame-{outside.nonce}",
            "KEY": str(_key(outside, attack)),
            "PIDNS": str(Path("/proc/self/ns/pid").readlink()),
            "USERNS": str(Path("/proc/self/ns/user").readlink()),
            "HANDLE": _handle(outside.canary(attack) / "loot"),
            "ADDRESS": _own_address(),
        }

    def _facts(self) -> dict[str, object]:
        return {
            "main": snapshot(self.outside.main, skip=(self.outside.tree,)),
            "home": snapshot(self.outside.home),
            "settings": {path: _text(path) for path in SETTINGS},
        }

    def breaches(self) -> dict[str, list[str]]:
        """What each probe reached; empty if the wall held."""
        await_end(f"bf-{self.outside.nonce}-")
        after = self._facts()
        self._left, self._named = list_processes(f"bf-{self.outside.nonce}-"), self._list_named()
        return {attack.id: list(self._breaches(attack, after)) for attack in self.attacks}

    def _breaches(self, attack: Attack, after: Mapping[str, object]) -> Iterator[str]:
        assert isinstance(attack.deed, Probe)
        code = attack.deed.code
        yield from self._canary(attack)
        yield from self._said(attack)
        yield from self._marks(attack)
        if attack.id in self.heard:
            yield "a listener was reached"
        if attack.id in self.victims:
            yield from _harm(self.victims[attack.id])
        for name, word in (("main", "MAIN"), ("home", "REALHOME"), ("main", "TREE"), ("main", "MARK")):
            if word in code and self._before[name] != after[name]:
                yield f"changed: {sorted(_differences(self._before[name], after[name]))[:5]}"
        if "/proc/sys/" in code and self._before["settings"] != after["settings"]:
            yield f"the machine's settings changed: {_differences(self._before['settings'], after['settings'])}"

    def _canary(self, attack: Attack) -> Iterator[str]:
        canary = self.outside.canary(attack)
        found = {path.name: path for path in canary.iterdir()} if canary.is_dir() else {}
        about = found["loot"].lstat() if "loot" in found else None
        if about is None or (about.st_mtime, stat.S_IMODE(about.st_mode)) != (10**9, 0o644):
            yield "the canary's file was touched"
        if set(found) - {"loot"}:
            yield f"the canary's folder holds {sorted(found)}"

    def _said(self, attack: Attack) -> Iterator[str]:
        assert isinstance(attack.deed, Probe)
        out = self.outside.out(attack)
        if not (out / "said.txt").exists():
            if attack.deed.least:
                yield "the probe did not run"
            return
        for path in _walk(out):
            mode = path.lstat().st_mode
            if mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                yield f"{path.name} has the mode {mode:o}"
            if stat.S_ISREG(mode) and path.stat().st_size < 10**7:
                text = path.read_bytes()
                if f"{self.outside.word}-".encode() in text:
                    yield f"a secret came into {path.name}"
                if path.name == "said.txt" and b"ESCAPED" in text:
                    yield text.decode(errors="replace").strip()[:500]
            if attack.deed.most and path.lstat().st_size > 5 << 20:
                yield f"{path.name} has {path.lstat().st_size} bytes"
        if attack.deed.most:
            count = _text(str(out / "count")) or "0"
            if not attack.deed.least <= int(count or 0) <= attack.deed.most:
                yield f"it came to {count}, and may come to {attack.deed.most}"

    def _marks(self, attack: Attack) -> Iterator[str]:
        mark = self.outside.mark(attack)
        for path in self._named.get(mark, ()):
            yield "a file outside bears its name"
            with suppress(OSError):
                path.unlink()
        for pid in (pid for pid, command in self._left.items() if mark.encode() in command):
            yield f"the process {pid} stayed behind"
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        key = str(_key(self.outside, attack))
        if any(line.split()[0] == key for path in SYSTEM_V for line in (_text(path) or "").splitlines()[1:]):
            yield "System V objects stayed behind"
            remove = [f"--{kind}-key={key}" for kind in ("shmem", "semaphore", "queue")]
            for each in remove:  # of a try without a sandbox: the next try with one would be blamed for it
                subprocess.run(["ipcrm", each], capture_output=True, check=False)

    def _list_named(self) -> dict[str, list[Path]]:
        """The files in places that the probes try, by their names without endings; each folder is read once."""
        found: dict[str, list[Path]] = {}
        folders = [*map(Path, PLACES), self.outside.tree.parent, self.outside.root, self.outside.root.parent]
        for folder in folders:
            with suppress(OSError):
                for path in folder.iterdir():
                    found.setdefault(path.name.split(".")[0], []).append(path)
        return found


def _harm(victim: subprocess.Popen[bytes]) -> Iterator[str]:
    if victim.poll() is not None:
        yield "a process outside was ended"
        return
    status = Path(f"/proc/{victim.pid}/status").read_text()
    result = dict(line.split(":", 1) for line in status.splitlines())
    words = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()
    if words[0] in "tT" or result["TracerPid"].strip() != "0":
        yield "a process outside was stopped or traced"
    if int(words[16]) != os.getpriority(os.PRIO_PROCESS, 0):  # ours: make may run under nice
        yield "a process outside has another priority"
    if Path(f"/proc/{victim.pid}/oom_score_adj").read_text().strip() == "900":
        yield "a process outside was offered to the OOM killer"
    if "Max open files            7 " in Path(f"/proc/{victim.pid}/limits").read_text():
        yield "a process outside has other limits"


def await_end(mark: str) -> None:
    """Wait a moment for processes that are ending."""
    end = time.monotonic() + 2
    while processes_with(mark) and time.monotonic() < end:
        time.sleep(0.05)


def processes_with(mark: str) -> list[int]:
    return sorted(list_processes(mark))


def list_processes(mark: str) -> dict[int, bytes]:
    """The living processes whose command line has the mark, with their command lines."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with suppress(OSError):
                command = (path / "cmdline").read_bytes()
                if mark.encode() in command and not _is_zombie(path):
                    found[int(path.name)] = command
    return found


def _is_zombie(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def snapshot(folder: Path, skip: Sequence[Path] = ()) -> dict[str, object]:
    """Every file with its mode and content, except what Blue Flame adds to its own folder."""
    return {str(path.relative_to(folder)): _digest(path) for path in _walk(folder, skip)}


def _walk(folder: Path, skip: Sequence[Path] = ()) -> Iterator[Path]:
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path not in skip:
                yield path
                if path.is_dir() and not path.is_symlink():
                    yield from _walk(path, skip)


def _digest(path: Path) -> object:
    about = path.lstat()
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISLNK(about.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISREG(about.st_mode):
        return ("file", mode, hashlib.sha256(path.read_bytes()).hexdigest())
    return ("other", mode)


def _differences(before: object, after: object) -> dict[str, str]:
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    return {
        name: "gone" if name not in after else "new" if name not in before else "changed"
        for name in {*before, *after}
        if before.get(name) != after.get(name)
    }


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _key(outside: Outside, attack: Attack) -> int:
    return 0x0BF00000 + int(hashlib.sha256(outside.mark(attack).encode()).hexdigest()[:5], 16)


def _handle(path: Path) -> str:
    """The handle of a file, as open_by_handle_at takes it."""
    buffer = ctypes.create_string_buffer(struct.pack("Ii", HANDLE_LENGTH, 0) + bytes(HANDLE_LENGTH))
    mount = ctypes.c_int()
    if call("name_to_handle_at", -100, str(path).encode(), buffer, ctypes.byref(mount), 0) != 0:
        return ""
    length, kind = struct.unpack_from("Ii", buffer.raw)
    return f"{kind}:{buffer.raw[8 : 8 + length].hex()}"


def _own_address() -> str:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect(("192.0.2.1", 9))
        return str(line.getsockname()[0])
    return ""


def card_of(outside: Outside) -> Path:
    return get_record_path(outside.tree)
