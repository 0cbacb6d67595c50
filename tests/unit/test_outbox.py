"""Results are delivered once the service is available, even after the worker restarts, and then removed."""

import errno
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from evo.client import AccessDenied, Client, ForeignService, ServiceAway, ServiceError, ServiceUnreachable, TooLarge
from evo.errors import EvoError, InvalidInput
from evo.messages.job import Answer, Delivery
from evo.trial.outcome import InvalidConfig, LaunchFailed
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from workers.delivery import outbox as outboxes
from workers.delivery.outbox import MOST_AT_ONCE, MOST_REFUSALS, MOST_TRIES, Outbox, digest_of
from workers.delivery.spool import PendingResult

AWAY = ServiceUnreachable("away")
REPORT_BYTES = 100
"""Size of each report in bytes, for the limit of a fake proxy."""


class Service:
    """A fake service that accepts deliveries or raises prepared errors.

    Attributes:
        error: error of every request; None if requests succeed.
        poison: id of an attempt whose requests fail.
        answers: status by attempt, for attempts that are not accepted.
        unreadable: reason for refusing every report except a report of that refusal; empty to refuse none.
    """

    def __init__(self) -> None:
        self.error: EvoError | None = None
        self.poison: int | None = None
        self.answers: dict[int, str] = {}
        self.refused_artefacts = False
        self.unreadable = ""
        self.most_bytes: int | None = None
        self.taken: list[Delivery] = []
        self.requests: list[int] = []
        self.artefacts: list[str] = []
        self.stored_apart: list[str] = []
        self.lost: set[str] = set()

    @property
    def reports(self) -> list[int]:
        return [each.attempt_id for each in self.taken]

    def put_artefact(self, digest: str, content: bytes) -> None:
        self._maybe_fail()
        if self.refused_artefacts:
            raise InvalidInput("body", "too large")
        self._measure([content])
        self.stored_apart.append(digest)
        self.lost.discard(digest)

    def report_many(self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes]) -> tuple[Answer, ...]:
        self._maybe_fail()
        if self.unreadable and any("the service refuses" not in repr(each.report) for each in deliveries):
            raise InvalidInput("outcome.reason", self.unreadable)
        if self.refused_artefacts and contents:
            raise InvalidInput("body", "too large")
        self._measure([*contents.values(), b"r" * REPORT_BYTES * len(deliveries)])
        self.requests.append(len(deliveries))
        self.artefacts += contents
        if self.poison in {each.attempt_id for each in deliveries}:
            raise ServiceError("500")
        answers = tuple(
            Answer(
                attempt_id=each.attempt_id,
                status=self.answers.get(each.attempt_id, "accepted"),  # type: ignore[arg-type]
                lacking=tuple(self.lost),
            )
            for each in deliveries
        )
        self.taken += [each for each, told in zip(deliveries, answers, strict=True) if told.status == "accepted"]
        return answers

    def _measure(self, parts: Sequence[bytes]) -> None:
        """Raise an error if the body exceeds the proxy's limit."""
        if self.most_bytes is not None and sum(map(len, parts)) > self.most_bytes:
            raise TooLarge("413")

    def _maybe_fail(self) -> None:
        if self.error is not None:
            raise self.error


def outbox_to(service: Service, folder: Path) -> Outbox:
    """Return an outbox whose client is a fake service."""
    return Outbox(cast(Client, service), folder)


def result(attempt_id: int = 1, content: bytes = b"\x00source") -> PendingResult:
    report = EvaluateReport(outcome=InvalidConfig(reason="x"), artefacts={"source": digest_of(content)})
    return PendingResult(attempt_id=attempt_id, token="t", report=report, contents={digest_of(content): content})


def test_outbox_sends_results_in_batches_with_each_artefact_once(tmp_path: Path) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)
    for number in range(MOST_AT_ONCE + 1):
        outbox.post(result(number))
    assert len(list(tmp_path.iterdir())) == len(outbox.waiting) == MOST_AT_ONCE + 1
    assert outbox.flush()
    assert service.reports == list(range(MOST_AT_ONCE + 1))
    assert service.requests == [MOST_AT_ONCE, 1]
    assert (service.artefacts, service.stored_apart) == ([digest_of(b"\x00source")], [])
    assert (list(tmp_path.iterdir()), outbox.waiting) == ([], [])


def test_outbox_waits_for_the_delivery_of_results_up_to_a_time_limit(tmp_path: Path) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)
    outbox.wait(60)  # returns at once, because no result waits
    service.error = AWAY
    outbox.post(result(1))
    assert not outbox.flush()
    outbox.wait(0.01)
    assert outbox.waiting == [1]
    service.error = None
    delivery = threading.Timer(0.05, outbox.flush)
    delivery.start()
    outbox.wait(60)
    assert outbox.waiting == [] and service.reports == [1]
    delivery.join()


