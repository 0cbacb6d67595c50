"""KernelBench problems are imported without PyTorch: constants, shapes as expressions, files, and the summary."""

import ast
import time
import tomllib
from pathlib import Path

import pytest

from evo.cli.files.kernelbench import write_kernelbench
from evo.cli.session.kernelbench import problems_in
from evo.errors import Conflict, InvalidInput, NotFound
from evo.family import Family
from evo.family.importing.kernelbench.described import Described, Tensor, described
from evo.family.importing.kernelbench.shapes import Shapes, Values, fitted, values_of
from evo.family.importing.kernelbench.writing import family_files
from evo.reference.torch_model import constants_of
from evo.report.kernelbench import Attempt, Result, SpeedUp, fast, markdown, summary

FOUND = Described(
    title="A product",
    fields={"N": 64, "K": 32},
    constants={"N": "n", "K": "sizes[0]"},
    given=("A", None),
    parameters={"layer_weight": "layer.weight"},
    inputs=(
        Tensor(name="A", dtype="float32", shape=("N", "K")),
        Tensor(name="layer_weight", dtype="float32", shape=("K",)),
    ),
    outputs=(
        Tensor(name="out", dtype="float32", shape=("N",)),
        Tensor(name="where", dtype="int64", shape=("N // 2 + 1",)),
    ),
    distributions=("own", "scaled"),
    tail={"N": "max(1, N // 2 + 3)"},
    rel_error={"out": 1e-6, "where": 0.0},
    flops="2 * (N) * (K)",
    reduced=32.0,
    notes=("`eps = 1e-05` is a constant of the kernel",),
)


def test_kernelbench_constants_are_integers_assigned_once_at_top_level() -> None:
    source = "a = 3\nb = 2 * 4\nc = a * 2\nd = 1.5\nsizes = (7, a, 2 ** 3)\n"
    source += "e = 1\ne = 2\nf = -1\ng = True\ndef h():\n    i = 5\n"
    assert constants_of(source) == {"a": 3, "b": 8, "sizes[0]": 7, "sizes[2]": 8}


