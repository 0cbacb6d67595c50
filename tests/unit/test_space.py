"""Spaces enumerate or sample their valid configs, and find neighbours."""

import itertools
import math
import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.space import Constraint, EmptySpace, Space, Tunable
from evo.space.bounds import can_hold
from evo.space.enumeration import MOST_CELLS, WIDTH, Lister, built
from evo.space.expression import Expression
from evo.space.plan import START, Plan
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.unit.random_expressions import NUMBERS, PYTHON, by_python, expressions

NAMES = ("A", "B", "C", "D")
VALUES = ([1, 2, 4, 8], [1, 2, 3], [-2, 0, 5], [0.5, 1.0], ["x", "y", "z"], [False, True], [7])
TERMS = [
    "{}",
    "({} * {})",
    "({} + {})",
    "({} - {})",
    "min({}, {})",
    "max({}, 2)",
    "abs({})",
    "(-{})",
    "ceil_div({}, 3)",
]
TERMS += ["({} % 3)", "({} // 2)", "({} / 4)", "({} if {} > 1 else 3)", "gcd(6, 4)", "({} ** 2)", "({} in (1, 2))"]
CLAIMS = [
    "{} <= {}",
    "{} < 5",
    "{} == {}",
    "{} != {}",
    "{} in (1, 2, 4)",
    "{} not in (1, {})",
    "1 < {} <= {}",
    "{} > K",
]
RANGES = [(-2, 0, 3), (1, 2), (4, 9)]
JOINS = ["{}", "{} or {}", "not ({})", "{} and {}", "{} if {} else {}"]


def tunable(name: str, values: Any, **given_: Any) -> Tunable:
    return Tunable(name=name, values=values, **given_)


def constraint(text: str, because: str = "") -> Constraint:
    return Constraint(expression=Expression.parse(text, "here"), because=because)


def digits(count: int, values: int = 10) -> list[Tunable]:
    return [tunable(f"t{index}", range(values)) for index in range(count)]


def brute_force(tunables: list[Tunable], texts: list[str], constants: dict[str, Any]) -> list[dict[str, Any]]:
    points = itertools.product(*(each.values for each in tunables))
    configs = [dict(zip([each.name for each in tunables], point, strict=True)) for point in points]
    return [config for config in configs if all(eval(text, PYTHON, constants | config) for text in texts)]


def fill(draw: st.DrawFn, forms: list[str], part: Any) -> str:
    form = draw(st.sampled_from(forms))
    return form.format(*(part() for _ in range(form.count("{}"))))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Tunable], list[str]]:
    """Return random tunables and constraints. Tunables with strings as values occur only in comparisons."""
    names = NAMES[: draw(st.integers(1, 4))]
    tunables = [tunable(name, draw(st.sampled_from(VALUES))) for name in names]
    numeric = [each.name for each in tunables if not isinstance(each.values[0], str)] or ["K"]
    texts = [each.name for each in tunables if isinstance(each.values[0], str)]

    def term() -> str:
        return fill(draw, TERMS, lambda: draw(st.sampled_from([*numeric, "K", "3"])))

    def claim() -> str:
        if bool(texts) and draw(st.booleans()):
            return f"{draw(st.sampled_from(texts))} {draw(st.sampled_from(['==', '!=', '<']))} 'y'"
        return fill(draw, CLAIMS, term)

    return tunables, [fill(draw, JOINS, claim) for _ in range(draw(st.integers(0, 3)))]


@settings(max_examples=300)
@given(problem=problems())
def test_valid_configs_equal_a_brute_force_enumeration_in_lexicographic_order(
    problem: tuple[list[Tunable], list[str]],
) -> None:
    tunables, texts = problem
    expected = brute_force(tunables, texts, {"K": 2})
    if not expected:
        with pytest.raises(EmptySpace):
            Space(tunables, [constraint(text) for text in texts], {"K": 2})
        return
    space = Space(tunables, [constraint(text) for text in texts], {"K": 2})
    assert [space.decode(row) for row in space.indices] == expected
    assert space.valid_count == len(expected)
    for point in itertools.product(*(each.values for each in tunables)):
        config = dict(zip(space.names, point, strict=True))
        assert (config in space) == (config in expected)
        assert (not space.violations(config)) == (config in expected)


