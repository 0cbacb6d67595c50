"""A search proposes trials, records outcomes, restarts, stops, challenges and prunes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evo.errors import Conflict, EvoError, InvalidInput
from evo.promotion import Verdict
from evo.promotion.challenge import Challenge, Incumbent, bar, comparable_us
from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval
from evo.search.search import Budget, Logged, Search
from evo.space import Space
from evo.space.recording import Recording
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.parts.initial_design import FIRST, SHARE
from evo.trial import Trial
from evo.trial.history import ELITES
from evo.trial.outcome import Cancelled, CompileFailed, Measured, Outcome
from evo.trial.timing import Bars, Timing
from tests.tiers import one_in
from tests.unit.landscapes import SPACES


def start(space: Space, name: str = "random", seed: int = 0, policy: Policy | None = None, **budget: Any) -> Search:
    strategy = build(name, Context(space=space))
    return Search(space=space, strategy=strategy, budget=Budget(**budget), policy=policy or Policy(), seed=seed)


def ended(trial: Trial, outcome: Outcome) -> Trial:
    return replace(trial, outcome=outcome)


def lasting(us: float) -> Outcome:
    return Measured(timing=Timing(samples_us=(us,)))


def run(search: Search, times: Sequence[float]) -> list[Logged]:
    """For each time, propose a trial and record its time. Return the logged trials."""
    log = []
    for us in times:
        trial = search.ask()
        assert trial is not None
        log.append(search.tell(ended(trial, lasting(us))))
    return log


def tell(search: Search, us: float, binary: str | None) -> None:
    """Propose one trial and record its time and binary."""
    trial = search.ask()
    assert trial is not None
    search.tell(replace(ended(trial, lasting(us)), binary_digest=binary))


class Worker:
    """A fake worker that replays outcomes of a search, and keeps the log that a database would store."""

    def __init__(self, recording: Recording, space: Space, name: str, slots: int) -> None:
        self.recording, self.space, self.name, self.slots = recording, space, name, slots
        self.stored: dict[int, Logged] = {}
        self.search = start(space, name, seed=5)

    def turn(self) -> None:
        while len(self.search.history.pending) < self.slots:
            trial = self.search.ask()
            assert trial is not None
            seen = self.search.history.seen[trial.number]
            self.stored[trial.number] = Logged(trial=trial, seen=seen, position=None)
        pending = list(self.search.history.pending.values())
        trial = pending[len(self.stored) * 7 % len(pending)]
        outcome = self.recording.outcome(self.space.key(trial.config))
        self.stored[trial.number] = self.search.tell(ended(trial, outcome))

    def restart(self) -> None:
        self.search = start(self.space, self.name, seed=5)
        self.search.restore(reversed(self.stored.values()))


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("slots", "every"), one_in(2, [(1, 7), (1, 1), (3, 10), (3, 1)]))
def test_restarted_search_proposes_the_same_trials_in_the_same_order(
    name: str, slots: int, every: int, recording: Recording, space: Space
) -> None:
    steady, shaken = (Worker(recording, space, name, slots) for _ in range(2))
    for turn in range(60):
        steady.turn()
        shaken.turn()
        if turn % every == 0:
            shaken.restart()
    assert shaken.stored == steady.stored
    assert shaken.search.history.seen == steady.search.history.seen
    assert shaken.search.history.finished == steady.search.history.finished


@pytest.mark.parametrize("name", STRATEGIES)
def test_seed_determines_the_trials_of_a_search(name: str, recording: Recording, space: Space) -> None:
    configs = []
    for seed in (11, 11, 12):
        search = start(space, name, seed=seed)
        for _ in range(30):
            trial = search.ask()
            assert trial is not None
            search.tell(ended(trial, recording.outcome(space.key(trial.config))))
        configs.append([trial.config for trial in search.history.asked])
    assert configs[0] == configs[1] != configs[2]


def test_tell_returns_the_log_entry_of_the_trial(space: Space) -> None:
    search = start(space)
    first, second = search.ask(), search.ask()
    assert first is not None and second is not None
    outcome = lasting(3)
    assert search.tell(ended(second, outcome)) == Logged(trial=ended(second, outcome), seen=0, position=0)
    third = search.ask()
    assert third is not None
    assert search.tell(ended(third, outcome)) == Logged(trial=ended(third, outcome), seen=1, position=1)


def test_second_outcome_of_a_trial_is_refused(space: Space) -> None:
    search = start(space)
    trial = search.ask()
    assert trial is not None
    with pytest.raises(EvoError, match="trial 0 has no outcome"):
        search.tell(trial)
    search.tell(ended(trial, lasting(1)))
    with pytest.raises(Conflict, match="trial 0 is not pending"):
        search.tell(ended(trial, lasting(1)))
    with pytest.raises(Conflict, match="trial 9 is not pending"):
        search.tell(ended(replace(trial, number=9), lasting(1)))
    assert len(search.history.finished) == 1


def shifted(log: Sequence[Logged], place: int, **changes: Any) -> list[Logged]:
    return [replace(entry, **changes) if at == place else entry for at, entry in enumerate(log)]


@pytest.mark.parametrize(
    ("place", "changes", "reason"),
    [
        (1, {"position": 3}, "order of ended trials has gaps"),
        (2, {"position": None}, "order of ended trials has gaps|both an outcome and a position"),
        (
            3,
            {"position": None},
            "trial 3 must have both an outcome and a position, or neither; start a new search, or restore a backup",
        ),
        (2, {"seen": 3}, "number of trials that had ended when trial 2 was proposed is wrong"),
        (3, {"seen": 9}, "number of trials that had ended when trial 3 was proposed is wrong"),
        (1, {"seen": -1}, "number of trials that had ended when trial 1 was proposed is wrong"),
        (2, {"seen": 0}, "fewer trials had ended when trial 2 was proposed than when trial 1 was"),
    ],
)
def test_contradictory_trial_log_is_refused(place: int, changes: dict[str, Any], reason: str, space: Space) -> None:
    log = run(start(space), [4, 3, 2, 1])
    with pytest.raises(EvoError, match=reason):
        start(space).restore(shifted(log, place, **changes))


def test_trial_log_with_a_missing_trial_is_refused(space: Space) -> None:
    log = run(start(space), [4, 3, 2, 1])
    with pytest.raises(EvoError, match="not numbered 0, 1, 2"):
        start(space).restore(log[1:])


def test_log_can_be_restored_only_into_a_search_without_trials(space: Space) -> None:
    search = start(space)
    log = run(search, [1])
    with pytest.raises(EvoError, match="without trials"):
        search.restore(log)


# Stopping


def test_search_stops_proposing_once_its_trial_budget_is_used(space: Space) -> None:
    search = start(space, trials=3)
    run(search, [1, 2])
    assert search.stop_reason(0) is None
    assert search.ask() is not None
    assert search.stop_reason(0) == "trials"


def test_search_stops_after_its_time_budget(space: Space) -> None:
    search = start(space, minutes=1.5)
    assert search.stop_reason(89.9) is None
    assert search.stop_reason(90.0) == "minutes"


def test_search_stops_after_its_stagnation_budget(space: Space) -> None:
    search = start(space, stagnation=3)
    run(search, [5, 6, 4, 9, 9])
    assert (search.stagnant, search.stop_reason(0)) == (2, None)
    run(search, [4])
    assert (search.stagnant, search.stop_reason(0)) == (3, "stagnation")
    assert search.best is not None
    assert search.best.number == 2


def test_search_without_measured_trials_stagnates(space: Space) -> None:
    search = start(space, stagnation=4)
    for _ in range(4):
        assert search.stop_reason(0) is None
        trial = search.ask()
        assert trial is not None
        search.tell(ended(trial, CompileFailed(log="no")))
    assert search.stop_reason(0) == "stagnation"
    assert search.best is None


def test_search_stops_when_every_config_was_proposed() -> None:
    search = start(SPACES["one point"](), trials=10)
    assert search.stop_reason(0) is None
    assert search.ask() is not None
    assert search.stop_reason(0) == "exhausted"
    assert search.ask() is None


def test_space_of_unknown_size_is_exhausted_when_the_strategy_has_no_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SPACES["one point"]()
    monkeypatch.setattr(space, "valid_count", None)
    search = start(space)
    assert search.ask() is not None
    assert search.stop_reason(0) is None
    assert search.ask() is None
    assert search.stop_reason(0) == "exhausted"


def test_search_without_a_budget_continues(space: Space) -> None:
    search = start(space)
    run(search, [1] * 30)
    assert search.stop_reason(1e9) is None


@pytest.mark.parametrize("field", ["trials", "minutes", "stagnation"])
@pytest.mark.parametrize("limit", [0, -1])
def test_budget_must_be_greater_than_zero(field: str, limit: int) -> None:
    with pytest.raises(InvalidInput, match=f"budget.{field}"):
        Budget(**{field: limit})


# Challenges and pruning


def test_best_trial_challenges_at_intervals_and_at_the_end_of_a_search(space: Space) -> None:
    search = start(space, policy=Policy(challenge_every=5))
    run(search, [9, 8, 7, 6])
    assert search.challengers.due(None, ended=False) is None
    run(search, [5])
    due = search.challengers.due(None, ended=False)
    assert due is not None
    assert due.number == 4
    assert search.challengers.begin(due) == Challenge(number=4, seen=5)
    run(search, [4, 4, 4, 4])
    assert search.challengers.due(5.0, ended=False) is None
    at_the_end = search.challengers.due(5.0, ended=True)
    assert at_the_end is not None
    assert at_the_end.number == 5


def test_trial_challenges_only_if_it_is_faster_than_the_incumbent(space: Space) -> None:
    search = start(space)
    run(search, [9, 8, 7])
    assert search.challengers.due(7.0, ended=True) is None
    due = search.challengers.due(7.1, ended=True)
    assert due is not None
    assert due.number == 2


def test_fastest_trials_challenge_after_the_last_trial_up_to_the_limit_of_the_policy(space: Space) -> None:
    search = start(space)
    run(search, [3, 1, 2, 4, 5])
    challengers = []
    while (due := search.challengers.due(None, ended=True)) is not None:
        challengers.append(due.number)
        search.challengers.begin(due)
    assert challengers == [1, 2, 0]


def test_refuted_challengers_do_not_keep_other_trials_from_challenging(space: Space) -> None:
    search = start(space, policy=Policy(challengers=2, final_challengers=3))
    run(search, [1, 2, 3, 4, 5, 6, 7, 8])
    challengers = []
    while (due := search.challengers.due(None, ended=True)) is not None:
        search.challengers.begin(due)
        if due.number < 2:
            search.challengers.refuted(due.number)
        challengers.append(due.number)
    assert challengers == [0, 1, 2, 3]
    swarm = start(space, policy=Policy(challengers=2, final_challengers=3))
    run(swarm, [1, 2, 3, 4, 5, 6, 7, 8])
    for number in range(2 + 3):
        due = swarm.challengers.due(None, ended=True)
        assert due is not None and due.number == number
        swarm.challengers.learn(Challenge(number=number, seen=8, refuted=True))
    assert swarm.challengers.due(None, ended=True) is None, "at most three are replaced"


def test_number_of_remaining_challenges_is_known_when_a_challenge_begins(space: Space) -> None:
    search = start(space, policy=Policy(challengers=4, final_challengers=3))
    run(search, [3, 1, 2, 4, 5])
    counts = []
    while (due := search.challengers.due(3.5, ended=True)) is not None:
        search.challengers.begin(due)
        counts.append(search.challengers.further(3.5))
    assert counts == [2, 1, 0]
    few = start(space, policy=Policy(challengers=4, final_challengers=2))
    run(few, [3, 1, 2, 4, 5])
    first = few.challengers.due(None, ended=True)
    assert first is not None
    few.challengers.begin(first)
    assert few.challengers.further(None) == 1, "the policy allows one further challenge"


def test_configs_with_the_same_binary_challenge_only_once(space: Space) -> None:
    search = start(space)
    binaries = ["own", "twin", "twin", "twin", "other", None]
    for us, binary in zip([1, 2, 2, 2, 3, 4], binaries, strict=True):
        tell(search, us, binary)
    challengers = []
    while (due := search.challengers.due(None, ended=True, besides=["own"])) is not None:
        challengers.append(due.number)
        search.challengers.begin(due)
    assert challengers == [1, 4, 5]


def test_challenger_must_beat_the_time_that_the_champion_had_in_this_search(space: Space) -> None:
    search = start(space)
    run(search, [120, 117])
    own, other = search.history.finished
    old = Incumbent(id=3, config=own.config, cost=100.0, here=None)
    again = bar(old, search.history.finished, Policy(minimum_gain=0.02))
    assert again.below == pytest.approx(117.6), "the champion was slower in this search than in its confirmation"
    assert again.missed_by(other).startswith(
        "Trial 1 (117 µs) did not challenge: champion 3 took 120 µs as trial 0 of this search"
    )
    assert again.missed_by(other).endswith("needed less than 117.6 µs (minimum_gain of the policy: 2.0%).")
    assert "minimum_gain" not in bar(old, [other], Policy()).missed_by(other)
    assert bar(old, [other], Policy()).below == pytest.approx(110.0)
    assert bar(replace(old, here=100.0), [other], Policy(minimum_gain=0.02)).below == pytest.approx(98.0)
    lucky = replace(own, outcome=lasting(90))
    confirmed = bar(replace(old, here=100.0), [lucky], Policy(minimum_gain=0.02))
    assert "champion 3 took 100 µs in its confirmation (corrected for the device's speed)" in confirmed.missed_by(other)
    assert bar(replace(old, here=100.0), [lucky], Policy(minimum_gain=0.02)).below == pytest.approx(98.0)


@pytest.mark.parametrize(
    ("confirmed_us", "over_baseline", "baseline_us", "expected_us"),
    [
        (120.0, 2.0, 240.0, 120.0),  # the baseline is as fast as before
        (120.0, 2.0, 200.0, 100.0),  # the baseline took 200 µs in the search, but 240 µs in the confirmation
        (120.0, 2.0, 300.0, 120.0),  # a slower baseline in the search does not raise the confirmed time
        (120.0, 2.0, None, 120.0),
        (120.0, None, 240.0, 120.0),
    ],
)
def test_corrected_time_excludes_the_slowdown_of_the_baseline(
    confirmed_us: float, over_baseline: float | None, baseline_us: float | None, expected_us: float
) -> None:
    speedup = None if over_baseline is None else Interval(estimate=over_baseline, low=1.0, high=3.0)
    verdict = Verdict(
        promote=True,
        summary="",
        rules=(),
        challenger=Interval(estimate=confirmed_us, low=110.0, high=130.0),
        baseline=None if speedup is None else "library",
        baseline_speedup=speedup,
    )
    baselines = {} if baseline_us is None else {"library": Timing(samples_us=(baseline_us,))}
    assert comparable_us(verdict, baselines) == pytest.approx(expected_us)
    assert comparable_us(replace(verdict, challenger=None), baselines) is None
    assert comparable_us(None, baselines) is None


def test_search_without_measured_trials_has_no_challenger(space: Space) -> None:
    search = start(space)
    trial = search.ask()
    assert trial is not None
    search.tell(ended(trial, Cancelled()))
    assert search.challengers.due(None, ended=True) is None


def test_challenges_of_a_search_are_restored_after_a_restart(space: Space) -> None:
    search = start(space, policy=Policy(challenge_every=2))
    log = run(search, [3, 2])
    due = search.challengers.due(None, ended=False)
    assert due is not None
    noted = search.challengers.begin(due)
    again = start(space, policy=Policy(challenge_every=2))
    again.restore(log, [noted])
    assert again.challengers.due(None, ended=False) is None
    assert again.challengers.due(2.0, ended=True) is None
    unaware = start(space, policy=Policy(challenge_every=2))
    unaware.restore(log)
    assert unaware.challengers.due(None, ended=False) == due


def test_confirmation_corrects_the_times_of_all_configs_with_its_binary(space: Space) -> None:
    search = start(space, policy=Policy(minimum_gain=0.02))
    for us, binary in zip([3, 1, 1.2, 2], ["a", "lucky", "lucky", "b"], strict=True):
        tell(search, us, binary)
    search.challengers.confirmed(3, 2.03)
    assert search.history.corrected == {}, "the difference is too small to count as a gain"
    search.challengers.confirmed(1, 2.5)
    assert search.history.corrected == {1: 2.5, 2: 2.5}, "the correction applies to all configs with the same binary"
    tell(search, 1.1, "lucky")
    assert search.history.corrected == {1: 2.5, 2: 2.5, 4: 2.5}, "this applies to later trials"
    search.challengers.confirmed(1, 2.9)
    assert search.history.corrected == {1: 2.5, 2: 2.5, 4: 2.5}
    assert search.history.finished[1].time_us == 1, "outcomes are not changed"
    assert [trial.number for trial in search.history.elites(5)] == [3, 1, 2, 4, 0]


def test_corrected_quick_times_do_not_block_later_challengers(space: Space) -> None:
    search = start(space)
    for number in range(Policy().challengers):
        tell(search, 50 + number, f"lucky {number}")
        search.challengers.begin(search.history.finished[number])
        search.challengers.confirmed(number, 100)
    tell(search, 90, "true")
    assert search.best is not None and search.best.number == Policy().challengers
    assert search.stagnant == 0
    assert search.challengers.due(100.0, ended=True) == search.best


def test_search_whose_quick_times_are_all_too_low_ends_after_the_final_challengers(space: Space) -> None:
    search, confirmed = start(space), 0
    for number in range(3 * Policy().final_challengers):
        tell(search, 50 + number, f"{number}")
    while (due := search.challengers.due(None, ended=True)) is not None:
        search.challengers.begin(due)
        search.challengers.confirmed(due.number, 100)
        confirmed += 1
    assert confirmed == Policy().final_challengers


def test_pruning_thresholds_count_each_binary_once_and_use_confirmed_times(space: Space) -> None:
    search = start(space, policy=Policy(prune_ratio=2, shorten_ratio=1, hopeless_ratio=None))
    for _ in range(ELITES):
        tell(search, 50, "lucky")
    assert search.bars() == Bars(shorten_us=100)
    for number in range(ELITES - 1):
        tell(search, 60 + number, f"{number}")
    assert search.bars() == Bars(prune_us=132, shorten_us=66)
    search.challengers.confirmed(0, 100)
    assert search.bars() == Bars(prune_us=200, shorten_us=100)


def test_confirmed_times_of_a_search_are_restored_after_a_restart(space: Space) -> None:
    search = start(space)
    log = run(search, [3, 1, 2])
    due = search.challengers.due(None, ended=True)
    assert due is not None
    begun = search.challengers.begin(due)
    search.challengers.confirmed(due.number, 2.5)
    again = start(space)
    again.restore(log, [replace(begun, time_us=2.5)])
    assert again.history.corrected == search.history.corrected == {1: 2.5}
    assert [again.ask() for _ in range(3)] == [search.ask() for _ in range(3)]


def test_prune_ratio_applies_only_once_there_are_eight_elites(space: Space) -> None:
    search = start(space, policy=Policy(prune_ratio=1.5, shorten_ratio=1.25, hopeless_ratio=4))
    assert search.bars() == Bars()
    run(search, list(range(100, 100 + ELITES - 1)))
    assert search.bars() == Bars(shorten_us=150, hopeless_us=400)
    run(search, [200])
    assert search.bars() == Bars(prune_us=300, shorten_us=250, hopeless_us=800)
    run(search, [10])
    slowest = 100 + ELITES - 2
    assert search.bars() == Bars(prune_us=1.5 * slowest, shorten_us=1.25 * slowest, hopeless_us=4 * slowest)


def test_all_samples_are_taken_without_prune_and_shorten_ratio(space: Space) -> None:
    search = start(space, policy=Policy(prune_ratio=None, shorten_ratio=None, hopeless_ratio=None))
    run(search, [1] * 2 * ELITES)
    assert search.bars() == Bars()


@pytest.mark.parametrize("missing", ["prune_ratio", "shorten_ratio"])
def test_shorten_ratio_applies_before_eight_elites_exist_only_if_prune_ratio_is_set(space: Space, missing: str) -> None:
    without: dict[str, Any] = {missing: None}
    search = start(space, policy=replace(Policy(hopeless_ratio=None), **without))
    run(search, [1])
    assert search.bars() == Bars()


@pytest.mark.parametrize("name", STRATEGIES)
def test_portfolio_search_waits_while_the_maximum_number_of_trials_is_pending(space: Space, name: str) -> None:
    search = start(space, name)
    patient = name == "portfolio"
    for under_way in (FIRST, FIRST, int(SHARE * 2 * FIRST)):  # pending trials after 0, FIRST and 2 * FIRST ended trials
        for _ in range(under_way):
            assert not search.full
            assert search.ask() is not None
        assert search.full == patient
        for trial in list(search.history.pending.values()):
            search.tell(ended(trial, lasting(9.0)))
        assert search.most_pending == (max(FIRST, int(SHARE * len(search.history.finished))) if patient else None)


def test_every_trial_has_a_generator_seeded_by_its_number(space: Space) -> None:
    """The generator is seeded with (seed, number), so draws of one trial do not affect the next trial."""
    search = start(space, seed=3)
    run(search, [1, 1])
    trial = search.ask()
    assert trial is not None
    exclude = {space.key(earlier.config) for earlier in search.history.asked[:2]}
    assert space.sample(np.random.default_rng((3, 2)), 1, exclude=exclude) == [trial.config]
