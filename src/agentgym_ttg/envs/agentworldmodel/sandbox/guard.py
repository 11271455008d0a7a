"""Limits of a process that runs a world's code.

Two layers. The kernel's: address space, CPU time, file size, open files, and a network namespace of its own where the
system allows it. Python's: an audit hook, which cannot be taken off again, ends the process at the first socket, child
process or write outside its folder, and says why.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sqlite3
import sqlite3.dbapi2
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Guard", "Limits"]

_NETWORK = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"} | {
    "socket.gethostbyname",
    "socket.gethostbyaddr",
}
_PROCESSES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"} | {
    "os.kill",
    "os.killpg",
    "pty.spawn",
    "signal.pthread_kill",
}
_NATIVE = {"ctypes.dlopen", "ctypes.dlsym", "ctypes.cdata", "ctypes.addressof"}
#: Events whose leading arguments are paths that change; the number says how many.
_PATHS = {"os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 1, "os.link": 2, "os.symlink": 2} | {
    "os.chmod": 1,
    "os.chown": 1,
    "os.truncate": 1,
    "os.utime": 1,
    "os.setxattr": 1,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a world's process may use.

    Attributes:
        memory_mb: Address space beyond what the process has when the limit is set.
        cpu_s: CPU seconds of a process.
        file_mb: Size of a file.
        files: Open files.
    """

    memory_mb: int = 256
    cpu_s: int = 120
    file_mb: int = 64
    files: int = 64


class Guard:
    """The limits of this process and of those it forks.

    Args:
        folder: The only folder that may be written to.
        report: Told the reason before the process ends.
    """

    def __init__(self, folder: str, report: Callable[[str], None]) -> None:
        self.folder = os.path.realpath(folder)
        self.report = report
        self._trusted = False

    def move(self, folder: str, report: Callable[[str], None]) -> None:
        """Make another folder the one that may be written to."""
        self.folder = os.path.realpath(folder)
        self.report = report

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """Let this package's own code do what the world's may not (fork)."""
        self._trusted = True
        try:
            yield
        finally:
            self._trusted = False

    def arm(self, limits: Limits) -> None:
        """Set the limits; there is no way back."""
        _leave_network()
        room = _address_space() + (limits.memory_mb << 20)
        for what, limit in (
            (resource.RLIMIT_AS, room),
            (resource.RLIMIT_CPU, limits.cpu_s),
            (resource.RLIMIT_FSIZE, limits.file_mb << 20),
            (resource.RLIMIT_NOFILE, limits.files),
            (resource.RLIMIT_CORE, 0),
        ):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(what, (limit, limit))
        _confine_sqlite()
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, (str, bytes)) and isinstance(flags, int) and flags & _WRITING:
                self._check(event, path)
        elif event == "sqlite3.connect":
            name = os.fsdecode(args[0])
            if name not in ("", ":memory:"):
                self._check(event, name.removeprefix("file:").partition("?")[0])
        elif event in _PATHS:
            for path in args[: _PATHS[event]]:
                if isinstance(path, (str, bytes)):
                    self._check(event, path)
        elif event == "socket.__new__":
            if args[1] not in (socket.AF_UNIX, -1):
                self._end(f"opened a socket ({event})")
        elif event in _NETWORK:
            self._end(f"used the network ({event})")
        elif (event in _PROCESSES or event in _NATIVE) and not self._trusted:
            self._end(f"left its process ({event})")

    def _check(self, event: str, path: str | bytes) -> None:
        real = os.path.realpath(os.fsdecode(path))
        if real != os.devnull and not real.startswith(self.folder + os.sep):
            self._end(f"wrote outside its folder ({event} {os.fsdecode(path)[:200]!r})")

    def _end(self, reason: str) -> None:
        with contextlib.suppress(Exception):
            self.report(reason)
        os._exit(77)


def _address_space() -> int:
    """Return the bytes of address space in use; a generous guess where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


def _leave_network() -> None:
    """Enter an empty network namespace, where the system allows it; the audit hook holds everywhere."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None, use_errno=True)
        if library.unshare(_NEW_NETWORK) != 0:
            library.unshare(_NEW_USER | _NEW_NETWORK)


def _confine_sqlite() -> None:
    """Allow no ATTACH and no VACUUM INTO, which would write where ``open`` may not."""
    connect = sqlite3.dbapi2.connect

    def confined(*args: Any, **settings: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **settings)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = confined  # type: ignore[assignment]
