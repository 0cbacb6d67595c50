"""Inputs of several distributions are mixed, unless mixing would make them invalid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evo.family import Operand
from evo.family.argument import Tolerance
from evo.reference.encoding import decoded, encoded
from templates.registry import find
from tests.tiers import one_in
from workers.build.cache import Cache
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.family.mixtures import Mixture, _add_zeros, _outlier_places, mixtures
from workers.measure.family.reference import Reference
from workers.runner.protocol import CasePlan

ROWS, COLUMNS = 64, 512


def operand(name: str, array: NDArray[Any], dtype: str | None = None) -> Operand:
    return Operand(name=name, role="input", dtype=dtype or array.dtype.name, shape=array.shape, tolerance=None)


def mixtures_of(nominal: NDArray[Any], *others: NDArray[Any], dtype: str | None = None) -> dict[str, NDArray[Any]]:
    """Return the mixtures of one input with inputs of other cases, by name."""
    rng = np.random.default_rng(3)
    found = mixtures(
        {"x": nominal}, [{"x": each} for each in others], [operand("x", nominal, dtype)], rng, allowed=1e-6
    )
    return {each.name: each.inputs["x"] for each in found}


def normal(seed: int, scale: float = 1.0) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)) * scale
    return drawn.astype(np.float32)


def peaked(seed: int) -> NDArray[np.float32]:
    drawn = normal(seed)
    drawn[:, 7], drawn[:, 8] = 120.0, -np.inf
    return drawn


def test_input_mixture_replaces_an_element_of_some_rows_with_the_most_extreme_value_of_all_cases() -> None:
    nominal, large = normal(1), normal(2, 40.0)
    found = mixtures_of(nominal, peaked(3), large)
    for name, extreme in (
        ("a lone largest element", np.float32(max(120.0, large.max()))),
        ("a lone smallest element", large.min()),
    ):
        changed = found[name] != nominal
        assert changed.sum(axis=1).tolist().count(1) == changed.sum() == 8
        assert (found[name][changed] == extreme).all()


def test_outliers_are_often_at_the_ends_of_rows() -> None:
    places = _outlier_places(1000, 4000, np.random.default_rng(0))
    assert ((places >= 0) & (places < 1000)).all()
    assert [(places < 8).mean(), (places >= 992).mean()] == pytest.approx([0.25, 0.5], abs=0.03)
    assert {996, 997, 998, 999} <= {*places.tolist()}
    assert _outlier_places(2, 50, np.random.default_rng(0)).tolist().count(1) > 5


def test_at_most_a_quarter_of_the_rows_has_an_outlier() -> None:
    for rows, expected in ((1, 1), (4, 1), (16, 4), (64, 8)):
        few, other = normal(1)[:rows], normal(2, 40.0)[:rows]
        assert (mixtures_of(few, other)["a lone largest element"] != few).sum() == expected


@pytest.mark.parametrize("infinite", [0, 3, 500])
def test_elements_that_an_input_mixture_changes_slightly_are_finite(infinite: int) -> None:
    nominal = normal(1)
    nominal[:, COLUMNS - infinite :] = -np.inf
    found = mixtures_of(nominal, normal(2))
    for name, fraction in (("elements near known ones", 0.9), ("a few elements near known ones", 0.0)):
        changed = found[name] != nominal
        assert changed.sum() > fraction * np.isfinite(nominal).sum()
        assert np.isfinite(nominal[changed]).all()
        assert np.isfinite(found[name][changed]).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("how", ["halves", "neighbours", "copies"])
def test_input_mixtures_preserve_repeated_values_of_inputs(how: str, axis: int) -> None:
    def repeated(seed: int) -> NDArray[np.float32]:
        half = np.take(normal(seed), range(normal(seed).shape[axis] // 2), axis)
        if how == "copies":
            return np.broadcast_to(np.take(half, [0], axis), normal(seed).shape).copy()
        return np.concatenate([half, half], axis) if how == "halves" else np.repeat(half, 2, axis)

    found = mixtures_of(repeated(1), repeated(2))
    assert np.array_equal(found["a lone largest element"], repeated(1))
    rows = found["rows of all distributions"]
    assert np.array_equal(rows, repeated(1)) if axis == 0 else not np.array_equal(rows, repeated(1))


def test_input_mixture_of_equal_elements_and_zeros_has_sparse_and_constant_row_segments() -> None:
    found = mixtures_of(normal(1), normal(2, 40.0))["equal elements and zeros"]
    common = np.array([_most_frequent(row[row != 0]) for row in found], np.float32)[:, None]
    assert len(np.unique(common)) > ROWS // 4, "rows have different common values"
    kinds = {
        "zeros": (found == 0).mean(axis=1),
        "common value": (found == common).mean(axis=1),
        "previous value": (found[:, 1:] == found[:, :-1]).mean(axis=1)
        * ((found != 0) & (found != common)).mean(axis=1),
    }
    for name, share in kinds.items():
        assert np.count_nonzero(share > 0.75) >= ROWS // 8, name
        assert np.count_nonzero((share > 0.08) & (share < 0.17)) >= ROWS // 8, name
    assert np.signbit(found[found == 0]).mean() == pytest.approx(0.5, abs=0.05)
    assert all(np.unique(row).size > 30 for row in found), "no row is constant"


def _most_frequent(values: NDArray[Any]) -> float:
    found, counts = np.unique(values, return_counts=True)
    return float(found[counts.argmax()])


def test_input_mixture_of_equal_elements_leaves_no_short_row_constant() -> None:
    found = mixtures_of(normal(1).reshape(-1, 8), normal(2, 40.0).reshape(-1, 8))["equal elements and zeros"]
    constant = np.count_nonzero((found == found[:, :1]).all(axis=1))
    assert constant == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_mixed_inputs_with_a_single_sign_keep_the_sign(sign: int) -> None:
    found = mixtures_of(sign * np.abs(normal(1)), normal(2))["equal elements and zeros"]
    assert (np.sign(found) == sign).all()


@pytest.mark.parametrize("scale", [1.0, 0.03, 900.0])
def test_input_mixture_of_whole_numbers_has_ones_opposite_neighbours_and_ascending_rows(scale: float) -> None:
    nominal = normal(1, scale)
    found = mixtures_of(nominal, normal(2, 40.0))["whole numbers"]
    unit = 2.0 ** round(np.log2(scale))
    whole = found / unit
    ascending = (np.diff(found, axis=1) >= 0).all(axis=1)
    assert (whole[~ascending] == np.rint(whole[~ascending])).all()
    assert (whole == 1).mean() > 0.1
    assert (whole[:, 1:] == -whole[:, :-1])[whole[:, 1:] != 0].mean() > 0.05
    assert 0.1 < ascending.mean() < 0.4
    assert np.abs(found - nominal)[~ascending].max() <= unit
    assert nominal.min() <= found.min() and found.max() <= nominal.max()


def test_ascending_rows_of_whole_numbers_are_rounded_in_some_mixtures_only() -> None:
    strictly = set[bool]()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = mixtures({"x": normal(1)}, [{"x": normal(2)}], [operand("x", normal(1))], rng, allowed=1e-6)
        steps = np.diff(next(each.inputs["x"] for each in found if each.name == "whole numbers"), axis=1)
        strictly.add(bool((steps > 0).all(axis=1).any()))
    assert strictly == {True, False}


@pytest.mark.parametrize("sign", [1, -1])
def test_input_mixture_of_whole_numbers_keeps_signs_infinities_and_rows_of_small_elements(sign: int) -> None:
    nominal = sign * np.abs(normal(1))
    nominal[0] = sign * np.linspace(0.01, 0.02, COLUMNS)
    nominal[1, 3] = -np.inf
    found = mixtures_of(nominal, normal(2))["whole numbers"]
    assert (np.sign(found) == np.sign(nominal)).all()
    assert sorted(found[0]) == sorted(nominal[0])
    assert found[1, 3] == -np.inf


def mixtures_with_output(nominal: NDArray[Any], dtype: str) -> dict[str, Mixture]:
    output = Operand(name="at", role="output", dtype=dtype, shape=(ROWS,), tolerance=None)
    operands = [operand("x", nominal), output]
    found = mixtures({"x": nominal}, [{"x": normal(2)}], operands, np.random.default_rng(3), allowed=1e-6)
    return {each.name: each for each in found}


def test_mixtures_with_equal_elements_are_marked_because_integer_outputs_may_have_several_correct_values() -> None:
    found = mixtures_with_output(normal(1), "int32")
    with_ties = {name for name, each in found.items() if each.ties}
    assert with_ties == {"equal elements and zeros", "whole numbers", "rows with a structure"}
    assert all((np.diff(np.sort(found[name].inputs["x"], axis=1)) == 0).any() for name in with_ties)


def test_outputs_of_integers_or_8_bits_have_a_mixture_without_equal_elements() -> None:
    assert "sorted rows and rows of one sign" not in mixtures_with_output(normal(1), "float32")
    for dtype in ("int32", "float8_e4m3"):
        nominal = normal(1)
        rows = mixtures_with_output(nominal, dtype)["sorted rows and rows of one sign"].inputs["x"]
        assert nominal.min() <= rows.min() and rows.max() <= nominal.max()
        kinds = {
            "ascending": (np.diff(rows) > 0).all(axis=1),
            "descending": (np.diff(rows) < 0).all(axis=1),
            "positive": (rows > 0).all(axis=1),
            "negative": (rows < 0).all(axis=1),
            "with a zero": (rows == 0).sum(axis=1) == 1,
        }
        assert all(ROWS // 6 <= count.sum() <= ROWS // 3 for count in kinds.values()), kinds
        assert (np.diff(np.sort(rows, axis=1)) > 0).all()
    assert "whole numbers" not in mixtures_with_output(normal(1), "float8_e4m3")


def test_row_that_contains_a_zero_gets_no_second_zero() -> None:
    nominal = normal(1)
    nominal[:, 5] = 0.0
    rows = mixtures_with_output(nominal, "int32")["sorted rows and rows of one sign"].inputs["x"]
    assert ((rows == 0).sum(axis=1) == 1).all()


def test_integer_outputs_are_not_expected_for_inputs_with_equal_elements(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(
        "import numpy as np\n\n"
        "def inputs(problem, case, rng):\n"
        "    scale = {'normal': 1, 'large': 40}[case]\n"
        "    return {'x': (scale * rng.standard_normal((32, 64))).astype(np.float32)}\n\n"
        "def reference(problem, inputs):\n"
        "    return {'at': inputs['x'].argmax(1).astype(np.int32), 'top': inputs['x'].max(1).astype(np.float64)}\n"
    )
    outputs = [
        Operand(name="at", role="output", dtype="int32", shape=(32,), tolerance=Tolerance(rel_l2=0.0, max_abs=0.0)),
        Operand(name="top", role="output", dtype="float32", shape=(32,), tolerance=Tolerance(rel_l2=1e-6, max_abs=1.0)),
    ]
    given = Operand(name="x", role="input", dtype="float32", shape=(32, 64), tolerance=None)
    family = Reference(tmp_path / "reference.py", "digest", Cache(tmp_path / "cache"))
    plans = [
        CasePlan(name=name, distribution=name, problem={}, seeds=((1, number),), operands=(given, *outputs))
        for number, name in enumerate(("normal", "large"))
    ]
    found = {each.case: each for each in family.mixtures(plans, family.goldens(plans, family.drawn(plans)))}
    assert {*found["normal with whole numbers"].reference} == {"top"}
    assert {*found["normal with sorted rows and rows of one sign"].reference} == {"at", "top"}


def test_input_mixture_takes_rows_from_all_distributions() -> None:
    distributions = [normal(1), peaked(2), normal(3, 40.0)]
    rows = mixtures_of(*distributions)["rows of all distributions"]
    origins = [sum(bool(np.array_equal(row, one[index])) for index, row in enumerate(rows)) for one in distributions]
    assert sum(origins) == ROWS
    assert min(origins) > 0


def test_mixed_rows_of_several_inputs_come_from_the_same_distribution() -> None:
    nominal, other = ({"x": normal(seed), "y": normal(seed + 1)} for seed in (1, 5))
    operands = [operand(name, array) for name, array in nominal.items()]
    found = mixtures(nominal, [other], operands, np.random.default_rng(0), allowed=1e-6)
    rows = next(each for each in found if each.name == "rows of all distributions")
    of_other = {name: (rows.inputs[name] == other[name]).all(axis=1).tolist() for name in nominal}
    assert of_other["x"] == of_other["y"]


def test_input_mixture_compares_bfloat16_codes_by_value() -> None:
    nominal, other = encoded(normal(1), "bfloat16"), encoded(normal(2) - 300, "bfloat16")
    found = mixtures_of(nominal, other, dtype="bfloat16")["a lone smallest element"]
    assert (found != nominal).sum() == 8
    assert decoded(found, "bfloat16").min() == decoded(other, "bfloat16").min()


@pytest.mark.parametrize(
    "nominal",
    [
        np.arange(12).reshape(3, 4),
        np.sort(normal(1), axis=-1),
        np.sort(normal(1), axis=0),
        normal(1)[:, :ROWS] + normal(1)[:, :ROWS].T,
    ],
    ids=["integers", "ascending elements", "ascending rows", "symmetric"],
)
def test_inputs_with_interdependent_elements_are_not_mixed(nominal: NDArray[Any]) -> None:
    assert mixtures_of(nominal, nominal[::-1].copy()) == {}


def test_inputs_with_interdependent_elements_stay_while_other_inputs_are_mixed() -> None:
    limits = np.stack([np.full(COLUMNS, -2.0, np.float32), np.full(COLUMNS, 2.0, np.float32)])
    ascending = np.sort(normal(4), axis=1)
    nominal: dict[str, NDArray[Any]] = {"x": normal(1), "limits": limits, "ascending": ascending}
    other = {"x": normal(2, 40.0), "limits": limits, "ascending": np.sort(normal(5), axis=1)}
    operands = [operand(name, array) for name, array in nominal.items()]
    found = list(mixtures(nominal, [other], operands, np.random.default_rng(0), allowed=1e-6))
    assert len(found) == 8
    for each in found:
        assert np.array_equal(each.inputs["limits"], limits)
        assert np.array_equal(each.inputs["ascending"], ascending)
        assert not np.array_equal(each.inputs["x"], nominal["x"])


def test_integer_inputs_keep_their_elements_while_other_inputs_are_mixed() -> None:
    nominal, other = (dict[str, NDArray[Any]](x=normal(seed), at=np.arange(ROWS) + seed) for seed in (1, 2))
    operands = [operand(name, array) for name, array in nominal.items()]
    found = list(mixtures(nominal, [other], operands, np.random.default_rng(0), allowed=1e-6))
    assert len(found) == 8
    for each in found:
        assert np.array_equal(each.inputs["at"], nominal["at"])
        assert not np.array_equal(each.inputs["x"], nominal["x"])


def test_inputs_of_a_single_distribution_are_not_mixed() -> None:
    assert mixtures_of(normal(1)) == {}


def test_input_with_equal_values_in_all_draws_is_not_mixed() -> None:
    mask = np.where(np.arange(COLUMNS) % 3, 0.0, -np.inf).astype(np.float32) * np.ones((ROWS, 1), np.float32)
    nominal, other = {"x": normal(1), "mask": mask}, {"x": normal(2, 9.0), "mask": mask.copy()}
    operands = [operand(name, array) for name, array in nominal.items()]
    found: list[Mixture] = list(mixtures(nominal, [other], operands, np.random.default_rng(0), allowed=1e-6))
    assert len(found) == 8
    assert all(np.array_equal(each.inputs["mask"], mask) for each in found)


@pytest.mark.parametrize(("dtype", "allowed"), [("float32", 1e-6), ("float16", 1e-3), ("float8_e4m3", 0.04)])
def test_input_mixture_of_nearby_elements_changes_inputs_by_more_than_the_tolerance(dtype: str, allowed: float) -> None:
    drawn = encoded(normal(1, 40.0), dtype)
    drawn[0, 0] = encoded(np.array([np.inf if dtype == "float32" else 0.0], np.float32), dtype)[0]
    given = {"x": drawn}, [{"x": encoded(normal(2), dtype)}], [operand("x", drawn, dtype)]
    nearby = next(iter(mixtures(*given, np.random.default_rng(0), allowed=allowed)))
    assert nearby.name == "elements near known ones"
    before, after = (decoded(each, dtype).astype(np.float64).reshape(-1)[1:] for each in (drawn, nearby.inputs["x"]))
    assert decoded(nearby.inputs["x"], dtype)[0, 0] == decoded(drawn, dtype)[0, 0]
    assert (np.abs(after) <= np.abs(before)).all()
    assert allowed < np.linalg.norm(after - before) / np.linalg.norm(before) < 0.15


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_input_mixture_changes_a_few_elements_slightly(seed: int, sign: float) -> None:
    drawn = sign * np.abs(normal(1, 40.0))
    given = {"x": drawn}, [{"x": normal(2)}], [operand("x", drawn)]
    found = mixtures(*given, np.random.default_rng(seed), allowed=1e-6)
    few = next(each for each in found if each.name == "a few elements near known ones").inputs["x"]
    assert 1 <= (few != drawn).sum() <= 3
    change = np.abs(few - drawn).max() / np.sqrt(np.mean(drawn**2))
    assert 1.5e-5 < change < 0.1
    assert drawn.min() <= few.min() <= few.max() <= drawn.max()


@pytest.fixture(scope="module", params=one_in(2, [15, 60]))
def rows_with_a_large_element(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[ExpectedOutput]:
    """Return mixtures of the inputs of the family `reduce`, with several seeds."""
    source = find("reduce")
    problem = source.family.problem("rows=128,cols=256", "cpu")
    family = Reference(source.path / "reference.py", "digest", Cache(tmp_path_factory.mktemp("cache")))
    drawn: list[ExpectedOutput] = []
    for seed in range(request.param):
        plans = [
            CasePlan(
                name=name,
                distribution=name,
                problem=problem,
                seeds=((seed, number),),
                operands=source.family.operands(problem),
            )
            for number, name in enumerate(("normal", "negative"))
        ]
        found = family.mixtures(plans, family.goldens(plans, family.drawn(plans)))
        assert len(found) == 8
        drawn.extend(found)
    return drawn


@pytest.mark.parametrize("lanes", [4, 8, 16, 64])
def test_simd_row_sums_are_within_the_tolerance_despite_a_large_element(
    rows_with_a_large_element: list[ExpectedOutput], lanes: int
) -> None:
    for golden in rows_with_a_large_element:
        in_lanes = np.cumsum(golden.inputs["x"].reshape(128, -1, lanes), axis=1, dtype=np.float32)[:, -1]
        out = np.cumsum(in_lanes, axis=1, dtype=np.float32)[:, -1]
        assert np.abs(out - golden.reference["out"]).max() <= golden.limits["out"].max_abs


def structured(*arrays: NDArray[Any], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return the inputs with structured rows. Further arrays are named b, c, ..."""
    nominal = dict(zip("abc", arrays, strict=False))
    other = {name: np.roll(array, 7) for name, array in nominal.items()}
    operands = [operand(name, array) for name, array in nominal.items()]
    made = mixtures(nominal, [other], operands, np.random.default_rng(seed), allowed=1e-6)
    return dict(next(each for each in made if each.name == "rows with a structure").inputs)


