"""A call to a model on its way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from blueflame.gateway.access_log import AccessEntry
from blueflame.gateway.model_api.backoff import CallWait
from blueflame.gateway.model_api.budget import OpenCall
from blueflame.gateway.model_api.endpoints import ModelRoute
from blueflame.gateway.model_api.usage_log import CallRecord
from blueflame.gateway.model_options import ProviderApi
from blueflame.gateway.request import RequestHead


@dataclass(kw_only=True, eq=False)
class ProviderCall:
    """A call under way. `body` is what goes out, `asked` what the agent said."""

    route: ModelRoute
    head: RequestHead
    api: ProviderApi
    asked: bytes
    body: bytes
    flight: OpenCall
    entry: AccessEntry
    stay: CallWait = field(default_factory=CallWait)
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

    def build_record(self) -> CallRecord:
        """For the record, now that it has ended."""
        ms = [round((at - self.began) * 1000) for at in (time.monotonic(), self.first_byte or self.began)]
        return CallRecord(
            api=self.route.api,
            status=self.status,
            refused=self.refused,
            ms=ms[0],
            first_byte_ms=ms[1],
            tries=self.tries,
        )
