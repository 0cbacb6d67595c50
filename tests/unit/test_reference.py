"""Reference outputs are computed and cached; errors of the family and of the machine are distinguished."""

import importlib.util
import math
import pickle
import platform
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evo
from evo.export.loader.float_control import FloatControl, preserved
from evo.family import Operand
from evo.family.argument import Tolerance
from workers.build.cache import Cache
from workers.measure.family.dependencies import dependencies
from workers.measure.family.expected_output import FamilyError, Limit
from workers.measure.family.reference import NO_LIMIT, Reference
from workers.runner.protocol import CasePlan
from workers.system import descendants

WHOLE = """
import pathlib
import numpy as np

def inputs(problem, distribution, rng):
    return {"x": rng.standard_normal(problem["N"]).astype(np.float32)}

def reference(problem, inputs):
    counter = pathlib.Path(COUNTER)
    counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
    return {"y": 2.0 * inputs["x"].astype(np.float64)}

def yardstick(problem, inputs):
    return {"y": (2.0 * inputs["x"].astype(np.float64) + 0.25).astype(np.float32)}
"""


def plan(dtype: str = "float32", **tolerance: float) -> CasePlan:
    limits = {"rel_l2": 1e-6, **(tolerance or {"max_abs_ratio": 4.0})}
    operands = (
        Operand(name="x", role="input", dtype="float32", shape=(5,)),
        Operand(name="y", role="output", dtype=dtype, shape=(5,), tolerance=Tolerance(**limits)),
    )
    return CasePlan(
        name="nominal",
        distribution="normal",
        problem={"N": 5},
        seeds=((1, 2),),
        operands=operands,
    )


def reference(folder: Path, text: str = WHOLE, digest: str = "digest") -> Reference:
    path = folder / "reference.py"
    path.write_text(f"COUNTER = {str(folder / 'counter')!r}\n{text}")
    return Reference(path, digest, Cache(folder / "cache"))


@pytest.fixture
def computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the second call of `reference()`, so that the calls can be counted."""
    monkeypatch.setattr("workers.measure.family.reference._REPEATED_S", 0.0)


@pytest.mark.usefixtures("computed_once")
def test_expected_outputs_are_cached_per_seed(tmp_path: Path) -> None:
    first = reference(tmp_path).golden(plan(), (1, 2))
    again = reference(tmp_path).golden(plan(), (1, 2))
    other = reference(tmp_path).golden(plan(), (1, 3))
    assert (tmp_path / "counter").read_text() == "xx"
    assert np.array_equal(first.inputs["x"], again.inputs["x"])
    assert np.array_equal(first.reference["y"], again.reference["y"])
    assert not np.array_equal(first.inputs["x"], other.inputs["x"])


@pytest.mark.usefixtures("computed_once")
def test_expected_outputs_that_are_cheap_to_compute_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.measure.family.reference._KEPT_ANYWAY_BYTES", 0)
    for read_bytes_s, times in ((0.0, 2), (1e30, 1)):
        monkeypatch.setattr("workers.measure.family.reference._READ_BYTES_S", read_bytes_s)
        folder = tmp_path / str(times)
        folder.mkdir()
        again = [reference(folder).golden(plan(), (1, 2)).reference["y"].tolist() for _ in range(2)]
        assert again[0] == again[1]
        assert (folder / "counter").read_text() == "x" * times


@pytest.mark.parametrize(("limit_bytes", "cached"), [(1 << 20, 2), (100, 0)])
def test_expected_outputs_that_would_fill_the_cache_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_bytes: int, cached: int
) -> None:
    monkeypatch.setattr("workers.measure.family.reference.LIMIT_BYTES", limit_bytes)
    family, plans = reference(tmp_path), [replace(plan(), seeds=((1, 2), (1, 3)))]
    family.goldens(plans, family.drawn(plans))
    assert sum(path.is_file() for path in (tmp_path / "cache").rglob("*")) == cached


def test_reference_module_can_be_imported_by_its_name(tmp_path: Path) -> None:
    """Dataclasses with quoted annotations and torch.compile look the module up by name."""
    module = """
import dataclasses

