"""Every threshold that decides about a champion is a field of the policy."""

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from api.scheduler.leasing.claims import queued
from api.scheduler.lifecycle import challenge
from api.scheduler.results.store import settle
from evo import promotion
from evo.errors import InvalidInput
from evo.promotion.challenge import Challengers, bar
from evo.promotion.policy import Policy, policy_from
from evo.promotion.rules.base import Confirmation
from evo.promotion.rules.comparison import effect_rule
from evo.report.comparison import compare
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing
from workers.build.kernel import Argument
from workers.measure.checks.suspicion import most_disagreement

PROCEDURES = {"policy", "statistics"}
"""Modules that may have constants: the policy, and numerical procedures, whose constants set the precision."""

OTHER_CONSTANTS = {
    "api.scheduler.leasing.claims.FIRST_RESULTS_S": "affects only when work is assigned",
    "api.scheduler.leasing.claims.SHORT_MINUTES": "affects only when work is assigned",
    "api.scheduler.results.store._SEED_BITS": "affects only how hard it is to guess a seed",
    "evo.promotion.rules.base.LAST": "affects only the order of rules",
    "evo.promotion.rules.profile.GATES": "its numbers are signs; the limits are fields of the policy",
    "evo.promotion.rules.sequential.STEP": "affects only how often rounds are checked",
    "evo.promotion.rules.sequential._MEDIAN": "a property of the normal distribution",
    "evo.promotion.rules.sequential._QUARTILES": "a property of the normal distribution",
    "evo.promotion.rules.steady._PARTS": "defines which rounds the rule compares; its threshold is in the policy",
    "evo.promotion.rules.steady._LEAST_ROUNDS": "a third of fewer rounds has no useful median",
}
"""Numeric constants that need not be in the policy, each with the reason."""

REMEDY = """Numbers that decide which trial becomes champion belong to the policy, so that a search can change them:
- The threshold of a rule: declare it with `@rule("NAME", threshold=…)` and read `policy.threshold("NAME")`.
- Any other number: add a field to the class `Policy` in evo/promotion/policy.py.
A constant that does not decide is added to OTHER_CONSTANTS of this test, with the reason."""


def deciding() -> Iterator[ModuleType]:
    """Yield all modules that decide whether a report leads to a promotion."""
    for each in pkgutil.walk_packages(promotion.__path__, f"{promotion.__name__}."):
        if each.name.rpartition(".")[2] not in PROCEDURES:
            yield import_module(each.name)
    for deciding in (queued, challenge, settle, bar, Challengers):
        module = inspect.getmodule(deciding)
        assert module is not None
        yield module


def numbers(source: str) -> dict[str, int]:
    """Return the line of each module-level constant whose value contains a number, by name."""
    found: dict[str, int] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in assigned(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = assigned(node.target, node.value)
        else:
            continue
        found |= {ast.unparse(name): node.lineno for name, value in pairs if has_number(value)}
    return found


def assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the names and values of an assignment. The parts of two tuples of equal length are separate pairs."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def has_number(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in ast.walk(value))


def test_numbers_that_decide_about_a_champion_are_in_the_policy() -> None:
    found: dict[str, str] = {}
    for module in deciding():
        path = Path(str(module.__file__))
        for name, line in numbers(path.read_text(encoding="utf-8")).items():
            found[f"{module.__name__}.{name}"] = f"{path}:{line}: the constant `{name}` is a number or contains one."
    wrong = [found[name] for name in sorted(found.keys() - OTHER_CONSTANTS)]
    assert not wrong, "\n".join([*wrong, REMEDY])
    assert found.keys() >= OTHER_CONSTANTS.keys(), "remove constants that no longer exist from OTHER_CONSTANTS"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("_TAIL = 90", {"_TAIL"}),
        ("_TAIL: Final = 0.9", {"_TAIL"}),
        ("_PARTS, _NAME = 3, 'steady'", {"_PARTS"}),
        ("_LIMITS = (1.5, 2.0)", {"_LIMITS"}),
        ("_LIMITS: dict[str, float] = {'p90': -1.1}", {"_LIMITS"}),
        ("_NEEDED = math.log(1.02)", {"_NEEDED"}),
        ("_FIRST = _LAST = 9", {"_FIRST", "_LAST"}),
        ("NAME, STRICT = 'tail', True", set()),
        ("_limit: float", set()),
    ],
)
def test_numeric_constants_of_a_module_are_found(source: str, names: set[str]) -> None:
    assert set(numbers(source)) == names


def test_effect_rule_trims_the_share_of_samples_set_in_the_policy() -> None:
    ours, theirs = [1.0] * 7 + [9.0] * 3, [2.0, 2.1] * 5
    one, other = Timing(samples_us=tuple(ours)), Timing(samples_us=tuple(theirs))
    found = [
        rule
        for trim in (0.0, 0.4)
        for rule in effect_rule(
            Confirmation(report=ConfirmReport(), policy=Policy(effect_trim=trim), ours=one, theirs=other)
        )
    ]
    assert [rule.passed for rule in found] == [False, True]
    assert "40% trimmed" in found[1].text


