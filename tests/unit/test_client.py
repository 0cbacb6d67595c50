"""The client: what is repeated, what is not, and problem documents as typed errors."""

import json

import httpx
import pytest

from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.job import Delivery, EvaluateReport
from evo.outcome import Cancelled
from workers.client import Acceptance, Client
from workers.transport import AccessDenied, ServiceError, ServiceUnreachable

Answer = httpx.Response | Exception


class Service:
    """Gives one prepared answer after the other, and keeps what it was asked and how long the client paused."""

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


ACCEPTED = httpx.Response(200, json={"accepted": True, "repeated": True})
REPORT = EvaluateReport(outcome=Cancelled())


def test_a_result_is_repeated_until_the_service_is_back() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.Response(503), ACCEPTED)
    assert service.client().report(7, "t", REPORT) == Acceptance(accepted=True, repeated=True)
    assert [request.url.path for request in service.asked] == ["/api/v1/attempts/7/result"] * 4
    assert json.loads(service.asked[-1].content)["token"] == "t"
    assert len(service.pauses) == 3
    assert 0 < service.pauses[0] < service.pauses[2] <= 5


def test_many_results_are_repeated_until_each_has_its_answer() -> None:
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


def test_a_search_is_not_started_twice() -> None:
    service = Service(httpx.ReadTimeout("did it arrive?"))
    with pytest.raises(ServiceUnreachable):
        service.client().create_search({})
    assert len(service.asked) == 1


def test_a_search_that_never_left_is_sent_again() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.ReadTimeout("did it arrive?"))
    with pytest.raises(ServiceUnreachable):
        service.client().create_search({})
    assert len(service.asked) == 2


def test_tries_are_bounded_and_the_error_says_what_to_do() -> None:
    service = Service(*[httpx.ConnectError("connection refused")] * 4)
    with pytest.raises(ServiceUnreachable, match=r"http://service \(connection refused\).*kernel-evo serve"):
        service.client().health()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (problem(422, detail="problem.S: 0 is out of its limits", field="problem.S"), InvalidInput, "^problem.S: 0 is"),
        (problem(404, detail="no search 7; the last is 3"), NotFound, "no search 7"),
        (problem(409, detail="the lease is stale"), Conflict, "stale"),
        (problem(401, detail="wrong token"), AccessDenied, "KERNEL_EVO_TOKEN"),
        (problem(500, title="Internal error"), ServiceError, "GET /api/v1/searches/7 answered 500: Internal error"),
        (httpx.Response(502, text="<html>"), ServiceError, "answered 502: Bad Gateway"),
        (httpx.Response(200, json={"id": "x"}), ServiceError, "same version"),
    ],
)
def test_problems_are_typed_errors(answer: httpx.Response, error: type[EvoError], words: str) -> None:
    with pytest.raises(error, match=words):
        Service(answer).client(attempts=1).search(7)


def test_no_twin_is_no_error() -> None:
    assert Service(problem(404, detail="none")).client().twin(1, "ab") is None


def test_the_token_goes_along_and_absent_filters_do_not() -> None:
    service = Service(httpx.Response(200, json={"items": []}))
    assert service.client().trials(3, sort="rank").items == ()
    assert service.asked[0].headers["authorization"] == "Bearer secret"
    assert dict(service.asked[0].url.params) == {"sort": "rank", "limit": "50"}
