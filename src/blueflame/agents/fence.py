"""Run one command of an agent apart from the agent itself: `python fence.py SHELL COMMAND`, inside the sandbox.

All processes of a sandbox have the same user, so code that an agent runs could write to the agent's memory through
/proc, and so forge its verdict. In a Landlock domain of its own a command can neither open the memory, the files and
the environment of a process outside of it, nor trace it. No other access is restricted: the sandbox does that.
The agent's token for its model is removed. Standard library only: it runs before each command.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

TYPE_CHECKING = False  # the typing module alone would cost every command some 8 ms
if TYPE_CHECKING:
    from typing import NoReturn

REQUIRED_VARIABLE = "BLUEFLAME_FENCE_REQUIRED"  # set for reviewers, whose output is a verdict
TOKEN_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on all architectures
ASK_VERSION, PATH_BENEATH = 1, 1
REFER = 1 << 13  # move files between folders: denied in a domain unless a rule allows it
MIN_VERSION = 2  # knows REFER
SET_NO_NEW_PRIVS = 38
PYTHON_IGNORES = (13, 25)  # SIGPIPE, SIGXFSZ: a command would inherit it; to import `signal` takes some milliseconds
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
REFUSAL = (
    "blueflame: not run, because this kernel cannot keep the command apart from you (no Landlock, no Yama);"
    " the results of the checks are in your instructions\n"
)


def main(argv: list[str]) -> NoReturn:
    shell, command = argv
    if not enter_domain() and REQUIRED_VARIABLE in os.environ and not _has_yama():
        os.write(2, REFUSAL.encode())
        raise SystemExit(126)
    for name in TOKEN_VARIABLES:
        os.environ.pop(name, None)
    for number in PYTHON_IGNORES:
        ctypes.CDLL(None).signal(number, None)
    os.execvp(shell, [shell, "-c", command])  # noqa: S606 (the command that the watcher has allowed)


def enter_domain() -> bool:
    """Enter a Landlock domain in which all is allowed but to touch processes outside; False if the kernel has none."""
    if sys.platform != "linux":
        return True  # there is no /proc, and no process reaches another's memory
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION) < MIN_VERSION:
        return False
    rules = struct.pack("=Q", REFER)
    ruleset = libc.syscall(CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    return bool(
        ruleset >= 0
        and libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", REFER, root), 0) == 0
        and libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        and libc.syscall(RESTRICT_SELF, ruleset, 0) == 0
    )


def _has_yama() -> bool:
    """Whether only ancestors may trace a process."""
    try:
        with open(YAMA, encoding="ascii") as file:  # noqa: PTH123 (pathlib would cost every command some 10 ms)
            return file.read().strip() != "0"
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
