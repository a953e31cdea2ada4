"""The gateway's process: not a child of the warden, without its files, and ended when the warden ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import blueflame
from support.wardens import is_alive, wait_until

ROOT = str(Path(blueflame.__file__).parent.parent)
WARDEN = """
import ctypes, json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from blueflame.warden.poll_loop import PollLoop
from blueflame.warden.attempt_folder import take_lock
from blueflame.warden.process_tree import adopt_orphans, list_descendants, read_process
from blueflame.warden.gateway_process import start_gateway

folder, upstream, adopts = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "adopts"
poll_loop = PollLoop()
lock = take_lock(folder, "")
spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
kept = socket.create_server(("127.0.0.1", 0))
if adopts:
    adopt_orphans()

async def resolve(host, port):
    return [("127.0.0.1", upstream)]

gateway = start_gateway(folder, {"port": 61128, "hosts": ["example.org"], "allow_private": True}, resolve=resolve)
doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
ports = [door.getsockname()[1] for door in doors]
for door in doors:
    gateway.add_listener(door)
below = [member.pid for member in list_descendants({os.getpid()})]
still = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(still), 0, 0, 0)
state = {"adopts": bool(still.value), "pid": gateway.pid, "ports": ports, "below": below,
        "closed": [door.fileno() for door in doors],
        "heavy": sorted({"asyncio", "ssl", "typing", "dataclasses"} & set(sys.modules)), "problem": gateway.problem}
print(json.dumps(state), flush=True)
for line in sys.stdin:
    if line == "close\\n":
        gateway.close()
        print(json.dumps(read_process(gateway.pid) is None), flush=True)
    elif line == "problem\\n":
        while not gateway.problem:
            poll_loop.wait(0.01)
        print(json.dumps(gateway.problem), flush=True)
    elif line == "give\\n":
        try:
            while True:
                gateway.add_listener(socket.create_server(("127.0.0.1", 0)))
        except OSError as e:
            print(json.dumps(str(e)), flush=True)
