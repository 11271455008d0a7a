"""Frames of JSON over a socket. Nothing that comes from a world's process is ever unpickled."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

__all__ = ["MAX_FRAME", "receive", "send"]

#: Bytes of the largest frame that is read.
MAX_FRAME = 16 << 20
_HEADER = struct.Struct(">I")


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    """Write one frame."""
    body = json.dumps(message).encode("utf-8", errors="surrogatepass")
    sock.sendall(_HEADER.pack(len(body)) + body)


def receive(sock: socket.socket, timeout: float | None = None) -> dict[str, Any]:
    """Read one frame.

    Raises:
        EOFError: If the other side is gone.
        TimeoutError: If it takes longer than ``timeout`` seconds.
        ValueError: If what comes is not a frame.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    (size,) = _HEADER.unpack(_exactly(sock, _HEADER.size, deadline))
    if size > MAX_FRAME:
        raise ValueError(f"a frame of {size} bytes; at most {MAX_FRAME} are read")
    message = json.loads(_exactly(sock, size, deadline).decode("utf-8", errors="surrogatepass"))
    if not isinstance(message, dict):
        raise ValueError(f"expected a JSON object, got {type(message).__name__}")
    return message


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
        else:
            sock.settimeout(None)
        try:
            part = sock.recv(min(count, 1 << 20))
        except ConnectionError as error:
            raise EOFError from error
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
