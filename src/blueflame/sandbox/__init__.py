"""The sandbox: what is in it, how it is made ready, and whether this machine can hold it."""

from blueflame.sandbox.build import Site, Wanted, make_box
from blueflame.sandbox.prepare import Prepared, prepare
from blueflame.sandbox.probe import Problem, available, bubblewrap, highest
from blueflame.sandbox.toolchains import Toolchains, toolchains

__all__ = [
    "Prepared",
    "Problem",
    "Site",
    "Toolchains",
    "Wanted",
    "available",
    "bubblewrap",
    "highest",
    "make_box",
    "prepare",
    "toolchains",
]
