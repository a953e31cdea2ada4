"""Telling: what each kind is given, and that it ends in time. Real programs, and a server on this machine."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from blueflame.model.errors import NotifierFailed, WorldError
from blueflame.model.settings.notifications import NotifierSettings, find_url_problem
from blueflame.system.notifiers import build_notifier, check_notifier
from blueflame.text.notifications import Notification

NOTICE = Notification(
    topic="gate",
    words="[docs] <b>Объясни</b> & покажи",
    answer="blueflame answer changeset-cs-001 approve|reject|skip",
    gate="changeset-cs-001",
    project="пример",
    session="ses-20260206-143022",
    tasks=3,
    landed=1,
    cost_usd=0.35,
)


def made(**given: Any) -> NotifierSettings:  # noqa: ANN401 (what YAML holds)
    return NotifierSettings.model_validate(given)


def program(folder: Path, name: str, lines: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = list(statuses)
        self.got: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/s3cret?token=t0ken"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append({"path": self.path, "kind": self.headers["Content-Type"], **json.loads(data)})
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(*statuses: int) -> Iterator[Server]:
    with Server(*statuses) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("shell", [True, False])
def test_a_command_gets_json_on_its_input(tmp_path: Path, shell: bool) -> None:
    tell = program(tmp_path, "скажи мне", 'cat > "$1"; echo "$BLUEFLAME_TOPIC" >> "$1"')
    out = tmp_path / "сказано"
    command: object = f"'{tell}' '{out}'" if shell else [str(tell), str(out)]
    environ = {**os.environ, "ANTHROPIC_API_KEY": "never", "GIT_DIR": "elsewhere"}
    build_notifier(made(kind="command", command=command), tmp_path, environ)(NOTICE, 2)
    said, topic = out.read_text().splitlines()
    assert json.loads(said)["words"] == NOTICE.words
    assert (json.loads(said)["more"], topic) == (2, "gate")


def test_a_command_that_fails_or_hangs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotifierFailed, match="ended with 3: ой"):
        build_notifier(made(kind="command", command="echo ой >&2; exit 3"), tmp_path, os.environ)(NOTICE, 0)
    with pytest.raises(WorldError, match="not finished"):
        build_notifier(made(kind="command", command="sleep 60", timeout="0.3s"), tmp_path, os.environ)(NOTICE, 0)


@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="there it is osascript")
def test_a_desktop_notification_has_a_title_and_a_body(tmp_path: Path) -> None:
    program(tmp_path, "notify-send", f'for a; do printf "%s\\n--\\n" "$a"; done > "{tmp_path}/said"')
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    build_notifier(made(kind="desktop"), tmp_path, environ)(NOTICE, 1)
    said = (tmp_path / "said").read_text()
    assert "Blue Flame: пример waits for you" in said
    assert "&lt;b&gt;Объясни&lt;/b&gt; &amp; покажи\nand 1 more\nblueflame answer" in said


def test_a_desktop_without_notifications_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotifierFailed, match="on PATH"):
        build_notifier(made(kind="desktop"), tmp_path, {"PATH": str(tmp_path)})(NOTICE, 0)


def test_a_webhook_is_posted_to(tmp_path: Path) -> None:
    with serving() as server:
        tell = build_notifier(made(kind="webhook", url_from="HOOK"), tmp_path, {"HOOK": server.url})
        tell(NOTICE, 0)
    (got,) = server.got
    assert got["path"] == "/hook/s3cret?token=t0ken"
    assert got["kind"].startswith("application/json")
    assert (got["gate"], got["cost_usd"], got["schema_version"]) == ("changeset-cs-001", 0.35, 1)


def test_a_webhook_is_tried_once_more_and_not_for_ever(tmp_path: Path) -> None:
    with serving(503) as server:
        build_notifier(made(kind="webhook", url=server.url), tmp_path, {})(NOTICE, 0)
        assert len(server.got) == 2
    with serving(500, 500, 500) as server:
        with pytest.raises(NotifierFailed, match="answered 500"):
            build_notifier(made(kind="webhook", url=server.url), tmp_path, {})(NOTICE, 0)
        assert len(server.got) == 2


@pytest.mark.parametrize("status", [302, 404])
def test_what_will_not_pass_is_not_tried_again_nor_followed(tmp_path: Path, status: int) -> None:
    with serving(status) as server:
        with pytest.raises(NotifierFailed) as failed:
            build_notifier(made(kind="webhook", url=server.url), tmp_path, {})(NOTICE, 0)
        assert [got["path"] for got in server.got] == ["/hook/s3cret?token=t0ken"]
    assert "s3cret" not in str(failed.value)
    assert "t0ken" not in str(failed.value)


def test_a_server_that_answers_drop_by_drop_is_hung_up_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def drip() -> None:
            while not over.is_set():
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    while not over.wait(0.05):
                        try:
                            peer.sendall(b"H")
                        except OSError:
                            break

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://localhost:{listener.getsockname()[1]}/"
        try:
            with pytest.raises(NotifierFailed, match="localhost"):
                build_notifier(made(kind="webhook", url=url, timeout="0.4s"), tmp_path, {})(NOTICE, 0)
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_webhook_without_a_server_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotifierFailed, match=r"127\.0\.0\.1"):
        build_notifier(made(kind="webhook", url=f"http://127.0.0.1:{port}/s3cret"), tmp_path, {})(NOTICE, 0)


def find_apprise_address(server: Server) -> str:
    return f"json://127.0.0.1:{server.server_address[1]}/s3cret"


def test_a_service_of_apprise_gets_headline_and_text(tmp_path: Path) -> None:
    with serving() as server:
        build_notifier(made(kind="apprise", url_from="HOOK"), tmp_path, {"HOOK": find_apprise_address(server)})(
            NOTICE, 2
        )
    (got,) = server.got
    assert got["title"] == "Blue Flame: пример waits for you"
    assert got["message"].splitlines() == [NOTICE.words, "and 2 more", NOTICE.answer]


@pytest.mark.parametrize("status", [302, 500])
def test_a_redirect_or_a_failure_of_a_service_is_an_error_without_its_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with serving(status, status) as server:
        address = find_apprise_address(server)
        with pytest.raises(NotifierFailed, match="HOOK did not take the message") as failed:
            build_notifier(made(kind="apprise", url_from="HOOK"), tmp_path, {"HOOK": address})(NOTICE, 0)
    assert "s3cret" not in str(failed.value) + caplog.text


@pytest.mark.parametrize(("address", "words"), [("", "is empty"), ("pigeon://x", "is not one of Apprise")])
def test_an_address_that_apprise_does_not_know_is_an_error(tmp_path: Path, address: str, words: str) -> None:
    with pytest.raises(NotifierFailed, match=words):
        build_notifier(made(kind="apprise", url_from="HOOK"), tmp_path, {"HOOK": address})(NOTICE, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "apprise", "url_from": "HOOK"}, "the address in HOOK is not one of Apprise"),
        ({"kind": "webhook", "url_from": "HOOK"}, "the address in HOOK is not a web address"),
        ({"kind": "desktop"}, "is not on PATH"),
        ({"kind": "command", "command": ("./tell-me",)}, "tell-me is not on PATH"),
    ],
)
def test_what_cannot_work_is_known_before_anything_is_sent(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    environ = {"HOOK": "pigeon://s3cret", "PATH": str(tmp_path)}
    with pytest.raises(NotifierFailed, match=words) as failed:
        check_notifier(made(**settings), tmp_path, environ)
    assert "s3cret" not in str(failed.value)
    for name in ("tell-me", "notify-send", "osascript"):
        (tmp_path / name).touch(0o755)
    for kind in ({"kind": "desktop"}, {"kind": "command", "command": ("./tell-me",)}):
        check_notifier(made(**kind), tmp_path, environ)


@pytest.mark.parametrize(
    ("variable", "words"),
    [({}, "is empty"), ({"HOOK": "http://example.org/s3cret"}, "not encrypted"), ({"HOOK": "x"}, "web address")],
)
def test_an_address_from_the_environment_is_looked_at_too(tmp_path: Path, variable: dict[str, str], words: str) -> None:
    with pytest.raises(NotifierFailed, match=words) as failed:
        build_notifier(made(kind="webhook", url_from="HOOK"), tmp_path, variable)(NOTICE, 0)
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x?y=z",
        "https://example.org:8443/",
        "http://127.0.0.1:80/x",
        "http://[::1]:9/",
        "http://localhost",
    ],
)
def test_addresses_that_will_do(url: str) -> None:
    assert find_url_problem(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://127.0.0.1.example.org/",
        "http://localhost@example.org/",
        "https://ada:pw@example.org",
        "ftp://example.org",
        "https://",
        "https://example.org/\nHost: x",
        "file:///etc/passwd",
    ],
)
def test_addresses_that_will_not_do(url: str) -> None:
    assert find_url_problem(url)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "command"},
        {"kind": "desktop", "command": "true"},
        {"kind": "webhook"},
        {"kind": "webhook", "url": "https://example.org", "url_from": "HOOK"},
        {"kind": "desktop", "url_from": "HOOK"},
        {"kind": "webhook", "url": "http://example.org"},
        {"kind": "desktop", "on": ["everything"]},
        {"kind": "pigeon"},
        {"kind": "apprise"},
        {"kind": "apprise", "url": "json://127.0.0.1"},
        {"kind": "apprise", "url": "json://127.0.0.1", "url_from": "HOOK"},
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made(**given)
