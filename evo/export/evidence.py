"""The evidence of a champion, including all samples, as a JSON document with a schema."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from evo.device import Device
from evo.messages.view import ChampionView, RooflineView, SearchView
from evo.promotion import Verdict
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The shortest possible time of the problem on the device (roofline limit).

    Attributes:
        floor_us: the limit in µs.
        bound: ``compute`` if the arithmetic takes longer, ``memory`` if moving the data from caches and memory does.
        share: the limit divided by the kernel's time; None if the limit is 0.
    """

    floor_us: float
    bound: str
    share: float | None


def limit_of(roofline: RooflineView | None, time_us: float) -> Limit | None:
    """Return the roofline limit and the share of it that `time_us` reaches.

    The result is None if the device's peak rates or the family's operation counts are unknown.
    """
    if roofline is None:
        return None
    return Limit(floor_us=roofline.floor_us, bound=roofline.bound, share=roofline.share(time_us))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence of a promotion.

    Attributes:
        champion, search, trial: numbers of the champion and its search and trial in the exporting service.
        time_us: the champion's median time in µs, from the first process of its confirmation.
        roofline: the roofline limit and the share of it that the champion reaches; None if unknown.
        verdict, report: decision and measurements of the confirmation; None if the service did not send them.
    """

    champion: int
    search: int
    trial: int
    promoted_at: datetime
    device: Device
    objective: Objective
    policy: Policy
    time_us: float
    roofline: Limit | None
    verdict: Verdict | None
    report: ConfirmReport | None


@cache
def _document() -> TypeAdapter[Evidence]:
    """Return the serializer of `Evidence`. It is built at its first use, so that the service starts faster."""
    return TypeAdapter(Evidence)


def evidence_json(champion: ChampionView, search: SearchView) -> bytes:
    """Return the evidence as JSON that conforms to `evidence_schema`."""
    evidence = Evidence(
        champion=champion.id,
        search=champion.search_id,
        trial=champion.trial_number,
        promoted_at=champion.promoted_at,
        device=search.device,
        objective=champion.objective,
        policy=search.policy,
        time_us=champion.time_us,
        roofline=limit_of(search.roofline, champion.time_us),
        verdict=champion.verdict,
        report=champion.report,
    )
    plain = _document().dump_python(evidence, mode="json")
    return json.dumps(plain, indent=2, ensure_ascii=False).encode() + b"\n"


def evidence_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the evidence."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernel-evo evidence",
        **_document().json_schema(mode="serialization"),
    }


def series(champion: ChampionView) -> Iterator[tuple[str, int, Timing]]:
    """Yield the name, the process number (from 1) and the samples of each series of the champion's confirmation."""
    if champion.report is not None:
        yield from confirmed_series(champion.report, "champion")


def confirmed_series(report: ConfirmReport, own: str) -> Iterator[tuple[str, int, Timing]]:
    """Yield the name, the process number (from 1) and the samples of each series of a confirmation.

    Args:
        own: name to use for the challenger's series.
    """
    named = {
        own: report.challenger,
        f"{own} again": report.challenger_again,
        "incumbent": report.incumbent,
        **report.baselines,
    }
    yield from ((name, 1, timing) for name, timing in named.items() if timing is not None)
    for process, each in enumerate(report.repeats, 2):
        yield own, process, each.challenger
        if each.other is not None:
            yield report.repeated_against or "other", process, each.other
