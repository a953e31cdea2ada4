"""The sandbox: what is in it, how it is made ready, and whether this machine can hold it."""

from blueflame.tools.sandbox.boxes import Site, Wanted, make_box
from blueflame.tools.sandbox.preparing import Prepared, prepare
from blueflame.tools.sandbox.probing import Problem, available, bubblewrap, highest
from blueflame.tools.sandbox.toolchains import Toolchains, toolchains

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