@dataclasses.dataclass
class Sizes:
    rows: "int"

def sizes(rows):
    return Sizes(rows)
"""
    sizes = reference(tmp_path, WHOLE + module).function("sizes")
    assert sizes is not None
    made = sizes(3)
    assert pickle.loads(pickle.dumps(made)) == made


ROUNDS_DOWN = "import ctypes; ctypes.CDLL(None).fesetround(MODE)".replace(
    "MODE", "0x400" if platform.machine() == "x86_64" else "0x800000"
)


@pytest.mark.parametrize("where", ["import", "inputs", "reference"])
def test_floating_point_modes_set_by_a_reference_are_restored(tmp_path: Path, where: str) -> None:
    text = f"{ROUNDS_DOWN}\n{WHOLE}"
    if where != "import":
        before, after = WHOLE.split(f"def {where}(", maxsplit=1)
        head, body = after.split("\n", maxsplit=1)
        text = f"{before}def {where}({head}\n    {ROUNDS_DOWN}\n{body}"
    before_all = FloatControl()
    with preserved():
        golden = reference(tmp_path, text).golden(plan(), (1, 2))
        assert FloatControl().changes(before_all) == ()
    assert np.array_equal(golden.reference["y"], 2.0 * golden.inputs["x"].astype(np.float64))


def test_failed_reference_import_leaves_no_module_in_sys_modules(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(FamilyError):
        reference(tmp_path, "raise ValueError", digest="of_one_that_fails")
    assert set(sys.modules) == before


def test_error_limits_of_an_output_follow_from_its_tolerance(tmp_path: Path) -> None:
    golden = reference(tmp_path)
    assert golden.golden(plan(max_abs_ratio=4.0), (1, 2)).limits["y"].max_abs == pytest.approx(1.0)
    assert golden.golden(plan(max_abs=0.5), (1, 2)).limits["y"].max_abs == 0.5
    x, y = plan().operands
    bare = replace(plan(), operands=(x, replace(y, tolerance=Tolerance(rel_l2=1e-6))))
    assert golden.golden(bare, (1, 2)).limits["y"].max_abs == NO_LIMIT


def test_tolerance_of_an_exact_yardstick_still_allows_rounding_errors(tmp_path: Path) -> None:
    text = WHOLE.replace("+ 0.25", "")
    limit = reference(tmp_path, text).golden(plan(max_abs_ratio=1.0), (1, 2)).limits["y"].max_abs
    assert 1e-8 < limit < 1e-5


@pytest.mark.parametrize(("ratio", "allowed"), [(4.0, 3.0), (1.0, 0.0)])
def test_relative_norm_tolerance_also_limits_errors_of_single_elements(
    tmp_path: Path, ratio: float, allowed: float
) -> None:
    exact = reference(tmp_path, WHOLE.replace("+ 0.25", "")).golden(plan(max_abs_ratio=ratio, rel_l2=1e-3), (1, 2))
    largest = float(np.abs(exact.reference["y"]).max())
    limit = exact.limits["y"].max_abs
    assert limit == pytest.approx(max(allowed * 1e-3, ratio * float(np.finfo(np.float32).eps)) * largest)


@pytest.mark.usefixtures("computed_once")
def test_expected_outputs_are_recomputed_when_modules_that_the_reference_imports_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported modules outside the family's folder are not part of its digest."""
    folder = tmp_path / "evo"
    folder.mkdir()
    helper = folder / "helper.py"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # bytecode has time stamps of whole seconds
    monkeypatch.setattr("evo.__path__", [*evo.__path__, str(folder)])
    for by in ("2.0", "2.0", "3.0"):
        helper.write_text(f"def factor():\n    return {by}\n")
        monkeypatch.delitem(sys.modules, "evo.helper", raising=False)
        importlib.invalidate_caches()
        reference(tmp_path, "from evo.helper import factor\n" + WHOLE).golden(plan(), (1, 2))
    assert (tmp_path / "counter").read_text() == "xx"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module", r"reference.py, import \(line 2\): ModuleNotFoundError"),
        (
            WHOLE.replace("def reference", "def other"),
            r"has no function `reference`, which every family needs; define `def reference\(problem, inputs\):`$",
        ),
        (
            WHOLE.replace('"N"', '"M"'),
            r"reference.py, inputs\(\) \(line 7\): KeyError: 'M'; `problem` contains N$",
        ),
        (
            WHOLE.replace("rng.standard_normal", "{'offset': 9}[distribution] * rng.standard_normal"),
            r"KeyError: 'normal'; a case in family.toml requests this distribution: inputs = 'normal'$",
        ),
        (
            WHOLE.replace("def reference(problem, inputs)", "def reference(inputs, problem)"),
            r"reference\(\) \(line \d+\): KeyError: 'x'; `problem` contains N; `inputs` contains x;"
            r" it is called as `reference\(problem, inputs\)`$",
        ),
        (
            WHOLE.replace('return {"y": 2', "open('part/factors.txt')\n    return {'y': 2"),
            r"FileNotFoundError: .*; reference\.py runs in another folder:"
            r" open `Path\(__file__\)\.parent / 'part/factors\.txt'`$",
        ),
        (
            WHOLE.replace('problem["N"]', "problem.N"),
            r"problem and inputs are dicts, so write e\.g\. problem\[\"N\"\]$",
        ),
        (
            WHOLE.replace("np.float32", "np.float64", 1),
            r"family.toml declares float32 \(\d+,\); return np\.asarray\(\w+, dtype=np\.float32\)$",
        ),
        (
            WHOLE.replace('return {"y": 2', 'return {"z": 2'),
            r"reference\(\) must return the output `y` for case nominal, but returned only `z`",
        ),
        (
            WHOLE.replace('return {"y": 2', "raise SystemExit(3)\n    return {'y': 2"),
            r"reference\(\) \(line \d+\): SystemExit: 3",
        ),
        (
            WHOLE.replace('return {"y": 2', "return None\n    return {'y': 2"),
            r"reference\(\): returns NoneType, not a dict of arrays by name; write e\.g\. `return \{\"out\": array\}`",
        ),
        (
            WHOLE.replace('return {"x"', "return None\n    return {'x'"),
            r"inputs\(\): returns NoneType, .*; write e\.g\. `return \{\"x\": array\}`",
        ),
        (
            WHOLE.replace('return {"x"', "return {}\n    return {'x'"),
            r"inputs\(\) must return the input `x` .*, but returned an empty dict",
        ),
        (
            WHOLE.replace('return {"y": 2', "return {'y': 'two'}\n    return {'y': 2"),
            r"reference\(\): `y` has dtype str96; return real numbers",
        ),
        (
            WHOLE.split("def yardstick", maxsplit=1)[0],
            r"has no function `yardstick`, which `max_abs_ratio` in family\.toml needs;"
            r" define `def yardstick\(problem, inputs\):`$",
        ),
        (
            WHOLE.replace("def inputs(problem, distribution, rng)", "def inputs(problem, rng)"),
            r"inputs\(\): too many positional arguments; declare it as `def inputs\(problem, distribution, rng\):`",
        ),
        (
            WHOLE.replace("def reference(problem, inputs)", "def reference(problem, inputs, config)"),
            r"reference\(\): missing a required argument: 'config'; declare it as `def reference\(problem, inputs\):`",
        ),
    ],
)
def test_error_names_the_line_of_a_failing_reference(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "factors.txt").touch()
    with pytest.raises(FamilyError, match=message):
        reference(tmp_path, text).golden(plan(), (1, 2))


