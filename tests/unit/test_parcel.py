"""Results reach the service once it is there, even in the worker's next life, and never pile up for nothing."""

from pathlib import Path

import pytest

from evo.client import ServiceError, ServiceUnreachable
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.job import EvaluateReport, Report
from evo.outcome import InvalidConfig
from workers.parcel import Outbox, Parcel, digest_of

AWAY = ServiceUnreachable("away")


class Service:
    """Takes what a client delivers, or raises what it is told to."""

    def __init__(self) -> None:
        self.error: EvoError | None = None
        self.reports: list[int] = []
        self.artefacts: list[str] = []

    def put_artefact(self, digest: str, content: bytes) -> None:
        self._maybe_fail()
        self.artefacts.append(digest)

    def report(self, attempt_id: int, token: str, report: Report) -> None:
        self._maybe_fail()
        self.reports.append(attempt_id)

    def _maybe_fail(self) -> None:
        if self.error is not None:
            raise self.error


def parcel(attempt_id: int = 1, content: bytes = b"\x00source") -> Parcel:
    report = EvaluateReport(outcome=InvalidConfig(reason="x"), artefacts={"source": digest_of(content)})
    return Parcel(attempt_id=attempt_id, token="t", report=report, contents={digest_of(content): content})


def test_artefacts_come_before_the_report_and_only_once(tmp_path: Path) -> None:
    service = Service()
    outbox = Outbox(service, tmp_path)
    assert outbox.send(parcel(1))
    assert outbox.send(parcel(2))
    assert service.reports == [1, 2]
    assert service.artefacts == [digest_of(b"\x00source")]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [AWAY, ServiceError("500")])
def test_while_the_service_is_away_results_wait_in_order(tmp_path: Path, error: EvoError) -> None:
    service = Service()
    outbox = Outbox(service, tmp_path)
    service.error = error
    assert not outbox.send(parcel(1))
    assert not outbox.send(parcel(2))
    assert not outbox.flush()
    service.error = None
    assert outbox.flush()
    assert service.reports == [1, 2]
    assert not list(tmp_path.iterdir())


def test_a_killed_worker_delivers_in_its_next_life(tmp_path: Path) -> None:
    service = Service()
    service.error = AWAY
    Outbox(service, tmp_path).send(parcel(7))
    (tmp_path / "8.json").write_text('{"attempt_id": 8, "tok')  # cut off
    service.error = None
    reborn = Outbox(service, tmp_path)
    assert reborn.flush()
    assert (service.reports, len(service.artefacts)) == ([7], 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [Conflict("stale"), NotFound("no such attempt"), InvalidInput("report", "odd")])
def test_what_the_service_refuses_for_good_is_dropped(tmp_path: Path, error: EvoError) -> None:
    service = Service()
    service.error = error
    outbox = Outbox(service, tmp_path)
    assert outbox.send(parcel())
    service.error = None
    assert outbox.flush()
    assert service.reports == []


def test_without_a_writable_folder_memory_serves(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    service = Service()
    service.error = AWAY
    outbox = Outbox(service, tmp_path / "file" / "outbox")
    assert not outbox.send(parcel())
    service.error = None
    assert outbox.flush()
    assert service.reports == [1]
