"""A served index answers like the index itself."""

import http.server
import json
import threading
import urllib.error
import urllib.request

import pytest

from agentgym_ttg.core.errors import ConfigError, EngineError
from agentgym_ttg.envs._search import BM25, Document, HttpRetriever, MemoryCorpus, make_server

pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")

DOCUMENTS = [
    Document("a", "Zinc", "zinc in wounds", "77"),
    Document("b", "", "TITLE and zinc"),
    Document("ü/&?", "Odd id", "copper \x00 \u2028"),
]


@pytest.fixture
def served():
    index = BM25(MemoryCorpus(DOCUMENTS))
    server = make_server(index)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield index, "http://{}:{}".format(*server.server_address)
    server.shutdown()
    server.server_close()


def test_the_client_returns_what_the_index_returns(served):
    index, url = served
    client = HttpRetriever(url)
    for query in ("zinc", "copper", "zinc wounds", "nothing at all", "", "\ud800"):
        assert client.search(query, 2) == index.search(query, 2)
    for document in DOCUMENTS:
        assert client.document(document.id) == document
    assert client.document("missing") is None


def test_the_server_refuses_what_is_not_a_request(served):
    _, url = served
    for body in (b"{", b'{"queries": "zinc"}', b'{"queries": ["zinc"], "topk": 100000}', b"[]", b""):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(f"{url}/retrieve", data=body), timeout=10)
        assert caught.value.code == 400
        assert json.loads(caught.value.read())["error"]
        caught.value.close()


def answering(*answers):
    """Serve the given (status, body) pairs in turn, the last one for ever."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([(200, b"not json")], "does not answer"),
        ([(200, b'{"result": {}}')], "outside the protocol"),
        ([(400, b"no")], "400"),
        ([(503, b"busy")], "503"),
    ],
)
def test_a_server_that_fails_is_reported(answers, message):
    server = answering(*answers)
    try:
        with pytest.raises(EngineError, match=message):
            HttpRetriever(f"http://127.0.0.1:{server.server_port}", retries=0).search("zinc")
    finally:
        server.shutdown()
        server.server_close()


def test_a_busy_server_is_asked_again_and_foreign_forms_are_read():
    found = {"result": [[{"document": {"id": 5, "contents": "TITLE: Zinc. ABSTRACT: heals"}, "score": 2.5}]]}
    server = answering((503, b""), (200, json.dumps(found).encode()))
    try:
        (hit,) = HttpRetriever(f"http://127.0.0.1:{server.server_port}/retrieve").search("zinc")
    finally:
        server.shutdown()
        server.server_close()
    assert (hit.document, hit.score) == (Document("5", "Zinc.", "heals"), 2.5)


def test_addresses_are_checked():
    with pytest.raises(ConfigError, match="http://host:port"):
        HttpRetriever("localhost:8000")
    with pytest.raises(EngineError, match="does not answer"):
        HttpRetriever("http://127.0.0.1:9", retries=0, timeout=1).search("zinc")