def test_structured_rows_have_every_structure_and_stay_in_the_range_of_the_input() -> None:
    drawn = np.random.default_rng(1).standard_normal((64, 40), np.float32)
    made = [structured(drawn, seed=seed)["a"] for seed in range(8)]
    of_low_precision = [bool((rows.view(np.uint32) & 0xFFFF == 0).mean() > 0.9) for rows in made]
    assert {*of_low_precision} == {True, False}  # in some processes, all numbers are rounded
    rows = made[of_low_precision.index(False)]
    assert drawn.min() <= rows.min() and rows.max() <= drawn.max()
    low_precision = (rows.view(np.uint32) & 0xFFFF == 0).all(axis=1)
    found = {
        "repeated": (rows[1:] == rows[:-1]).all(axis=1).sum(),
        "symmetric": (rows == rows[:, ::-1]).all(axis=1).sum(),
        "periodic": ((rows[:, 2:] == rows[:, :-2]).all(axis=1) & (rows[:, 0] != rows[:, 1])).sum(),
        "descending": (np.diff(rows, axis=1) <= 0).all(axis=1).sum(),
        "positive": (rows >= 0).all(axis=1).sum(),
        "negative": (rows <= 0).all(axis=1).sum(),
        "of low precision": low_precision.sum(),
        "with a run of zeros": ((rows == 0).any(axis=1) & (rows != 0).any(axis=1)).sum(),
        "with large blocks": (np.isclose(rows * 64, drawn).sum(axis=1) > 4).sum(),
        "unchanged": (rows == drawn).all(axis=1).sum(),
    }
    assert {name: 5 <= count <= 24 for name, count in found.items()} == dict.fromkeys(found, True), str(found)