CONVERSIONS = [
    ("utf-16", "is UTF-16; save it as UTF-8, e.g. `iconv -f utf-16 -t utf-8 {0} > utf8.txt && mv utf8.txt {0}`"),
    ("utf-16-le", "is UTF-16LE; save it as UTF-8, e.g. `iconv -f utf-16le -t utf-8 {0} "),
    ("latin1", "save it as UTF-8, e.g. `iconv -f latin1 -t utf-8 {0} "),
]


@pytest.mark.parametrize(("encoding", "advice"), CONVERSIONS)
@pytest.mark.parametrize("wrong", ["reference.py", "helper.py"])
def test_error_for_a_python_file_in_another_encoding_shows_a_conversion_command(
    tmp_path: Path, wrong: str, encoding: str, advice: str
) -> None:
    texts = {"helper.py": "WORD = 'é'\n", "reference.py": f"import helper\nWORD = 'é'\n{WHOLE}"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding=encoding if name == wrong else "utf-8")
    with pytest.raises(FamilyError) as raised:
        Reference(tmp_path / "reference.py", "digest", Cache(tmp_path / "cache"))
    assert f"; {wrong} is" in str(raised.value) and advice.format(wrong) in str(raised.value)


@pytest.mark.parametrize(
    "reference_text",
    [
        'inputs["x"] *= 2; return {"y": inputs["x"].astype(np.float64)}',
        'inputs["x"] = 2.0 * inputs["x"]; return {"y": inputs["x"]}',
        'x = inputs.pop("x"); x += x; return {"y": x}',
        'np.multiply(inputs["x"], 2, out=inputs["x"]); return {"y": inputs["x"]}',
        'inputs["x"].flags.writeable = True; inputs["x"][:] = 2 * inputs["x"]; return {"y": inputs["x"]}',
        'y = inputs["x"].view(); y += inputs["x"]; return {"y": y}',
        'inputs["scale"] = 2; return {"y": inputs["x"] * inputs["scale"]}',
    ],
)
def test_reference_that_changes_its_inputs_does_not_change_the_inputs_of_a_kernel(
    tmp_path: Path, reference_text: str
) -> None:
    """The test covers a computed and a cached reference."""
    untouched = reference(tmp_path).golden(plan(max_abs=0.0), (1, 2))
    text = WHOLE.split("def reference", maxsplit=1)[0] + f"def reference(problem, inputs):\n    {reference_text}\n"
    for _ in range(2):
        golden = reference(tmp_path, text, digest="in place").golden(plan(max_abs=0.0), (1, 2))
        assert list(golden.inputs) == ["x"]
        assert np.array_equal(golden.inputs["x"], untouched.inputs["x"])
        assert golden.reference["y"].tolist() == untouched.reference["y"].tolist()


