"""Server of the OpenAI protocol that sends scripted answers, to try `kernel-evo evolve` without a model.

    python scripted_model.py answers.json --port 8901

answers.json contains a list of steps. Each request gets the next step as its answer. After the last step, the answer is
always "No further variants." A step is a text, an object that is sent as JSON, or one of these objects, which simulate
faulty services:
{"status": 429, "retry_after": 1, "text": "busy"}, {"raw": "not JSON"}, {"cut": true}, {"slow_s": 2, "text": "…"}.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONTROLS = {"status", "raw", "cut", "slow_s", "text"}


class Script:
    """The steps of the script, and the requests received so far. Threads may call `next` at the same time."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def next(self, request: dict[str, Any]) -> Any:
        with self._lock:
            self.requests.append(request)
            place = len(self.requests) - 1
        return self.steps[place] if place < len(self.steps) else "No further variants."


def server(script: Script, port: int = 0) -> ThreadingHTTPServer:
    """Return a server on a loopback port. The port 0 selects any free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            step = script.next({"path": self.path, "headers": dict(self.headers), "body": body})
            controls = step if isinstance(step, dict) and set(step) & CONTROLS else {"text": step}
            time.sleep(controls.get("slow_s", 0))
            if "status" in controls:
                content = json.dumps({"error": {"message": controls.get("text", "try again")}}).encode()
                self._send(controls["status"], content, {"retry-after": controls.get("retry_after", 0)})
            elif "raw" in controls:
                self._send(200, controls["raw"].encode(), {})
            elif controls.get("cut"):
                self.send_response(200)
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
            else:
                self._send(200, json.dumps(_completion(body, controls["text"])).encode(), {})

        def _send(self, status: int, content: bytes, headers: dict[str, Any]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def _completion(body: dict[str, Any], step: Any) -> dict[str, Any]:
    text = step if isinstance(step, str) else json.dumps(step)
    words = sum(len(message["content"].split()) for message in body["messages"])
    return {
        "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": words, "completion_tokens": len(text.split())},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=Path)
    parser.add_argument("--port", type=int, default=8901)
    given = parser.parse_args()
    serving = server(Script(json.loads(given.script.read_text())), given.port)
    print(f"http://127.0.0.1:{serving.server_address[1]}/v1", flush=True)  # noqa: T201 - a script for the terminal
    serving.serve_forever()


if __name__ == "__main__":
    main()
