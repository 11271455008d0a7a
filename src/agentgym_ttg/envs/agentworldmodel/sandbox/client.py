"""The trusted side: starts processes, talks to them against a clock, and kills them."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn

from agentgym_ttg.core.errors import EngineError, MissingDependencyError

from .guard import Limits
from .wire import receive, send

__all__ = ["EpisodeProcess", "Launcher", "Peer", "Transport", "WorldServer", "launcher", "require_packages"]

#: How a world's process is spoken to: frames of ours, or the Model Context Protocol.
Transport = Literal["in-process", "mcp"]

_START_TIMEOUT = 120.0


def require_packages(transport: Transport = "in-process") -> None:
    """Check that what serves a world is installed.

    Raises:
        MissingDependencyError: If not.
    """
    if transport == "mcp" and importlib.util.find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", 'serving AgentWorldModel worlds with transport="mcp"')
    for package in ("fastapi", "sqlalchemy"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, "awm", "serving AgentWorldModel worlds")


class Peer:
    """A forked process: its socket, and how to be rid of it."""

    def __init__(self, sock: socket.socket, what: str) -> None:
        self.sock = sock
        self.what = what
        self._handle = -1

    @contextlib.contextmanager
    def watched(self, timeout: float) -> Iterator[None]:
        """Turn whatever goes wrong in talking to the process into its end, and into an EngineError with the reason."""
        try:
            yield
        except TimeoutError:
            self.end()
            raise EngineError(f"{self.what}: no answer within {timeout:g} s; its process was killed") from None
        except (EOFError, ConnectionError):
            self.end()
            raise EngineError(f"{self.what}: its process ended (it exited, crashed, or met a limit)") from None
        except (OSError, ValueError) as error:
            self.end()
            raise EngineError(f"{self.what}: {error}") from error

    def fail(self, reason: str) -> NoReturn:
        """End the process for a reason that it gave.

        Raises:
            EngineError: Always.
        """
        self.end()
        raise EngineError(f"{self.what}: {reason}")

    def ask(self, timeout: float, message: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a message and return the answer; any failure ends the process.

        Raises:
            EngineError: With the reason.
        """
        with self.watched(timeout):
            if message is not None:
                self.sock.settimeout(timeout)
                send(self.sock, message)
            reply = receive(self.sock, timeout)
        if "failure" in reply:
            self.fail(str(reply["failure"]))
        return reply

    def meet(self, timeout: float, message: dict[str, Any]) -> None:
        """Send what to do, and learn whom to kill."""
        pid = int(self.ask(timeout, message)["pid"])
        with contextlib.suppress(OSError, AttributeError):
            self._handle = os.pidfd_open(pid)

    def end(self) -> None:
        """Kill the process; again is fine."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
            self._handle = -1
        self.sock.close()


def _fork(control: socket.socket, command: bytes, what: str) -> Peer:
    ours, theirs = socket.socketpair()
    try:
        socket.send_fds(control, [command], [theirs.fileno()])
    except OSError as error:
        ours.close()
        raise EngineError(f"{what}: the process that starts it is gone ({error})") from error
    finally:
        theirs.close()
    return Peer(ours, what)


class Launcher:
    """The process that forks all others; one for each process of ours.

    Raises:
        MissingDependencyError: If the packages that serve a world are not installed.
    """

    def __init__(self) -> None:
        require_packages()
        self.folder = tempfile.mkdtemp(prefix="agentgym_ttg-")
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._worlds: dict[tuple[str, str, Limits, str], WorldServer] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        atexit.register(self.close)

    def control(self) -> socket.socket:
        """Return the socket of the running launcher; starts it again if it died."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        module = f"{__package__}.server"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        try:
            receive(ours, _START_TIMEOUT)
        except (EOFError, TimeoutError) as error:
            raise EngineError("the process that serves AgentWorldModel worlds did not start") from error
        self._control = ours
        self._worlds.clear()
        return ours

    def world(
        self,
        name: str,
        code: str,
        database: Path,
        limits: Limits,
        timeout: float,
        transport: Transport = "in-process",
    ) -> WorldServer:
        """Return the server of a world, started at the first call.

        Raises:
            EngineError: If its code does not start.
        """
        with self._lock:
            control = self.control()
            key = (name, code, limits, transport)
            server = self._worlds.get(key)
            if server is None or not server.alive:
                server = WorldServer(control, name, code, database, limits, timeout, self.folder, transport)
                self._worlds[key] = server
            return server

    def verdict(self, code: str, folder: str, answer: str, limits: Limits, timeout: float) -> str:
        """Run a verifier on ``initial.db`` and ``world.db`` of a folder; return its result.

        Raises:
            EngineError: If it fails.
        """
        with self._lock:
            peer = _fork(self.control(), b"V", "verifier")
        try:
            spec = {"code": code, "folder": folder, "answer": answer, "limits": dataclasses.asdict(limits)}
            peer.meet(timeout, spec)
            return str(peer.ask(timeout)["result"])
        finally:
            peer.end()

    def close(self) -> None:
        """End every process and remove their folders; a forked copy of this object leaves them alone."""
        if os.getpid() != self._owner:
            return
        for server in self._worlds.values():
            server.peer.end()
        self._worlds.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)


