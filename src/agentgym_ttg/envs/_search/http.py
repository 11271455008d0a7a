"""Retrieval over HTTP: a client for a served index, and a small server for ours.

The protocol is the one that search agents are commonly trained with: ``POST /retrieve`` with ``{"queries": [...],
"topk": k, "return_scores": true}`` answers ``{"result": [[{"document": {"id", "title", "contents"}, "score"}]]}``.
``GET /document?id=…`` is ours, for environments with a ``get_document`` tool.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentgym_ttg.core.errors import ConfigError, EngineError

from ._index import check_k
from .base import Retriever
from .documents import Document, Hit, split_contents

__all__ = ["HttpRetriever", "make_server"]

_MOST = 100  # documents that the server gives for one query
_LARGEST_REQUEST = 1 << 20


class HttpRetriever:
    """Asks a served index.

    Args:
        url: Address; ``/retrieve`` is added if it has no path.
        timeout: Seconds to wait for an answer.
        retries: Further attempts when the server cannot be reached or answers 429 or 5xx; waits 0.5, 1, 2 … s between.

    Raises:
        ConfigError: If ``url`` is no HTTP address.
    """

    content_hash = ""  # what the server holds is not known here

    def __init__(self, url: str, *, timeout: float = 30.0, retries: int = 3) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"expected the address of a retrieval server, http://host:port, got {url!r}")
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path if parts.path not in ("", "/") else "/retrieve"
        self._timeout, self._retries = timeout, retries

    @property
    def name(self) -> str:
        """Name in results."""
        return f"http({self._root}{self._path})"

    def search(self, query: str, k: int = 3) -> list[Hit]:
        """Return at most ``k`` documents, in the server's order.

        Raises:
            ConfigError: If ``k < 1``.
            EngineError: If the server does not answer, or not in the protocol.
        """
        check_k(k)
        if not query.strip():
            return []
        clean = query.encode("utf-8", "replace").decode()
        body = {"queries": [clean], "topk": k, "return_scores": True}
        answer = self._ask(self._path, json.dumps(body).encode())
        try:
            return [_hit(entry, place) for place, entry in enumerate(answer["result"][0][:k])]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(
                f"the retrieval server {self._root} answered outside the protocol "
                f"({type(error).__name__}: {error}): {str(answer)[:200]}"
            ) from error

    def document(self, doc_id: str) -> Document | None:
        """Return a document by its id, None if the server has none.

        Raises:
            EngineError: If the server does not answer.
        """
        answer = self._ask("/document?" + urllib.parse.urlencode({"id": doc_id}, errors="replace"), None)
        return None if not answer else _read_document(answer, doc_id)

    def close(self) -> None:
        """Nothing is kept open."""

    def _ask(self, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(self._root + path, data=body, headers={"Content-Type": "application/json"})
        for attempt in range(self._retries + 1):
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as response:
                    return json.loads(response.read())
            except urllib.error.HTTPError as error:
                if error.code == 404 and body is None:
                    return None
                problem: Exception = error
                if error.code != 429 and error.code < 500:
                    break
            except (OSError, ValueError) as error:
                problem = error
            if attempt < self._retries:
                time.sleep(0.5 * 2**attempt)
        raise EngineError(f"the retrieval server {self._root} does not answer: {problem}") from problem


def _hit(entry: Mapping[str, Any], place: int) -> Hit:
    inner = entry.get("document")
    fields = inner if isinstance(inner, Mapping) else entry
    # A server that gives no scores ranks by order.
    return Hit(_read_document(fields, str(place)), float(entry.get("score", -place)))


def _read_document(fields: Mapping[str, Any], default_id: str) -> Document:
    doc_id = next((fields[key] for key in ("id", "docid", "pmid") if fields.get(key) is not None), default_id)
    title = str(fields.get("title") or "")
    contents = str(fields.get("contents") or fields.get("text") or "")
    if not title:
        title, contents = split_contents(contents)
    else:
        contents = contents.removeprefix(f"{title}\n")
    return Document(str(doc_id), title, contents, str(fields.get("pmid") or fields.get("source") or ""))


def make_server(retriever: Retriever, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """Return a server for a retriever; call ``serve_forever`` on it.

    Args:
        retriever: What is served.
        host: Address to listen on.
        port: Port; 0 takes a free one (``server_address`` tells which).

    Raises:
        ConfigError: If the address cannot be listened on.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            if parts.path == "/document":
                wanted = urllib.parse.parse_qs(parts.query).get("id", [""])[0]
                document = retriever.document(wanted)
                self._send(200, _fields(document)) if document else self._send(404, {"error": "no such document"})
            elif parts.path == "/":
                self._send(200, {"retriever": retriever.name})
            else:
                self._send(404, {"error": "expected POST /retrieve or GET /document?id=…"})

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length", "0"))
                if not 0 < length <= _LARGEST_REQUEST:
                    raise ValueError(f"expected a body of 1 to {_LARGEST_REQUEST} bytes, got {length}")
                body = json.loads(self.rfile.read(length))
                queries, k = body["queries"], int(body.get("topk") or 3)
                if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
                    raise ValueError("expected 'queries' as a list of strings")
                if not 1 <= k <= _MOST:
                    raise ValueError(f"expected 1 <= topk <= {_MOST}, got {k}")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.close_connection = True  # the body may be unread
                self._send(400, {"error": f"{type(error).__name__}: {error}"})
                return
            found = [
                [{"document": _fields(hit.document), "score": hit.score} for hit in retriever.search(query, k)]
                for query in queries
            ]
            self._send(200, {"result": found})

        def _send(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode("ascii")
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet: one line for each query drowns everything else."""

    try:
        return ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def _fields(document: Document) -> dict[str, str]:
    return {
        "id": document.id,
        "title": document.title,
        "contents": document.contents,
        "source": document.source,
    }
