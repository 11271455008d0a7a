"""The processes: launcher, one for each world, one for each episode and for each verdict.

Started by :mod:`.client`; ``python -m agentgym_ttg.envs.agentworldmodel.sandbox.server FD``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from .guard import Guard, Limits
from .wire import receive, send

__all__ = ["main"]

_Body = Callable[[socket.socket], None]


def main(descriptor: int) -> None:
    """Run the launcher until the other side of its socket is gone."""
    import fastapi  # noqa: F401 - loaded once, shared by everything that is forked
    import sqlalchemy  # noqa: F401

    control = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    send(control, {"ready": True})
    _fork_on_demand(control, {b"W": _world, b"V": _verdict}, contextlib.nullcontext)


def _fork_on_demand(control: socket.socket, bodies: dict[bytes, _Body], trusted: Callable[[], Any]) -> None:
    control.settimeout(None)
    while True:
        command, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not command:
            return
        with trusted():
            child = os.fork() == 0
        if not child:
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        control.close()
        with socket.socket(fileno=descriptors[0]) as sock:
            try:
                bodies[command](sock)
            except BaseException as error:
                with contextlib.suppress(Exception):
                    send(sock, {"failure": f"{type(error).__name__}: {error}"[:2000]})
        os._exit(0)


def _reporter(sock: socket.socket) -> Callable[[str], None]:
    return lambda reason: send(sock, {"failure": f"the code {reason}"})


def _world(sock: socket.socket) -> None:
    spec = receive(sock)
    os.chdir(spec["folder"])
    os.environ["DATABASE_PATH"] = "world.db"
    os.environ["DATABASE_URL"] = "sqlite:///world.db"
    guard = Guard(spec["folder"], _reporter(sock))
    # Imports that happen late would look like the world's own doing.
    from .asgi import Application

    if spec["transport"] == "mcp":
        from . import mcp_server  # noqa: F401

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    guard.arm(Limits(**spec["limits"]))
    send(sock, {"pid": os.getpid()})
    try:
        application = Application(spec["code"])
    except MemoryError:
        raise RuntimeError("the code ran out of memory") from None
    except SystemExit:
        raise RuntimeError("the code ended its process (SystemExit)") from None
    send(sock, {"tools": application.tools})
    body = _mcp_episode if spec["transport"] == "mcp" else _episode
    _fork_on_demand(sock, {b"E": lambda one: body(one, application, guard)}, guard.trusted)


def _begin(sock: socket.socket, application: Any, guard: Guard) -> asyncio.AbstractEventLoop:
    spec = receive(sock)
    guard.move(spec["folder"], _reporter(sock))
    os.chdir(spec["folder"])
    loop = asyncio.new_event_loop()
    send(sock, {"pid": os.getpid()})
    application.startup(loop)
    send(sock, {"ready": True})
    return loop


def _episode(sock: socket.socket, application: Any, guard: Guard) -> None:
    from .asgi import Broken

    loop = _begin(sock, application, guard)
    while True:
        try:
            message = receive(sock)
        except EOFError:
            return
        try:
            status, body = loop.run_until_complete(application.answer(message["name"], message["arguments"]))
            reply: dict[str, Any] = {"status": status, "body": body}
        except Broken as error:
            reply = {"failure": str(error)}
        send(sock, reply)


def _mcp_episode(sock: socket.socket, application: Any, guard: Guard) -> None:
    from .mcp_server import failure_line, serve

    loop = _begin(sock, application, guard)

    def report(reason: str) -> None:
        sock.setblocking(True)
        sock.sendall(failure_line(f"the code {reason}"))

    guard.move(guard.folder, report)
    loop.run_until_complete(serve(sock, application))


def _verdict(sock: socket.socket) -> None:
    spec = receive(sock)
    os.chdir(spec["folder"])
    guard = Guard(spec["folder"], _reporter(sock))
    guard.arm(Limits(**spec["limits"]))
    send(sock, {"pid": os.getpid()})
    space: dict[str, Any] = {"__name__": "verifier"}
    try:
        exec(compile(spec["code"], "verifier.py", "exec"), space)
        result = space["verify_task_completion"]("initial.db", "world.db", spec["answer"])
    except BaseException as error:
        send(sock, {"failure": f"the verifier raised {type(error).__name__}: {error}"[:2000]})
        return
    send(sock, {"result": str(result.get("result", "") if isinstance(result, dict) else result)[:100]})


if __name__ == "__main__":
    main(int(sys.argv[1]))
