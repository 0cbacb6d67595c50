"""The HTTP client retries requests, and raises problem documents as typed errors."""

import hashlib
import json

import httpx
import pytest

from evo.client import (
    Acceptance,
    AccessDenied,
    Client,
    ForeignService,
    ServiceAway,
    ServiceError,
    ServiceUnreachable,
    TooLarge,
)
from evo.client.transport import retry_after_s
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.messages.event import SearchDeleted
from evo.messages.job import Delivery
from evo.trial.outcome import Cancelled
from evo.trial.results import EvaluateReport

Answer = httpx.Response | Exception


class Service:
    """A fake service that returns prepared answers, and records requests and pauses."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.pauses: list[float] = []

    def client(self, attempts: int = 4) -> Client:
        transport = httpx.MockTransport(self._answer)
        return Client(
            "http://service/", token="secret", attempts=attempts, transport=transport, sleep=self.pauses.append
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def problem(status: int, **fields: str) -> httpx.Response:
    return httpx.Response(status, json=fields, headers={"content-type": "application/problem+json"})


def stream_of(text: str) -> httpx.Response:
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream; charset=utf-8"})


ACCEPTED = httpx.Response(200, json={"accepted": True, "repeated": True})
REPORT = EvaluateReport(outcome=Cancelled())


def test_client_retries_a_result_until_the_service_answers() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.Response(503), ACCEPTED)
    assert service.client().report(7, "t", REPORT) == Acceptance(accepted=True, repeated=True)
    assert [request.url.path for request in service.asked] == ["/api/v1/attempts/7/result"] * 4
    assert json.loads(service.asked[-1].content)["token"] == "t"
    assert len(service.pauses) == 3
    assert 0 < service.pauses[0] < service.pauses[2] <= 5


def test_client_retries_a_batch_of_results_until_it_is_answered() -> None:
    answers = [
        {"attempt_id": 7, "status": "accepted", "detail": ""},
        {"attempt_id": 8, "status": "stale", "detail": "x"},
    ]
    service = Service(httpx.ReadTimeout("late"), httpx.Response(200, json={"answers": answers}))
    deliveries = [Delivery(attempt_id=number, token="t", report=REPORT) for number in (7, 8)]
    first, second = service.client().report_many(deliveries)
    assert (first.status, second.status, second.detail) == ("accepted", "stale", "x")
    assert [request.url.path for request in service.asked] == ["/api/v1/results"] * 2
    assert [each["attempt_id"] for each in json.loads(service.asked[1].content)["results"]] == [7, 8]


def test_client_retries_a_search_request_with_the_same_idempotency_key() -> None:
    under_way = httpx.Response(409, json={"detail": "under way"}, headers={"retry-after": "1"})
    service = Service(httpx.ReadTimeout("did it arrive?"), under_way, problem(422, detail="no", field="seed"))
    with pytest.raises(InvalidInput):
        service.client().create_search({})
    keys = {request.headers["idempotency-key"] for request in service.asked}
    assert (len(service.asked), len(keys)) == (3, 1)
    again = Service(problem(422, detail="no", field="seed"))
    with pytest.raises(InvalidInput):
        again.client().create_search({})
    assert again.asked[0].headers["idempotency-key"] not in keys


def test_lease_request_is_retried_only_if_the_request_was_never_sent() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.ReadTimeout("did it arrive?"))
    with pytest.raises(ServiceUnreachable):
        service.client().lease("w", "d", count=1, wait_s=0)
    assert len(service.asked) == 2


def test_edit_search_sends_the_etag_of_the_state_that_was_read() -> None:
    service = Service(problem(412, detail="it has changed"))
    with pytest.raises(Conflict, match="changed"):
        service.client().edit_search(3, notes="", archived=False, seen='"abc"')
    assert service.asked[0].headers["if-match"] == '"abc"'
    assert json.loads(service.asked[0].content) == {"notes": "", "archived": False}


def test_text_that_cannot_be_encoded_in_utf8_is_refused_before_sending() -> None:
    service = Service()
    with pytest.raises(InvalidInput, match="unpaired surrogate"):
        service.client().edit_search(3, notes="a\ud800b", archived=False, seen='"abc"')
    assert service.asked == []


def test_worker_id_is_quoted_as_one_url_segment() -> None:
    service = Service(*[httpx.Response(200, json={})] * 2)
    client = service.client()
    client.register_worker("a%2F b?#é", name=None, host="h", devices=[])
    client.leave("a%2F b?#é")
    assert [request.url.raw_path for request in service.asked] == [b"/api/v1/workers/a%252F%20b%3F%23%C3%A9"] * 2


def test_client_reads_all_trials_page_by_page() -> None:
    one = {"id": 1, "search_id": 3, "number": 0, "config": {}, "origin": "x", "parents": []}
    empty = {"outcome": None, "time_us": None}
    pages = [{"items": [{**one, **empty}], "next": "c"}, {"items": [{**one, **empty, "number": 1}], "next": None}]
    service = Service(*(httpx.Response(200, json=page) for page in pages))
    assert [trial.number for trial in service.client().every_trial(3)] == [0, 1]
    assert service.asked[1].url.params["cursor"] == "c"


def test_client_resumes_an_interrupted_event_stream_at_its_position() -> None:
    first = ': hello\nid: 0-1\nretry: 1000\n\nevent: deleted\ndata: {"id":7}\nid: 0-2\n\nevent: new kind\ndata: 1\n\n'
    second = 'event: deleted\ndata: {"id":8}\nid: 0-3\n\nevent: deleted\ndata: {"id'
    service = Service(
        stream_of(first),
        httpx.ConnectError("restarting"),
        stream_of(second),
        problem(404, detail="no search 7"),
    )
    heard = service.client().events(7)
    assert [next(heard), next(heard)] == [SearchDeleted(id=7), SearchDeleted(id=8)]
    with pytest.raises(NotFound):
        next(heard)
    places = [request.headers.get("last-event-id") for request in service.asked]
    assert places == ["", "0-2", "0-2", "0-3"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(200, html="<form>Sign in</form>"), "200, and text/html"),
        (httpx.Response(200, text="data: x\n\n"), "200, and text/plain"),
        (httpx.Response(302, headers={"location": "https://login.example/?state=1"}), "redirects to"),
        (httpx.Response(204), "204, and no type"),
    ],
)
@pytest.mark.parametrize("of_trials", [False, True])
def test_html_or_text_response_to_a_stream_request_is_refused(
    answer: httpx.Response, words: str, of_trials: bool
) -> None:
    """Without the check, `watch` would show no event, and an export of trials would contain an HTML page."""
    client = Service(answer).client()
    with pytest.raises(ForeignService, match=words):
        next(client.export_trials(1, "csv") if of_trials else client.events())


@pytest.mark.parametrize("data", ['{"id": "seven"}', "{}", "no JSON", "[]"])
def test_event_with_unknown_content_raises_a_service_error(data: str) -> None:
    client = Service(stream_of(f"event: deleted\ndata: {data}\nid: 0-1\n\n")).client()
    with pytest.raises(ServiceError, match="'deleted', which is not understood by this version"):
        next(client.events())


def test_damaged_events_are_skipped() -> None:
    text = b'event: deleted\nid: 0-1\n\n: \xff\n\nevent: deleted\ndata: {"id":8}\nid: 0-2\n\n'
    answer = httpx.Response(200, content=text, headers={"content-type": "text/event-stream; charset=utf-8"})
    assert next(Service(answer).client().events()) == SearchDeleted(id=8)


def test_event_stream_ends_after_the_time_limit_without_a_service() -> None:
    with pytest.raises(ServiceUnreachable):
        next(Service(httpx.ConnectError("gone")).client().events(patience_s=-1.0))


def test_client_reads_all_result_pages_of_the_worker_list() -> None:
    def page(worker_id: str, following: str | None) -> httpx.Response:
        worker = {"id": worker_id, "name": worker_id, "host": "h", "devices": [], "slots": [], "seen_at": "2026-01-02"}
        return httpx.Response(200, json={"items": [worker], "next": following})

    service = Service(page("a", "x&y"), page("b", "z"), page("c", None))
    found = service.client().workers()
    assert ([each.id for each in found.items], found.next) == (["a", "b", "c"], None)
    assert [request.url.query for request in service.asked] == [b"", b"cursor=x%26y", b"cursor=z"]


def test_client_resumed_after_a_suspension_retries_its_event_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspension, e.g. by Ctrl-Z and `fg`, the last event is old and the connection is lost."""
    now_s = 0.0
    monkeypatch.setattr("evo.client.events.time.monotonic", lambda: now_s)
    event = stream_of('event: deleted\ndata: {"id":8}\nid: 0-2\n\n')
    service = Service(event, httpx.ConnectError("reset"), httpx.ConnectError("refused"), event, httpx.ConnectError("x"))
    events = service.client(attempts=1).events(patience_s=60.0)
    assert next(events) == SearchDeleted(id=8)
    now_s = 3600.0
    assert next(events) == SearchDeleted(id=8)