def test_yardstick_that_changes_its_inputs_does_not_change_the_inputs_of_a_kernel(tmp_path: Path) -> None:
    text = WHOLE.replace("def yardstick(problem, inputs):", 'def yardstick(problem, inputs):\n    inputs["x"] *= 0')
    golden = reference(tmp_path, text).golden(plan(), (1, 2))
    assert np.array_equal(golden.inputs["x"], reference(tmp_path).golden(plan(), (1, 2)).inputs["x"])


def test_inputs_returned_in_a_reused_array_depend_on_their_seed(tmp_path: Path) -> None:
    """A function inputs() may return the same array at every call."""
    drawn = 'return {"x": rng.standard_normal(problem["N"]).astype(np.float32)}'
    kept = 'KEPT[:] = rng.standard_normal(problem["N"]); return {"x": KEPT}'
    text = "import numpy\nKEPT = numpy.zeros(5, 'float32')\n" + WHOLE.replace(drawn, kept)
    goldens = reference(tmp_path, text)
    first = goldens.golden(plan(), (1, 2))
    second = goldens.golden(plan(), (1, 3))
    assert not np.array_equal(first.inputs["x"], second.inputs["x"])
    assert np.array_equal(first.reference["y"], 2.0 * first.inputs["x"].astype(np.float64))


