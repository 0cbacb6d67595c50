"""Candidates of a search that compile to the same binary are measured once."""

from dataclasses import dataclass, field

from evo.client import Client
from evo.errors import EvoError
from evo.lru_cache import LruCache
from evo.messages.job import Evaluate, Lease, SearchTerms
from evo.trial.results import EvaluateReport

SEARCHES = 32
"""Number of remembered searches; for a forgotten one, the service is queried."""


@dataclass
class _Search:
    reports: dict[str, EvaluateReport] = field(default_factory=dict)
    expected: set[int] = field(default_factory=set)


class Duplicates:
    """Reports by binary: from memory for this process, from the service for other workers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._searches: LruCache[str, _Search] = LruCache(SEARCHES)

    def expect(self, lease: Lease) -> None:
        """Record that this process measures a trial."""
        if isinstance(lease.job, Evaluate):
            self._of(lease.terms).expected.add(lease.job.number)

    def find(self, lease: Lease, digest: str) -> EvaluateReport | None:
        """Return the report on an earlier trial of the same binary, for variants also of another variant of the family.

        None if there is none or the service fails.
        """
        if (known := self._of(lease.terms).reports.get(digest)) is not None:
            return known
        if self._measured_all_before(lease):
            return None
        try:
            return self._client.find_duplicate(lease.terms.search_id, digest)
        except EvoError:
            return None

    def note(self, terms: SearchTerms, report: EvaluateReport) -> None:
        if report.binary_digest is not None:
            self._of(terms).reports[report.binary_digest] = report

    def _of(self, terms: SearchTerms) -> "_Search":
        return self._searches.get(terms.key, _Search)

    def _measured_all_before(self, lease: Lease) -> bool:
        """True if this process measured all earlier trials of the search, so the service knows no others."""
        if not isinstance(lease.job, Evaluate) or lease.terms.family.variant:
            return False
        mine = self._of(lease.terms).expected
        return mine.issuperset(range(lease.job.number))
