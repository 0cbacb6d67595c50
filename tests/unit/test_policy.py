"""Policies are found by name, read from documents, and refused with a remedy if they are invalid."""

from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.promotion.policy import DECLARED, POLICIES, Policy, policy_from


@pytest.mark.parametrize("name", POLICIES)
def test_policy_is_found_by_its_name(name: str) -> None:
    assert policy_from(name) is POLICIES[name]
    assert policy_from({"base": name}) == POLICIES[name]


def test_policy_document_overrides_fields_of_its_base() -> None:
    policy = policy_from({"base": "l4-notes", "minimum_gain": 0.03, "max_registers": None})
    assert (policy.name, policy.minimum_gain, policy.max_registers) == ("custom", 0.03, None)
    assert policy.max_shared_memory_bytes == POLICIES["l4-notes"].max_shared_memory_bytes


def test_rule_threshold_comes_from_the_policy_or_is_the_default(declared: None) -> None:
    assert policy_from({"thresholds": {"rounds": 9}}).threshold("rounds") == 9
    assert Policy().threshold("rounds") == 3


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (7, "policy.thresholds: expected a table of numbers by rule, not 7"),
        ({"round": 7}, "policy.thresholds.round: there is no `round`; did you mean `rounds`?"),
        ({"rounds": "many"}, "policy.thresholds.rounds: expected a number, not 'many'"),
        ({"rounds": True}, "policy.thresholds.rounds: expected a number, not true"),
        ({"rounds": -1}, "policy.thresholds.rounds: must be at least 0; not -1"),
        ({"rounds": float("nan")}, "policy.thresholds.rounds: must be at least 0; not nan"),
        ({"rounds": 10**400}, "policy.thresholds.rounds: must be at least 0 and at most 1,000,000,000,000,000,000;"),
    ],
)
def test_invalid_threshold_of_a_rule_is_refused(declared: None, thresholds: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        policy_from({"thresholds": thresholds})
    assert message in str(refusal.value)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECLARED, "rounds", 3.0)


def test_policy_round_trips_through_a_document() -> None:
    assert policy_from(vars(Policy(name="mine", seeds=5))) == Policy(name="mine", seeds=5)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("defualt", "policy: there is no `defualt`; did you mean `default`? Policies: default, l4-final, l4-notes"),
        ({"base": "l4"}, "policy: there is no `l4`."),
        ({"minimal_gain": 0.1}, "policy.minimal_gain: there is no `minimal_gain`; did you mean `minimum_gain`?"),
        ({"quick_samples": "forty"}, "policy.quick_samples: expected a whole number, not 'forty'"),
        ({"quick_samples": 40.0}, "policy.quick_samples: expected a whole number, not 40.0"),
        ({"seeds": True}, "policy.seeds: expected a whole number, not true"),
        ({"max_registers": "many"}, "policy.max_registers: expected a whole number or null (no gate), not 'many'"),
        ({"minimum_gain": None}, "policy.minimum_gain: expected a number, not null"),
        ({"minimum_gain": 2}, "policy.minimum_gain: must be at least 0 and below 1, as a fraction: 0.02 is 2 %; not 2"),
        ({"confirm_samples": 3}, "policy.confirm_samples: must be at least 10; not 3"),
        ({"minimum_effect": float("nan")}, "policy.minimum_effect: must be at least 0; not nan"),
        ({"compile_timeout_s": 0}, "policy.compile_timeout_s: must be at least 0.1; not 0"),
        ({"verify_timeout_s": 1e308}, "policy.verify_timeout_s: must be at least 0.1 and at most 86,400; not 1e+308"),
        ({"quick_samples": 10**12}, "policy.quick_samples: must be at least 5 and at most 100,000; not"),
        ({"max_registers": 10**400}, "policy.max_registers: must be at least 0 and at most 1,000,000,000,000,000,000;"),
    ],
)
def test_invalid_policy_is_refused_with_a_remedy(document: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        policy_from(document)
    assert message in str(refusal.value)
