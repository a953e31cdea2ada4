"""The sandbox: what is in it, how it is made ready, and whether this machine can hold it."""

from blueflame.sandbox.build import SandboxContext, SandboxRequest, build_sandbox
from blueflame.sandbox.prepare import PreparedSandbox, prepare_sandbox
from blueflame.sandbox.probe import SandboxProblem, find_bubblewrap, find_problems, find_supported_level
from blueflame.sandbox.toolchains import Toolchains, find_toolchains

__all__ = [
    "PreparedSandbox",
    "SandboxContext",
    "SandboxProblem",
    "SandboxRequest",
    "Toolchains",
    "build_sandbox",
    "find_bubblewrap",
    "find_problems",
    "find_supported_level",
    "find_toolchains",
    "prepare_sandbox",
]