def test_runs_of_zeros_are_at_the_start_at_the_end_and_inside_of_rows() -> None:
    rows = np.ones((300, 64))
    _add_zeros(rows, np.arange(300), np.random.default_rng(0))
    at_start, at_end = rows[:, 0] == 0, rows[:, -1] == 0
    assert (rows == 0).any(axis=1).all() and ((rows != 0).sum(axis=1) >= 8).all()
    assert at_start.sum() > 90 and at_end.sum() > 90 and (~at_start & ~at_end).sum() > 80
    assert (np.abs(np.diff((rows == 0).astype(int), axis=1)).sum(axis=1) <= 2).all(), "each run is contiguous"


def test_numbers_of_one_sign_keep_their_sign_in_structured_rows() -> None:
    variances = np.random.default_rng(1).uniform(0.1, 2.0, (64, 40)).astype(np.float32)
    assert structured(variances)["a"].min() >= variances.min()


def test_some_rows_of_two_inputs_with_the_same_shape_are_equal() -> None:
    rng = np.random.default_rng(1)
    made = structured(*(rng.standard_normal((64, 40), np.float32) for _ in range(2)))
    assert 4 <= (made["a"] == made["b"]).all(axis=1).sum() <= 32
    scaled = structured(rng.standard_normal((64, 40), np.float32), rng.uniform(3.0, 9.0, (64, 40)).astype(np.float32))
    assert not (scaled["a"] == scaled["b"]).all(axis=1).any()  # the rows would leave the range of the second input