@settings(max_examples=300)
@given(problem=problems(), bound=st.sets(st.sampled_from(NAMES)))
def test_interval_bounds_never_exclude_a_satisfiable_constraint(
    problem: tuple[list[Tunable], list[str]], bound: set[str]
) -> None:
    tunables, texts = problem
    free = {
        each.name: (float(min(each.values)), float(max(each.values)))
        for each in tunables
        if each.name not in bound and not isinstance(each.values[0], str)
    }
    for text in texts:
        for config in brute_force(tunables, [text], {"K": 2}):
            known = {"K": 2} | {name: value for name, value in config.items() if name in bound}
            assert can_hold(Expression.parse(text, "here"), known, free)


@settings(max_examples=300)
@given(
    text=expressions(), bound=st.sets(st.sampled_from(NUMBERS)), values=st.sampled_from([(-2, 0, 3), (1, 2), (4, 9)])
)
def test_interval_bounds_never_report_a_satisfiable_expression_as_false(
    text: str, bound: set[str], values: tuple[int, ...]
) -> None:
    free = {name: (float(min(values)), float(max(values))) for name in NUMBERS if name not in bound}
    for point in itertools.product(values, repeat=3):
        config = dict(zip(NUMBERS, point, strict=True)) | {"t": "x"}
        if by_python(text, config) not in (False, ZeroDivisionError):
            known = {"t": "x"} | {name: config[name] for name in bound}
            assert can_hold(Expression.parse(text, "here"), known, free)


def test_interval_bounds_use_already_bound_values_and_conditions() -> None:
    decided = Expression.parse("(8 * N if MODE == 'wide' else N) <= (16 if FAST else 4)", "here")
    bound = {"MODE": np.array(["wide", "wide", "narrow", "narrow"]), "FAST": np.array([True, False, True, False])}
    assert can_hold(decided, bound, {"N": (2.0, 16.0)}).tolist() == [True, False, True, True]
    assert can_hold(decided, bound, {"N": (5.0, 16.0)}).tolist() == [False, False, True, False]
    assert can_hold(decided, {"N": np.array([4, 5, 17])}, {}).tolist() == [True, True, False]
    assert can_hold(Expression.parse("MODE != 'wide'", "here"), bound, {}).tolist() == [False, False, True, True]


@settings(max_examples=200)
@given(problem=problems(), data=st.data())
def test_repair_of_an_invalid_config_finds_the_nearest_valid_config(
    problem: tuple[list[Tunable], list[str]], data: st.DataObject
) -> None:
    tunables, texts = problem
    valid = brute_force(tunables, texts, {"K": 2})
    if not valid:
        return
    listed = Space(tunables, [constraint(text) for text in texts], {"K": 2})
    drawn = draw_instead_of_list(listed)
    broken = {each.name: data.draw(st.sampled_from(each.values)) for each in tunables}
    nearest = min(by_definition(tunables, broken, config) for config in valid)
    for space in (listed, drawn):
        repaired = space.repair(broken, np.random.default_rng(data.draw(st.integers(0, 9))))
        assert repaired in valid
        assert space.distance(broken, repaired) == pytest.approx(nearest)
        assert by_definition(tunables, broken, repaired) == pytest.approx(nearest)


def by_definition(tunables: list[Tunable], a: Config, b: Config) -> float:
    total = 0.0
    for each in tunables:
        if isinstance(each.values[0], int | float) and not isinstance(each.values[0], bool):
            ranks = each.values.index(a[each.name]), each.values.index(b[each.name])
            total += abs(ranks[0] - ranks[1]) / max(1, len(each.values) - 1)
        else:
            total += a[each.name] != b[each.name]
    return total


def draw_instead_of_list(space: Space) -> Space:
    """Return a copy of the space that is treated as too large to be enumerated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evo.space.space.ENUMERATION_LIMIT", 0)
        return Space(space.tunables, space.constraints, space.constants)


GEMM = [
    tunable("MWG", [16, 32, 64, 128]),
    tunable("NWG", [16, 32, 64, 128]),
    tunable("KWG", [32]),
    *(tunable(name, [8, 16, 32]) for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")),
    *(tunable(name, [1, 2, 4, 8]) for name in ("VWM", "VWN")),
    *(tunable(name, [0, 1]) for name in ("SA", "SB")),
]
GEMM_CONSTRAINTS = [
    constraint("MWG % (MDIMC * VWM) == 0", "each thread loads whole vectors"),
    constraint("NWG % (NDIMC * VWN) == 0"),
    constraint("MWG % (MDIMA * VWM) == 0"),
    constraint("NWG % (NDIMB * VWN) == 0"),
    constraint("KWG % (MDIMC * NDIMC // MDIMA) == 0"),
    constraint("KWG % (MDIMC * NDIMC // NDIMB) == 0"),
]
"""The space of CLBlast's GEMM, with a published count of valid configs: 17,956 of 82,944."""


