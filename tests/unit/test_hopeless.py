"""A compile error common to all configs ends a search early."""

import time
from dataclasses import replace

import pytest

from evo.search.lifecycle import ALIKE, RUN_ALIKE, common_failure, same_error
from evo.trial import Proposal, Trial
from evo.trial.explain import detail_text
from evo.trial.outcome import (
    CompileFailed,
    Crashed,
    InvalidConfig,
    LaunchFailed,
    Measured,
    Outcome,
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
def test_error_of_all_configs_except_one_is_not_a_common_error(other: Outcome, place: int) -> None:
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
        WrongAnswer(reason="`out` holds NaN or infinity in 8 of 8 elements"),
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
        [WrongAnswer(reason="`out` holds NaN or infinity in 8 of 8 elements")] * RUN_ALIKE,
        [
            WrongAnswer(reason=f"`out` is off the reference by rel_l2 0.{n}e-{n} (limit 1e-06)")
            for n in range(RUN_ALIKE)
        ],
    ],
    ids=lambda outcomes: outcomes[0].kind,
)
def test_many_equal_failures_of_running_kernels_are_a_common_failure(outcomes: list[Outcome]) -> None:
    ended = trials(*outcomes)
    reason = common_failure(ended, ["A"])
    assert reason is not None and f"the first {RUN_ALIKE} configs" in reason and detail_text(outcomes[0]) in reason
    assert common_failure(ended[:-1], ["A"]) is None
    same = [replace(each, proposal=Proposal(config={"A": 1}, origin="random")) for each in ended]
    assert common_failure(same, ["A"]) is None, "the only value of A may be at fault"
    assert common_failure([*ended, *trials(MEASURED)], ["A"]) is None


def test_failures_of_running_kernels_in_different_cases_are_not_a_common_failure() -> None:
    cases = [WrongAnswer(reason=f"case {name}: `out` holds NaN") for name in ("nominal", "tail") * RUN_ALIKE]
    assert common_failure(trials(*cases), ["A"]) is None


def test_wrong_answers_with_different_values_are_not_a_common_failure() -> None:
    reasons = [WrongAnswer(reason=f"the largest error is at [7]: 2.{number} instead of 3.5") for number in range(ALIKE)]
    assert common_failure(trials(*reasons)) is None


def test_equal_wrong_answers_are_a_common_failure_only_if_the_failed_configs_differ_in_every_tunable() -> None:
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
def test_hostile_compile_log_is_read_in_linear_time(blanks: str) -> None:
    begun_s = time.process_time()
    assert same_error(trials(*[failed(f"error{blanks}x")] * ALIKE)) is None
    assert time.process_time() - begun_s < 2.0
