"""A call to a model on its way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from blueflame.gateway.access_log import Entry
from blueflame.gateway.model_api.backoff import Stay
from blueflame.gateway.model_api.budget import Flight
from blueflame.gateway.model_api.endpoints import Route
from blueflame.gateway.model_api.usage_log import Line
from blueflame.gateway.model_options import Api
from blueflame.gateway.request import Head


@dataclass(kw_only=True, eq=False)
class Call:
    """A call under way. `body` is what goes out, `asked` what the agent said."""

    route: Route
    head: Head
    api: Api
    asked: bytes
    body: bytes
    flight: Flight
    entry: Entry
    stay: Stay = field(default_factory=Stay)
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent_at: float = 0.0
    tries: int = 0
    status: int = 0
    refused: str = ""
    settled: bool = False

    @property
    def wire(self) -> str:
        return self.route.endpoint.wire if self.route.endpoint is not None else ""

    @property
    def streams(self) -> bool:
        return bool(self.wire) and (self.route.streams or self.flight.content.get("stream") is True)

    def line(self) -> Line:
        """For the record, now that it has ended."""
        ms = [round((at - self.began) * 1000) for at in (time.monotonic(), self.first_byte or self.began)]
        return Line(
            api=self.route.api,
            status=self.status,
            refused=self.refused,
            ms=ms[0],
            first_byte_ms=ms[1],
            tries=self.tries,
        )
