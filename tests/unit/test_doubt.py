"""`kernel-evo measure` doubts a time only if a rule about times fails twice, or if an output is wrong."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from evo.promotion import Rule
from workers.jobs.evaluation import Evaluator


def failed(name: str) -> Rule:
    return Rule(name=name, passed=False, figure=2.0, threshold=1.0, text=f"The challenger violates {name}.")


WORK, INPUTS, ANSWERS = map(failed, ("work", "inputs", "answers"))


@pytest.mark.parametrize(
    ("checks", "doubt"),
    [
        ([None], None),
        ([WORK, None], None),
        ([INPUTS, None], None),
        ([WORK, INPUTS], "The kernel violates inputs."),
        ([INPUTS, INPUTS], "The kernel violates inputs."),
        ([ANSWERS], "The kernel violates answers."),
        ([WORK, ANSWERS], "The kernel violates answers."),
    ],
)
def test_failed_timing_rule_counts_only_if_the_next_check_also_fails(
    monkeypatch: pytest.MonkeyPatch, checks: Sequence[Rule | None], doubt: str | None
) -> None:
    remaining = iter(checks)
    monkeypatch.setattr(Evaluator, "_refuting", lambda *_: next(remaining))
    evaluator = object.__new__(Evaluator)
    assert evaluator.doubt(cast(Any, None)) == doubt
    assert next(remaining, "none") == "none"