@pytest.fixture(scope="module")
def gemm() -> Space:
    return Space(GEMM, GEMM_CONSTRAINTS)


@pytest.fixture(scope="module")
def huge() -> Space:
    """Return a space of 10^12 points, of which about a tenth are valid. They are too many to enumerate."""
    return Space(digits(12), [constraint(f"t{index} + t{index + 1} <= 14") for index in range(11)])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_gemm_space_has_its_published_size_and_is_enumerated_within_half_a_second() -> None:
    start = time.process_time()
    space = Space(GEMM, GEMM_CONSTRAINTS)
    assert time.process_time() - start < 0.5
    assert (space.product_size, space.valid_count) == (82_944, 17_956)


FOURS = sum(math.prod(point) >= 16 for point in itertools.product(range(5), repeat=4)) * 5**5


@pytest.mark.parametrize(
    ("tunables", "texts", "count"),
    [
        (digits(9), [" + ".join(f"t{index}" for index in range(9)) + " <= 8"], math.comb(17, 9)),
        (digits(12), [f"t{index} == t{index + 1}" for index in range(11)], 10),
        (digits(24), [f"t{index} == t{index + 1}" for index in range(23)], 10),
        (digits(6), [], 1_000_000),
        (digits(9, 20), [f"t{index} % 4 == 0" for index in range(9)] + ["t0 * t1 * t2 * t3 >= 4096"], FOURS),
    ],
    ids=["constraint over all tunables", "chain", "over 2^62 points", "no constraint", "constraints per tunable"],
)
def test_huge_space_with_at_most_a_million_valid_configs_is_enumerated(
    tunables: list[Tunable], texts: list[str], count: int
) -> None:
    start = time.process_time()
    space = Space(tunables, [constraint(text) for text in texts])
    assert time.process_time() - start < 5.0
    assert space.valid_count == count
    assert len(np.unique(space.indices, axis=0)) == count
    assert all(space.decode(row) in space for row in space.indices[:: max(1, count // 20)])
    first = space.decode(space.indices[0])
    differing = np.sum(space.indices != space.indices[0], axis=1)
    assert len(space.neighbours(first, "hamming")) == np.count_nonzero(differing == 1)


def test_space_far_beyond_the_limit_is_not_enumerated() -> None:
    loose = [constraint(f"t{index} + t{index + 1} < limit") for index in range(11)]
    start = time.process_time()
    space = Space(digits(12), loose, {"limit": 17})
    assert time.process_time() - start < 1.0
    assert space.valid_count is None
    assert len(space.sample(rng(), 100)) == 100


def test_enumeration_of_a_space_just_beyond_the_limit_ends_at_the_limit() -> None:
    lister = Lister(Plan.of(digits(7), [], {}), limit=1_000_000)
    listing = lister.list()
    assert listing.points is None
    assert listing.prefix.rows == 1_000_000


def test_space_beyond_the_limit_is_sampled(huge: Space) -> None:
    assert huge.product_size == 10**12
    assert huge.valid_count is None
    with pytest.raises(ValueError, match="valid_count"):
        _ = huge.indices
    configs = huge.sample(rng(), 200)
    assert len({huge.key(config) for config in configs}) == 200
    assert all(not huge.violations(config) and config in huge for config in configs)
    broken = dict(configs[0], t3=9, t4=9)
    assert broken not in huge
    assert huge.distance(broken, huge.repair(broken, rng())) < 1.0
    assert all(config in huge for config in huge.neighbours(configs[0]))


@pytest.mark.parametrize("drawn", [False, True])
def test_every_valid_config_is_sampled_equally_often(drawn: bool) -> None:
    listed = Space([tunable("A", range(4)), tunable("B", range(6))], [constraint("B <= A or A == 3")])
    space = draw_instead_of_list(listed) if drawn else listed
    generator = rng(7)
    counts = Counter(space.key(space.sample(generator, 1)[0]) for _ in range(3_000))
    assert len(counts) == listed.valid_count == 12
    expected = 3_000 / 12
    assert (
        sum((count - expected) ** 2 / expected for count in counts.values()) < 31.3
    )  # quantile of chi-squared with 11 degrees of freedom at p = 0.001


def test_sets_of_drawn_configs_contain_every_valid_config_equally_often() -> None:
    """Sets of points are drawn without enumeration. They contain all valid points, and give an estimate of the size."""
    tunables = [tunable("A", range(6)), tunable("B", range(6)), tunable("C", range(6)), tunable("D", range(3))]
    space = Space(tunables, [constraint("B <= A or A == 3"), constraint("(A * B + C) % 5 == D")])
    plan = Plan.of(space.tunables, space.constraints, {})
    pools = [built(plan, START, rng(seed), 8) for seed in range(600)]
    counts = Counter(tuple(row) for points, _ in pools for row in plan.declared(points).tolist())
    assert space.valid_count is not None
    assert len(counts) == space.valid_count
    drawn_per_point = sum(counts.values()) / len(counts)
    assert all(0.6 < count / drawn_per_point < 1.5 for count in counts.values())
    assert np.mean([estimate for _, estimate in pools]) == pytest.approx(space.valid_count, rel=0.1)


def test_attention_space_is_built_within_two_seconds() -> None:
    family = find("sdpa").family
    problem, hopper = family.problem("B=4,H=16,S=2048,D=64", "cuda"), known("sm_90")
    start = time.process_time()
    space = family.space(problem, hopper, Objective())
    assert time.process_time() - start < 2.0
    configs = space.sample(rng(), 300)
    assert all(not space.violations(config) for config in configs[:20])
    assert {"mma", "wgmma"} == {config["PRODUCTS"] for config in configs}
    assert {"async", "tma"} == {config["COPY"] for config in configs}


@pytest.mark.parametrize("drawn", [False, True])
def test_rare_mechanisms_are_sampled_as_often_as_frequent_mechanisms(drawn: bool) -> None:
    tunables = [
        tunable("A", range(40)),
        tunable("COPY", ["plain", "engine"]),
        tunable("MODE", ["a", "b"]),
        tunable("NAME", ["x", "y", "z"]),
    ]
    texts = ("COPY == 'plain' or (A == 7 and MODE == 'a')", "A < 30 or MODE == 'b'")
    listed = Space(tunables, [constraint(text) for text in texts])
    space = draw_instead_of_list(listed) if drawn else listed
    assert [space.names[position] for position in space.mechanisms] == ["MODE", "COPY"], "no constraint restricts NAME"
    rows = space.varied(rng(1), 9)
    assert space.valid(rows).all()
    assert len(np.unique(rows, axis=0)) == 9
    kinds = Counter((space.decode(row)["COPY"], space.decode(row)["MODE"]) for row in rows)
    assert kinds == {("plain", "a"): 3, ("plain", "b"): 3, ("engine", "a"): 3}
    assert np.array_equal(rows, space.varied(rng(1), 9))


def test_space_without_mechanisms_is_sampled_uniformly(gemm: Space) -> None:
    assert gemm.mechanisms == ()
    assert np.array_equal(gemm.varied(rng(1), 9), gemm.draw(rng(1), 9))


def test_sampled_configs_are_distinct_and_exclude_given_configs(gemm: Space) -> None:
    everything = gemm.sample(rng(), 20_000)
    keys = [gemm.key(config) for config in everything]
    assert len(keys) == len(set(keys)) == gemm.valid_count
    assert gemm.sample(rng(1), 5, exclude=set(keys[:-1])) == [everything[-1]]
    assert gemm.sample(rng(1), 5, exclude=set(keys)) == []
    assert gemm.sample(rng(1), 0) == []
    assert gemm.sample(rng(2), 3) == gemm.sample(rng(2), 3) != gemm.sample(rng(3), 3)


def test_single_valid_config_of_a_sampled_space_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.space.valid.MAX_DRAWS", 1_000)
    needle = constraint(" + ".join(f"t{index} * {3**index} % 7" for index in range(8)) + " == 0")
    space = draw_instead_of_list(Space(digits(8, 4), [needle]))
    assert {space.key(config) for config in space.sample(rng(), 3)} == {"0,0,0,0,0,0,0,0"}


def test_sampling_finds_rare_valid_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """E4M3 attention with 128 columns and emulated products has few valid configs, as these need many registers."""
    monkeypatch.setattr("evo.space.space.Lister", partial(Lister, max_effort=100_000_000))
    monkeypatch.setattr("evo.space.valid.MAX_DRAWS", 1 << 16)
    family, hopper = find("sdpa_fp8").family, known("sm_90")
    space = family.space(family.problem("B=4,H=16,S=4096,D=128", "cuda"), hopper, Objective())
    found = space.sample(rng(1), 500)
    assert len({space.key(config) for config in found}) == 500
    assert all(config in space for config in found)
    assert space.sample(rng(1), 5) == found[:5] != space.sample(rng(2), 5)
    assert len(space.draw(rng(3), 100)) == 100


def test_repaired_configs_are_equally_near_in_sampled_and_enumerated_spaces(gemm: Space) -> None:
    drawn = draw_instead_of_list(gemm)
    generator = rng(8)
    for _ in range(20):
        broken = gemm.decode([generator.integers(len(each.values)) for each in GEMM])
        distances = [gemm.distance(broken, space.repair(broken, generator)) for space in (gemm, drawn)]
        assert distances[0] == pytest.approx(distances[1])


def test_neighbours_differ_in_one_tunable_and_are_valid(gemm: Space) -> None:
    for config in gemm.sample(rng(4), 20):
        hamming = gemm.neighbours(config, "hamming")
        for other in hamming:
            assert other in gemm
            assert sum(config[name] != other[name] for name in gemm.names) == 1
        adjacent = gemm.neighbours(config, "adjacent")
        assert [other for other in hamming if other in adjacent] == adjacent
    valid = {gemm.key(gemm.decode(row)) for row in gemm.indices}
    by_hand = [
        dict(config, **{each.name: value}) for each in GEMM for value in each.values if value != config[each.name]
    ]
    assert hamming == [other for other in by_hand if gemm.key(other) in valid]


def test_adjacent_neighbours_are_the_closest_numbers_and_all_other_names() -> None:
    space = Space([tunable("N", [1, 2, 4, 8, 16]), tunable("MODE", ["a", "b", "c"])], [constraint("N != 4")])
    neighbours = space.neighbours({"N": 2, "MODE": "c"})
    assert [space.key(config) for config in neighbours] == ["1,c", "8,c", "2,a", "2,b"]
    assert [space.key(config) for config in space.neighbours({"N": 4, "MODE": "a"})] == ["2,a", "8,a"]


def test_repair_keeps_valid_configs_and_breaks_ties_at_random(gemm: Space) -> None:
    config = gemm.sample(rng(5), 1)[0]
    assert gemm.repair(config, rng()) == config
    assert gemm.repair(gemm.encode(config), rng()) == config
    space = Space([tunable("N", [1, 2, 3, 4, 5])], [constraint("N != 3")])
    repaired = {space.repair({"N": 3}, rng(seed))["N"] for seed in range(20)}
    assert repaired == {2, 4}
    assert {draw_instead_of_list(space).repair({"N": 3}, rng(seed))["N"] for seed in range(20)} == {2, 4}


def test_default_is_the_declared_config_or_the_nearest_valid_config() -> None:
    tunables = [
        tunable("N", [1, 2, 4, 8], default=8),
        tunable("MODE", ["a", "b"]),
        tunable("X", [True, False], default=False),
    ]
    assert Space(tunables).default() == {"N": 8, "MODE": "a", "X": False}
    assert Space(tunables, [constraint("N < 8")]).default() == {"N": 4, "MODE": "a", "X": False}


def test_config_keys_have_the_kernel_tuner_format_and_are_parsed_back(gemm: Space) -> None:
    config = gemm.sample(rng(6), 1)[0]
    assert gemm.key(config) == ",".join(str(value) for value in config.values())
    assert gemm.config(gemm.key(config)) == config
    space = Space(
        [tunable("A", [1, 2]), tunable("B", [False, True]), tunable("C", [0.5, 1.0]), tunable("D", ["x", "y"])]
    )
    assert space.key({"A": 2, "B": True, "C": 1.0, "D": "x"}) == "2,True,1.0,x"
    assert space.config("2,true,1,x") == {"A": 2, "B": True, "C": 1.0, "D": "x"}
    for key in ("2,True,1.0", "2,True,1.0,x,", "3,True,1.0,x", "2,1,1.0,x", "2,True,nan,x", ""):
        with pytest.raises(InvalidInput):
            space.config(key)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"A": 1}, "config.B"),
        ({"A": 1, "B": "x", "C": 1}, "config.C"),
        ({"A": 3, "B": "x"}, "config.A"),
        ({"A": True, "B": "x"}, "config.A"),
        ({"A": "1", "B": "x"}, "config.A"),
        ({"A": None, "B": "x"}, "config.A"),
        ({"A": [1], "B": "x"}, "config.A"),
        ({"A": 2, "B": "y"}, "config"),
    ],
)
def test_error_names_the_invalid_tunable_of_a_config(config: dict[str, Any], field: str) -> None:
    space = Space([tunable("A", [1, 2]), tunable("B", ["x", "y"])], [constraint("A == 1 or B == 'x'", "y is for one")])
    assert config not in space
    with pytest.raises(InvalidInput) as raised:
        space.check(config)
    assert raised.value.field == field
    if field == "config":
        assert raised.value.reason == "A=2, B=y violates `A == 1 or B == 'x'` (y is for one)"


