"""`compile_later`: a pattern that is compiled when it is first used. For modules with many large ones, which most
commands import and do not use."""

from __future__ import annotations

import re

__all__ = ["compile_later"]

TYPE_CHECKING = False  # typing alone would cost every warden some 8 ms

if TYPE_CHECKING:
    from re import compile as compile_later
else:

    class compile_later:  # noqa: N801 - it is called as re.compile is
        def __init__(self, *given: object) -> None:
            self._given = given

        def __getattr__(self, name: str) -> object:
            """Look up what was not looked up before, and keep it."""
            found = getattr(re.compile(*self._given), name)
            setattr(self, name, found)
            return found
