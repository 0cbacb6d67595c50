"""A Python class gives a family document, and a class that cannot be read gives an error."""

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.family.python.reading import read_family
from templates.bundle import pack, unpack
from templates.registry import find

EXAMPLES = Path(__file__).parents[2] / "docs" / "guides" / "examples"
CLASS = '''
import numpy as np
from evo.family import python as py

@py.family
class scale:
    """out = x times two

    Twice
    the input."""

    N: int = 64
    eps: float = py.field(1e-5, min=0)
    flip: bool = False
    mark: str = "a"
    dtype: str = py.field("float32", choices=["float32", "float16"])
    x = py.argument("input", "dtype", ("N",), alignment=16)
    out = py.argument("output", "dtype", ["N"], rel_l2="1e-6", max_abs=1e-5)
    deterministic = False
    case_problem = {"N": "min(N, 8)"}
    work = {"flops": "N", "bytes": "8 * N", "dtype": "float32"}
    nominal = py.case("normal")
    tail = py.case("normal", problem={"N": 17}, hidden=True)

    @py.kernel(entry="scale", derived={"STEP": "2 * TILE"})
    def cpu(TILE=(8, 16), *, WAY=py.tunable(["a", "b"], default="b")):
        "void scale(const float *x, float *out) { use(TILE, WAY, STEP); }"

    @py.kernel(source="scale.cu", entry="scale", launch={"grid": ["N"], "block": [32]})
    def cuda(ROWS=[1, 2]): ...

    def inputs(problem, distribution, rng):
        return {"x": rng.standard_normal(problem["N"], np.float32)}

    def reference(problem, inputs):
        return {"out": 2 * inputs["x"]}
'''


def changed(old: str, new: str) -> str:
    assert old in CLASS
    return CLASS.replace(old, new, 1)


def test_family_class_gives_the_equivalent_document() -> None:
    document, files = read_family(CLASS)
    assert document == {
        "name": "scale",
        "title": "out = x times two",
        "description": "Twice the input.",
        "deterministic": False,
        "case_problem": {"N": "min(N, 8)"},
        "work": {"flops": "N", "bytes": "8 * N", "dtype": "float32"},
        "problem": {
            "N": {"type": "int", "default": 64},
            "eps": {"type": "float", "default": 1e-5, "min": 0},
            "flip": {"type": "bool", "default": False},
            "mark": {"type": "text", "default": "a"},
            "dtype": {"type": "choice", "default": "float32", "choices": ["float32", "float16"]},
        },
        "arguments": [
            {"name": "x", "role": "input", "dtype": "dtype", "shape": ["N"], "alignment": 16},
            {"name": "out", "role": "output", "dtype": "dtype", "shape": ["N"], "rel_l2": "1e-6", "max_abs": 1e-5},
        ],
        "cases": [
            {"name": "nominal", "inputs": "normal"},
            {"name": "tail", "inputs": "normal", "problem": {"N": 17}, "hidden": True},
        ],
        "cpu": {
            "entry": "scale",
            "derived": {"STEP": "2 * TILE"},
            "source": "cpu.c",
            "tunables": {"TILE": [8, 16], "WAY": {"values": ["a", "b"], "default": "b"}},
        },
        "cuda": {
            "source": "scale.cu",
            "entry": "scale",
            "launch": {"grid": ["N"], "block": [32]},
            "tunables": {"ROWS": [1, 2]},
        },
    }
    assert files["cpu.c"].startswith("void scale(")
    assert files["reference.py"].endswith("\ninputs = scale.inputs\nreference = scale.reference\n")


def test_methods_of_a_family_class_are_its_reference_functions() -> None:
    module: dict[str, Any] = {}
    exec(read_family(CLASS)[1]["reference.py"], module)  # the runner imports the file in the same way
    import numpy as np

    drawn = module["inputs"]({"N": 3}, "normal", np.random.default_rng(1))
    assert (module["reference"]({"N": 3}, drawn)["out"] == 2 * drawn["x"]).all()


def test_python_example_equals_the_toml_example() -> None:
    ours, _ = read_family((EXAMPLES / "saxpy_python" / "family.py").read_text())
    theirs = tomllib.loads((EXAMPLES / "saxpy" / "family.toml").read_text())
    for part in ("title", "problem", "arguments", "cases", "work"):
        assert ours[part] == theirs[part]


