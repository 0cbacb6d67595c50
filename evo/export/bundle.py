"""The files of an exported champion. Users run these files without kernel-evo."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.export.compiled import FORMS, Compiled, as_json
from evo.export.evidence import evidence_json, evidence_schema, series
from evo.export.report import evidence_markdown, profile_markdown
from evo.family import Candidate
from evo.messages.view import ChampionView, SearchView
from evo.trial.timing import Timing


def refuse_unexportable(champion: ChampionView, search: SearchView) -> None:
    """Refuse a champion that has no kernel to export.

    Raises:
        InvalidInput: the champion's device is neither a CPU nor a CUDA device, e.g. a recording.
    """
    if search.device.kind not in FORMS:
        raise InvalidInput(
            "champion_id",
            f"champion {champion.id} was measured on a device of kind {search.device.kind}; "
            f"only {' and '.join(FORMS)} kernels can be exported",
        )


@dataclass(frozen=True, kw_only=True)
class Bundle(Compiled):
    """A champion to export, with its search, source and binary.

    Attributes:
        page: the champion's report as an HTML page; None if there is none.
    """

    champion: ChampionView
    page: bytes | None = None

    def files(self) -> dict[str, bytes]:
        """Return the content of each file, by file name."""
        champion = self.champion
        extra = {
            "evidence.json": evidence_json(champion, self.search),
            "evidence.schema.json": as_json(evidence_schema()),
            "samples.csv": samples_csv(series(champion)),
            "report.md": evidence_markdown(champion, self.search, self.build_command(champion.config)).encode(),
            **({} if self.page is None else {"report.html": self.page}),
        }
        if (profile := profile_markdown(champion)) is not None:
            extra["profile_summary.md"] = profile.encode()
        return {**self.working_files(champion.config, family_digest=champion.family_digest, promoted=True), **extra}

    @property
    def candidate(self) -> Candidate:
        return self.candidate_of(self.champion.config)


def samples_csv(taken: Iterable[tuple[str, int, Timing]]) -> bytes:
    """Return a CSV file with one line per sample: series, process, round and time in µs.

    Args:
        taken: name, process number and samples of each series.
    """
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(("series", "process", "round", "time_us"))
    for name, process, timing in taken:
        table.writerows((name, process, index, repr(sample)) for index, sample in enumerate(timing.samples_us, 1))
    return written.getvalue().encode()
