"""What tests of Blue Flame, ours and other people's, need: a clock turned by hand, throw-away repositories, a model."""

from blueflame.testing.clock import FakeClock
from blueflame.testing.model_server import Asked, LoopbackModel, Served
from blueflame.testing.repositories import throwaway_repository

__all__ = ["Asked", "FakeClock", "LoopbackModel", "Served", "throwaway_repository"]
