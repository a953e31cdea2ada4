"""Fakes for tests, ours and yours: a clock, throwaway repositories, a model server, a Bot API, simulated sessions.

Shipped with the package (docs/how-to/test-without-a-provider.md). May import anything; nothing else imports it.
What only our own tests need belongs to tests/support.
"""

from blueflame.testing.bot_api import BotApi
from blueflame.testing.clock import FakeClock
from blueflame.testing.model_server import LoopbackModel, ReceivedRequest, ServedAnswer
from blueflame.testing.repositories import create_throwaway_repository

__all__ = ["BotApi", "FakeClock", "LoopbackModel", "ReceivedRequest", "ServedAnswer", "create_throwaway_repository"]
