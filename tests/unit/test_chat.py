"""Requests to a model service that gives unexpected answers, over a real connection."""

import json
import logging
import socket
import sys
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
from evo.variants.evolve.answer import SCHEMA, SHAPE, read_idea
from evo.variants.evolve.bounded import MOST_ANSWER_BYTES
from evo.variants.evolve.chat import MOST_WAIT_S, Chat, chat_of
from evo.variants.evolve.message import Message, ModelFailed, Prices, SchemaRefused
from evo.variants.evolve.provider import Protocol, SdkMissing
from evo.variants.evolve.sdk import MOST_TEXT

KEY = "sk-a-key-of-thirty-characters"
IDEA = {"name": "n", "idea": "i", "files": {"k.c": "int a;"}}
HELLO = [Message(role="user", text="hello")]


def completion(content: Any, *, usage: Any = None, **more: Any) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, **more}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


ANSWERS: dict[Protocol, dict[str, Any]] = {
    "openai": {"choices": [{"message": {"role": "assistant", "content": "hi"}}]},
    "anthropic": {"content": [{"type": "text", "text": "hi"}]},
}
PROTOCOLS = pytest.mark.parametrize("protocol", ANSWERS)


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
def test_wait_before_a_retry_is_valid_for_any_retry_after_header(asked: str, least_s: float, most_s: float) -> None:
    waits: list[float] = []

    def busy_once(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        send(handler, *((200, completion("hi")) if earlier else (429, b"busy")), retry_after=asked)

    with service(busy_once) as chat:
        assert replace(chat, sleep=waits.append).ask(HELLO).text == "hi"
    assert least_s <= waits[0] <= most_s <= MOST_WAIT_S
    assert len(waits) == 1


def test_retry_after_header_may_contain_a_date() -> None:
    waits: list[float] = []

    def busy_once(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        then = formatdate(time.time() + 100, usegmt=True)
        send(handler, *((200, completion("hi")) if earlier else (503, b"busy")), retry_after=then)

    with service(busy_once) as chat:
        replace(chat, sleep=waits.append).ask(HELLO)
    assert 40 <= waits[0] <= 100


def test_model_request_is_not_retried_if_the_run_ends_before_the_retry() -> None:
    until_s = time.monotonic() + 30
    with (
        answering(b"busy", 429, retry_after="60") as chat,
        pytest.raises(ModelFailed, match="time limit of the run leaves no time for another attempt") as failed,
    ):
        replace(chat, sleep=lambda s: pytest.fail("the request was repeated")).ask(HELLO, until_s=until_s)
    assert not failed.value.charged


def test_max_completion_tokens_is_sent_to_models_that_refuse_max_tokens() -> None:
    kept: list[dict[str, Any]] = []

    def newer(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        kept.append(body)
        refusal = b'{"error": {"message": "max_tokens is not supported here: use max_completion_tokens"}}'
        send(handler, *((400, refusal) if "max_tokens" in body else (200, completion("hi"))))

    with service(newer) as made:
        chat = replace(made, most_tokens=300)
        assert [chat.ask(HELLO).text, chat.ask(HELLO).text] == ["hi", "hi"]
    sent = [(each.get("max_tokens"), each.get("max_completion_tokens")) for each in kept]
    assert sent == [(300, None), (None, 300), (None, 300)]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"null", b"[1, 2]", b'"text"', b'{"error": {"message": "no credit"}}', b'{"choices": []}'),
        *(b'{"choices": {"0": 1}}', b"[" * 100_000, b'data: {"choices": []}\n\n', b"<html>sign in</html>"),
        *(b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}",),
        *(b'{"choices": [{"message": {"content": 5}}]}', b"\xff\xfe"),
    ],
)
def test_error_for_an_invalid_model_response_shows_the_beginning_of_the_response(content: bytes) -> None:
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
def test_invalid_token_counts_of_a_model_response_are_stored_as_unknown(usage: Any) -> None:
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
    ids=["text in parts", "unstorable characters", "no content", "too long"],
)
def test_model_answer_is_converted_to_storable_text(content: Any, text: str) -> None:
    with answering(completion(content)) as chat:
        assert chat.ask(HELLO).text == text


