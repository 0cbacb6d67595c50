"""Simulates workers that evaluate a player's proposals on a recorded space."""

import heapq
import time

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Player
from tests.bench.strategy.run import Course, Run

PROTOCOL = "1"
"""Version of the simulation. It increases with every change after which earlier runs are not comparable."""


class Simulation:
    """Simulation of a run: evaluations run in parallel, proposals and results are processed one at a time."""

    def __init__(self, ground: Ground, player: Player, course: Course) -> None:
        self._ground = ground
        self._player = player
        self._course = course
        self._now_s = 0.0
        self._running: list[tuple[float, int, int]] = []
        self._asked = 0
        self._exhausted = False
        self._run = Run(places=[], ended_s=[], asking_s=[], asks=0)

    def play(self) -> Run:
        self._fill()
        while self._running:
            self._collect()
            if not self._over():
                self._fill()
        run = self._run
        return Run(places=run.places, ended_s=run.ended_s, asking_s=run.asking_s, asks=self._player.asks)

    def _fill(self) -> None:
        """Give a config to each idle worker. Results that arrive meanwhile are recorded before the next proposal."""
        while self._wanted():
            begun = time.process_time()
            place = self._player.ask()
            self._spend(begun)
            if place is None:
                self._exhausted = True
                return
            cost_s = 1.0 if self._course.clock == "steps" else float(self._ground.costs_s[place])
            heapq.heappush(self._running, (self._now_s + cost_s, self._asked, place))
            self._asked += 1
            self._told_until_now()

    def _wanted(self) -> bool:
        idle = len(self._running) < self._course.workers and not self._player.full
        return idle and not self._exhausted and not self._over()

    def _collect(self) -> None:
        self._now_s = max(self._now_s, self._running[0][0])
        self._told_until_now()

    def _told_until_now(self) -> None:
        while self._running and self._running[0][0] <= self._now_s:
            ended_s, _, place = heapq.heappop(self._running)
            self._run.places.append(place)
            self._run.ended_s.append(ended_s)
            begun = time.process_time()
            self._player.tell(place)
            self._spend(begun, telling=True)

    def _spend(self, begun: float, *, telling: bool = False) -> None:
        spent_s = time.process_time() - begun
        if telling and self._run.asking_s:
            self._run.asking_s[-1] += spent_s
        else:
            self._run.asking_s.append(spent_s)
        if self._course.clock == "recorded":
            self._now_s += spent_s

    def _over(self) -> bool:
        course = self._course
        if course.goal is not None and self._run.evaluations_to(self._ground, course.goal) < float("inf"):
            return True
        return self._asked >= course.trials and self._now_s >= course.until_s