class WorldServer:
    """A process with a world's code loaded. Attribute ``tools`` holds their schemas."""

    def __init__(
        self,
        control: socket.socket,
        name: str,
        code: str,
        database: Path,
        limits: Limits,
        timeout: float,
        root: str,
        transport: Transport,
    ) -> None:
        self.name = name
        self.root = root
        self.transport: Transport = transport
        folder = tempfile.mkdtemp(prefix="world-", dir=root)
        shutil.copyfile(database, Path(folder) / "world.db")
        self.peer = _fork(control, b"W", f"world {name!r}")
        spec = {"code": code, "folder": folder, "limits": dataclasses.asdict(limits), "transport": transport}
        self.peer.meet(timeout, spec)
        self.tools: list[dict[str, Any]] = self.peer.ask(timeout)["tools"]
        self.alive = True

    def episode(self, database: Path, timeout: float) -> EpisodeProcess:
        """Begin an episode on a copy of the database.

        Raises:
            EngineError: If the world's process is gone.
        """
        folder = tempfile.mkdtemp(prefix="episode-", dir=self.root)
        shutil.copyfile(database, Path(folder) / "world.db")
        try:
            peer = _fork(self.peer.sock, b"E", f"world {self.name!r}")
            if self.transport == "mcp":
                from .mcp_client import McpEpisode

                return McpEpisode(peer, folder, timeout, self.tools)
            return EpisodeProcess(peer, folder, timeout, self.tools)
        except EngineError:
            self.alive = False
            self.peer.end()
            shutil.rmtree(folder, ignore_errors=True)
            raise


class EpisodeProcess:
    """The process of one episode, with a folder of its own. Attribute ``tools`` holds the schemas of its tools."""

    def __init__(self, peer: Peer, folder: str, timeout: float, tools: list[dict[str, Any]]) -> None:
        self.peer = peer
        self.folder = folder
        self.timeout = timeout
        self.tools = tools
        peer.meet(timeout, {"folder": folder})
        peer.ask(timeout)

    @property
    def database(self) -> Path:
        """The file that the episode works on."""
        return Path(self.folder) / "world.db"

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        """Call a tool; return the HTTP status and the decoded body.

        Raises:
            EngineError: If the world's code hangs, ends its process or breaks a limit.
        """
        reply = self.peer.ask(self.timeout, {"name": name, "arguments": arguments})
        return int(reply["status"]), reply.get("body")

    def close(self) -> None:
        """End the process and remove its folder."""
        self.peer.end()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def _launcher_of(pid: int) -> Launcher:
    return Launcher()


def launcher() -> Launcher:
    """Return this process's launcher; a forked child gets its own."""
    return _launcher_of(os.getpid())
