"""Ways of an agent to spend more than is counted, to fill the gateway's memory, or to stop the agents of others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

from escape.attack import Attack, Spree
from escape.spending import CALL, Market, format_request, read_peak_memory
from support.wardens import wait_until

MAX_MEMORY = 700  # megabytes; 40 bodies of 60 MB would take 2,400
Act = Callable[[Market], None]
_ROWS: list[Attack] = []


def spree(id: str, says: str, held: str) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        _ROWS.append(Attack(id, "money", "gateway", says, held, Spree(act)))
        return act

    return add


def leave(market: Market, play: str, body: object = None, target: str = "/anthropic/v1/messages") -> None:
    """Ask, wait until the provider has the request, and hang up."""
    before = len(market.provider.asked)
    call = market.gateway.start_call(target, body or CALL, x_play=play)
    deadline = time.monotonic() + 0.5
    while len(market.provider.asked) == before and time.monotonic() < deadline:
        if call.has_ended():
            break  # refused, or it waits for its turn
        time.sleep(0.01)
    call.close()


WORST, IN_A_ROW = "counted at its most", "refused after five in a row, or by the budget"


@spree("hang-up-before-head", "hang up before the answer begins", WORST)
def hang_up_before_head(market: Market) -> None:
    for _ in range(4):
        leave(market, "silent")
    market.end_attempt()


@spree("hang-up-after-head", "hang up after the head of the answer", WORST)
def hang_up_after_head(market: Market) -> None:
    with market.gateway.start_call(body=CALL, x_play="stalls") as call:
        call.read_head()
    market.end_attempt()


@spree("hang-up-mid-stream", "hang up in the middle of a stream, again and again", WORST)
def hang_up_mid_stream(market: Market) -> None:
    for _ in range(6):
        leave(market, "stalls")
    market.end_attempt()


@spree("half-closed", "close one's own side and read on", WORST)
def half_close(market: Market) -> None:
    with market.gateway.start_call(body=CALL, x_play="stalls") as call:
        call.finish_sending()
        call.read_head()
        market.end_attempt()


@spree("parallel-calls", "sixty calls at once, each for all that the budget has", "waits for its turn")
def call_in_parallel(market: Market) -> None:
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(market.gateway.start_call(body=CALL, x_play="stalls"))
        time.sleep(1)
        market.end_attempt()


@spree("parallel-after-small", "a small call first, so that the next ones seem small, too", "waits for its turn")
def call_in_parallel_after_a_small_one(market: Market) -> None:
    market.gateway.send_call(body={**CALL, "max_tokens": 1, "stream": False}, x_play="json")
    call_in_parallel(market)


@spree("not-streamed", "hang up while an answer that is not streamed is written", WORST)
def leave_whole_answer(market: Market) -> None:
    for _ in range(3):
        leave(market, "silent", {**CALL, "stream": False})
    market.end_attempt()


@spree("broken-answers", "make the provider break off, again and again", IN_A_ROW)
def break_answers(market: Market) -> None:
    small = {**CALL, "max_tokens": 10}
    for _ in range(8):
        market.gateway.send_call(body=small, x_play="breaks")
    refused = market.gateway.send_call(body=small)
    market.check(f"the next call got {refused.status}", holds=refused.status == 402)
    market.check("the warden is not informed", holds=market.gateway.read_status()["gave_up"] is not None)
    market.end_attempt()


LIMITS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "no-limit": ("name no limit", {"model": "gpt-5-nano", "stream": True}, "/openai/responses", "stalls-openai"),
    "limit-twice": (
        "name a small limit and a large one",
        {"model": "gpt-5-nano", "stream": True, "max_tokens": 1, "max_completion_tokens": 90_000},
        "/openai/chat/completions",
        "stalls-openai",
    ),
    "limit-as-text": ("name the limit as text", {**CALL, "max_tokens": "99000"}, "/anthropic/v1/messages", "stalls"),
    "limit-as-float": ("name it with a fraction", {**CALL, "max_tokens": 99000.5}, "/anthropic/v1/messages", "stalls"),
    "many-answers": (
        "ask for eight answers at once",
        {"model": "gpt-5-nano", "stream": True, "max_completion_tokens": 100_000, "n": 8},
        "/openai/chat/completions",
        "stalls-openai",
    ),
    "gemini-no-limit": (
        "name no limit at Gemini",
        {"contents": []},
        "/gemini/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse",
        "stalls-gemini",
    ),
    "gemini-snake": (
        "name the limit in snake case and a small one beside it",
        {"generation_config": {"max_output_tokens": 99_000}, "generationConfig": {"maxOutputTokens": 1}},
        "/gemini/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse",
        "stalls-gemini",
    ),
}
for _id, (_says, _body, _target, _play) in LIMITS.items():

    @spree(_id, f"{_says}, and hang up", WORST)
    def leave_with_limit(market: Market, body: object = _body, target: str = _target, play: str = _play) -> None:
        leave(market, play, body, target)
        market.end_attempt()


FREE = "a limit of a free endpoint parks no agent"
FREE_CALLS = {
    "free-limit": ("POST", "/anthropic/v1/messages/count_tokens", "limited"),
    "free-overload": ("POST", "/anthropic/v1/messages/count_tokens", "overloaded"),
    "free-denied": ("POST", "/anthropic/v1/messages/count_tokens", "denied"),
    "free-gemini": ("POST", "/gemini/v1beta/models/gemini-3-flash:countTokens", "limited"),
    "free-models": ("GET", "/anthropic/v1/models", "limited"),
    "free-openai-models": ("GET", "/openai/models/gpt-5", "denied"),
}
for _id, (_method, _target, _play) in FREE_CALLS.items():

    @spree(_id, f"provoke `{_play}` at {_method} {_target}", FREE)
    def provoke(market: Market, method: str = _method, target: str = _target, play: str = _play) -> None:
        market.gateway.send_call(target, {} if "gemini" in target else CALL, method=method, x_play=play)
        market.check_others()


@spree("free-flood", "more than 500 free calls", "too_many_calls")
def flood_free(market: Market) -> None:
    def count(_: int) -> int:
        return market.gateway.send_call("/anthropic/v1/messages/count_tokens", CALL, x_play="counted").status

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(count, range(501)))
    market.check("none was refused", holds=403 in answers)
    market.check_others()


@spree("free-success", "end a limit of the account by a free call that succeeds", "only a call to a model ends it")
def lift_limit(market: Market) -> None:
    with market.gateway.start_call(body=CALL, x_play="limited"):
        wait_until(market.shared.exists, "the limit is shared")
    market.gateway.send_call("/anthropic/v1/models", {}, method="GET", x_play="counted")
    market.check("the others ask again at once", holds=market.shared.exists())


QUOTES = {
    "quoted-credit": ("quotes-credit", {**CALL, "messages": [{"role": "credit balance", "content": "x"}]}),
    "quoted-credit-escaped": ("quotes-credit", b'{"model": "claude-sonnet-5-5", "x": "credit\\u0020balance"}'),
    "quoted-key": ("quotes-key", {**CALL, "messages": [{"role": "invalid api key", "content": "x"}]}),
    "unknown-model": ("no-model", {**CALL, "model": "claude-sonnet-5-5-x"}),
}
for _id, (_play, _quoting) in QUOTES.items():

    @spree(_id, f"make the provider answer `{_play}` to a forged request", "words of the request prove nothing")
    def quote(market: Market, play: str = _play, body: object = _quoting) -> None:
        market.gateway.send_call(body=CALL)  # an agent runs no code before its model has answered
        market.gateway.send_call(body=body, x_play=play)
        market.check_others()


def fill(market: Market, count: int, head: bytes, piece: bytes, times: int) -> None:
    """Send `times` pieces on each of `count` connections, and hold them open."""

    def send(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.sendall(head)
            for _ in range(times):
                connection.sendall(piece)

    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        lines = [
            stack.enter_context(socket.create_connection(("127.0.0.1", market.gateway.port), timeout=15))
            for _ in range(count)
        ]
        list(pool.map(send, lines))
        peak = read_peak_memory(market.gateway.pid)
    market.check(f"the gateway took {peak} MB", holds=peak <= MAX_MEMORY)


MEGABYTE = b" " * (1 << 20)
MEMORY = "one memory for all bodies"


@spree("many-bodies", "40 connections with a body of 60 MB each", MEMORY)
def send_many_bodies(market: Market) -> None:
    fill(market, 40, format_request(60 << 20), MEGABYTE, 59)


@spree("many-chunked-bodies", "12 bodies in chunks, without a length", MEMORY)
def send_many_chunks(market: Market) -> None:
    chunk = b"100000\r\n" + MEGABYTE + b"\r\n"
    fill(market, 12, format_request(0, "transfer-encoding: chunked"), chunk, 50)


@spree("slow-bodies", "bodies that never end, on every connection", MEMORY)
def send_slow_bodies(market: Market) -> None:
    fill(market, 60, format_request(60 << 20), MEGABYTE, 6)


@spree("free-bodies", "large bodies for the free endpoint", MEMORY)
def send_free_bodies(market: Market) -> None:
    head = format_request(60 << 20).replace(b"/v1/messages", b"/v1/messages/count_tokens")
    fill(market, 12, head, MEGABYTE, 50)


@spree("json-bomb", "60 MB of empty objects, each 25 times as large when it is parsed", "too_large")
def send_json_bomb(market: Market) -> None:
    piece = b"{}," * 350_000
    fill(market, 4, format_request(60 << 20) + b'{"messages": [', piece, 59)


@spree("huge-number", "a limit of a million digits", "malformed_request")
def send_huge_number(market: Market) -> None:
    body = b'{"model": "claude-sonnet-5-5", "max_tokens": ' + b"9" * 1_000_000 + b"}"
    answer = market.gateway.send_call(body=body)
    market.check(f"it was answered with {answer.status}", holds=answer.status == 400)
    market.end_attempt()


SPREES: tuple[Attack, ...] = tuple(_ROWS)
