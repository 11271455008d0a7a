"""A world's FastAPI application: its tools, and calling one without a server."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["Application", "BadCall", "Broken"]

_METHODS = ("get", "post", "put", "patch", "delete")
_DEEPEST = 12


class BadCall(Exception):  # noqa: N818 - named for what it is, not for Python
    """A call that does not fit the tool; the text is for the model that made it."""


class Broken(Exception):  # noqa: N818 - as above
    """The code cannot go on; the text says why."""


class Application:
    """The ``app`` that a world's code defines.

    Args:
        code: Python source in the published ``full_code`` form.

    Raises:
        Exception: Whatever the code raises; ValueError if it defines no application.
    """

    def __init__(self, code: str) -> None:
        _patch()
        space: dict[str, Any] = {"__name__": "world", "__file__": "world.py"}
        exec(compile(code, "world.py", "exec"), space)  # the reason for all the limits around
        self.app = space.get("app")
        if not hasattr(self.app, "openapi"):
            raise ValueError("the code defines no FastAPI application called 'app'")
        self._operations: dict[str, tuple[str, str, dict[str, str], str]] = {}
        self.tools = self._read(self.app.openapi())  # type: ignore[union-attr]
        if not self.tools:
            raise ValueError("the application has no tools")

    def _read(self, document: dict[str, Any]) -> list[dict[str, Any]]:
        tools = []
        for path, methods in document.get("paths", {}).items():
            for method, operation in methods.items():
                if method not in _METHODS:
                    continue
                name = operation.get("operationId") or f"{method}_{path.strip('/').replace('/', '_')}"
                properties: dict[str, Any] = {}
                required: list[str] = []
                places: dict[str, str] = {}
                for parameter in operation.get("parameters", ()):
                    if parameter["in"] not in ("path", "query"):
                        continue
                    schema = _inline(parameter.get("schema", {}), document)
                    if "description" in parameter:
                        schema = {**schema, "description": parameter["description"]}
                    properties[parameter["name"]] = schema
                    places[parameter["name"]] = parameter["in"]
                    if parameter.get("required"):
                        required.append(parameter["name"])
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                whole = ""
                if body is not None:
                    body = _inline(body, document)
                    if isinstance(body.get("properties"), dict):
                        for key, schema in body["properties"].items():
                            properties.setdefault(key, schema)
                            places.setdefault(key, "body")
                        required += [key for key in body.get("required", ()) if key not in required]
                    else:
                        whole = "body"
                        properties["body"], places["body"] = body, "body"
                        required.append("body")
                summary = operation.get("description") or operation.get("summary") or name
                self._operations[name] = (method.upper(), path, places, whole)
                tools.append(
                    {
                        "name": name,
                        "description": summary,
                        "parameters": {"type": "object", "properties": properties, "required": required},
                    }
                )
        return tools

    def startup(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what the application does before its first request."""
        router = self.app.router  # type: ignore[union-attr]
        loop.run_until_complete(router.lifespan_context(self.app).__aenter__())

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        """Call a tool; return the HTTP status and the decoded body.

        Raises:
            BadCall: If there is no such tool, or an argument is missing or unknown.
        """
        if name not in self._operations:
            raise BadCall(f"there is no tool {name!r}; the tools are {', '.join(self._operations)}")
        method, path, places, whole = self._operations[name]
        if unknown := [key for key in arguments if key not in places]:
            raise BadCall(f"{name} takes no argument {unknown[0]!r}; it takes {', '.join(places) or 'none'}")
        query: list[tuple[str, str]] = []
        body: dict[str, Any] = {}
        for key, value in arguments.items():
            if places[key] == "path":
                path = path.replace("{" + key + "}", quote(_text(value), safe=""))
            elif places[key] == "body":
                body[key] = value
            elif value is not None:
                query += [(key, _text(one)) for one in (value if isinstance(value, list) else [value])]
        if missing := re.search(r"\{(\w+)", path):
            raise BadCall(f"{name} needs the argument {missing.group(1)!r}")
        content = body.get("body") if whole else body
        sent = json.dumps(content).encode() if "body" in places.values() else b""
        status, answer = await self._request(method, path, urlencode(query), sent)
        try:
            return status, json.loads(answer)
        except ValueError:
            return status, answer.decode("utf-8", errors="replace")

    async def answer(self, name: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        """Call a tool; what goes wrong in the call or in the tool is an answer too.

        Raises:
            Broken: If the code broke a limit or ended its process, so that it cannot go on.
        """
        try:
            return await self.call(name, arguments)
        except BadCall as error:
            return 400, {"detail": str(error)}
        except MemoryError:
            raise Broken("the code ran out of memory") from None
        except (SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"the code ended its process ({type(error).__name__})") from None
        except Exception as error:
            return 500, {"detail": f"{type(error).__name__}: {error}"[:500]}

    async def _request(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Speak ASGI to the application."""
        headers = [(b"host", b"world"), (b"content-length", str(len(body)).encode())]
        if body:
            headers.append((b"content-type", b"application/json"))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(errors="replace"),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("world", 80),
        }
        status, parts, given = 500, [], False

        async def receive() -> dict[str, Any]:
            nonlocal given
            if given:
                return {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)  # type: ignore[misc]
        return status, b"".join(parts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _inline(schema: Any, document: dict[str, Any], depth: int = 0) -> Any:
    """Put definitions in the place of references to them, as models read schemas."""
    if isinstance(schema, list):
        return [_inline(item, document, depth) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        if depth >= _DEEPEST:
            return {}
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target.get(part, {})
        return _inline(target, document, depth + 1)
    return {key: _inline(value, document, depth + 1) for key, value in schema.items() if key != "title"}


def _patch() -> None:
    """Point every SQLite engine at the file of the process's own folder, and run handlers without threads.

    No connection is kept between calls: what was opened before a fork must not be used behind it.
    """
    import anyio.to_thread
    import sqlalchemy
    import sqlalchemy.engine
    import sqlalchemy.pool

    make = sqlalchemy.create_engine

    def create_engine(url: Any, **settings: Any) -> Any:
        if not str(url).startswith("sqlite"):
            return make(url, **settings)
        kept = {key: settings[key] for key in ("echo", "future") if key in settings}
        return make("sqlite://", poolclass=sqlalchemy.pool.NullPool, creator=connect, **kept)

    def connect() -> sqlite3.Connection:
        # Relative to the folder that the process is in now; SQLAlchemy would keep that of the engine's making.
        return sqlite3.connect("world.db", check_same_thread=False)

    async def run_sync(function: Any, *args: Any, **_: Any) -> Any:
        return function(*args)

    for module in (sqlalchemy, sqlalchemy.engine):
        module.create_engine = create_engine
    anyio.to_thread.run_sync = run_sync