def test_kernelbench_shapes_are_fitted_as_expressions() -> None:
    def probe(values: Values) -> Shapes | None:
        n, k, s, w = (values.get(name, value) for name, value in {"N": 40, "K": 6, "S": 3, "W": 5}.items())
        if n % 2:
            return None
        return (n, k), (n * k, 3 * n), ((n - w) // s + 1, 2 * k - 1)

    found = fitted({"N": 40, "K": 6, "S": 3, "W": 5, "UNUSED": 9}, probe)
    assert found is not None
    assert found.shapes[:2] == (("N", "K"), ("N * K", "3 * N"))
    assert found.fields.keys() == {"N", "K"}
    for changed in ({"N": 62}, {"N": 86, "K": 9}):
        assert values_of(found.shapes, {**found.fields, **changed}) == probe(changed)


def test_kernelbench_constant_with_an_irregular_effect_on_shapes_stays_fixed() -> None:
    def probe(values: Values) -> Shapes | None:
        n, k = values.get("N", 4), values.get("K", 3)
        return ((n, k * k),)

    found = fitted({"N": 4, "K": 3}, probe)
    assert found is not None
    assert (found.fields, found.shapes) == ({"N": 4}, (("N", "9"),))


def test_fitted_shapes_are_none_if_the_kernelbench_file_fails() -> None:
    assert fitted({"N": 4}, lambda values: None) is None


def test_kernelbench_family_has_arguments_cases_and_tolerances() -> None:
    files = family_files(FOUND, "source", "product")
    document = tomllib.loads(files["family.toml"])
    family = Family.from_document(document)
    assert [each["name"] for each in document["arguments"]] == ["A", "layer_weight", "out", "where"]
    assert document["arguments"][2]["rel_l2"] == pytest.approx(1.6e-5)
    assert (document["arguments"][3]["rel_l2"], document["arguments"][3]["max_abs"]) == (0, 0)
    assert [(each["name"], each["inputs"]) for each in document["cases"]] == [
        *(("nominal", "own"), ("scaled", "scaled"), ("tail", "own"))
    ]
    assert family.problem("N=128")["N"] == 128
    assert set(family.implementations) == {"cpu", "cuda"}
    assert files["problem.py"] == "source"
    ast.parse(files["reference.py"])
    assert "(None" not in files["reference.py"]
    assert "float *A" in files["kernel.cu.j2"]


def test_half_precision_kernelbench_family_has_no_cpu_stub() -> None:
    half = Tensor(name="x", dtype="float16", shape=("N",))
    out = Tensor(name="out", dtype="float16", shape=("N",))
    found = Described(**{**vars(FOUND), "inputs": (half,), "outputs": (out,), "rel_error": {"out": 3e-4}})
    document = tomllib.loads(family_files(found, "", "half")["family.toml"])
    assert "cpu" not in document
    assert document["arguments"][1]["max_abs_ratio"] == 4


def test_kernelbench_description_round_trips_through_json() -> None:
    import json
    from dataclasses import asdict

    assert described(json.loads(json.dumps(asdict(FOUND)))) == FOUND


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = (", "line 1"),
        ("x = 1", "must define `Model`"),
        ("import no_such_package", "no_such_package"),
        ("1 / 0", "Zero"),
    ],
)
def test_file_that_is_not_a_kernelbench_problem_is_refused_with_the_reason(
    text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(InvalidInput, match=reason) as refused:
        write_kernelbench(tmp_path / "p.py", tmp_path / "family")
    assert str(refused.value).count("p.py") == 1
    assert not (tmp_path / "family").exists()


def test_kernelbench_file_that_ends_its_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import os\nos._exit(7)\n")
    with pytest.raises(InvalidInput, match="could not be run: its process exited with status"):
        write_kernelbench(tmp_path / "p.py", tmp_path / "family")


def test_kernelbench_file_with_an_endless_thread_does_not_block_the_import(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import threading\nthreading.Thread(target=threading.Event().wait).start()\n")
    begun_s = time.monotonic()
    with pytest.raises(InvalidInput, match="must define `Model`"):
        write_kernelbench(tmp_path / "p.py", tmp_path / "family")
    assert time.monotonic() - begun_s < 60


def test_kernelbench_file_cannot_read_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_EVO_TOKEN", "secret-token")
    (tmp_path / "p.py").write_text("import os\nraise ValueError(sorted(os.environ.values()))\n")
    with pytest.raises(InvalidInput, match="ValueError") as refused:
        write_kernelbench(tmp_path / "p.py", tmp_path / "family")
    assert "secret-token" not in str(refused.value)


def test_kernelbench_import_into_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("")
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "mine").write_text("")
    with pytest.raises(Conflict, match="--folder"):
        write_kernelbench(tmp_path / "p.py", tmp_path / "family")


def result(ratio: float | None, *, best_us: float | None = 2.0) -> Result:
    attempts = (Attempt(name="naive", time_us=8.0), Attempt(name="best", time_us=best_us, tuning_gain=1.5))
    speedups = {} if ratio is None else {"torch": SpeedUp(ratio=ratio, low=ratio - 0.1, high=ratio + 0.1)}
    return Result(
        problem="p",
        attempts=attempts,
        best_us=best_us,
        quick_us=None if best_us is None else 0.5 * best_us,
        best="best",
        speedups=speedups,
        usd=0.25,
    )


def test_fast_p_counts_correct_kernels_above_the_threshold() -> None:
    results = [result(0.9), result(1.2), result(3.0), result(None, best_us=None)]
    assert [fast(results, p) for p in (0.0, 1.0, 1.5, 2.0)] == [0.75, 0.5, 0.25, 0.25]


def test_kernelbench_summary_has_validity_medians_and_cost() -> None:
    results = [result(1.0), result(3.0), Result(problem="bad", trouble="cannot be | imported")]
    found = summary(results)
    assert (found.problems, found.validity, found.usd) == (3, 1.0, 0.5)
    assert found.medians["torch"].ratio == 2.0
    assert found.medians["torch"].low <= 2.0 <= found.medians["torch"].high
    assert found.tuning_gain == 1.5
    table = markdown(results)
    assert "8.00× its speed" in table, "both times are from quick samples"
    assert "cannot be \\| imported" in table
    assert summary([]).validity is None


def test_kernelbench_problems_are_ordered_by_their_number(tmp_path: Path) -> None:
    for name in ("10_b.py", "2_a.py", "c.py", "_not.py"):
        (tmp_path / name).write_text("")
    assert [each.stem for each in problems_in(tmp_path)] == ["2_a", "10_b", "c"]
    with pytest.raises(NotFound, match="contains no problems"):
        problems_in(tmp_path / "nothing")