def test_outbox_uploads_artefacts_beyond_the_request_limit_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "MOST_ENCLOSED_BYTES", 10)
    service, contents = Service(), (b"small", b"very, very large", b"tiny", b"small too")
    outbox = outbox_to(service, tmp_path)
    for number, content in enumerate(contents):
        outbox.post(result(number, content))
    assert outbox.flush()
    assert service.requests == [4]
    assert service.artefacts == [digest_of(b"small"), digest_of(b"tiny")]
    assert service.stored_apart == [digest_of(b"very, very large"), digest_of(b"small too")]


def test_refused_worker_token_is_raised_and_results_are_kept(tmp_path: Path) -> None:
    service = Service()
    service.error = AccessDenied("wrong token")
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    with pytest.raises(AccessDenied, match="wrong token"):
        outbox.flush()
    assert (outbox.stuck, len(list(tmp_path.iterdir()))) == (True, 1)
    service.error = None
    assert outbox.flush()
    assert service.reports == [1]


@pytest.mark.parametrize("error", [AWAY, ServiceError("500")])
def test_results_are_stored_in_order_during_an_outage(tmp_path: Path, error: EvoError) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)
    service.error = error
    for number in (1, 2):
        outbox.post(result(number))
        assert not outbox.flush()
    assert (outbox.stuck, outbox.waiting, len(list(tmp_path.iterdir()))) == (True, [1, 2], 2)
    service.error = None
    assert outbox.flush()
    assert (outbox.stuck, service.reports, list(tmp_path.iterdir())) == (False, [1, 2], [])


def test_restarted_worker_delivers_unacknowledged_results(tmp_path: Path) -> None:
    outbox_to(Service(), tmp_path).post(result(11))
    outbox_to(Service(), tmp_path).post(result(7))
    (tmp_path / "8.json").write_text('{"attempt_id": 8, "tok')
    (tmp_path / "9.part").write_text("cut off")
    service = Service()
    reborn = outbox_to(service, tmp_path)
    assert reborn.flush()
    assert (service.reports, len(service.artefacts)) == ([7, 11], 1)
    assert [path.name for path in tmp_path.iterdir()] == ["8.refused"]


def test_result_file_of_an_earlier_version_is_delivered_and_removed(tmp_path: Path) -> None:
    outbox_to(Service(), tmp_path).post(result(7))
    (only,) = tmp_path.iterdir()
    only.rename(tmp_path / "7.json")
    service = Service()
    assert outbox_to(service, tmp_path).flush()
    assert (service.reports, list(tmp_path.iterdir())) == ([7], [])


def test_temporarily_unreadable_result_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox_to(Service(), tmp_path).post(result(7))
    with monkeypatch.context() as context:
        context.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many files")))
        assert outbox_to(Service(), tmp_path).waiting == []
    assert outbox_to(Service(), tmp_path).waiting == [7]


def test_results_of_attempts_with_equal_ids_do_not_replace_each_other(tmp_path: Path) -> None:
    """A restored or new database assigns the ids of attempts a second time, with other tokens."""
    old, new = result(5), replace(result(5), token="another")
    outbox = outbox_to(Service(), tmp_path)
    outbox.post(old)
    outbox.post(new)
    assert (outbox.waiting, len(list(tmp_path.iterdir()))) == ([5, 5], 2)
    service = Service()
    assert outbox_to(service, tmp_path).flush()
    assert {each.token for each in service.taken} == {"t", "another"}


def test_artefacts_that_the_service_lost_are_uploaded_again(tmp_path: Path) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    assert outbox.flush()
    assert (len(service.artefacts), service.stored_apart) == (1, [])
    service.lost = {digest_of(b"\x00source")}
    outbox.post(result(2))
    assert outbox.flush()
    assert (len(service.artefacts), service.stored_apart) == (1, [digest_of(b"\x00source")])
    outbox.post(result(3))
    assert outbox.flush()
    assert (service.reports, len(service.stored_apart)) == ([1, 2, 3], 1)


@pytest.mark.parametrize("status", ["stale", "unknown", "repeated"])
def test_result_is_removed_after_any_final_status(tmp_path: Path, status: str) -> None:
    service = Service()
    service.answers = {1: status}
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    outbox.post(result(2))
    assert outbox.flush()
    assert (service.reports, outbox.waiting, list(tmp_path.iterdir())) == ([2], [], [])


def test_refused_result_is_set_aside_and_not_sent_again(tmp_path: Path) -> None:
    service = Service()
    service.answers = {1: "refused"}
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    assert outbox.flush()
    assert (outbox.waiting, [path.suffix for path in tmp_path.iterdir()]) == ([], [".refused"])
    assert outbox_to(service, tmp_path).waiting == []


