"""Requests to a model whose service answers in unexpected ways, over a real connection."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.variants.evolve.answer import read_idea
from evo.variants.evolve.chat import MOST_ANSWER_BYTES, MOST_TEXT, MOST_WAIT_S, Chat, Message, ModelFailed

KEY = "sk-a-key-of-thirty-characters"
IDEA = {"name": "n", "idea": "i", "files": {"k.c": "int a;"}}
HELLO = [Message(role="user", text="hello")]


def completion(content: Any, *, usage: Any = None, **more: Any) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, **more}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


@contextmanager
def service(respond: Callable[[BaseHTTPRequestHandler, dict[str, Any], int], None]) -> Iterator[Chat]:
    """Serve a model. `respond` gets the request's handler, its body and the number of earlier requests."""
    requests: list[None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append(None)
            with suppress(BrokenPipeError, ConnectionResetError):  # the client may close the connection early
                respond(self, body, len(requests) - 1)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Chat(model="m", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", key=KEY, sleep=lambda s: None)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def answering(content: bytes, status: int = 200, **headers: str) -> Iterator[Chat]:
    with service(lambda handler, body, earlier: send(handler, status, content, **headers)) as chat:
        yield chat


@pytest.mark.parametrize(
    ("asked", "least_s", "most_s"),
    [("nan", 1, 1), ("inf", 1, 1), ("-3", 1, 1), ("", 1, 1), ("17", 17, 17), ("1e99", 1, 1), ("99999", 120, 120)],
)
def test_pause_before_a_repeated_request_is_always_a_valid_time(asked: str, least_s: float, most_s: float) -> None:
    waits: list[float] = []

    def busy_once(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        send(handler, *((200, completion("hi")) if earlier else (429, b"busy")), retry_after=asked)

    with service(busy_once) as chat:
        assert replace(chat, sleep=waits.append).ask(HELLO).text == "hi"
    assert least_s <= waits[0] <= most_s <= MOST_WAIT_S
    assert len(waits) == 1


def test_retry_after_may_be_a_date() -> None:
    waits: list[float] = []

    def busy_once(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        then = formatdate(time.time() + 40, usegmt=True)
        send(handler, *((200, completion("hi")) if earlier else (503, b"busy")), retry_after=then)

    with service(busy_once) as chat:
        replace(chat, sleep=waits.append).ask(HELLO)
    assert 35 <= waits[0] <= 40


def test_request_is_not_repeated_after_the_end_of_the_run() -> None:
    until_s = time.monotonic() + 30
    with (
        answering(b"busy", 429, retry_after="60") as chat,
        pytest.raises(ModelFailed, match="the time of the run ends before another attempt") as failed,
    ):
        replace(chat, sleep=lambda s: pytest.fail("the request was repeated")).ask(HELLO, until_s=until_s)
    assert not failed.value.charged


def test_maximum_answer_is_renamed_for_models_that_refuse_its_older_name() -> None:
    kept: list[dict[str, Any]] = []

    def newer(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        kept.append(body)
        refusal = b'{"error": {"message": "max_tokens is not supported here: use max_completion_tokens"}}'
        send(handler, *((400, refusal) if "max_tokens" in body else (200, completion("hi"))))

    with service(newer) as chat:
        assert replace(chat, most_tokens=300).ask(HELLO).text == "hi"
    assert [(each.get("max_tokens"), each.get("max_completion_tokens")) for each in kept] == [(300, None), (None, 300)]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"null", b"[1, 2]", b'"text"', b'{"error": {"message": "no credit"}}', b'{"choices": []}'),
        *(b'{"choices": {"0": 1}}', b"[" * 100_000, b'data: {"choices": []}\n\n', b"<html>sign in</html>"),
        *(b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}",),
        *(b'{"choices": [{"message": {"content": 5}}]}', b"\xff\xfe"),
    ],
)
def test_response_outside_the_protocol_is_shown_from_its_beginning(content: bytes) -> None:
    with answering(content) as chat, pytest.raises(ModelFailed, match="does not follow the openai protocol") as failed:
        chat.ask(HELLO)
    begin = content.decode(errors="replace")[:20]
    assert repr(begin)[1:-1].rstrip() in str(failed.value) if begin else "it is empty" in str(failed.value)
    assert failed.value.charged
    assert len(str(failed.value)) < 500


@pytest.mark.parametrize(
    "usage",
    [
        *("many", [1], 7, {"prompt_tokens": -1, "completion_tokens": True}),
        {"prompt_tokens": 10**30, "completion_tokens": 1.5},
        {"prompt_tokens": None, "completion_tokens": "5"},
    ],
)
def test_impossible_token_counts_are_unknown(usage: Any) -> None:
    with answering(completion("hi", usage=usage)) as chat:
        answer = chat.ask(HELLO)
    assert (answer.text, answer.tokens_in, answer.tokens_out) == ("hi", None, None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a'"}, {"type": "image"}, {"type": "text", "text": '"b'}], "a'\"b"),
        ("half \ud800 pair and \0 NUL", "half ? pair and  NUL"),
        (None, ""),
        ("x" * 2_000_000, "x" * MOST_TEXT),
    ],
    ids=["parts", "not text", "none", "long"],
)
def test_answer_becomes_text_that_can_be_stored(content: Any, text: str) -> None:
    with answering(completion(content)) as chat:
        assert chat.ask(HELLO).text == text


def test_refusal_and_reason_of_the_end_are_read() -> None:
    refusal = {"choices": [{"message": {"content": None, "refusal": "no"}, "finish_reason": "content_filter"}]}
    with answering(json.dumps(refusal).encode()) as chat:
        answer = chat.ask(HELLO)
    assert (answer.text, answer.ended) == ("no", "content_filter")
    tool = {"content": [{"type": "tool_use", "input": {}}, {"type": "text", "text": None}], "stop_reason": "tool_use"}
    with answering(json.dumps(tool).encode()) as chat:
        answer = replace(chat, protocol="anthropic").ask(HELLO)
    assert (answer.text, answer.ended) == ("", "tool_use")


def test_key_that_the_service_repeats_is_neither_stored_nor_shown() -> None:
    def repeating(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        sent = handler.headers["authorization"]
        assert sent == f"Bearer {KEY}"
        place = b"x" * 285  # the key begins before and ends after the part that is shown
        send(handler, *((200, completion(f"you sent {sent}")) if earlier else (400, place + sent.encode())))

    with service(repeating) as chat:
        with pytest.raises(ModelFailed, match="400") as failed:
            chat.ask(HELLO)
        assert chat.ask(HELLO).text == "you sent Bearer …"
    assert KEY[:6] not in str(failed.value)


def test_placeholder_as_key_does_not_change_an_answer() -> None:
    with answering(completion("none of them")) as chat:
        assert replace(chat, key="none").ask(HELLO).text == "none of them"


def test_response_without_end_is_not_read_into_memory() -> None:
    sent = 0

    def flood(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        while sent < 40 * MOST_ANSWER_BYTES:
            sent += handler.wfile.write(b" " * (1 << 20))

    with service(flood) as chat, pytest.raises(ModelFailed, match="larger than 8 MiB"):
        chat.ask(HELLO)
    assert sent < 10 * MOST_ANSWER_BYTES


def test_response_that_arrives_byte_by_byte_ends_in_time() -> None:
    stopped = threading.Event()

    def drip(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        while not stopped.wait(0.02):
            handler.wfile.write(b" ")

    begun_s = time.monotonic()
    with service(drip) as chat:
        with pytest.raises(ModelFailed, match="it was incomplete after 1 s") as failed:
            replace(chat, timeout_s=0.25).ask(HELLO)
        stopped.set()
    assert failed.value.charged
    assert time.monotonic() - begun_s < 20


def test_redirect_names_the_other_address_without_its_password() -> None:
    with (
        answering(b"", 307, location="http://ana:secret@other.example/v1") as chat,
        pytest.raises(ModelFailed, match=r"redirects to http://ana:\*\*\*@other\.example/v1") as failed,
    ):
        chat.ask(HELLO)
    assert not failed.value.charged


@pytest.mark.parametrize("address", ["http://ana:pw@host/v1", "http://host/v1?key=pw", "http://host/v1#pw"])
def test_address_of_a_model_has_no_secret(address: str) -> None:
    with pytest.raises(InvalidInput, match="KERNEL_EVO_MODEL_KEY") as refused:
        Chat(model="m", base_url=address)
    assert refused.value.field == "--base-url"
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "braces { x } in prose " * 20_000 + json.dumps(IDEA),
        '{"a":' * 150_000 + json.dumps(IDEA),
        "".join(f'{{"n{n}": {{}}}} ' for n in range(60)) + "~~~\n" + json.dumps(IDEA, indent=4) + "\n~~~",
        'struct a x = {"a"}; ' + json.dumps(IDEA) + ' and {"b": 1}',
    ],
    ids=["braces", "nested", "small objects", "initialisers"],
)
def test_object_of_an_answer_is_found_in_linear_time(text: str) -> None:
    begun_s = time.process_time()
    try:
        assert read_idea(text).name == "n"
    except InvalidInput:
        assert text.startswith('{"a":{"a"')  # too many places at which an object may begin
    assert time.process_time() - begun_s < 3


def test_refusal_of_an_answer_concerns_its_longest_object() -> None:
    with pytest.raises(InvalidInput, match=r"answer\.title: is not expected"):
        read_idea('{"title": "a longer object", "files": {}} and {"STEP": 1}')
