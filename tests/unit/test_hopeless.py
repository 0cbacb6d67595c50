"""A compile error common to all configs ends a search early."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evo.search.lifecycle import ALIKE, RUN_ALIKE, common_failure, same_error
from evo.space import Constraint, Space, Tunable
from evo.space.coverage import Coverage
from evo.space.expression import Expression
from evo.strategy import Context, build
from evo.trial import Config, Proposal, Trial
from evo.trial.explain import detail_text
from evo.trial.history import History
from evo.trial.outcome import (
    CompileFailed,
    Crashed,
    InvalidConfig,
    LaunchFailed,
    Measured,
    Outcome,
    OverResources,
    TimedOut,
    WrongAnswer,
)
from evo.trial.timing import Timing

MEASURED = Measured(timing=Timing(samples_us=(1.0,)))


def trials(*outcomes: Outcome) -> list[Trial]:
    return [
        Trial(number=number, proposal=Proposal(config={"A": number}, origin="random"), outcome=each)
        for number, each in enumerate(outcomes)
    ]


def failed(log: str) -> CompileFailed:
    return CompileFailed(log=log)


@pytest.mark.parametrize(
    "log",
    [
        "kernel.c:{0}:5: error: unknown type name 'flaot'\n   {0} | flaot x;",
        "In file included from kernel.c:1:\nx.h:{0}:1: fatal error: nowhere.h: No such file or directory",
        'kernel.cu({0}): error: identifier "flaot" is undefined',
        'kernel.cu({0}): error #20: identifier "THREAD" is undefined',
        "kernel.c:{0}:1: error: expected ';' before 'return'",
    ],
)
def test_compile_error_common_to_the_first_configs_is_reported(log: str) -> None:
    ended = trials(*(failed(log.format(line)) for line in range(10, 10 + ALIKE)))
    error = same_error(ended)
    assert error is not None and error in log.format(10)
    assert same_error(ended[:-1]) is None


@pytest.mark.parametrize(
    "log",
    [
        'kernel.cu(7): error: static assertion failed with "tile"',
        "kernel.c:7:2: error: #error tile too large",
        "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)",
        "kernel.c:3:9: error: size of array 'x' exceeds maximum object size",
        "no word of what is wrong",
    ],
)
def test_compile_errors_that_depend_on_the_config_are_not_reported(log: str) -> None:
    assert same_error(trials(*(failed(log) for _ in range(3 * ALIKE)))) is None


@pytest.mark.parametrize(
    "other", [MEASURED, TimedOut(stage="compile", limit_s=1.0), failed("k.c:1:1: error: another fault")]
)
@pytest.mark.parametrize("place", [0, 3, ALIKE])
def test_compile_error_in_all_configs_except_one_is_not_common(other: Outcome, place: int) -> None:
    outcomes: list[Outcome] = [failed("k.c:1:1: error: unknown type name 'flaot'")] * (2 * ALIKE)
    outcomes[place] = other
    assert same_error(trials(*outcomes)) is None


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (LaunchFailed(reason="`k` has 3 parameters, but family.toml passes 4"), "cannot be launched for the same"),
        (LaunchFailed(reason="the library does not load: undefined symbol: helper"), "undefined symbol: helper"),
        (InvalidConfig(reason="kernel.c.j2: is UTF-16; save it as UTF-8"), "cannot be rendered for the same reason"),
        (WrongAnswer(reason="the largest error is at [7]: 2.5 instead of 3.5"), "return the same wrong value"),
        (failed("k.c:1:1: error: unknown type name 'flaot'"), "fail to compile with the same error: unknown type"),
    ],
)
def test_launch_failure_common_to_the_first_configs_is_reported(outcome: Outcome, says: str) -> None:
    reason = common_failure(trials(*([outcome] * ALIKE)))
    assert reason is not None and says in reason and f"the first {ALIKE} configs" in reason
    assert common_failure(trials(*([outcome] * (ALIKE - 1)))) is None
    assert common_failure(trials(*([outcome] * ALIKE), MEASURED)) is None


@pytest.mark.parametrize(
    "outcome",
    [
        LaunchFailed(reason="too many resources requested for launch"),
        LaunchFailed(reason="out of memory"),
        WrongAnswer(reason="`out` contains NaN or infinity in 8 of 8 elements"),
        Crashed(stage="verify", reason="killed by SIGSEGV"),
    ],
)
def test_failures_that_depend_on_the_config_are_not_a_common_failure(outcome: Outcome) -> None:
    assert common_failure(trials(*([outcome] * (3 * ALIKE)))) is None


@pytest.mark.parametrize(
    "outcomes",
    [
        [Crashed(stage="verify", reason=f"killed by SIGSEGV (peak memory {70 + n} MiB)") for n in range(RUN_ALIKE)],
        [TimedOut(stage="verify", limit_s=30.0)] * RUN_ALIKE,
        [WrongAnswer(reason="`out` contains NaN or infinity in 8 of 8 elements")] * RUN_ALIKE,
        [
            WrongAnswer(reason=f"`out` differs from the reference by rel_l2 0.{n}e-{n} (limit 1e-06)")
            for n in range(RUN_ALIKE)
        ],
    ],
    ids=lambda outcomes: outcomes[0].kind,
)
def test_many_equal_run_time_failures_are_a_common_failure(outcomes: list[Outcome]) -> None:
    ended = trials(*outcomes)
    reason = common_failure(ended, ["A"])
    assert reason is not None and f"the first {RUN_ALIKE} configs" in reason and detail_text(outcomes[0]) in reason
    assert common_failure(ended[:-1], ["A"]) is None
    same = [replace(each, proposal=Proposal(config={"A": 1}, origin="random")) for each in ended]
    assert common_failure(same, ["A"]) is None, "the only value of A may be at fault"
    assert common_failure([*ended, *trials(MEASURED)], ["A"]) is None


def test_run_time_failures_in_different_cases_are_not_a_common_failure() -> None:
    cases = [WrongAnswer(reason=f"case {name}: `out` contains NaN") for name in ("nominal", "tail") * RUN_ALIKE]
    assert common_failure(trials(*cases), ["A"]) is None


def test_wrong_answers_with_different_values_are_not_a_common_failure() -> None:
    reasons = [WrongAnswer(reason=f"the largest error is at [7]: 2.{number} instead of 3.5") for number in range(ALIKE)]
    assert common_failure(trials(*reasons)) is None


def test_equal_wrong_answers_are_common_only_if_the_configs_differ_in_every_tunable() -> None:
    """A correct kernel may need one value of a tunable that the first configs do not have."""
    ended = [
        replace(trial, proposal=Proposal(config={"A": trial.number, "EXACT": False}, origin="random"))
        for trial in trials(*[WrongAnswer(reason="the largest error is at [7]: 2.5 instead of 3.5")] * (2 * ALIKE))
    ]
    assert common_failure(ended, ["A", "EXACT"]) is None
    ended[-1] = replace(ended[-1], proposal=Proposal(config={"A": 0, "EXACT": True}, origin="random"))
    assert "differ in every tunable" in (common_failure(ended, ["A", "EXACT"]) or "")


def test_launch_failures_with_different_reasons_are_not_a_common_failure() -> None:
    reasons = [LaunchFailed(reason=f"symbol {chr(97 + number)}") for number in range(ALIKE)]
    assert common_failure(trials(*reasons)) is None


@pytest.mark.parametrize("blanks", [" " * 100_000, "\n" * 100_000])
def test_adversarial_compile_log_is_read_in_linear_time(blanks: str) -> None:
    begun_s = time.process_time()
    assert same_error(trials(*[failed(f"error{blanks}x")] * ALIKE)) is None
    assert time.process_time() - begun_s < 2.0


def space_of(*constraints: str, wide: int = 0, **values: list[int]) -> Space:
    """Return a space of four tunables and `wide` additional tunables with four values each."""
    tunables = {"BLOCK": [16, 32, 48, 64, 128], "UNROLL": [1, 2, 4], "PAD": [0, 1], "VEC": [1, 2, 4]} | values
    tunables |= {f"T{number}": [1, 2, 3, 4] for number in range(wide)}
    return Space(
        [Tunable(name=name, values=each) for name, each in tunables.items()],
        [Constraint(expression=Expression.parse(each, "constraints")) for each in constraints],
    )


def searched(
    space: Space, outcome: Callable[[Config], Outcome], *, strategy: str = "portfolio", most: int = 60
) -> tuple[str | None, int]:
    """Return the reason why a search ends before a config works, and the number of its trials."""
    history, coverage, proposer = History(), Coverage(space), build(strategy, Context(space=space))
    for number in range(most):
        proposal = proposer.propose(history, np.random.default_rng((5, number)))
        if proposal is None:
            break
        trial = history.ask(proposal)
        history.tell(replace(trial, outcome=outcome(trial.config)))
        if isinstance(history.finished[-1].outcome, Measured):
            break
        if (reason := common_failure(history.finished, space.names, coverage)) is not None:
            return reason, number + 1
    return None, len(history.finished)


def checked(config: Config, compiles: Callable[[Config], bool]) -> Outcome:
    return MEASURED if compiles(config) else failed("kernel.c:7:2: error: #error unsupported")


@pytest.mark.parametrize(
    "space",
    [
        space_of(),
        space_of("BLOCK % UNROLL == 0 and PAD + VEC < 5"),
        space_of(BLOCK=[8 * each for each in range(1, 9)]),
        space_of(wide=8),
    ],
    ids=["small", "constrained", "many values", "not enumerated"],
)
@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (failed("kernel.c:7:2: error: #error unsupported"), "fail to compile with the same error: #error unsupported"),
        (
            failed('k.cu(7): error: static assertion failed with "D"'),
            'fail to compile with the same error: static assertion failed with "D"',
        ),
        (failed("no such file"), "fail to compile with the same error: no such file"),
        (LaunchFailed(reason="out of memory"), "cannot be launched with the same error: out of memory"),
        (
            OverResources(resource="registers", used=300, limit=255),
            "exceed a limit with the same error: registers: 300",
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_equal_errors_for_all_pairs_of_values_end_a_search(space: Space, outcome: Outcome, says: str) -> None:
    reason, ended = searched(space, lambda _: outcome)
    assert reason is not None and RUN_ALIKE <= ended < 60
    assert f"the first {ended} configs {says}" in reason
    assert "add a constraint to family.toml that excludes the others" in reason


def test_static_assertions_that_differ_only_in_numbers_count_as_the_same_error() -> None:
    log = "kernel.c:{BLOCK}:2: error: static assertion failed: need {BLOCK} lanes"
    reason, _ = searched(space_of(), lambda config: failed(log.format(**config)))
    assert reason is not None and "the same error: static assertion failed: need" in reason


RARE: dict[str, Callable[[Config], bool]] = {
    "one value": lambda config: config["BLOCK"] == 48,
    "one pair": lambda config: (config["BLOCK"], config["UNROLL"]) == (128, 1),
    "other pair": lambda config: (config["VEC"], config["PAD"]) == (4, 1),
    "product": lambda config: int(config["BLOCK"]) * int(config["VEC"]) == 192,
}


@pytest.mark.parametrize("strategy", ["portfolio", "tpe", "evolution", "random"])
@pytest.mark.parametrize("rare", RARE)
@pytest.mark.parametrize("wide", [0, 8])
def test_equal_errors_do_not_end_a_search_with_rare_working_configs(strategy: str, rare: str, wide: int) -> None:
    reason, _ = searched(space_of(wide=wide), partial(checked, compiles=RARE[rare]), strategy=strategy)
    assert reason is None


@pytest.mark.parametrize("rare", RARE)
def test_default_strategy_finds_rare_working_configs_within_60_trials(rare: str) -> None:
    reason, ended = searched(space_of(wide=3), partial(checked, compiles=RARE[rare]))
    assert reason is None and ended < 60


def test_errors_that_differ_between_values_of_a_tunable_do_not_end_a_search() -> None:
    messages = {1: "#error one", 2: "#error two", 4: "#error four"}
    reason, ended = searched(space_of(), lambda config: failed(f"k.c:1:2: error: {messages[int(config['VEC'])]}"))
    assert (reason, ended) == (None, 60)


def test_search_does_not_end_early_if_the_space_has_too_many_value_pairs() -> None:
    values = list(range(400))
    assert searched(space_of(BLOCK=values, UNROLL=values), lambda _: failed("#error"), most=30) == (None, 30)


LARGE = {"A": [1, 2, 3, 4, 5, 6, 7, 8], "B": [1, 2, 3, 4, 5, 6, 7, 8], "C": [1, 2, 3]}


def large(*constraints: str) -> Space:
    """Return a space with too many pairs of values for a search of 60 trials."""
    return Space(
        [Tunable(name=name, values=values) for name, values in LARGE.items()],
        [Constraint(expression=Expression.parse(each, "constraints")) for each in constraints],
    )


def decided(error: str, *names: str) -> CompileFailed:
    return CompileFailed(log=f"kernel.c:7:2: error: {error}", decided_by=names)


STRATEGIES = ["portfolio", "tpe", "evolution", "random"]
CHECKS = ["#error unsupported", "static assertion failed: lanes", "unknown type name 'flaot'"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("error", CHECKS)
def test_error_that_depends_on_no_tunable_ends_a_search_of_a_large_space(strategy: str, error: str) -> None:
    reason, ended = searched(large(), lambda _: decided(error), strategy=strategy)
    assert ended == ALIKE and reason is not None and error in reason


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("error", CHECKS)
def test_error_that_depends_on_one_tunable_ends_the_search_after_all_of_its_values(strategy: str, error: str) -> None:
    tried: list[Config] = []

    def outcome(config: Config) -> Outcome:
        tried.append(config)
        return decided(error, "A")

    reason, ended = searched(large(), outcome, strategy=strategy)
    assert reason is not None and error in reason and 8 <= ended < 60
    assert {config["A"] for config in tried} == {*LARGE["A"]}
    assert {config["A"] for config in tried[:-1]} < {*LARGE["A"]}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("error", CHECKS)
def test_search_continues_until_all_combinations_of_the_relevant_tunables_failed(strategy: str, error: str) -> None:
    """The source has a clause ``#if A == 8 && B == 5``, and an error in its ``#else``."""

    def outcome(config: Config) -> Outcome:
        return MEASURED if (config["A"], config["B"]) == (8, 5) else decided(error, "A", "B")

    reason, ended = searched(large(), outcome, strategy=strategy, most=192)
    assert reason is None and ended <= 192


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_shared_memory_above_the_limit_in_all_combinations_ends_a_search(strategy: str) -> None:
    over = OverResources(resource="shared_memory_bytes", used=300_000, limit=101_376, decided_by=("A",))
    reason, ended = searched(large(), lambda _: over, strategy=strategy)
    assert reason is not None and "exceed a limit: shared_memory_bytes: 300,000" in reason
    assert "These configs have every value of A" in reason and ended < 60
    unknown = replace(over, decided_by=None)
    assert searched(large(), lambda _: unknown, strategy=strategy) == (None, 60)


