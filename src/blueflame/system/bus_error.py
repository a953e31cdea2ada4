"""End with a message when the kernel takes a mapped file away: it became immutable, was cut off, or its disk fails.

SQLite maps the -shm file of a journal. Such a fault is a signal, not an error that it could return, and Python's own
handlers cannot end it: the same instruction would run again.
"""

from __future__ import annotations

import ctypes
import os
import signal

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)
_installed: list[object] = []  # C keeps no reference


def exit_on_bus_error(message: str, exit_code: int) -> None:
    text = message.encode("utf-8", "surrogateescape")

    def report(_signal: int) -> None:
        try:
            os.write(2, text)
        finally:
            os._exit(exit_code)

    install = ctypes.CDLL(None).signal
    install.argtypes, install.restype = [ctypes.c_int, _Handler], ctypes.c_void_p
    handler = _Handler(report)
    install(signal.SIGBUS, handler)
    _installed[:] = [handler]