def test_repeated_refusal_of_an_attempt_is_reported_as_its_failure(tmp_path: Path) -> None:
    """Without this report, the only worker of a search would lease the same job again and again."""
    service = Service()
    service.unreadable = "holds a NUL"
    outbox = outbox_to(service, tmp_path)
    for _ in range(MOST_REFUSALS):
        assert service.taken == []
        outbox.post(result(1))
        assert outbox.flush()
    (delivered,) = service.taken
    assert isinstance(delivered.report, EvaluateReport)
    assert delivered.report.outcome == LaunchFailed(
        reason="the service refuses the result of this job: outcome.reason: holds a NUL"
    )
    assert outbox.waiting == []


@pytest.mark.parametrize(
    "report",
    [
        BaselineReport(timings={}),
        ConfirmReport(failure=InvalidConfig(reason="x")),
        AblateReport(failure=InvalidConfig(reason="x")),
    ],
)
def test_report_of_any_kind_becomes_a_failure_after_repeated_refusals(tmp_path: Path, report: Report) -> None:
    service = Service()
    service.unreadable = "holds a NUL"
    outbox = outbox_to(service, tmp_path)
    for _ in range(MOST_REFUSALS):
        outbox.post(replace(result(1), report=report, contents={}))
        assert outbox.flush()
    (delivered,) = service.taken
    assert type(delivered.report) is type(report)
    assert "holds a NUL" in repr(delivered.report)


def test_unprocessable_result_is_set_aside_without_delaying_other_results(tmp_path: Path) -> None:
    service = Service()
    service.poison = 2
    outbox = outbox_to(service, tmp_path)
    for number in (1, 2, 3):
        outbox.post(result(number))
    assert not outbox.flush()
    assert service.reports == [1, 3]
    assert [outbox.flush() for _ in range(MOST_TRIES - 1)] == [False] * (MOST_TRIES - 2) + [True]
    assert [(path.name[:2], path.suffix) for path in tmp_path.iterdir()] == [("2-", ".refused")]
    assert outbox_to(service, tmp_path).waiting == []


@pytest.mark.parametrize("error", [AWAY, ServiceAway("502"), ForeignService("a page of a proxy")])
def test_proxy_errors_do_not_count_as_failures_of_a_result(tmp_path: Path, error: EvoError) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    service.error = error
    assert not any(outbox.flush() for _ in range(3 * MOST_TRIES))
    service.error = None
    assert outbox.flush()
    assert service.reports == [1]


def test_outbox_shrinks_requests_until_the_proxy_accepts_them(tmp_path: Path) -> None:
    service = Service()
    service.most_bytes = 1000
    outbox = outbox_to(service, tmp_path)
    for number in range(1, 13):
        outbox.post(result(number, content=bytes([number]) * 400))
    assert outbox.flush()
    assert sorted(service.reports) == list(range(1, 13))
    assert len({*service.artefacts, *service.stored_apart}) == 12


def test_result_is_delivered_without_an_artefact_beyond_the_proxy_limit(tmp_path: Path) -> None:
    service = Service()
    service.most_bytes = 1000
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1, content=b"x" * 2000))
    outbox.post(result(2, content=b"y" * 10))
    assert outbox.flush()
    assert service.reports == [1, 2]
    assert service.taken[0].report.artefacts == {}
    assert service.taken[1].report.artefacts == {"source": digest_of(b"y" * 10)}
    assert list(tmp_path.iterdir()) == []


def test_result_is_delivered_without_a_refused_artefact(tmp_path: Path) -> None:
    service = Service()
    service.refused_artefacts = True
    outbox = outbox_to(service, tmp_path)
    outbox.post(result(1))
    assert outbox.flush()
    (taken,) = service.taken
    assert isinstance(taken.report, EvaluateReport)
    assert taken.report.artefacts == {}


def test_outbox_on_a_full_disk_keeps_results_in_memory_and_reports_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service()
    outbox = outbox_to(service, tmp_path)

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        outbox.post(result(1))
    assert outbox.trouble is not None
    assert "kept only in memory" in outbox.trouble
    assert "No space left on device" in outbox.trouble
    outbox.post(result(2))
    assert outbox.trouble is None
    assert outbox.flush()
    assert service.reports == [1, 2]


def test_outbox_without_a_writable_folder_keeps_results_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    service = Service()
    outbox = outbox_to(service, tmp_path / "file" / "outbox")
    outbox.post(result())
    assert outbox.flush()
    assert service.reports == [1]


def test_outbox_thread_retries_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "FIRST_PAUSE_S", 0.001)
    service, tried, taken = Service(), threading.Event(), threading.Event()

    class Client:
        """A fake client whose service is unavailable at first."""

        def report_many(self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes]) -> tuple[Answer, ...]:
            if not tried.is_set():
                tried.set()
                raise AWAY
            answers = service.report_many(deliveries, contents=contents)
            taken.set()
            return answers

    outbox = Outbox(Client(), tmp_path)  # type: ignore[arg-type]
    outbox.start()
    outbox.post(result(1))
    assert taken.wait(60)
    outbox.close()
    assert service.reports == [1]
