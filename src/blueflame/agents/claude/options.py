"""What a person may add to claude's arguments and variables: taste and models, nothing that opens a door.

Both are lists of what is known to be harmless: a new version brings new ways to switch the hook off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

ALLOWED_FLAGS = (
    *("--effort", "--fallback-model", "--betas", "--autocompact", "--max-turns", "--verbose"),
    *("--exclude-dynamic-system-prompt-sections", "--system-prompt-snapshot", "--ax-screen-reader"),
)
CLAUDE_VARIABLE = re.compile(r"(CLAUDE|ANTHROPIC).*", re.IGNORECASE)
ALLOWED_VARIABLE = re.compile(
    r"ANTHROPIC_(DEFAULT_\w+_)?MODEL|ANTHROPIC_SMALL_FAST_MODEL|CLAUDE_CODE_SUBAGENT_MODEL|CLAUDE_CODE_EFFORT_LEVEL"
    r"|CLAUDE_CODE_(MAX_OUTPUT_TOKENS|FILE_READ_MAX_OUTPUT_TOKENS)|CLAUDE_CODE_DISABLE_(THINKING|ADAPTIVE_THINKING)"
)
FORBIDDEN_VARIABLE = re.compile(
    r"HOME|IS_SANDBOX|BLUEFLAME_.*|LD_.*|DYLD_.*|BUN_.*|NODE_OPTIONS|BASH_ENV|ENV|API_TIMEOUT_MS", re.IGNORECASE
)


def check_arguments(args: Sequence[str]) -> Iterator[str]:
    for arg in args:
        flag = arg.split("=")[0]
        if arg.startswith("-") and flag not in ALLOWED_FLAGS:
            known = ", ".join(ALLOWED_FLAGS)
            yield f"runtimes.claude.args: {flag} is not known to leave the walls alone; take it out (known: {known})"
    if args and not args[0].startswith("-"):
        yield f"runtimes.claude.args: {args[0]!r} is no flag, and claude would take it for a prompt; take it out"


def check_variables(env: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(env):
        if FORBIDDEN_VARIABLE.fullmatch(name) or (
            CLAUDE_VARIABLE.fullmatch(name) and not ALLOWED_VARIABLE.fullmatch(name)
        ):
            yield f"runtimes.claude.env: {name} can lead claude around its hook or its gateway; take it out"
