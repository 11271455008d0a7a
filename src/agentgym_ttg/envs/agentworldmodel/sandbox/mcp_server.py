"""A world's application behind a Model Context Protocol server, spoken over the process's socket.

The messages are those of MCP's stdio transport, one JSON-RPC object a line, so the limits of the process stay: it needs
neither a network nor a child. Imported in a world's process before its limits are set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from .asgi import Application, Broken
from .wire import MAX_FRAME

__all__ = ["failure_line", "make_server", "serve"]


def failure_line(reason: str) -> bytes:
    """Write why the process ends, as a log notification that the other side takes for what it is."""
    params = {"level": "emergency", "logger": "agentgym_ttg", "data": reason}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).encode() + b"\n"


def make_server(application: Application, sock: socket.socket | None = None) -> Server[Any, Any]:
    """Return an MCP server that offers the application's tools.

    Args:
        application: The world.
        sock: Where the reason is written if the world's code ends the process.
    """
    server: Server[Any, Any] = Server("agentgym-ttg-world")
    tools = [
        types.Tool(name=tool["name"], description=tool["description"], inputSchema=tool["parameters"])
        for tool in application.tools
    ]

    async def list_tools(_: Any) -> types.ServerResult:
        return types.ServerResult(types.ListToolsResult(tools=tools))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        try:
            status, body = await application.answer(request.params.name, request.params.arguments or {})
        except Broken as error:
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.setblocking(True)
                    sock.sendall(failure_line(str(error)))
            os._exit(77)
        text = json.dumps(body, ensure_ascii=False)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
        return types.ServerResult(types.CallToolResult(content=content, isError=status >= 400))

    # Not by the decorators: they would validate arguments themselves, and swallow what must end the process.
    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


async def serve(sock: socket.socket, application: Application) -> None:
    """Serve one client until it hangs up."""
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=MAX_FRAME)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](16)
    server = make_server(application, sock)

    async def receive() -> None:
        async with to_server:
            while line := await reader.readline():
                try:
                    await to_server.send(SessionMessage(types.JSONRPCMessage.model_validate_json(line)))
                except ValueError as error:  # not JSON-RPC: the session tells the client
                    await to_server.send(error)

    async def send() -> None:
        async with from_server:
            async for message in from_server:
                line = message.message.model_dump_json(by_alias=True, exclude_none=True)
                writer.write(line.encode("utf-8", errors="surrogatepass") + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        await server.run(from_client, to_client, server.create_initialization_options())
        group.cancel_scope.cancel()
