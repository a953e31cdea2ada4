"""The loopback model: an HTTP server on 127.0.0.1 that serves the model APIs from a script.

`script` reads the script, `player` picks and fills the turn for a request, `http` serves, and `anthropic`, `openai`
and `gemini` translate between an API and `dialect`. The script is described in docs/how-to/test-without-a-provider.md.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from blueflame.lazy_dataclass import dataclass
from blueflame.testing.model_server.dialect import Tokens
from blueflame.testing.model_server.http import ModelHttpServer
from blueflame.testing.model_server.script import read_model_script


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """Tokens of one answer. An answer that was cut off counts what had been reported until then."""

    api: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    complete: bool
    key: str  # the credential of the request
    cache_write_1h: int = 0  # how many of cache_write
    web_search: int = 0


class ReceivedRequest(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any


class LoopbackModel:
    """`with LoopbackModel(script) as model:` serves at `model.url` until the block ends.

    A `listener` that was made in another network namespace is served there.
    """

    def __init__(
        self,
        script: Path | Mapping[str, Any],
        *,
        port: int = 0,
        ledger: Path | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self._script = read_model_script(script)
        self._port = port
        self._listener = listener
        self._ledger = ledger
        self._lock = threading.Lock()
        self._served: list[ServedAnswer] = []
        self._requests: list[ReceivedRequest] = []

    def __enter__(self) -> LoopbackModel:
        self._server = ModelHttpServer(self._script, self, self._port, self._listener)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="loopback-model")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    @property
    def served(self) -> tuple[ServedAnswer, ...]:
        with self._lock:
            return tuple(self._served)

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        with self._lock:
            return tuple(self._requests)

    @property
    def totals(self) -> ServedAnswer:
        served = self.served
        return ServedAnswer(
            api="",
            model="",
            key="",
            complete=all(each.complete for each in served),
            **{
                name: sum(getattr(each, name) for each in served)
                for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
            },
        )

    def record_request(self, method: str, path: str, headers: Mapping[str, str], body: object) -> None:
        with self._lock:
            self._requests.append(ReceivedRequest(method, path, headers, body))

    def record_answer(self, api: str, model: str, key: str, tokens: Tokens, *, complete: bool) -> None:
        counted = {name: value for name, value in tokens._asdict().items() if name != "thinking"}
        served = ServedAnswer(api=api, model=model, key=key, complete=complete, **counted)
        with self._lock:
            self._served.append(served)
            if self._ledger is not None:
                with self._ledger.open("a", encoding="utf-8") as ledger:
                    ledger.write(json.dumps(asdict(served)) + "\n")