def test_refusal_text_and_stop_reason_of_a_model_are_returned() -> None:
    refusal = {"choices": [{"message": {"content": None, "refusal": "no"}, "finish_reason": "content_filter"}]}
    with answering(json.dumps(refusal).encode()) as chat:
        answer = chat.ask(HELLO)
    assert (answer.text, answer.ended) == ("no", "content_filter")
    tool = {"content": [{"type": "tool_use", "input": {}}, {"type": "text", "text": None}], "stop_reason": "tool_use"}
    with answering(json.dumps(tool).encode()) as chat:
        answer = replace(chat, protocol="anthropic").ask(HELLO)
    assert (answer.text, answer.ended) == ("", "tool_use")


def test_api_key_echoed_by_the_service_is_neither_stored_nor_shown() -> None:
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


def test_answer_that_contains_the_placeholder_api_key_is_unchanged() -> None:
    with answering(completion("none of them")) as chat:
        assert replace(chat, key="none").ask(HELLO).text == "none of them"


def test_endless_model_response_is_refused_at_the_size_limit() -> None:
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


def test_model_response_sent_byte_by_byte_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.variants.evolve.bounded.LONGEST_ANSWER", 1 / 60)
    stopped = threading.Event()

    def drip(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        while not stopped.wait(0.02):
            handler.wfile.write(b" ")

    begun_s = time.monotonic()
    with service(drip) as chat:
        with pytest.raises(ModelFailed, match="the response was incomplete after 1 s") as failed:
            replace(chat, timeout_s=60.0).ask(HELLO)
        stopped.set()
    assert failed.value.charged
    assert time.monotonic() - begun_s < 300


def test_error_for_a_redirected_model_request_shows_the_new_url_without_its_password() -> None:
    with (
        answering(b"", 307, location="http://ana:secret@other.example/v1") as chat,
        pytest.raises(ModelFailed, match=r"redirects to http://ana:\*\*\*@other\.example/v1") as failed,
    ):
        chat.ask(HELLO)
    assert not failed.value.charged


@PROTOCOLS
def test_redirect_of_a_model_request_to_a_non_ascii_url_is_reported(protocol: Protocol) -> None:
    with (
        answering(b"", 307, location="http://other.example/\xfc") as chat,
        pytest.raises(ModelFailed, match=r"307: the provider redirects to http://other\.example/\xfc"),
    ):
        replace(chat, protocol=protocol).ask(HELLO)


@pytest.mark.parametrize("address", ["http://ana:pw@host/v1", "http://host/v1?key=pw", "http://host/v1#pw"])
def test_base_url_of_a_model_service_with_a_secret_is_refused(address: str) -> None:
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
def test_json_object_in_a_model_answer_is_found_in_linear_time(text: str) -> None:
    begun_s = time.process_time()
    try:
        assert read_idea(text).name == "n"
    except InvalidInput:
        assert text.startswith('{"a":{"a"')  # too many places at which an object may begin
    assert time.process_time() - begun_s < 3


def test_error_for_a_model_answer_with_several_json_objects_concerns_the_longest_object() -> None:
    with pytest.raises(InvalidInput, match=r"answer\.title: is an unknown field"):
        read_idea('{"title": "a longer object", "files": {}} and {"STEP": 1}')


@contextmanager
def recording(
    protocol: Protocol, refusal: tuple[int, str] | None = None
) -> Iterator[tuple[Chat, list[tuple[dict[str, str], dict[str, Any]]]]]:
    """Serve a model that refuses schemas with a status and a text, if given. Record headers and bodies of requests."""
    requests: list[tuple[dict[str, str], dict[str, Any]]] = []

    def respond(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        requests.append(({name.lower(): value for name, value in handler.headers.items()}, body))
        if refusal is not None and {"response_format", "output_config"} & body.keys():
            send(handler, refusal[0], refusal[1].encode())
        else:
            send(handler, 200, json.dumps(ANSWERS[protocol]).encode())

    with service(respond) as chat:
        yield replace(chat, protocol=protocol, schema=SCHEMA), requests


def test_answer_schema_is_sent_in_the_format_of_each_model_protocol() -> None:
    with recording("openai") as (chat, requests):
        chat.ask(HELLO)
    wanted = {"name": "variant", "strict": True, "schema": SCHEMA}
    assert requests[0][1]["response_format"] == {"type": "json_schema", "json_schema": wanted}
    with recording("anthropic") as (chat, requests):
        chat.ask(HELLO)
    assert requests[0][1]["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}


@PROTOCOLS
def test_model_request_without_an_answer_schema_has_no_schema_parameter(protocol: Protocol) -> None:
    with recording(protocol) as (chat, requests):
        replace(chat, schema=None).ask(HELLO)
    assert requests[0][1].keys() <= {"model", "messages", "max_tokens"}


@PROTOCOLS
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, '{"error": {"message": "This response_format type is unavailable now"}}'),
        (400, "{\"error\": \"'response_format.type' must be 'json_object'\"}"),
        (400, '{"error": {"message": "output_config.format: Extra inputs are not permitted"}}'),
        (400, '{"error": {"message": "this model does not support structured outputs"}}'),
        (400, '{"error": {"message": "failed to parse grammar"}}'),
        (422, '{"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"]}]}'),
    ],
)
def test_answer_schema_refused_by_the_model_service_is_not_sent_again(
    protocol: Protocol, status: int, text: str
) -> None:
    with recording(protocol, (status, text)) as (chat, requests):
        with pytest.raises(SchemaRefused, match=f"^{status}: ") as refused:
            chat.ask(HELLO)
        assert not refused.value.charged
        assert [chat.ask(HELLO).text, chat.ask(HELLO).text] == ["hi", "hi"]
    assert ["schema" in json.dumps(body) for _, body in requests] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "text"), [(401, "no key for response_format"), (400, "the prompt is too long"), (404, "no such model")]
)
def test_model_request_refused_for_another_reason_than_its_schema_fails(status: int, text: str) -> None:
    with recording("openai", (status, text)) as (chat, requests):
        with pytest.raises(ModelFailed, match=f"{status}: {text}") as failed:
            chat.ask(HELLO)
        assert not isinstance(failed.value, SchemaRefused)
        assert len(requests) == 1
        assert chat.schema_sent == SCHEMA