def test_client_gives_up_after_bounded_retries_and_the_error_states_a_remedy() -> None:
    service = Service(*[httpx.ConnectError("connection refused")] * 4)
    with pytest.raises(ServiceUnreachable, match=r"http://service \(connection refused\).*kernel-evo serve"):
        service.client().health()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (problem(422, detail="problem.S: 0 is out of range", field="problem.S"), InvalidInput, "^problem.S: 0 is"),
        (problem(404, detail="no search 7; the last is 3"), NotFound, "no search 7"),
        (problem(409, detail="the lease is stale"), Conflict, "stale"),
        (problem(401, detail="wrong token"), AccessDenied, "KERNEL_EVO_TOKEN"),
        (problem(500, title="Internal error"), ServiceError, "GET /api/v1/searches/7 answered 500: Internal error"),
        (
            httpx.Response(404, text="<html>"),
            ForeignService,
            r"at http://service is not a kernel-evo service .*: 404 Not",
        ),
        (httpx.Response(200, text="<html>"), ForeignService, r"not a kernel-evo service .*: 200 without JSON"),
        (
            httpx.Response(301, headers={"location": "https://service/x"}),
            ForeignService,
            "redirects to https://service/x",
        ),
        (httpx.Response(401, text="<html>"), ForeignService, "401 Unauthorized"),
        (httpx.Response(403, text="<html>"), ForeignService, "403 Forbidden"),
        (httpx.Response(408, text="<html>"), ServiceAway, "is temporarily unavailable .408 Request Timeout"),
        (httpx.Response(429, text="<html>"), ServiceAway, "try again in a while"),
        (httpx.Response(500, text="<html>"), ServiceAway, "500 Internal Server Error"),
        (
            httpx.Response(502, text="<html>"),
            ServiceAway,
            "at http://service is temporarily unavailable .502 Bad Gateway",
        ),
        (httpx.Response(504), ServiceAway, "504 Gateway Timeout"),
        (httpx.Response(522), ServiceAway, "522"),
        (problem(503, detail="the database does not answer"), ServiceAway, "the database does not answer"),
        (httpx.Response(413, text="<html>"), TooLarge, "client_max_body_size"),
        (problem(413, detail="the body is larger than the 16 MiB"), TooLarge, "larger than the 16 MiB"),
        (problem(413, detail="body: too long", field="body"), InvalidInput, "too long"),
        (httpx.Response(200, json={"id": "x"}), ServiceError, "same version"),
    ],
)
def test_error_documents_of_the_service_become_typed_exceptions_of_the_client(
    answer: httpx.Response, error: type[EvoError], words: str
) -> None:
    with pytest.raises(error, match=words):
        Service(answer).client(attempts=1).search(7)


