"""An OpenAI-compatible chat server that plays a known solution, in the tool-call format that a test asks for."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERMES, LLAMA, NATIVE = "hermes", "llama", "native"


class SolutionServer:
    """Answers the n-th assistant turn of a conversation with the n-th message of the solution whose task it holds.

    Args:
        solutions: Text that stands in a task's conversation -> its messages; each a list of (tool, arguments), or the
            final answer as text.
        form: How calls are written.
        broken: Whether the first turn of each conversation is a call that cannot be read.
    """

    def __init__(self, solutions, form, *, broken=False):
        self.solutions, self.form, self.broken = solutions, form, broken
        self.asked = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self._send({"object": "list", "data": [{"id": "m", "object": "model"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                self._send(server.answer(body["messages"]))

            def _send(self, payload):
                data = json.dumps(payload).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, messages):
        turn = sum(message["role"] == "assistant" for message in messages)
        whole = "\n".join(str(message["content"]) for message in messages)
        known = [messages_of for text, messages_of in self.solutions.items() if text in whole]
        script = known[0] if known else ["I cannot."]
        if self.broken and turn == 0:
            return self._message("<tool_call>{'name': broken}</tool_call>")
        at = turn - self.broken
        said = script[at] if at < len(script) else "Done."
        return self._message(said) if isinstance(said, str) else self._calls(said)

    def _calls(self, calls):
        if self.form == HERMES:
            bodies = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
            return self._message("\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies))
        if self.form == LLAMA:
            bodies = [json.dumps({"name": name, "parameters": arguments}) for name, arguments in calls]
            return self._message("<|python_tag|>" + "; ".join(bodies))
        return self._message(
            None,
            tool_calls=[
                {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for i, (name, arguments) in enumerate(calls)
            ],
        )

    def _message(self, content, **more):
        message = {"role": "assistant", "content": content, **more}
        finish = "tool_calls" if more else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"id": "x", "object": "chat.completion", "choices": [choice]}