def test_comparison_of_two_trials_trims_the_share_of_samples_set_in_the_policy() -> None:
    left, right = (Timing(samples_us=tuple(values)) for values in ([1.0, 1.1] * 4 + [9.0] * 2, [2.0, 2.1] * 5))
    found = [compare(left, right, Policy(effect_trim=trim), np.random.default_rng(0)) for trim in (0.0, 0.3)]
    assert [each is not None and each.effect > 1.0 for each in found] == [False, True]


@pytest.mark.parametrize(("sets", "allowed"), [(2, 1.5), (4, 3.75), (6, 6.0), (64, 6.0)])
def test_permitted_slowdown_of_calls_on_separate_buffers_comes_from_the_policy(sets: int, allowed: float) -> None:
    arguments = [Argument(name="y", role="output", dtype="float32", shape=(4096,))]
    policy = Policy(max_ring_ratio=1.5, max_ring_ratio_of_caches=6.0)
    assert most_disagreement(arguments, sets, {"l1_bytes": 128 << 10}, policy) == allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"effect_trim": 0.5},
        {"least_rounds": 4},
        {"judged_calls": 15},
        {"max_ring_ratio": 0.9},
        {"max_ring_ratio_of_caches": 0.9},
        {"max_ring_ratio_of_memory": 0.9},
        {"suspect_speedup": 0.5},
        {"other_unit_s": -1.0},
        {"reference_failures": 0},
        {"session_share": 1.0},
    ],
)
def test_policy_thresholds_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidInput, match=f"policy.{name}: must be at least"):
        policy_from(wrong)


@pytest.mark.parametrize(("sets", "limit"), [(2, 1.25), (8, 4.0)])
def test_permitted_slowdown_of_calls_on_separate_buffers_is_larger_for_many_memory_pages(
    sets: int, limit: float
) -> None:
    arguments = [Argument(name="y", role="output", dtype="float32", shape=(8_192,))]
    assert most_disagreement(arguments, sets, {"l1_bytes": 1 << 30}, Policy()) == limit
    assert most_disagreement(arguments, sets, {"l2_bytes": 1 << 30}, Policy()) == 1.25


@pytest.mark.parametrize(("mebibytes", "limit"), [(1, 1.25), (16, 4.0), (128, 4.0), (2048, 1.25)])
def test_permitted_slowdown_of_calls_on_separate_buffers_counts_only_a_part_of_a_shared_cache(
    mebibytes: int, limit: float
) -> None:
    arguments = [Argument(name="y", role="output", dtype="float32", shape=(mebibytes << 18,))]
    caches = {"l1_bytes": 1 << 40, "l3_bytes": 480 << 20}
    assert most_disagreement(arguments, 4, caches, Policy(), shared_inputs=False) == limit


@pytest.mark.parametrize(("sets", "limit"), [(10, 1.25), (20, 4.0)])
def test_permitted_slowdown_of_gpu_calls_on_separate_buffers_counts_two_copies_of_the_data(
    sets: int, limit: float
) -> None:
    arguments = [Argument(name=name, role="input", dtype="float16", shape=(512, 512)) for name in "ab"]
    arguments.append(Argument(name="c", role="output", dtype="float16", shape=(512, 512)))
    limits = {"l2_bytes": 60 << 20}
    assert most_disagreement(arguments, sets, limits, Policy(), shared_inputs=False) == limit
    assert most_disagreement(arguments, sets, limits | {"l1_bytes": 1 << 40}, Policy(), shared_inputs=False) == 1.25


@pytest.mark.parametrize(
    ("sets", "fast_us", "limit"),
    [
        (16, 1.0, 25.0),
        (16, 8.0, 1.25 * (1 + 77.65 / 8)),
        (16, 40.0, 1.25 * (1 + 77.65 / 40)),
        (16, 1e6, 1.25),
        (1, 10.0, 1.25 * (1 + 25.88 / 10)),  # outputs are always loaded from memory
    ],
)
def test_permitted_slowdown_of_calls_on_separate_buffers_includes_loading_them_from_memory(
    sets: int, fast_us: float, limit: float
) -> None:
    arguments = [Argument(name=name, role="input", dtype="float32", shape=(65_536,)) for name in "xy"]
    arguments.append(Argument(name="out", role="output", dtype="float32", shape=(65_536,)))
    caches = {"l1_bytes": 1 << 40, "l2_bytes": 2 << 20}
    given = {"fast_us": fast_us, "bytes_per_s": 3 * 4 * 65_536 / 58e-6}
    found = most_disagreement(arguments, sets, caches, Policy(), shared_inputs=False, **given)
    assert found == pytest.approx(limit, rel=1e-3)