def test_maximum_cost_of_a_model_request_includes_the_schema_until_the_schema_is_refused() -> None:
    prices = Prices(tokens_in=1e6)
    with recording("openai", (400, "no json_schema")) as (chat, _):
        plain = replace(chat, schema=None).most_cost(HELLO, prices)
        assert chat.most_cost(HELLO, prices) > plain + len(json.dumps(SCHEMA))
        with pytest.raises(SchemaRefused):
            chat.ask(HELLO)
        assert chat.most_cost(HELLO, prices) == plain


def test_answer_schema_uses_only_keywords_of_strict_mode() -> None:
    def objects(schema: Any) -> Iterator[dict[str, Any]]:
        yield schema
        for each in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
            yield from objects(each)

    for each in objects(SCHEMA):
        assert each.keys() <= {"type", "description", "properties", "required", "additionalProperties", "items"}
        if each["type"] == "object":
            assert each["required"] == list(each["properties"])
            assert each["additionalProperties"] is False


def test_example_of_a_model_answer_conforms_to_the_answer_schema() -> None:
    from jsonschema import validate

    validate(json.loads(SHAPE), SCHEMA)
    idea = read_idea(SHAPE)
    assert (idea.table, idea.files) == (
        {"source": "kernel.c", "tunables": {"NAME": [1, 2, 4]}},
        {"kernel.c": "the whole source"},
    )


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("table", "a = ", r"answer\.table: cannot be read as TOML: Invalid value"),
        ("table", "day = 2026-01-01", r"answer\.table: must not contain a date"),
        ("table", "size = inf", r"answer\.table: must not contain a date, a time, inf or nan"),
        ("table", ["a"], r"answer\.table: must be a string that contains TOML"),
        ("files", [], r"answer\.files: must be a list"),
        ("files", [{"name": "k.c"}], r"answer\.files: must be a list"),
        ("files", [{"name": "k.c", "text": 1}], r"answer\.files: must be a list"),
        ("files", [{"name": ["k.c"], "text": ""}], r"answer\.files: must be a list"),
        ("files", [{"name": "k.c", "text": ""}] * 2, r"answer\.files: contains a file name twice"),
    ],
)
def test_error_for_an_invalid_model_answer_names_the_field(field: str, value: Any, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        read_idea(json.dumps({**IDEA, field: value}))


AMBIENT = {
    "OPENAI_API_KEY": "sk-ambient-openai",
    "OPENAI_ADMIN_KEY": "sk-ambient-admin",
    "OPENAI_ORG_ID": "ambient-organisation",
    "OPENAI_PROJECT_ID": "ambient-project",
    "OPENAI_BASE_URL": "http://ambient.invalid/v1",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer ambient-a\nX-Other: ambient-b",
    "ANTHROPIC_API_KEY": "sk-ambient-anthropic",
    "ANTHROPIC_AUTH_TOKEN": "ambient-token",
    "ANTHROPIC_BASE_URL": "http://ambient.invalid",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Api-Key: ambient-c\nX-Other: ambient-d",
}
"""Environment variables that the SDKs read by default."""


@PROTOCOLS
@pytest.mark.parametrize("key", [KEY, None])
def test_model_request_contains_only_the_configured_api_key(
    monkeypatch: pytest.MonkeyPatch, protocol: Protocol, key: str | None
) -> None:
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    with recording(protocol) as (chat, requests):
        assert replace(chat, key=key).ask(HELLO).text == "hi"
    headers, body = requests[0]
    assert "ambient" not in json.dumps([headers, body])
    assert not any(name.startswith(("x-stainless", "openai-")) for name in headers)
    credentials = [headers[name] for name in ("authorization", "x-api-key") if name in headers]
    assert bool(credentials) == bool(key)
    assert {each.removeprefix("Bearer ") for each in credentials} <= {key}


@PROTOCOLS
@pytest.mark.parametrize("status", [200, 400, 500])
def test_logs_of_model_sdks_contain_no_api_key(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, protocol: Protocol, status: int
) -> None:
    def repeating(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        send(handler, status, json.dumps(ANSWERS[protocol]).encode(), x_key=KEY, location=KEY)

    for name in (protocol, "httpx2", "httpcore2"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.DEBUG)
    with caplog.at_level(logging.DEBUG), service(repeating) as chat, suppress(ModelFailed):
        replace(chat, protocol=protocol).ask(HELLO)
    assert any(each.name.startswith(protocol) and str(status) in each.getMessage() for each in caplog.records)
    own = [each.getMessage() for each in caplog.records if not each.name.startswith("httpcore2")]
    assert not any(KEY in each for each in own)


@PROTOCOLS
def test_error_for_a_missing_model_sdk_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, protocol: Protocol
) -> None:
    monkeypatch.setitem(sys.modules, protocol, None)
    with pytest.raises(SdkMissing, match=rf"package `{protocol}`.*extra `evolve`.*pip install -e '\.\[evolve\]'"):
        chat_of(protocol, "m", "http://127.0.0.1:1/v1")
    with pytest.raises(SdkMissing):
        Chat(model="m", protocol=protocol, base_url="http://127.0.0.1:1/v1").ask(HELLO)


@pytest.mark.parametrize("suffix", ["/v1", "/v1/", ""])
def test_base_url_for_the_anthropic_protocol_may_omit_the_version(suffix: str) -> None:
    paths: list[str] = []

    def respond(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        paths.append(handler.path)
        send(handler, 200, json.dumps(ANSWERS["anthropic"]).encode())

    with service(respond) as chat:
        base = chat.base_url.removesuffix("/v1") + suffix
        replace(chat, protocol="anthropic", base_url=base, most_tokens=1_000_000).ask(HELLO)
    assert paths == ["/v1/messages"]


@PROTOCOLS
def test_unreachable_model_service_is_named_and_costs_nothing(protocol: Protocol) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    waits: list[float] = []
    with pytest.raises(ModelFailed, match=f"{base} cannot be reached: .*refused") as failed:
        Chat(model="m", protocol=protocol, base_url=base, key=KEY, sleep=waits.append).ask(HELLO)
    assert not failed.value.charged
    assert len(waits) == 5


@PROTOCOLS
def test_model_request_with_an_incomplete_response_is_charged_and_not_retried(protocol: Protocol) -> None:
    requests: list[int] = []

    def cut(handler: BaseHTTPRequestHandler, body: dict[str, Any], earlier: int) -> None:
        requests.append(earlier)
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    with service(cut) as chat, pytest.raises(ModelFailed, match="no complete answer arrived") as failed:
        replace(chat, protocol=protocol).ask(HELLO)
    assert failed.value.charged
    assert requests == [0]


@PROTOCOLS
def test_model_service_on_an_ipv6_address_is_reached(protocol: Protocol) -> None:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            send(self, 200, json.dumps(ANSWERS[protocol]).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    try:
        server = Server(("::1", 0), Handler)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            chat = Chat(model="m", protocol=protocol, base_url=f"http://[::1]:{server.server_address[1]}/v1")
            assert chat.ask(HELLO).text == "hi"
        finally:
            server.shutdown()
            thread.join()
