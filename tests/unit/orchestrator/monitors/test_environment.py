from __future__ import annotations

import errno

import pytest

from blueflame.model.errors import WorldError
from blueflame.orchestrator.monitors.environment import describe_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorldError("cannot write x: No space left on device"), "cannot write x: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/a/б"), "cannot use /a/б: Permission denied"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_error_names_the_file_and_the_cause(error: Exception, words: str) -> None:
    assert describe_error(error) == words
