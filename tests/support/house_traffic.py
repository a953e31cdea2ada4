"""Everything that reaches a house, from stand-ins that outlive it.

What was sent is known, so that what is lost or comes twice can be counted.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from blueflame.cli.main import run
from blueflame.dispatch.feeds import FeedState, dump_state
from blueflame.journal.house import HouseJournal
from blueflame.testing.bot_api import ApiCall, ApiError, BotApi
from support.feed_servers import format_item, format_rss
from support.houses import HouseStage
from support.webhook_calls import SECRET, build_github_issue, dump_call, sign_github

ANNA, BOB, STRANGER = 11, 22, 99
WISHED = ("start", "approve", "wait", "spawn", "retry: try again", "abort", "stop: end")
"""The beginnings of the buttons that people choose; others leave a session unfinished, or need a reason."""
GH = '#!/bin/sh\ncat "{folder}/issues.json"\n'
HOUSE_YAML = """\
version: 1
people:
  anna: {{trust: owner, telegram: 11, github: anna}}
  bob: {{trust: member, telegram: 22}}
telegram: {{api: "{api}", chats: {{11: {{repository: shop}}, 22: {{repository: shop}}}}}}
pool: {{agents: 3, roles: {{lead: 1}}, max_queue_length: 0}}
limits: {{sessions: 2, requests_per_hour: 1000}}
sources:
  feeds:
    repository: blog
    private_addresses: [127.0.0.1]
    feeds:
      - {{name: news, url: "{feed}", poll_interval: "* * * * *", notify_on_match: {{keywords: [flame]}}}}
  schedules:
    - {{name: nightly, cron: "*/20 * * * *", repository: blog, request: Tidy up}}
  webhooks:
    enabled: true
    listen: 127.0.0.1:{port}
    hooks: [{{name: site, forge: github, project: acme/site, secret_from: SITE_SECRET, repository: site}}]
  issues: [{{repository: site, forge: gh, every: 1s}}]
"""


class SentMessage(NamedTuple):
    """A message that Telegram has taken from the bot."""

    chat: int
    reply_to: int | None
    text: str
    at: float


class CountingBotApi(BotApi):
    """Keeps each message as it was sent: what a chat shows is edited later."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[SentMessage] = []

    def answer(self, token: str, call: ApiCall) -> dict[str, Any] | ApiError:
        found = super().answer(token, call)
        if call.method == "sendMessage" and not isinstance(found, ApiError):
            replied = (call.fields.get("reply_parameters") or {}).get("message_id")
            chat, text = int(call.fields["chat_id"]), str(call.fields["text"])
            self.taken.append(SentMessage(chat, replied, text, time.monotonic()))
        return found


class _FeedHandler(BaseHTTPRequestHandler):
    server: _FeedHost

    def do_GET(self) -> None:
        body = format_rss(*(format_item(guid, f"flame {guid}") for guid in reversed(self.server.items)))
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 (as the library has it)
        pass


class _FeedHost(ThreadingHTTPServer):
    daemon_threads = True
    items: list[str]


