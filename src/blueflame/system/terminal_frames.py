"""The frames on the socket of an agent's terminal: one byte for the kind, four for the length, the content.

To the warden: KEYS that were typed, the SIZE of the person's window. From it: PAST output from before the connection,
output that is SHOWN now, and that the agent has ENDED.
"""

from __future__ import annotations

import struct

SOCKET_NAME = "attach.sock"  # in the attempt's folder
KEYS, SIZE, PAST, SHOWN, ENDED = b"k", b"s", b"p", b"o", b"e"
HEADER = struct.Struct("!cI")
WINDOW_SIZE = struct.Struct("!HH")  # rows, columns
MAX_CONTENT_BYTES = 64 * 1024  # bytes of one frame to the warden


def build_frame(kind: bytes, content: bytes) -> bytes:
    return HEADER.pack(kind, len(content)) + content