"""


class Warden:
    """Run a small program that starts a gateway as the warden does, and takes commands."""

    def __init__(self, folder: Path, upstream: int, adopts: str) -> None:
        folder.mkdir(parents=True)
        argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", WARDEN, ROOT, str(folder), str(upstream), adopts]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reported: dict[str, Any] = json.loads(self._line())
        self.adopts = adopts == "adopts"
        self.pid: int = self.reported["pid"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def obey(self, word: str) -> Any:  # noqa: ANN401 (whatever JSON it answers)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def call(self, door: int = 0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.reported["ports"][door]), timeout=20)


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "состояние дел" / "attempt 1"


@pytest.fixture(params=["adopts", "alone"])
def warden(request: pytest.FixtureRequest, folder: Path, upstream: socket.socket) -> Iterator[Warden]:
    started = Warden(folder, upstream.getsockname()[1], request.param)
    with started.process:
        yield started
        started.process.kill()
    wait_until(lambda: not is_alive(started.pid), "the gateway has ended")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "gateway.jsonl").read_text().splitlines()]


def heard(plug: socket.socket) -> bytes:
    with plug:
        parts = []
        while part := plug.recv(65536):
            parts.append(part)
        return b"".join(parts)


def test_it_serves_every_listener_it_is_given(warden: Warden) -> None:
    for door in (0, 1):
        plug = warden.call(door)
        plug.sendall(b"GET / HTTP/1.1\r\n\r\n")

        assert b'"gateway": "blueflame"' in heard(plug)
    assert warden.reported["closed"] == [-1, -1]
    assert warden.reported["problem"] == ""


def test_it_is_not_below_its_warden_which_stays_light(warden: Warden) -> None:
    assert warden.reported["below"] == []
    assert warden.reported["heavy"] == []
    assert os.getsid(warden.pid) == warden.pid
    assert warden.reported["adopts"] is warden.adopts


def test_it_has_no_file_of_its_warden(warden: Warden, folder: Path) -> None:
    plug = warden.call()
    plug.sendall(b"GET / HTTP/1.1\r\n\r\n")
    heard(plug)  # now it has opened all its files

    opened = Path(f"/proc/{warden.pid}/fd")
    wait_until(lambda: len(list(opened.iterdir())) <= 10, "the call is over")
    files = {int(file.name): str(file.readlink()) for file in opened.iterdir()}
    assert files[0] == "/dev/null"
    assert files[1] == files[2] == str(folder / "gateway.log")
    assert sorted(name for name in files.values() if name.startswith("/")) == sorted(
        ["/dev/null", *[str(folder / "gateway.log")] * 2, str(folder / "gateway.jsonl")]
    )
    sockets = [name for name in files.values() if name.startswith("socket:")]
    assert len(sockets) == 5  # the control socket, two listeners, and the pair by which asyncio wakes itself
    assert Path(f"/proc/{warden.pid}/cwd").readlink() == Path("/")


def test_it_hears_signals_as_any_other_process(warden: Warden) -> None:
    status = Path(f"/proc/{warden.pid}/status").read_text()
    masks = {
        line.partition(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line[:6] in ("SigBlk", "SigIgn")
    }
    ignored = {number for number in range(1, 32) if masks["SigIgn"] >> (number - 1) & 1}

    assert ignored == {signal.SIGPIPE, signal.SIGXFSZ}
    assert masks["SigBlk"] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_warden_however_that_ended(warden: Warden, number: signal.Signals) -> None:
    if number == signal.SIGTERM:
        assert warden.process.stdin is not None
        warden.process.stdin.close()  # it ends by itself
    else:
        warden.process.send_signal(number)
    warden.process.wait()

    wait_until(lambda: not is_alive(warden.pid), "the gateway has ended")


def test_it_ends_with_its_warden_in_the_middle_of_a_tunnel(
    warden: Warden, upstream: socket.socket, folder: Path
) -> None:
    plug = warden.call()
    plug.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    far, _ = upstream.accept()
    warden.process.kill()
    warden.process.wait()

    with far:
        assert far.recv(10) == b""
    assert heard(plug) in (b"", b"HTTP/1.1 200 Connection established\r\n\r\n")
    wait_until(lambda: not is_alive(warden.pid), "the gateway has ended")
    assert [line["host"] for line in lines(folder)] == ["example.org"]


def test_when_it_is_closed_its_record_is_complete_and_nothing_of_it_runs(
    warden: Warden, upstream: socket.socket, folder: Path
) -> None:
    plug = warden.call()
    plug.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    far, _ = upstream.accept()

    assert warden.obey("close") is True

    assert [line["host"] for line in lines(folder)] == ["example.org"]
    assert warden.obey("problem") == "it was closed"
    plug.close()
    far.close()


def test_a_limit_that_keeps_it_from_accepting_is_reported_as_a_problem(warden: Warden, folder: Path) -> None:
    """Its agent would wait for its model until its time is up."""
    with warden.call() as first:  # it has imported all that it needs when it answers
        first.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert first.recv(10)
    resource.prlimit(warden.pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(warden.pid, resource.RLIMIT_NOFILE)[1]))
    with warden.call():
        words = "it may open no more files: raise 'ulimit -n'"
        assert warden.obey("problem") == f"{words} (see {folder}/gateway.log)"


def test_its_death_is_reported_as_a_problem(warden: Warden, folder: Path) -> None:
    os.kill(warden.pid, signal.SIGKILL)

    assert warden.obey("problem") == f"it is gone (see {folder}/gateway.log)"
    assert "it is gone" in warden.obey("give")
    with pytest.raises(OSError, match="refused"):
        warden.call()


@pytest.mark.parametrize(
    ("orders", "reported"),
    [
        (
            {"hosts": ["example.org", "http://example.org/"]},
            "'http://example.org/' in sandbox.allowed_hosts is not a host",
        ),
        ({"hosts": "example.org"}, "hosts must be a list"),
        ({"hosts": [], "budget": 3}, "budget is not one of"),
        ({"hosts": [], "allow_private": "yes"}, "allow_private must be true or false"),
        ({"hosts": ["example.org:70000"]}, "there is no port 70000"),
    ],
)
def test_unknown_options_start_nothing(tmp_path: Path, orders: dict[str, Any], reported: str) -> None:
    from blueflame.warden.gateway_process import start_gateway

    with pytest.raises(ValueError, match=reported):
        start_gateway(str(tmp_path), orders)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_it_cannot_write_to_is_reported_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from blueflame.warden.gateway_process import start_gateway; "
        "start_gateway(sys.argv[2], {'hosts': []})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, ROOT, str(tmp_path / "нет такой")], capture_output=True, text=True, check=False
    )

    assert "the gateway could not be started: FileNotFoundError" in ended.stderr