def test_html_response_to_an_upload_is_refused() -> None:
    page = httpx.Response(200, text="<html>", headers={"content-type": "text/html; charset=utf-8"})
    with pytest.raises(ForeignService, match="200 with an HTML page"):
        Service(page).client().put_artefact("ab", b"content")


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504])
def test_proxy_errors_during_an_outage_are_retried(status: int) -> None:
    service = Service(httpx.Response(status, text="<html>"), httpx.Response(status, text="<html>"), ACCEPTED)
    assert service.client().report(1, "t", REPORT).accepted
    assert len(service.pauses) == 2


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("12", 12.0),
        ("0", 0.0),
        ("Wed, 21 Oct 2015 07:28:20 GMT", 20.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1e3", 0.0),
        ("9" * 5000, 86_400.0),
        ("", 0.0),
    ],
)
def test_retry_after_header_accepts_seconds_and_dates(asked: str, seconds: float) -> None:
    headers = {"retry-after": asked, "date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize("status", [429, 503])
def test_client_retries_after_the_requested_time(status: int) -> None:
    service = Service(httpx.Response(status, headers={"retry-after": "7"}), ACCEPTED)
    service.client().report(7, "t", REPORT)
    assert service.pauses == [7.0]


def test_long_retry_after_raises_an_error_that_states_when_to_retry() -> None:
    service = Service(httpx.Response(503, headers={"retry-after": "120"}))
    with pytest.raises(
        ServiceAway, match=r"is temporarily unavailable \(503 Service Unavailable\); try again in 120 s"
    ):
        service.client().report(7, "t", REPORT)
    assert service.pauses == []


def test_find_duplicate_returns_none_on_404() -> None:
    assert Service(problem(404, detail="none")).client().find_duplicate(1, "ab") is None


def test_client_sends_its_token_and_omits_absent_filters() -> None:
    service = Service(httpx.Response(200, json={"items": []}))
    assert service.client().trials(3, sort="rank").items == ()
    assert service.asked[0].headers["authorization"] == "Bearer secret"
    assert dict(service.asked[0].url.params) == {"sort": "rank", "limit": "50"}


@pytest.mark.parametrize("token", ["ü", "a\nb", "a b", "tab\t", "nul\0", "\N{ZERO WIDTH SPACE}x"])
def test_error_about_an_invalid_token_does_not_contain_the_token(token: str) -> None:
    with pytest.raises(InvalidInput, match="characters that a token cannot have") as refused:
        Client("http://127.0.0.1:1", token=token)
    assert refused.value.field == "token"
    assert token not in str(refused.value)


@pytest.mark.parametrize("arrived", [b"", b"kern", b"Kernel", b"kernel\n"])
def test_artefact_with_unexpected_content_is_refused(arrived: bytes) -> None:
    """A proxy may cut off a download without an error, and a damaged disk may return wrong bytes."""
    digest = hashlib.sha256(b"kernel").hexdigest()
    with pytest.raises(ServiceError, match=f"artefact {digest} cannot be fetched: the {len(arrived)} received bytes"):
        Service(httpx.Response(200, content=arrived)).client().artefact(digest)
    assert Service(httpx.Response(200, content=b"kernel")).client().artefact(digest) == b"kernel"
