"""What tests of Blue Flame, ours and other people's, need: a clock turned by hand, throw-away repositories, a model."""

from blueflame.testing.clock import FakeClock
from blueflame.testing.model_server import LoopbackModel, ReceivedRequest, ServedAnswer
from blueflame.testing.repositories import create_throwaway_repository

__all__ = ["FakeClock", "LoopbackModel", "ReceivedRequest", "ServedAnswer", "create_throwaway_repository"]
