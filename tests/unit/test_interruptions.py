"""Interruptions of a process are detected by comparing the wall clock with a steady clock."""

import pytest

from api.scheduler.interruptions import LEAST_S, TICK_S, Interruptions


class Clocks:
    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1e9, 100.0
        self.interruptions = Interruptions(lambda: self.wall_s, lambda: self.steady_s)

    def run(self, seconds: float) -> float:
        """Advance both clocks by equal steps, and return the seconds of interruptions detected so far."""
        for _ in range(int(seconds / TICK_S)):
            self.wall_s += TICK_S
            self.steady_s += TICK_S
            self.interruptions.lost_s()
        return self.interruptions.lost_s()


def test_running_process_has_no_interruption() -> None:
    assert Clocks().run(1000) == 0.0


@pytest.mark.parametrize(
    ("wall_s", "steady_s"),
    [(3600, 3600), (3600, 0), (-3600, 0), (3600, 0.5), (-3600, 0.5), (86_400, 86_400)],
    ids=["stopped", "asleep", "set back", "set forward", "set back later", "stopped for a day"],
)
def test_interruption_of_the_process_is_counted_once(wall_s: float, steady_s: float) -> None:
    clocks = Clocks()
    clocks.run(10)
    clocks.wall_s += wall_s
    clocks.steady_s += steady_s
    lost_s = clocks.interruptions.lost_s()
    assert lost_s == pytest.approx(wall_s, abs=LEAST_S)
    assert clocks.run(100) == lost_s


def test_slow_correction_of_the_clock_does_not_count_as_an_interruption() -> None:
    clocks = Clocks()
    for _ in range(1000):
        clocks.wall_s += 0.01
        clocks.run(TICK_S)
    assert clocks.interruptions.lost_s() == 0.0


def test_durations_of_several_interruptions_of_a_process_are_added() -> None:
    clocks = Clocks()
    for seconds in (50.0, -20.0):
        clocks.wall_s += seconds
        clocks.run(10)
    assert clocks.interruptions.lost_s() == 30.0
