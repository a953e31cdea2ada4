"""Notify a person through a command, the desktop, a POST of JSON, or Apprise, each with a timeout."""

from __future__ import annotations

import http.client
import json
import logging
import os
import shutil
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from blueflame.model.errors import NotifierFailed
from blueflame.model.settings.notifications import URL_HINT, NotifierSettings, find_url_problem
from blueflame.system.process import ProcessResult, run
from blueflame.text.notifications import Notification, build_message, format_body, format_headline

if TYPE_CHECKING:
    from apprise import Apprise

DESKTOP_PROGRAM = "osascript" if sys.platform == "darwin" else "notify-send"
MAX_TRIES = 2
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})

Notifier = Callable[[Notification, int], None]
"""Sends a notification and the number of further ones. Raises WorldError."""


def build_notifier(settings: NotifierSettings, root: Path, environ: Mapping[str, str]) -> Notifier:
    return NOTIFIER_BUILDERS[settings.kind](settings, root, environ)


def check_notifier(settings: NotifierSettings, root: Path, environ: Mapping[str, str]) -> None:
    """Raise NotifierFailed for what can be known without sending: a missing program, an address that is not one."""
    match settings.kind:
        case "command" if not isinstance(settings.command, str) and settings.command:
            program = settings.command[0]
            _find_program(str(root / program) if "/" in program else program, environ)
        case "desktop":
            _find_program(DESKTOP_PROGRAM, environ)
        case "webhook":
            _find_address(settings, environ)
        case "apprise":
            _open_service(settings, environ)


def _find_program(name: str, environ: Mapping[str, str]) -> str:
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        raise NotifierFailed(f"{name} is not on PATH: install it, or correct the notifier")
    return found


def _build_command_notifier(settings: NotifierSettings, root: Path, environ: Mapping[str, str]) -> Notifier:
    given = settings.command
    argv = ("/bin/sh", "-c", given) if isinstance(given, str) else tuple(given or ())
    own = {name: value for name, value in environ.items() if not name.startswith("GIT_")}

    def notify(notice: Notification, more: int) -> None:
        env = {**own, "BLUEFLAME_TOPIC": notice.topic, "BLUEFLAME_SESSION": notice.session, "BLUEFLAME_ROOT": str(root)}
        done = run(*argv, cwd=root, env=env, stdin=_format_json(notice, more), timeout=settings.timeout)
        _check_exit(argv[0] if argv[0] != "/bin/sh" else "the command", done)

    return notify


def _build_desktop_notifier(settings: NotifierSettings, root: Path, environ: Mapping[str, str]) -> Notifier:
    def notify(notice: Notification, more: int) -> None:
        program = _find_program(DESKTOP_PROGRAM, environ)
        head, words = format_headline(notice), format_body(notice, more)
        argv = (
            (program, *_OSASCRIPT_OPTIONS, head, words)
            if sys.platform == "darwin"
            else (program, "--app-name=Blue Flame", "--", head, escape(words))
        )
        _check_exit(DESKTOP_PROGRAM, run(*argv, cwd=root, env=environ, timeout=settings.timeout))

    return notify


_OSASCRIPT_OPTIONS = (
    "-e",
    "on run argv",
    "-e",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e",
    "end run",
)
"""The text is passed as arguments, so that none of it is read as AppleScript."""


def _build_webhook_notifier(settings: NotifierSettings, _root: Path, environ: Mapping[str, str]) -> Notifier:
    def notify(notice: Notification, more: int) -> None:
        url = _find_address(settings, environ)
        for left in reversed(range(MAX_TRIES)):
            try:
                status = post_json(url, _format_json(notice, more).encode(), timeout=settings.timeout)
            except NotifierFailed:
                if not left:
                    raise
                continue
            if status < 300:
                return
            if not left or status not in RETRIED_STATUSES:
                raise NotifierFailed(f"{urlsplit(url).hostname} answered {status}: check the address of the webhook")

    return notify


def _find_address(settings: NotifierSettings, environ: Mapping[str, str]) -> str:
    url = settings.url or environ.get(settings.url_from or "", "")
    if not url:
        raise NotifierFailed(f"the variable {settings.url_from} is empty: set it to the address of the webhook")
    if fault := find_url_problem(url):
        raise NotifierFailed(f"the address in {settings.url_from or 'url'} {fault}; {URL_HINT}")
    return url


def _build_apprise_notifier(settings: NotifierSettings, _root: Path, environ: Mapping[str, str]) -> Notifier:
    def notify(notice: Notification, more: int) -> None:
        service = _open_service(settings, environ)
        for each in service:
            each.socket_connect_timeout = each.socket_read_timeout = settings.timeout
        if not service.notify(title=format_headline(notice), body=format_body(notice, more)):
            raise NotifierFailed(f"the service in {settings.url_from} did not take the message: check its address")

    return notify


def _open_service(settings: NotifierSettings, environ: Mapping[str, str]) -> Apprise:
    address = environ.get(settings.url_from or "", "")
    if not address:
        raise NotifierFailed(f"the variable {settings.url_from} is empty: set it to an address of Apprise")
    service = _open_apprise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the first address imports all of its services
        known = service.add(address)
    if not known:
        raise NotifierFailed(f"the address in {settings.url_from} is not one of Apprise: see its list of services")
    return service


def _open_apprise() -> Apprise:
    try:
        from apprise import Apprise, AppriseAsset
    except ModuleNotFoundError as error:
        raise NotifierFailed("apprise is not installed: pip install 'blueflame[notify]'") from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines have parts of the address
    # a redirect would be followed as a GET without the message, and count as success
    return Apprise(asset=AppriseAsset(http_redirects=False, async_mode=False))


NOTIFIER_BUILDERS: Mapping[str, Callable[[NotifierSettings, Path, Mapping[str, str]], Notifier]] = {
    "command": _build_command_notifier,
    "desktop": _build_desktop_notifier,
    "webhook": _build_webhook_notifier,
    "apprise": _build_apprise_notifier,
}


def post_json(url: str, data: bytes, *, timeout: float) -> int:
    """Return the status of the response. Redirects are not followed; errors name the host only."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "blueflame", "Connection": "close"}
    connection = _open_connection(parts.scheme, parts.hostname or "", parts.port, timeout)
    try:
        with _limit_time(connection, timeout):
            connection.request("POST", target, body=data, headers=headers)
            return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise NotifierFailed(f"cannot post to {parts.hostname}: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _open_connection(scheme: str, host: str, port: int | None, timeout: float) -> http.client.HTTPConnection:
    """Use the person's proxy if set; never for this machine, the only one that http is allowed for."""
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    proxy = urlsplit(getproxies().get("https", "")) if not proxy_bypass(host) else urlsplit("")
    if not proxy.hostname:
        return http.client.HTTPSConnection(host, port, timeout=timeout)
    through = http.client.HTTPSConnection(proxy.hostname, proxy.port or 8080, timeout=timeout)
    through.set_tunnel(host, port or 443)
    return through


@contextmanager
def _limit_time(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Limit the whole exchange: a response that comes byte by byte would take for ever."""

    def close_socket() -> None:
        with suppress(OSError):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, close_socket)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _format_json(notice: Notification, more: int) -> str:
    return json.dumps(build_message(notice, more), ensure_ascii=True) + "\n"


def _check_exit(name: str, done: ProcessResult) -> None:
    if done.code:
        reason = (done.err.strip() or done.out.strip())[-300:]
        raise NotifierFailed(f"{name} ended with {done.code}{f': {reason}' if reason else ''}")
