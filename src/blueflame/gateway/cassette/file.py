"""Cassettes: the model's answers recorded in a file and replayed from it. JSON lines, one per exchange.

No headers, requests or credentials: only the answer, the attempt's key, and its place in the conversation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from blueflame.billing.sse import parse_json
from blueflame.gateway.cassette.match import (
    Placeholders,
    RequestPosition,
    format_chunks,
    locate_request,
    parse_streamed_answer,
    parse_whole_answer,
)
from blueflame.model.errors import WorldError
from blueflame.system.fd import append_line

FIELDS: Mapping[str, type] = {
    "key": str,
    "api": str,
    "thread": str,
    "turn": int,
    "model": str,
    "streamed": bool,
    "response": object,
}


class CassetteRecorder:
    """Appends answers. Several gateways may write to one cassette: each line is one write.

    `problem` says why it could not be written; the agent's call continues.
    """

    def __init__(self, path: str, key: str, places: Mapping[str, str]) -> None:
        self._key = key
        self._places = Placeholders(places)
        self.problem = ""
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise WorldError(f"cannot write the cassette {path}: {e.strerror}; name another file") from e

    def add(self, api: str, request_body: bytes, response: bytes, streamed: bool) -> None:
        """Add an answer with status 200, unless it is incomplete."""
        place = locate_request(api, request_body, self._places)
        kept = parse_streamed_answer(api, response) if streamed else parse_whole_answer(api, response)
        if place is None or kept is None:
            return
        line = {
            "key": self._key,
            "api": api,
            "thread": place.thread,
            "turn": place.turn,
            "model": place.model,
            "streamed": streamed,
            "response": self._places.insert(kept),
        }
        if failure := append_line(self._file, json.dumps(line).encode() + b"\n"):
            self.problem = f"the cassette cannot be written: {failure}"

    def close(self) -> None:
        os.close(self._file)


class CassettePlayer:
    """Replays the recorded answers of one attempt. The same request after a retry gets the same answer."""

    def __init__(self, path: str, key: str, places: Mapping[str, str]) -> None:
        self._places = Placeholders(places)
        self._lines = _read_lines(path, key)
        self._taken: set[int] = set()
        self._threads: dict[str, str] = {}  # conversation of this run -> the recorded one that answers it

    def find_answer(self, api: str, request_body: bytes) -> tuple[bytes, ...] | None:
        """Return the answer in chunks, a streamed one as events; None without an answer."""
        place = locate_request(api, request_body, self._places)
        if place is None:
            return None
        mine = [n for n, line in enumerate(self._lines) if line["api"] == api]
        thread = self._match_thread(place, mine)
        n = self._pick_line(place.turn, [n for n in mine if self._lines[n]["thread"] == thread])
        if n is None:
            return None
        self._taken.add(n)
        line = self._lines[n]
        return format_chunks(self._places.resolve(line["response"]), streamed=line["streamed"])

    def _match_thread(self, place: RequestPosition, mine: list[int]) -> str:
        """Match the recorded conversation with the same beginning; else the next one that is not matched yet."""
        recorded = list(dict.fromkeys(self._lines[n]["thread"] for n in mine))
        if place.thread in recorded:
            return self._threads.setdefault(place.thread, place.thread)
        if place.thread not in self._threads:
            free = [thread for thread in recorded if thread not in self._threads.values()]
            of_model = [n for n in mine if self._lines[n]["model"] == place.model and self._lines[n]["thread"] in free]
            nearest = self._lines[of_model[0]]["thread"] if of_model else free[0] if free else ""
            self._threads[place.thread] = nearest
        return self._threads[place.thread]

    def _pick_line(self, turn: int, thread: list[int]) -> int | None:
        """Pick an answer to this turn that was not used yet, else the used one; else the next in order."""
        exact = [n for n in thread if self._lines[n]["turn"] == turn]
        fresh = [n for n in exact if n not in self._taken]
        if exact:
            return fresh[0] if fresh else exact[-1]
        return next((n for n in thread if n not in self._taken), None)


def _read_lines(path: str, key: str) -> list[dict[str, Any]]:
    """Read the lines of this attempt; if it was not recorded, of an earlier one for the same role and subject."""
    found: dict[int, list[dict[str, Any]]] = {}
    family, _, n = key.rpartition("/")
    wanted = int(n) if n.isdecimal() else 0
    beginning = json.dumps({"key": f"{family}/"})[:-2].encode()
    for number, raw in _iterate_raw_lines(path):
        if raw.startswith(beginning):
            line = _parse_line(path, number, raw)
            its = line["key"].rpartition("/")[2]
            found.setdefault(int(its) if its.isdecimal() else 0, []).append(line)
        elif not raw.startswith(b'{"key": "'):
            raise _build_damaged_error(path, number)
    known = [at for at in found if at <= wanted]
    return found[max(known)] if known else []


def _iterate_raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  the gateway starts without pathlib
            yield from enumerate(file, start=1)
    except OSError as e:
        raise WorldError(f"cannot read the cassette {path}: {e.strerror}; name one that was recorded") from e


def _parse_line(path: str, number: int, raw: bytes) -> dict[str, Any]:
    line = parse_json(raw)
    if not isinstance(line, dict) or not all(isinstance(line.get(name), kind) for name, kind in FIELDS.items()):
        raise _build_damaged_error(path, number)
    if line["streamed"] and not _is_event_list(line["response"]):
        raise _build_damaged_error(path, number)
    return line


def _is_event_list(response: object) -> bool:
    return isinstance(response, list) and all(
        isinstance(event, list) and len(event) == 2 and isinstance(event[0], str) for event in response
    )


def _build_damaged_error(path: str, number: int) -> WorldError:
    return WorldError(f"{path}:{number} is not a line of a cassette; remove the line or record it again")