def test_family_is_found_by_the_path_of_family_py(tmp_path: Path) -> None:
    place = tmp_path / "scale"
    place.mkdir()
    (place / "family.py").write_text(CLASS)
    (place / "scale.cu").write_text('extern "C" __global__ void scale(const float *x, float *out) { use(ROWS); }')
    package = find(str(place / "family.py"))
    assert package.digest == find(str(place)).digest
    files = unpack(pack(package))
    assert sorted(files) == ["cpu.c", "family.toml", "reference.py", "scale.cu"]
    assert tomllib.loads(files["family.toml"].decode()) == read_family(CLASS)[0]
    (place / "reference.py").write_text("")
    with pytest.raises(InvalidInput, match=r"generates reference.py, but its folder contains a file with this name"):
        find(str(place))


def test_packed_python_family_keeps_its_digest(tmp_path: Path) -> None:
    package = find(str(EXAMPLES / "saxpy_python"))
    place = tmp_path / "saxpy_python"
    place.mkdir()
    for name, content in unpack(pack(package)).items():
        (place / name).write_bytes(content)
    assert find(str(place)).digest == package.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@py.family\n", "", "family.py: has 0 classes with the decorator `@family`; exactly one is required"),
        ("class scale:", "class scale(:", "family.py: is not valid Python"),
        ("N: int = 64", "N: list = 64", "line 12: the type of a problem field must be one of int, float, bool, str"),
        ("N: int = 64", "N = 64", "line 12: `N` must be argument(…) or case(…)"),
        ("N: int = 64", "N: int = 8 * 8 if True else 2", "must be a literal, because the class is parsed but not run"),
        ('("N",)', "(WIDTH,)", "line 17: `(WIDTH,)` must be a literal"),
        (
            "def cpu(",
            "def cpux(",
            "line 26: the kernel `cpux` is not named after a device kind; did you mean `cpu`? Device kinds: cpu, cuda",
        ),
        ("TILE=(8, 16)", "TILE", "the tunable `TILE` has no values; write `TILE=[8, 16]`"),
        ("TILE=(8, 16), *", "*TILE", "must not have *args"),
        ("def cuda(ROWS=[1, 2]): ...", "def cuda(ROWS=[1, 2]): pass", ""),
        ('source="scale.cu", ', "", "set `source` or `template`, or write the source as its docstring"),
        (
            "def reference(",
            "def referense(",
            "the class may not define `referense`; did you mean `reference`? Accepted",
        ),
        ("def inputs(", "def yardstick(", "must define `inputs("),
        (
            '"input", "dtype"',
            '"input", "dtype", ["N"], 3',
            "takes at most 3 arguments by position; pass the others by name",
        ),
        ("alignment=16", 'role="output", alignment=16', "()` once, by name"),
        ("nominal =", "nominal = tail =", "is not a field, argument, case"),
    ],
)
def test_error_names_the_line_of_an_invalid_family_class(old: str, new: str, said: str) -> None:
    if not said:
        read_family(changed(old, new))
        return
    with pytest.raises(InvalidInput, match=re.escape(said)):
        read_family(changed(old, new))


def test_deeply_nested_family_class_is_refused_as_nested() -> None:
    with pytest.raises(InvalidInput, match=r"family\.py: has an expression that is nested too deeply"):
        read_family(changed("N: int = 64", f"N: int = {'-' * 100_000}64"))


def test_error_names_the_unknown_key_of_a_family_class(tmp_path: Path) -> None:
    place = tmp_path / "scale"
    place.mkdir()
    (place / "family.py").write_text(changed('entry="scale", derived', 'entry="scale", derive'))
    with pytest.raises(InvalidInput) as refused:
        find(str(place))
    assert refused.value.field == "family.py: cpu.derive"


def test_family_class_name_that_differs_from_the_folder_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "other"
    place.mkdir()
    (place / "family.py").write_text(textwrap.dedent(CLASS))
    with pytest.raises(InvalidInput, match=r"`class scale` differs from the folder's name: make both other"):
        find(str(place))