@dataclass
class HouseTraffic:
    """What people and machines send. `expected`: the keys of the requests that must be received, by source."""

    stage: HouseStage
    api: CountingBotApi
    feed: _FeedHost
    port: int
    dice: random.Random
    expected: dict[str, set[str]] = field(default_factory=dict)
    sent: int = 0
    detached: int = 0
    _undelivered: list[int] = field(default_factory=list)  # issues whose call was not acknowledged
    _issues: list[dict[str, Any]] = field(default_factory=list)
    _tapped: set[int] = field(default_factory=set)
    _answered: set[tuple[str, str, str]] = field(default_factory=set)

    def send_one(self) -> None:
        """Send something new through one of the sources, in turn, or make Telegram misbehave."""
        self.sent += 1
        ways: tuple[Callable[[int], None], ...] = (
            self._write_message,
            self._save_plan,
            self._call_webhook,
            self._run_detached,
            self._publish_item,
            self._label_issue,
            self._disturb_telegram,
        )
        ways[self.sent % len(ways)](self.sent)

    def _expect(self, source: str, key: str) -> None:
        self.expected.setdefault(source, set()).add(key)

    def _write_message(self, number: int) -> None:
        who = self.dice.choice((ANNA, BOB))
        update = self.api.write(who, who, f"Write page {number}")
        self._expect("telegram", f"{self.api.token.partition(':')[0]}:{update}")
        self.api.write(STRANGER, STRANGER, f"Write page {number}")

    def _save_plan(self, number: int) -> None:
        folder = self.stage.root / "shop" / "docs" / "plans"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"plan-{number}.md"
        path.write_text(f"Describe part {number}")
        self._expect("plans", f"shop/docs/plans/{path.name}")

    def _call_webhook(self, number: int) -> None:
        self._undelivered.append(number)
        self._expect("issues", f"github:acme/site#{number}")

    def _label_issue(self, number: int) -> None:
        """It is in the list of gh; the last one that a webhook announced is too, and is the same request."""
        numbers = [number, *self._undelivered[-1:]]
        url = "https://github.com/acme/site/issues/"
        self._issues += [
            {
                "author": {"login": "anna"},
                "body": f"Body {each}",
                "number": each,
                "title": f"Issue {each}",
                "updatedAt": f"2026-02-01T10:{each // 60:02d}:{each % 60:02d}Z",
                "url": f"{url}{each}",
            }
            for each in numbers
        ]
        self._expect("issues", f"github:acme/site#{number}")
        path = self.stage.root / "gh" / "issues.json"
        path.with_suffix(".new").write_text(json.dumps(self._issues))
        path.with_suffix(".new").replace(path)

    def _publish_item(self, number: int) -> None:
        self.feed.items.append(f"item-{number}")

    def _run_detached(self, number: int) -> None:
        name = self.dice.choice(self.stage.names)
        config = self.stage.root / name / "blueflame.yaml"
        assert run(["run", "--detach", "--config", str(config), f"Sort part {number}"]) == 0
        self.detached += 1

    def _disturb_telegram(self, _number: int) -> None:
        failures = (
            ("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates request")),
            ("getUpdates", ApiError(502, "Bad Gateway")),
            ("sendMessage", ApiError(429, "Too Many Requests: retry after 1", {"retry_after": 1})),
            ("sendMessage", ApiError(500, "Internal Server Error")),
            ("editMessageText", ApiError(400, "Bad Request: message is not modified")),
            ("answerCallbackQuery", ApiError(400, "Bad Request: query is too old and response timeout expired")),
        )
        method, error = self.dice.choice(failures)
        self.api.errors.setdefault(method, []).append(error)

    def deliver_calls(self) -> None:
        """Call the house about each issue until it acknowledges, and now and then once more."""
        for number in list(self._undelivered):
            call = build_github_issue("anna", repository={"full_name": "acme/site"}, sender={"login": "anna"})
            call["issue"] |= {"number": number, "html_url": f"https://github.com/acme/site/issues/{number}"}
            if self._post(dump_call(call)) and self.dice.random() < 0.7:
                self._undelivered.remove(number)

    def _post(self, body: bytes) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/hooks/site", body, sign_github(body))
            return connection.getresponse().status == 202
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    @property
    def is_delivered(self) -> bool:
        return not self._undelivered

    def answer_gates(self) -> None:
        """Anna taps buttons, and answers at a terminal, also both."""
        for shown in self.api.list_shown(ANNA):
            buttons = [data for label, data in shown.buttons if label.startswith(WISHED)]
            if buttons and shown.id not in self._tapped and self.dice.random() < 0.7:
                self._tapped.add(shown.id)
                self.api.tap(ANNA, ANNA, self.dice.choice(buttons), message=shown.id)
        for found in self.stage.list_gates():
            known = (found.repository, found.session, found.gate.id)
            if known not in self._answered and self.dice.random() < 0.3:
                self._answered.add(known)
                named = [f"{option.name}: {option.label}" for option in found.gate.options]
                choice = self.dice.choice([each for each in named if each.startswith(WISHED)]).partition(":")[0]
                if found.session:
                    config = str(self.stage.root / found.repository / "blueflame.yaml")
                    run(["answer", "--config", config, found.gate.id, choice])
                else:
                    run(["requests", "start", found.request])


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_traffic(stage: HouseStage, dice: random.Random, environ: dict[str, str]) -> Iterator[HouseTraffic]:
    """Configure the house for all sources, and serve what they talk to. `environ` is changed for it."""
    with CountingBotApi() as api:
        feed = _FeedHost(("127.0.0.1", 0), _FeedHandler)
        feed.items = ["item-0"]
        thread = threading.Thread(target=feed.serve_forever, args=(0.02,), name="feed")
        thread.start()
        try:
            port, url = _find_port(), f"http://127.0.0.1:{feed.server_address[1]}/feed"
            stage.write(people=HOUSE_YAML.format(api=api.url, feed=url, port=port))
            program = stage.root / "gh" / "gh"
            program.parent.mkdir()
            program.write_text(GH.format(folder=program.parent))
            program.chmod(0o755)
            (program.parent / "issues.json").write_text("[]")
            environ |= {"TELEGRAM_BOT_TOKEN": api.token, "SITE_SECRET": SECRET}
            environ |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "BLUEFLAME_HOUSE": str(stage.paths.root)}
            _begin_timed_sources(stage, url)
            yield HouseTraffic(stage, api, feed, port, dice)
        finally:
            feed.shutdown()
            thread.join()
            feed.server_close()


def _begin_timed_sources(stage: HouseStage, url: str) -> None:
    """As if the house had run before: the feed was fetched, and a time of the schedule was missed. No test waits."""
    state = FeedState(configured=url, url=url, is_begun=True)
    schedule: Mapping[str, object] = {"rule": "*/20 * * * * UTC", "until": time.time() - 3600, "key": ""}
    with HouseJournal.open(stage.paths.journal) as journal:
        journal.receive("feeds/news", [], cursor=json.dumps(dump_state(state)))
        journal.receive("schedules/nightly", [], cursor=json.dumps(schedule))