def test_configs_accept_whole_floats_but_not_bools_as_integers() -> None:
    space = Space([tunable("A", [0, 1])])
    assert {"A": 1.0} in space
    assert space.decode(space.encode({"A": 1.0})) == {"A": 1}
    assert {"A": True} not in space


def test_error_for_an_empty_space_names_the_constraint_that_removed_the_last_configs() -> None:
    tunables = [tunable("A", [1, 2, 4]), tunable("B", [1, 2, 4]), tunable("C", range(100))]
    full = constraint("A + B >= 6 + K", "the grid must fill the device")
    constraints = [constraint("A * B <= 4"), full, constraint("C < 0")]
    with pytest.raises(EmptySpace) as raised:
        Space(tunables, constraints, {"K": 0})
    assert raised.value.field == "here"
    assert raised.value.reason == (
        "no config is valid: `A + B >= 6 + K` (the grid must fill the device) excludes the last 600 combinations; "
        "no values satisfy this constraint together with `A * B <= 4`; relax one of these, or widen A, B"
    )


def test_error_names_a_constraint_on_the_problem_that_empties_the_space() -> None:
    with pytest.raises(EmptySpace, match=r"`S % 2 == 0` \(rows come in pairs\) excludes the last 9 combinations$"):
        Space(
            [tunable("A", [1, 2, 3]), tunable("B", [1, 2, 3])],
            [constraint("S % 2 == 0", "rows come in pairs")],
            {"S": 7},
        )