@pytest.mark.parametrize(
    "reference_text",
    [
        'return {"y": 2.0 * inputs["x"] + np.random.standard_normal(5)}',
        'CALLS.append(1); return {"y": (2.0 + len(CALLS) % 2) * inputs["x"]}',
        'return {"y": 2.0 * inputs["x"] + CALLS.pop()}',
        'CALLS[0] *= 3.0; return {"y": CALLS[0] * inputs["x"]}',
    ],
)
def test_reference_with_varying_results_is_refused(
    tmp_path: Path, reference_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.measure.family.reference._REPEATED_S", math.inf)
    text = f"import numpy as np\nCALLS = [1.0, 2.0]\n{WHOLE.split('def reference', maxsplit=1)[0]}"
    text += f"def reference(problem, inputs):\n    {reference_text}\n"
    with pytest.raises(FamilyError, match=r"reference\(\): `y` of case nominal differs between calls.*np\.random"):
        reference(tmp_path, text).golden(plan(max_abs=0.0), (1, 2))


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("{}", "must return the output `y`"),
        ('{"y": inputs["x"], "z": inputs["x"]}', "declares no output `z`"),
        ('{"y": inputs["x"][1:]}', r"`y` of case nominal has shape \(4,\)"),
        ('{"y": inputs["x"] * np.nan}', "5 of 5 elements are NaN"),
    ],
)
def test_invalid_result_of_a_repeated_reference_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, reason: str
) -> None:
    monkeypatch.setattr("workers.measure.family.reference._REPEATED_S", math.inf)
    text = f"CALLS = []\n{WHOLE.split('def reference', maxsplit=1)[0]}def reference(problem, inputs):\n"
    text += f'    CALLS.append(1); return {second} if len(CALLS) > 1 else {{"y": inputs["x"]}}\n'
    with pytest.raises(FamilyError, match=reason):
        reference(tmp_path, text).golden(plan(max_abs=0.0), (1, 2))


def test_reference_may_vary_within_the_tolerance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.measure.family.reference._REPEATED_S", math.inf)
    text = f"CALLS = []\n{WHOLE.split('def reference', maxsplit=1)[0]}def reference(problem, inputs):\n"
    text += '    CALLS.append(1); return {"y": (2.0 + 1e-9 * len(CALLS)) * inputs["x"]}\n'
    golden = reference(tmp_path, text).golden(plan(max_abs=0.0), (1, 2))
    assert np.allclose(golden.reference["y"], 2 * golden.inputs["x"])


@pytest.mark.parametrize(
    "change",
    [
        'np.random.standard_normal(problem["N"]).astype(np.float32)',
        "np.roll(np.arange(5), np.random.randint(1, 5)).astype(np.float32)",
        "np.array([0, 0, 0, 0, 1 + np.random.rand()], np.float32)",
    ],
    ids=["all elements", "order of elements", "one element"],
)
def test_unseeded_inputs_are_not_compared_with_expected_outputs_of_different_inputs(
    tmp_path: Path, change: str
) -> None:
    text = WHOLE.replace('rng.standard_normal(problem["N"]).astype(np.float32)', change)
    for _ in range(4):
        golden = reference(tmp_path, text).golden(plan(), (1, 2))
        assert np.array_equal(golden.reference["y"], 2.0 * golden.inputs["x"].astype(np.float64))


def test_yardstick_of_nan_is_refused(tmp_path: Path) -> None:
    text = WHOLE.replace("+ 0.25", "+ np.nan")
    with pytest.raises(FamilyError, match=r"yardstick\(\): `y` of case nominal contains only NaN"):
        reference(tmp_path, text).golden(plan(), (1, 2))


@pytest.mark.parametrize("factor", ["0.0", "-1.0", "1e9"])
def test_yardstick_with_the_error_of_an_all_zero_output_is_refused(tmp_path: Path, factor: str) -> None:
    """If the error of such a yardstick were the limit, a few elements could have any value."""
    text = WHOLE.replace('(2.0 * inputs["x"].astype(np.float64) + 0.25)', f'({factor} * inputs["x"])')
    with pytest.raises(FamilyError, match=r"yardstick\(\): `y` of case nominal differs from reference\(\) as much as"):
        reference(tmp_path, text).golden(plan(), (1, 2))


def test_reference_of_zeros_in_every_case_is_refused(tmp_path: Path) -> None:
    def drawn_as_zeros(*distributions: str) -> str:
        drawn = 'rng.standard_normal(problem["N"])'
        return WHOLE.replace(drawn, f"({drawn} * (distribution not in {distributions}))").replace("+ 0.25", "")

    plans = [plan(), replace(plan(), name="edge", distribution="edge")]
    family = reference(tmp_path, drawn_as_zeros("edge"), "edge")
    family.goldens(plans, family.drawn(plans))
    zeros = reference(tmp_path, drawn_as_zeros("edge", "normal"), "all")
    with pytest.raises(FamilyError, match=r"reference\(\): every expected output of every case is zero"):
        zeros.goldens(plans, zeros.drawn(plans))


