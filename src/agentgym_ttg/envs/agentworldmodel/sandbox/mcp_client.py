"""The trusted side of the Model Context Protocol: as much of a client as calling tools needs, against a clock."""

from __future__ import annotations

import json
import time
from typing import Any

from .client import EpisodeProcess, Peer
from .wire import MAX_FRAME

__all__ = ["McpEpisode"]

_VERSION = "2025-03-26"


class McpEpisode(EpisodeProcess):
    """An episode whose process is an MCP server; the tools are those that it lists.

    Raises:
        EngineError: If the server does not come up.
    """

    def __init__(self, peer: Peer, folder: str, timeout: float, tools: list[dict[str, Any]]) -> None:
        super().__init__(peer, folder, timeout, tools)
        self._rest = b""
        self._number = 0
        about = {"name": "agentgym-ttg", "version": "0"}
        self._request("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": about})
        self._write({"method": "notifications/initialized"})
        self.tools = [
            {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["inputSchema"]}
            for tool in self._request("tools/list", {}).get("tools", ())
        ]

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        """Call a tool; return 200, or 400 for an error, and the decoded body.

        Raises:
            EngineError: If the world's code hangs, ends its process or breaks a limit.
        """
        params = {"name": name, "arguments": arguments}
        try:
            json.dumps(params, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # the protocol's JSON readers refuse lone surrogates
            return 400, {"detail": "the call holds text that is not valid Unicode"}
        reply = self._request("tools/call", params)
        text = "".join(str(part.get("text", "")) for part in reply.get("content", ()) if part.get("type") == "text")
        try:
            body = json.loads(text)
        except ValueError:
            body = text
        return (400 if reply.get("isError") else 200), body

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        deadline = time.monotonic() + self.timeout
        with self.peer.watched(self.timeout):
            self._write({"id": self._number, "method": method, "params": params})
            while True:
                message = self._read(deadline)
                if message.get("id") == self._number and "method" not in message:
                    break
                about = message.get("params")
                if isinstance(about, dict) and about.get("level") == "emergency":
                    reason = str(about.get("data"))
                    message = {"failure": reason}
                    break
        if "failure" in message:
            self.peer.fail(message["failure"])
        if "error" in message and method == "tools/call":
            detail = message["error"].get("message") if isinstance(message["error"], dict) else message["error"]
            return {"content": [{"type": "text", "text": json.dumps({"detail": str(detail)[:500]})}], "isError": True}
        if "error" in message:
            self.peer.fail(f"the MCP server refused {method}: {str(message['error'])[:500]}")
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _write(self, message: dict[str, Any]) -> None:
        with self.peer.watched(self.timeout):
            self.peer.sock.settimeout(self.timeout)
            self.peer.sock.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _read(self, deadline: float) -> dict[str, Any]:
        """Read one line.

        Raises:
            EOFError: If the other side is gone.
            TimeoutError: If the deadline passes.
            ValueError: If what comes is no message.
        """
        parts = [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.peer.sock.settimeout(left)
            part = self.peer.sock.recv(1 << 16)
            if not part:
                raise EOFError
            parts.append(part)
            size += len(part)
            if size > MAX_FRAME:
                raise ValueError(f"a message of more than {MAX_FRAME} bytes")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        message = json.loads(line.decode("utf-8", errors="surrogatepass"))
        if not isinstance(message, dict):
            raise ValueError(f"expected a JSON object, got {type(message).__name__}")
        return message
