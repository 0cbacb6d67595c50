"""Selects the artefacts that a worker sends to the service with a result."""

from collections.abc import Mapping
from dataclasses import replace

from evo.export.headers import NAME as HEADERS
from evo.export.headers import pack_headers
from evo.lru_cache import LruCache
from evo.messages.job import Lease
from evo.text.limits import storable
from evo.trial.outcome import Measured
from evo.trial.results import ConfirmReport, EvaluateReport, Report
from workers.build.build import Built
from workers.build.own_headers import contents
from workers.delivery.outbox import digest_of
from workers.delivery.spool import PendingResult
from workers.jobs.evaluation import Preparation

_GOOD = 1.02
"""The binary of a trial is stored if the trial's time is at most this multiple of the search's best time so far."""

_FIRST = 5
"""The binary is also stored if the trial is among the `_FIRST` fastest trials of the search so far."""


_SEARCHES = 32
"""Maximum number of searches whose best times are remembered."""


class Shipping:
    """Packs results with their artefacts. Binaries are included only for trials that may become champions."""

    def __init__(self) -> None:
        self._best_us: LruCache[str, list[float]] = LruCache(_SEARCHES)

    def pack(self, lease: Lease, report: Report, built: Preparation) -> PendingResult:
        """Pack a report with source and compiler log and, for fast trials and challengers, binary, PTX and headers."""
        files: dict[str, bytes] = {}
        if isinstance(report, EvaluateReport) and "candidate" in built:
            files = _files(built["candidate"], binary=self._good(lease.terms.key, report))
        elif isinstance(report, ConfirmReport) and "challenger" in built:
            files = _files(built["challenger"], binary=True)
        return _result(lease, report, files)

    def _good(self, search: str, report: EvaluateReport) -> bool:
        if not isinstance(report.outcome, Measured):
            return False
        time_us = float(report.outcome.timing.median_us)
        best_us = self._best_us.get(search, list)
        best_us[:] = sorted([*best_us, time_us])[:_FIRST]
        return time_us <= max(_GOOD * best_us[0], best_us[-1])


def _files(built: Built, *, binary: bool) -> dict[str, bytes]:
    texts = {"source": built.source, "compiler.log": built.log}
    files = {name: storable(text).encode() for name, text in texts.items() if text}
    if binary and built.binary is not None:
        files["binary"] = built.binary
        if built.ptx:
            files["ptx"] = built.ptx
        if headers := contents(built.headers):
            files[HEADERS] = pack_headers(headers)
    return files


def _result(lease: Lease, report: Report, files: Mapping[str, bytes]) -> PendingResult:
    digests = {name: digest_of(content) for name, content in files.items()}
    if isinstance(report, EvaluateReport | ConfirmReport):
        report = replace(report, artefacts=digests)
    return PendingResult(
        attempt_id=lease.attempt_id,
        token=lease.token,
        report=storable(report),
        contents={digests[name]: content for name, content in files.items()},
    )
