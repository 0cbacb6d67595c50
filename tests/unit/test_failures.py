"""Periodic tasks process all other items if one item fails."""

import pytest

from api.operations import failures
from api.operations.failures import Failures
from db.engine.session import StoreUnavailable


def test_periodic_task_abandons_a_repeatedly_failing_item_and_processes_other_items() -> None:
    given_up: list[tuple[int, str]] = []
    loop = Failures("number", lambda key, reason: given_up.append((key, reason)))
    done: list[int] = []
    for turn in range(1, failures.MOST + 1):
        assert given_up == []
        loop.each([1, 2, 3], lambda item: done.append(item) if item != 2 else 1 // 0, key=int)
        assert done == [1, 3] * turn
    assert given_up == [(2, "ZeroDivisionError: integer division or modulo by zero")]


def test_periodic_task_counts_only_consecutive_failures_of_an_item() -> None:
    given_up: list[int] = []
    loop = Failures("number", lambda key, _: given_up.append(key))
    for turn in range(3 * failures.MOST):

        def work(_: int, turn: int = turn) -> None:
            if turn % failures.MOST:
                raise ZeroDivisionError

        loop.each([1], work, key=int)
    assert given_up == []


def test_error_while_a_periodic_task_abandons_an_item_does_not_stop_other_items() -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError

    loop, done = Failures("number", refuse), list[int]()
    for _ in range(failures.MOST):
        loop.each([1, 2], lambda item: done.append(item) if item == 2 else 1 // 0, key=int)
    assert done == [2] * failures.MOST


def test_unavailable_database_ends_a_periodic_task_without_abandoning_items() -> None:
    asked: list[int] = []

    def away(item: int) -> None:
        asked.append(item)
        raise StoreUnavailable("away")

    loop = Failures("number", lambda *_: pytest.fail("no item may be abandoned"))
    for _ in range(2 * failures.MOST):
        asked.clear()
        with pytest.raises(StoreUnavailable):
            loop.each(range(100), away, key=int)
        assert len(asked) == failures.MOST_UNAVAILABLE


def test_periodic_task_processes_other_items_if_the_row_of_an_item_is_locked() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item % 2:
            raise StoreUnavailable("the row is locked")
        done.append(item)

    Failures("number", lambda *_: None).each(range(10), work, key=int)
    assert done == [0, 2, 4, 6, 8]
