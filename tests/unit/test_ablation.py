"""Ablations choose the right changes, and classify the effect of each change."""

import numpy as np
import pytest

from evo.promotion.ablation import Change, changes, weigh
from evo.promotion.policy import Policy
from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.trial import Config
from evo.trial.results import Ablated
from evo.trial.timing import Timing


def constraint(text: str, because: str) -> Constraint:
    return Constraint(expression=Expression.parse(text, "here"), because=because)


SPACE = Space(
    [
        Tunable(name="FAST", values=(False, True)),
        Tunable(name="LAYOUT", values=("row", "column", "tiled")),
        Tunable(name="STAGES", values=(1, 2, 3)),
        Tunable(name="PAD", values=(0, 8)),
    ],
    [
        constraint("LAYOUT != 'tiled' or STAGES == 1", "tiles are not double-buffered"),
        constraint("FAST or PAD == 0 and STAGES == 1", "only the fast kernel has them"),
    ],
)
CHAMPION: Config = {"FAST": True, "LAYOUT": "row", "STAGES": 2, "PAD": 8}


def test_ablation_changes_one_switch_at_a_time() -> None:
    """A switch is a tunable with unordered values or with two values. Other tunables are changed only on request."""
    found = {(each.tunable, each.value): each for each in changes(SPACE, CHAMPION)}
    assert list(found) == [("FAST", False), ("LAYOUT", "column"), ("LAYOUT", "tiled"), ("PAD", 0)]
    assert found["PAD", 0] == Change(tunable="PAD", value=0, instead_of=8, config={**CHAMPION, "PAD": 0})
    more = [(each.tunable, each.value) for each in changes(SPACE, CHAMPION, values=True)]
    assert more == [*list(found)[:3], ("STAGES", 1), ("STAGES", 3), ("PAD", 0)]


def test_ablation_adds_changes_required_by_constraints_or_states_why_it_cannot() -> None:
    found = {(each.tunable, each.value): each for each in changes(SPACE, CHAMPION)}
    tiled = found["LAYOUT", "tiled"]
    assert (tiled.also, tiled.config) == ({"STAGES": 1}, {**CHAMPION, "LAYOUT": "tiled", "STAGES": 1})
    assert "tiles are not double-buffered" in tiled.reason
    slow = found["FAST", False]  # a constraint also requires changes of PAD and STAGES
    assert slow.config is None
    assert "only the fast kernel has them" in slow.reason


def ablated(factor: float, spread: float = 0.004, again: float = 1.0) -> Ablated:
    rng = np.random.default_rng(5)

    def timing(scale: float) -> Timing:
        return Timing(samples_us=tuple(100.0 * scale * rng.lognormal(0.0, spread, 100)))

    return Ablated(champion=timing(1.0), champion_again=timing(again), changed=timing(factor))


@pytest.mark.parametrize(
    ("samples", "finding"),
    [
        (ablated(1.10), "pays"),
        (ablated(0.90), "hurts"),
        (ablated(1.002), "nothing"),
        (ablated(1.0), "nothing"),
        (ablated(1.03, spread=0.2), "unclear"),
        (ablated(1.05, again=1.08), "unclear"),
    ],
)
def test_effect_of_an_ablated_change_is_classified_by_gain_and_noise_of_the_rounds(
    samples: Ablated, finding: str
) -> None:
    """A difference below the policy's minimum gain counts as no effect; a difference within the noise is unclear."""
    effect = weigh(samples, Policy(), np.random.default_rng(0))
    assert effect is not None
    assert effect.finding == finding
    assert effect.ratio.low <= effect.ratio.estimate <= effect.ratio.high


def test_ablated_change_without_effect_is_unclear_if_the_minimum_gain_is_almost_zero() -> None:
    """A change without effect is measured in 40 sessions. The policy's minimum gain is practically 0."""
    policy, rng = Policy(minimum_gain=1e-9), np.random.default_rng(1)
    found = []
    for _ in range(40):
        shared = rng.lognormal(0.0, 0.03, 60)
        own, again, changed = (Timing(samples_us=tuple(shared * rng.lognormal(0.0, 0.01, 60))) for _ in range(3))
        effect = weigh(Ablated(champion=own, champion_again=again, changed=changed), policy, rng)
        found.append(effect and effect.finding)
    assert found.count("unclear") >= 39


def test_effect_of_an_ablation_without_samples_is_none() -> None:
    assert weigh(Ablated(same_binary=True), Policy(), np.random.default_rng(0)) is None