@pytest.mark.parametrize("timer", ["signal.alarm(600)", "signal.setitimer(signal.ITIMER_PROF, 600.0)"])
@pytest.mark.parametrize("function", ["inputs", "reference", "yardstick"])
def test_reference_that_leaves_a_timer_running_is_refused(tmp_path: Path, timer: str, function: str) -> None:
    """The timer's signal would end the process during a measurement, which would count as a crash of the kernel."""
    text = (
        WHOLE.replace(f"def {function}(", f"def {function}_again(")
        + f"""
import signal
def {function}(*arguments):
    {timer}
    return {function}_again(*arguments)
"""
    )
    own = signal.setitimer(signal.ITIMER_REAL, 0.0)  # stops the timer of pytest-timeout
    try:
        with pytest.raises(FamilyError, match=rf"{function}\(\): leaves a timer running .* stop the timer before the"):
            reference(tmp_path, text).golden(plan(), (1, 2))
        assert signal.getitimer(signal.ITIMER_REAL)[0] == signal.getitimer(signal.ITIMER_PROF)[0] == 0.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, *own)


def test_process_started_by_a_reference_counts_as_trusted_code(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "def reference(problem, inputs):",
        """
import subprocess, sys
STARTED = []
def reference(problem, inputs):
    if not STARTED:
        STARTED.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))""",
    )
    used = reference(tmp_path, text)
    used.golden(plan(), (1, 2))
    (started,) = used._module._module.STARTED
    try:
        assert started.pid in descendants.of_trusted_code()
        assert started.pid in descendants.children()
    finally:
        started.communicate(b"")


def test_exact_yardstick_of_integers_requires_exact_results(tmp_path: Path) -> None:
    text = WHOLE.replace('return {"y": 2.0 * inputs["x"].astype(np.float64)', 'return {"y": np.arange(5) + 2**60')
    text = text.replace(
        'return {"y": (2.0 * inputs["x"].astype(np.float64) + 0.25)', 'return {"y": (np.arange(5) + 2**60)'
    )
    text = text.replace("+ 2**60).astype(np.float32)", "+ 2**60)")
    golden = reference(tmp_path, text).golden(plan("int64", max_abs_ratio=4.0, rel_l2=0.1), (1, 2))
    assert golden.reference["y"].dtype == np.int64
    assert golden.limits["y"].max_abs == 0.0


@pytest.mark.parametrize(
    ("yardstick", "reason"),
    [
        ("(np.arange(5) + 2**60).astype(np.float64)", r"5 of 5 elements are 2\^53 or more"),
        ("[2**64, 0, 0, 0, 0]", "1 of 5 elements are outside the range of int64"),
        ("np.full(5, 2**63, np.uint64)", "5 of 5 elements are outside the range of int64"),
        ("[0.5, np.nan, 0, 0, 0]", "1 of 5 elements are NaN or infinite"),
        ("[None] * 5", "has dtype object; return real numbers"),
    ],
)
def test_yardstick_with_rounded_or_overflowing_integers_is_refused(tmp_path: Path, yardstick: str, reason: str) -> None:
    text = f"{WHOLE.split('def reference', maxsplit=1)[0]}def reference(problem, inputs):\n"
    text += '    return {"y": np.arange(5) + 2**60}\n'
    text += f'def yardstick(problem, inputs):\n    return {{"y": {yardstick}}}\n'
    with pytest.raises(FamilyError, match=rf"yardstick\(\).*`y`.*{reason}"):
        reference(tmp_path, text).golden(plan("int64", max_abs_ratio=4.0, rel_l2=0.1), (1, 2))


def test_limit_of_the_relative_error_is_higher_for_inputs_with_few_different_numbers(tmp_path: Path) -> None:
    family = reference(tmp_path, WHOLE)
    assert family.golden(plan(), (1, 2)).limits["y"].rel_l2 == 1e-6
    assert family.golden(plan(), (1, 2), few=True).limits["y"].rel_l2 == 2e-6
    fixed = plan(rel_l2=1e-6, max_abs=1e-4)
    assert family.golden(fixed, (1, 2), few=True).limits["y"] == Limit(rel_l2=2e-6, max_abs=1e-4)