def test_recorded_space_has_exactly_the_configs_of_its_keys() -> None:
    tunables = [tunable("A", [1, 2, 4]), tunable("B", [8, 16])]
    space = Space(tunables, valid_keys=["4,8", "1,16", "4,8", "2,8"])
    assert (space.product_size, space.valid_count) == (6, 3)
    assert [space.key(space.decode(row)) for row in space.indices] == ["1,16", "2,8", "4,8"]
    assert {"A": 1, "B": 8} not in space
    assert {"A": 1, "B": 16} in space
    assert [space.key(config) for config in space.neighbours({"A": 4, "B": 8})] == ["2,8"]
    with pytest.raises(InvalidInput, match="not among the 3 recorded"):
        space.check({"A": 1, "B": 8})
    with pytest.raises(InvalidInput, match=r"key\.B"):
        Space(tunables, valid_keys=["4,9"])
    with pytest.raises(EmptySpace):
        Space(tunables, valid_keys=[])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "has 0 values"),
        ([1, 1], "the same"),
        ([1, 1.0], "the same"),
        ([1, True], "mixes bool and number"),
        ([1, "a"], "mixes number and text"),
        (["1", 1, True], r'use strings, \["1", "true"\]'),
        ([math.nan], "cannot be a value"),
        ([math.inf], "cannot be a value"),
        ([1 << 62], "cannot be a value"),
        (["a,b"], "cannot be a value"),
        (["a b"], "write \"?'?a_b\"?'?, and define its meaning"),
        (["unsigned int", "long"], "'unsigned int' cannot be a value: it contains a space, .*unsigned_int"),
        ([" "], "cannot be a value: it must be"),
        ([""], "cannot be a value"),
        (["x" * 101], "a string of 1 to 100 visible characters"),
        ([-(1 << 62)], r"integers must be between -2\*\*62 and 2\*\*62"),
        ([None], "cannot be a value"),
        ([[1]], "cannot be a value"),
        (range(10_001), "has 10001 values"),
    ],
)
def test_duplicate_or_mixed_values_of_a_tunable_are_refused(values: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as raised:
        tunable("A", values)
    assert raised.value.field == "tunables.A.values"


@pytest.mark.parametrize("default", [3, True, "1"])
def test_default_that_is_not_among_the_values_of_a_tunable_is_refused(default: Any) -> None:
    with pytest.raises(InvalidInput, match="is not one of 1, 2"):
        tunable("A", [1, 2], default=default)


def test_duplicate_unknown_or_invalid_names_in_a_space_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"tunables\.A: the name is used by another"):
        Space([tunable("A", [1]), tunable("A", [2])])
    with pytest.raises(InvalidInput, match=r"tunables\.A: the name is used by another"):
        Space([tunable("A", [1])], constants={"A": 1})
    with pytest.raises(InvalidInput, match="there is no `X`"):
        Space([tunable("A", [1])], [constraint("X > 1")])
    with pytest.raises(InvalidInput, match="a name must have at most 64 letters"):
        tunable("A-1", [1])


