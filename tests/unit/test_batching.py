"""Requests for the same search share a transaction, and a failing request does not affect other requests."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.scheduler.leasing.queue import MOST, Batcher


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Serving:
    """A handler that sums the requests of a batch; the first batch waits until it is released."""

    def __init__(self) -> None:
        self.turns: list[list[int]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, search_id: int, payload: Sequence[int]) -> Sequence[int]:
        self.turns.append(list(payload))
        self.begun.set()
        assert self.go_on.wait(60)
        if -1 in payload:
            raise ValueError("minus one")
        return [search_id + each for each in payload]


def served(batcher: Batcher[int, int], serving: Serving, payload: Sequence[int]) -> list[int | str]:
    """Submit requests during the first batch, and return the answers."""

    def ask(each: int) -> int | str:
        try:
            return batcher.submit(100, each)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(payload) + 1) as pool:
        first = pool.submit(ask, 0)
        assert serving.begun.wait(60)
        answers = [pool.submit(ask, each) for each in payload]
        wait_until(lambda: len(batcher._waiting[100]) == len(payload))
        serving.go_on.set()
        assert first.result(60) == 100
        return [answer.result(60) for answer in answers]


def test_requests_received_during_a_batch_share_the_next_batch() -> None:
    serving = Serving()
    batcher = Batcher(serving)
    assert served(batcher, serving, range(1, 9)) == list(range(101, 109))
    assert [len(turn) for turn in serving.turns] == [1, 8]
    assert not batcher._waiting, "served requests are removed from the queue"


def test_number_of_requests_in_a_batch_is_limited() -> None:
    serving = Serving()
    assert len(served(Batcher(serving), serving, range(1, MOST + 4))) == MOST + 3
    assert [len(turn) for turn in serving.turns] == [1, MOST, 3]


def test_failing_request_does_not_fail_other_requests_of_its_batch() -> None:
    serving = Serving()
    assert sorted(map(str, served(Batcher(serving), serving, [1, -1, 2]))) == ["101", "102", "minus one"]


def test_request_batches_of_different_searches_run_concurrently() -> None:
    serving = Serving()
    batcher = Batcher(serving)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(batcher.submit, search_id, 1) for search_id in (100, 200)]
        wait_until(lambda: len(serving.turns) == 2)
        serving.go_on.set()
        assert [answer.result(60) for answer in answers] == [101, 201]


def test_error_of_a_batched_request_is_raised_in_its_caller() -> None:
    serving = Serving()
    serving.go_on.set()
    with pytest.raises(ValueError, match="minus one"):
        Batcher(serving).submit(1, -1)