def test_search_ends_without_trying_combinations_that_constraints_exclude() -> None:
    reason, ended = searched(large("A == B"), lambda _: decided("#error unsupported", "A", "B"), most=24)
    assert reason is not None and ended < 24
    assert "These configs have every combination of A, B, and no other tunable affects this" in reason


def test_search_ends_if_error_directives_with_different_texts_cover_all_values() -> None:
    reason, ended = searched(
        large(), lambda config: decided("#error low", "A") if int(config["A"]) < 5 else decided("#error high", "A")
    )
    assert reason is not None and "every value of A" in reason and ended < 60


def test_error_directives_with_unknown_conditions_do_not_end_a_search_early() -> None:
    unknown = failed("kernel.c:7:2: error: #error unsupported")
    reason, ended = searched(large(), lambda config: unknown if config["C"] == 2 else decided("#error unsupported"))
    assert (reason, ended) == (None, 60)


def test_error_directive_is_recognised_in_the_line_that_clang_shows() -> None:
    log = "k.c:2:2: error: unsupported\n    2 | #error unsupported\n      |  ^\n"
    assert same_error(trials(*[failed(log)] * ALIKE)) is None
    assert same_error(trials(*[failed(log.replace("#error", "x ="))] * ALIKE)) == "unsupported"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_try_new_pairs_of_values_while_no_config_works(strategy: str) -> None:
    """With random configs, 40 trials have about 30 of the 64 pairs of two tunables with eight values."""
    pairs: set[tuple[object, object]] = set()

    def outcome(config: Config) -> Outcome:
        pairs.add((config["A"], config["B"]))
        return failed("kernel.c:7:2: error: #error unsupported")

    searched(large(), outcome, strategy=strategy, most=40)
    assert len(pairs) > 36
