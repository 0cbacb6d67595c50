"""Time limits exclude the time in which the process is stopped."""

import pytest

from workers.system.seconds import LONGEST_TICK_S, TICK_S, Countdown


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def wait(countdown: Countdown, clock: Clock, *, late_s: float = 0.0) -> float:
    """Wait until the countdown is over; return the seconds of all waits."""
    steps_s: list[float] = []

    def pass_time(step_s: float) -> bool:
        steps_s.append(step_s)
        clock.now_s += step_s + late_s * (step_s > 0.0)
        return False

    assert countdown.until(pass_time) is False
    assert steps_s[-1] == 0.0
    return sum(steps_s)


@pytest.mark.parametrize("limit_s", [0.0, 0.2, 0.5, 7.3, 60.0])
def test_countdown_of_a_running_process_ends_at_its_limit(limit_s: float) -> None:
    clock = Clock()
    assert wait(Countdown(limit_s, clock), clock) == pytest.approx(limit_s)
    assert clock.now_s - 100.0 == pytest.approx(limit_s)


@pytest.mark.parametrize("stopped_s", [LONGEST_TICK_S, 60.0, 86_400.0])
def test_countdown_ignores_time_while_the_process_is_stopped(stopped_s: float) -> None:
    clock = Clock()
    countdown = Countdown(10.0, clock)
    steps_s: list[float] = []

    def stop(step_s: float) -> bool:
        steps_s.append(step_s)
        clock.now_s += stopped_s
        return len(steps_s) == 3

    assert countdown.until(stop) is True
    assert steps_s == [TICK_S] * 3
    assert countdown.left_s() == pytest.approx(10.0 - 3 * TICK_S)


def test_countdown_includes_delays_of_a_busy_process() -> None:
    clock = Clock()
    wait(Countdown(10.0, clock), clock, late_s=LONGEST_TICK_S - TICK_S - 0.1)
    assert clock.now_s - 100.0 < 10.0 + LONGEST_TICK_S