NEAR, EQUAL = "nominal with elements near known ones", "nominal with equal elements and zeros"
FEW, SIMPLE = "nominal with a few elements near known ones", "nominal with whole numbers"
STRUCTURED = "nominal with rows with a structure"


def mixed_cases(
    tmp_path: Path, answer: str = "2.0 * x", *, problem: dict[str, Any] | None = None, **changes: Any
) -> list[str]:
    """Return the names of the mixed inputs of a normal and a large case.

    Args:
        problem: problem of the large case; default: that of the normal case.
    """
    text = WHOLE.replace("rng.standard_normal", "(9 if distribution == 'large' else 1) * rng.standard_normal")
    text = text.replace("2.0 * inputs", f"(lambda x: {answer})(inputs").replace("(np.float64)}", "(np.float64))}", 1)
    text = text.replace("(np.float64) + 0.25", "(np.float64)) + 0.001")
    large = replace(plan(), name="large", distribution="large", seeds=((1, 3),))
    large = large if problem is None else replace(large, problem=problem)
    plans, family = (replace(plan(), **changes), large), reference(tmp_path, text)
    return [each.case for each in family.mixtures(plans, family.goldens(plans, family.drawn(plans)))]


def test_expected_outputs_include_those_for_mixed_inputs_of_all_cases(tmp_path: Path) -> None:
    assert mixed_cases(tmp_path) == [
        NEAR,
        FEW,
        "nominal with a lone largest element",
        "nominal with a lone smallest element",
        EQUAL,
        SIMPLE,
        STRUCTURED,
    ]


def test_first_case_is_mixed_with_another_distribution_or_seed_if_other_cases_have_other_problems(
    tmp_path: Path,
) -> None:
    other = {"N": 5, "TILE": 2}
    lone = ["nominal with a lone largest element", "nominal with a lone smallest element"]
    every = [NEAR, FEW, *lone, EQUAL, SIMPLE, STRUCTURED]
    assert mixed_cases(tmp_path, problem=other) == every
    assert mixed_cases(tmp_path, problem=other, seeds=((1, 2), (1, 4)), distribution="large") == every
    assert mixed_cases(tmp_path, problem=other, distribution="large") == []


def test_single_case_is_mixed_with_a_distribution_of_a_case_that_the_process_does_not_use(tmp_path: Path) -> None:
    text = WHOLE.replace("rng.standard_normal", "(900 if distribution == 'large' else 1) * rng.standard_normal")
    family, alone = reference(tmp_path, text), [plan()]
    largest = {}
    for others in ((), ("nominal", "large")):
        plans = [replace(alone[0], seeds=((1, 2), (1, 4)), others=others)]
        made = family.mixtures(plans, family.goldens(plans, family.drawn(plans)))
        lone = next(each for each in made if each.case == "nominal with a lone largest element")
        largest[others] = np.abs(lone.inputs["x"]).max()
    assert largest[()] < 10
    assert largest[("nominal", "large")] > 50


def test_mixed_inputs_whose_outputs_the_reference_cannot_compute_are_omitted(tmp_path: Path) -> None:
    assert mixed_cases(tmp_path, "x if (abs(x) > 5).sum() != 1 else [][0]") == [
        NEAR,
        FEW,
        EQUAL,
        SIMPLE,
        STRUCTURED,
    ]


def test_family_can_exclude_a_case_from_mixed_inputs(tmp_path: Path) -> None:
    assert mixed_cases(tmp_path, mixed=False) == []