def test_config_distance_adds_rank_differences_and_categorical_mismatches() -> None:
    space = Space([tunable("N", [1, 2, 4, 8, 16]), tunable("M", ["a", "b"]), tunable("O", [1, 2, 3], ordinal=False)])
    assert space.distance({"N": 1, "M": "a", "O": 1}, {"N": 8, "M": "b", "O": 3}) == pytest.approx(0.75 + 1 + 1)
    assert space.distance({"N": 1, "M": "a", "O": 1}, {"N": 1, "M": "a", "O": 1}) == 0.0


def test_valid_configs_of_a_space_are_read_only(gemm: Space) -> None:
    with pytest.raises(ValueError, match="read-only"):
        gemm.indices[0, 0] = 1


def test_space_that_is_too_expensive_to_enumerate_is_sampled_or_reported_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evo.space.space.Lister", partial(Lister, max_effort=100))
    assert Space(digits(3), [constraint("t0 * t1 % 7 == t2")]).valid_count is None
    monkeypatch.setattr("evo.space.valid.MAX_DRAWS", 2_000)
    monkeypatch.setattr("evo.space.valid.MAX_SUBTREE_EFFORT", 2_000)
    with pytest.raises(EmptySpace, match="none of millions of random configs is valid"):
        Space(digits(6), [constraint("(t0 + t1 + t2 + t3 + t4 + t5) % 70 == 69")])


def test_error_for_an_empty_space_names_the_missing_tunable_value() -> None:
    with pytest.raises(EmptySpace, match="3 is not a value of A, which has 1, 2, 4"):
        Space([tunable("A", [1, 2, 4])], [constraint("A == 3")])


def test_constraint_is_not_evaluated_where_an_earlier_constraint_fails() -> None:
    tunables = [Tunable(name="A", values=(0, 1, 2)), Tunable(name="B", values=(2, 3, 4))]
    texts = ("A > 0", "B % A == 0")
    space = Space(tunables, [Constraint(expression=Expression.parse(text, "constraints")) for text in texts])
    assert space.valid(np.indices((3, 3)).reshape(2, -1).T.astype(np.int32)).tolist() == [
        *(False, False, False),
        *(True, True, True),
        *(True, False, True),
    ]


def test_space_size_estimate_needs_constant_memory_for_any_number_of_values() -> None:
    tunables = [Tunable(name=name, values=range(10_000)) for name in "abc"]
    points, estimate = built(Plan.of(tunables, [], {}), START, np.random.default_rng(0), WIDTH)
    assert points.rows * len(points.columns) <= MOST_CELLS
    assert estimate == pytest.approx(1e12)
