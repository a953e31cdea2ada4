"""A provider that charges for every request that it gets, and what a gateway has counted of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blueflame.billing.prices import build_fallback_row, compile_prices, compute_cost, find_row
from blueflame.billing.usage import Usage
from support.model_gateways import RunningGateway, build_model_options, start_model_gateway
from support.model_providers import (
    Provider,
    ProviderBehaviour,
    ProviderConnection,
    answer_json,
    break_connection,
    build_error,
    build_message,
    format_event,
    never_answer,
    start_provider,
    stream_events,
)
from support.small_sandbox import SystemUser

MODEL, OUTPUT = "claude-sonnet-5-5", 100_000
CALL = {"model": MODEL, "max_tokens": OUTPUT, "stream": True, "messages": [{"role": "user", "content": "Go on."}]}
BUDGET = 1_500_000  # millionths of a dollar; one call costs a million
CALL_COST = 1_000_200
PRICES = compile_prices({})
CUT_OFF = threading.Event()  # never set: the provider waits until the test ends, or 20 seconds
LARGE = {"input_tokens": 100, "output_tokens": OUTPUT}
BEGUN = format_event(
    "message_start", {"type": "message_start", "message": {"model": MODEL, "usage": {**LARGE, "output_tokens": 1}}}
)
ENDED = format_event("message_delta", {"type": "message_delta", "usage": LARGE}) + format_event(
    "message_stop", {"type": "message_stop"}
)
GPT_BEGUN = b'data: {"type": "response.created", "response": {"model": "gpt-5-nano"}}\n\n'
GEMINI_BEGUN = b'data: {"candidates": [{"content": {}}], "modelVersion": "gemini-3-flash"}\n\n'
PLAYS: dict[str, ProviderBehaviour] = {
    "whole": stream_events([BEGUN, ENDED]),
    "stalls": stream_events([BEGUN, CUT_OFF]),
    "stalls-openai": stream_events([GPT_BEGUN, CUT_OFF]),
    "stalls-gemini": stream_events([GEMINI_BEGUN, CUT_OFF]),
    "breaks": stream_events([BEGUN], whole=False),
    "silent": never_answer,
    "drops": break_connection,
    "small": answer_json(200, build_message(MODEL, read=1, wrote=1)),
    "json": answer_json(200, {**build_message(MODEL), "usage": LARGE}),
    "counted": answer_json(200, {"input_tokens": 3}),
    "limited": answer_json(429, build_error(), retry_after="3600"),
    "overloaded": answer_json(529, build_error("overloaded_error", "Overloaded.")),
    "denied": answer_json(401, build_error("authentication_error", "invalid x-api-key")),
    "quotes-credit": answer_json(400, build_error("invalid_request_error", "tag 'credit balance' is not expected")),
    "quotes-key": answer_json(400, build_error("invalid_request_error", "role: 'invalid api key' is not expected")),
    "no-model": answer_json(404, build_error("not_found_error", "model: claude-sonnet-5-5-x")),
}


def play_as_asked(line: ProviderConnection) -> None:
    """Behave as the header x-play says: the agent chooses the worst case for us."""
    PLAYS[line.asked.headers.get("x-play", "whole")](line)


@dataclass
class Market:
    """A gateway with a budget of $1.50 and a provider that may charge 100,000 tokens, a dollar, for each call."""

    gateway: RunningGateway
    provider: Provider
    shared: Path
    problems: list[str] = field(default_factory=list)

    @property
    def charged(self) -> int:
        """What the provider may charge: each request costs all that it allows, whether it was read or not."""
        rows, fallback = PRICES, build_fallback_row(PRICES)
        total = 0
        for asked in self.provider.asked:
            if "count" in asked.path or asked.method != "POST" or asked.headers.get("x-play") in FREE_PLAYS:
                continue
            model, read = _read_model(asked.path, asked.content), len(asked.body) // 4
            usage = Usage(model=model, input=read, output=_read_limit(asked.content))
            total += compute_cost(find_row(rows, usage, fallback), usage)
        return total

    @property
    def counted(self) -> int:
        return sum(line["micro_usd"] for line in self.gateway.read_usage())

    def check(self, what: str, *, holds: bool) -> None:
        if not holds:
            self.problems.append(what)

    def end_attempt(self) -> None:
        """End it as a warden does, and compare the bill with what was counted."""
        self.gateway.read_status("close")
        counted, charged = self.counted, self.charged
        self.check(f"${charged / 1e6} charged, ${counted / 1e6} counted", holds=counted >= charged)
        self.check(f"${charged / 1e6} charged of a budget of $1.50", holds=charged <= BUDGET + 2 * CALL_COST)

    def check_others(self) -> None:
        """Whether agents of other attempts go on."""
        status = self.gateway.read_status()
        self.check("a limit is shared with all agents", holds=not self.shared.exists())
        self.check(f"the account is reported: {status['gave_up']}", holds=status["gave_up"] is None)
        self.check(f"it is parked: {status['parked']}", holds=status["parked"] is None)


FREE_PLAYS = ("limited", "overloaded", "denied", "drops", "quotes-credit", "quotes-key", "no-model")


def _read_model(path: str, content: dict[str, Any]) -> str:
    return str(content.get("model") or path.rpartition("/")[2].partition(":")[0])


def _read_limit(content: dict[str, Any]) -> int:
    """As generous as a provider: the highest limit of all, 100,000 without one, once for each answer."""
    places = (content, content.get("generationConfig") or {}, content.get("generation_config") or {})
    names = ("max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens")
    limits = [int(float(place[name])) for place in places for name in names if name in place]
    return max([limit for limit in limits if limit > 0], default=OUTPUT) * int(content.get("n", 1))


@contextmanager
def open_market(folder: Path, who: SystemUser) -> Iterator[Market]:
    shared = folder / "parked.json"
    with start_provider(play_as_asked) as provider:
        orders = build_model_options(
            provider.url,
            budgets=[{"name": "attempt", "unit": "usd", "limit": BUDGET}],
            prices=[asdict(row) for row in PRICES],
            fallback=asdict(build_fallback_row(PRICES)),
            models=["sonnet"],
            shared=str(shared),
            rate_limit_wait=9000.0,
        )
        with start_model_gateway(folder, orders, who=who) as gateway:
            yield Market(gateway, provider, shared)


def read_peak_memory(pid: int) -> int:
    """Megabytes that the process had at most."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) // 1024


def format_request(size: int, head: str = "") -> bytes:
    """The head of a request with a body of `size` bytes."""
    from support.model_gateways import TOKEN

    length = head or f"content-length: {size}"
    return f"POST /anthropic/v1/messages HTTP/1.1\r\nx-api-key: {TOKEN}\r\n{length}\r\n\r\n".encode()


def dump(content: object) -> bytes:
    return json.dumps(content).encode()