FACTOR = "def inputs(problem, distribution, rng):\n    return {'x': np.ones(5, np.float32)}\n"
FACTOR += "def reference(problem, inputs):\n    %s\n    return {'y': float(factor) * inputs['x']}\n"


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder in `sys.path`. Each call of `factor_of` imports its modules again, as a new process does."""
    folder = tmp_path / "installed"
    folder.mkdir()
    (tmp_path / "family").mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return folder


def factor_of(folder: Path, text: str) -> float:
    for name in [name for name in sys.modules if name.startswith("factors")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    return float(reference(folder, text).golden(plan(max_abs=0.0), (1, 2)).reference["y"][0])


@pytest.mark.parametrize(
    ("before", "within"),
    [
        ("from factors import factor", "pass"),
        ("import factors", "factor = factors.factor"),
        ("", "from factors import factor"),
        ("from factors_of import factor", "pass"),
    ],
    ids=["imported", "module", "imported by the call", "imported by another module"],
)
def test_expected_outputs_are_recomputed_when_imported_modules_change(
    tmp_path: Path, unloaded: Path, before: str, within: str
) -> None:
    text = f"import numpy as np\n{before}\n{FACTOR % within}"
    (unloaded / "factors_of.py").write_text("from factors import factor\n")
    for factor in (2, 3, 40):
        (unloaded / "factors.py").write_text(f"factor = {factor}\n")
        assert [factor_of(tmp_path / "family", text) for _ in range(2)] == [factor, factor]


@pytest.mark.parametrize(
    "read",
    [
        "factor = np.load(FILE)",
        "factor = np.load(FILE, mmap_mode='r')",
        "import pathlib, io; factor = np.load(io.BytesIO(pathlib.Path(FILE).read_bytes()))",
    ],
)
@pytest.mark.parametrize("early", [True, False])
def test_expected_outputs_are_recomputed_when_files_read_by_the_reference_change(
    tmp_path: Path, read: str, *, early: bool
) -> None:
    file = tmp_path / "elsewhere" / "factor.npy"
    file.parent.mkdir()
    text = f"import numpy as np\nFILE = {str(file)!r}\n{read if early else ''}\n{FACTOR % ('pass' if early else read)}"
    folder = tmp_path / "family"
    folder.mkdir()
    for factor in (2, 3, 40):
        np.save(file, np.float64(factor))
        assert [factor_of(folder, text) for _ in range(2)] == [factor, factor]


def test_lazily_loaded_modules_stay_unloaded_while_dependencies_are_recorded(tmp_path: Path, unloaded: Path) -> None:
    (unloaded / "slow_to_load.py").write_text("raise RuntimeError('loaded')\n")
    spec = importlib.util.find_spec("slow_to_load")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["slow_to_load"] = module
    try:
        spec.loader.exec_module(module)
        assert str(unloaded / "slow_to_load.py") in dependencies(tmp_path / "family")
    finally:
        del sys.modules["slow_to_load"]


def test_reference_imports_modules_of_its_own_family(tmp_path: Path) -> None:
    """Modules with the same name in another family or in the standard library are not replaced."""
    text = f"import numpy as np\nimport decimal\nfrom part import factor\n{FACTOR % 'assert decimal.Decimal'}"
    for factor in (2, 3):
        folder = tmp_path / f"family{factor}"
        folder.mkdir()
        (folder / "part.py").write_text(f"from further import factor\nassert factor == {factor}\n")
        (folder / "further.py").write_text(f"factor = {factor}\n")
        (folder / "decimal.py").write_text("raise RuntimeError\n")
        assert factor_of(folder, text) == factor


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("import absent_part", r"put absent_part\.py into the family's folder, or install it"),
        ("from .part import x", r"write `import helper` for helper\.py"),
    ],
)
def test_error_for_a_failed_reference_import_states_where_the_module_belongs(
    tmp_path: Path, line: str, remedy: str
) -> None:
    with pytest.raises(FamilyError, match=rf"reference\.py, import \(line 2\): .*{remedy}"):
        reference(tmp_path, f"{line}\n")


@pytest.mark.usefixtures("computed_once")
def test_expected_outputs_are_cached_until_the_reference_or_its_imports_change(tmp_path: Path, unloaded: Path) -> None:
    (unloaded / "factors.py").write_text("factor = 2\n")
    text = WHOLE.replace("counter = ", "import factors\n    counter = ")
    for _ in range(3):
        reference(tmp_path / "family", text).golden(plan(), (1, 2))
    assert (tmp_path / "family/counter").read_text() == "x"
