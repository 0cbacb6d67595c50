"""Search views for tests of reports and displays."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evo.device import Device
from evo.messages.view import (
    BestView,
    ChallengeView,
    ChampionView,
    RetiredView,
    RooflineView,
    SearchView,
    SpaceView,
    TrialView,
)
from evo.promotion import Rule, Verdict
from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval
from evo.search.search import Budget
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.timing import Timing

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
CONFIG = {"BLOCK": 8, "FAST": True}
DEVICE = Device(kind="cpu", model="AMD EPYC", architecture="x86_64+avx2", uuid="cpu-1")

_RUNNING = SearchView(
    id=3,
    state="running",
    reason=None,
    family="sdpa",
    problem={"B": 1, "causal": False},
    problem_key="B=1,causal=false",
    device=DEVICE,
    objective=Objective(),
    strategy="portfolio",
    seed=7,
    budget=Budget(minutes=2.0),
    policy=Policy(),
    space=SpaceView(product_size=36_864, valid_count=4_608),
    counts={"measured": 40, "wrong_answer": 1, "compile_failed": 2},
    asked=44,
    finished=43,
    best=BestView(number=12, config=CONFIG, time_us=812.34),
    baselines={"numpy": Timing(samples_us=(2800.0,) * 5), "naive": Timing(samples_us=(9000.0,) * 5)},
    fastest_baseline="numpy",
    speedup=3.447,
    roofline=RooflineView(floor_us=490.0, bound="compute", share_of_best=0.603),
    champion=None,
    challenges=(),
    created_at=NOW,
    started_at=NOW,
    finished_at=None,
    elapsed_s=65.0,
    overhead_ms=9.2,
    overhead_mean_ms=11.4,
    delivery_ms=25.0,
)

VERDICT = Verdict(
    promote=True,
    summary="Promoted: the first champion.",
    rules=(
        Rule(name="first", passed=True, figure=0.0, threshold=0.0, text="There is no incumbent."),
        Rule(name="noise", passed=False, figure=0.05, threshold=0.02, text="It is noisy here.", required=False),
    ),
    challenger=Interval(low=805.0, estimate=810.0, high=815.2),
    baseline="numpy",
    baseline_speedup=Interval(low=3.41, estimate=3.45, high=3.5),
)

CHAMPION = ChampionView(
    id=5,
    family="sdpa",
    problem={"B": 1, "causal": False},
    problem_key="B=1,causal=false",
    device_model="AMD EPYC",
    objective=Objective(),
    search_id=3,
    trial_number=12,
    config=CONFIG,
    time_us=810.0,
    current=True,
    promoted_at=NOW,
    verdict=VERDICT,
)


ROLLED_BACK = RetiredView(id=5, trial=12, rolled_back=True, reason="rolled back: wrong for NaN")
PROMOTED = ChallengeView(trial=12, verdict=VERDICT)
_GAIN = "The challenger takes 1.0% less time; at least 2.0% less is needed."
REFUSED = ChallengeView(
    trial=11,
    verdict=Verdict(
        promote=False,
        summary="Not promoted: 1.0% less time than the incumbent; not met: gain.",
        rules=(Rule(name="gain", passed=False, figure=0.01, threshold=0.02, text=_GAIN),),
    ),
)


def view(**changes: Any) -> SearchView:
    """Return a view of a search in its second minute; keyword arguments replace fields."""
    return replace(_RUNNING, **changes)


def finished(**changes: Any) -> SearchView:
    """Return a finished search with a champion."""
    ended: dict[str, Any] = {"state": "finished", "reason": "minutes", "elapsed_s": 121.0, "asked": 43}
    return view(**{**ended, "champion": CHAMPION, "challenges": (PROMOTED,), **changes})


def estimated(**changes: Any) -> SearchView:
    """Return a finished search that compiled for a target and ran nothing."""
    nothing_ran: dict[str, Any] = {
        "device": Device(kind="estimate", model="compiler alone", architecture="any target", uuid="e"),
        "objective": Objective(target="NVIDIA L4"),
        "counts": {"estimated": 40, "compile_failed": 3},
        "baselines": {},
        "fastest_baseline": None,
        "speedup": None,
    }
    return finished(**{**nothing_ran, "champion": None, "challenges": (), **changes})


def trial(number: int, time_us: float, **config: Any) -> TrialView:
    outcome = Measured(timing=Timing(samples_us=(time_us,) * 3))
    return TrialView(
        id=number,
        search_id=3,
        number=number,
        config={**CONFIG, **config},
        origin="tpe",
        parents=(),
        outcome=outcome,
        time_us=time_us,
        cost=time_us,
    )
