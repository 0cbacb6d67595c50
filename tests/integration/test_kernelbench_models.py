"""Models in KernelBench's format are run by PyTorch, if it is installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.family import Family
from evo.family.importing.kernelbench.described import describe
from evo.family.importing.kernelbench.writing import family_files
from evo.text.document import read_toml

pytest.importorskip("torch")

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "bench" / "operations" / "problems", TESTS / "data" / "kernelbench")
"""Models: the ten operations of the benchmarks, and more operations of KernelBench's level 1."""

PROBLEMS = sorted(path for folder in FOLDERS for path in folder.glob("*.py"))
MODEL = (
    "import torch\nfrom torch import nn\nn = 8\nclass Model(nn.Module):\n    def forward(self, x):\n        return %s\n"
)
INPUTS = "def get_inputs():\n    return [%s]\ndef get_init_inputs():\n    return []\n"


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_family_of_a_kernelbench_model_has_valid_inputs_and_expected_outputs(path: Path, tmp_path: Path) -> None:
    found = describe(path)
    files = family_files(found, path.read_text(), path.stem)
    family = Family.from_document(read_toml(files["family.toml"]))
    small = {name: 12 if name == "CHANNELS" else min(value, 24) for name, value in found.fields.items()}
    for name in ("reference.py", "problem.py"):
        (tmp_path / name).write_text(files[name])
    spec = importlib.util.spec_from_file_location(f"kernelbench_{path.stem}", tmp_path / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert {"own", "scaled"} <= set(found.distributions)
    for case in family.case_problems(family.problem(small), "cuda"):
        assert case.problem is not None
        inputs = module.inputs(case.problem, case.case.inputs, np.random.default_rng(3))
        again = module.inputs(case.problem, case.case.inputs, np.random.default_rng(3))
        right, rough = module.reference(case.problem, inputs), module.yardstick(case.problem, inputs)
        for operand in family.operands(case.problem):
            made = inputs if operand.role == "input" else right
            assert made[operand.name].shape == tuple(operand.shape)
            if operand.role == "input":
                assert np.array_equal(made[operand.name], again[operand.name])
                continue
            assert operand.tolerance is not None
            exact = right[operand.name]
            assert exact.dtype == (np.float64 if "float" in operand.dtype else np.dtype(operand.dtype))
            assert np.linalg.norm(rough[operand.name] - exact) <= operand.tolerance.rel_l2 * np.linalg.norm(exact)
    assert set(module.baselines(small)) == set(module.cuda_baselines(small)) == {"torch", "torch-compile"}


def described_text(folder: Path, forward: str, inputs: str) -> object:
    (folder / "p.py").write_text(MODEL % forward + INPUTS % inputs)
    return describe(folder / "p.py")


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("torch.dropout(x, 0.5, True)", "gives different outputs for equal inputs"),
        ("x.sum().item()", "does not run|must return a tensor"),
        ("x * 0", "an output is zero everywhere"),
        ("torch.log(-1 - x)", "zero everywhere, NaN or infinite on the inputs"),
        ("x.no_such_method()", "does not run"),
    ],
)
def test_model_with_random_or_invalid_outputs_is_refused(forward: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=reason):
        described_text(tmp_path, forward, "torch.rand(n, 9)")


@pytest.mark.parametrize(
    ("forward", "inputs", "reason"),
    [
        ("torch.cat(x)", "[torch.rand(n, 2), torch.rand(n, 2)]", r"returns tensors in a list \(item 0\)"),
        ("x", "3, {'a': torch.rand(n)}", r"returns tensors in a dict \(item 1\)"),
        ("x[x > 0.5]", "torch.rand(n)", "first run on tensors of PyTorch's device `meta`"),
    ],
)
def test_model_with_unsupported_inputs_is_refused_with_the_reason(
    forward: str, inputs: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        described_text(tmp_path, forward, inputs)


@pytest.mark.parametrize(
    ("parameter", "forward", "inputs", "named"),
    [("", "torch.arange(n) + 1.5", "", "out"), ("größe", "größe * 2", "torch.rand(n, 3)", "gr_e")],
)
def test_family_of_a_model_without_inputs_or_with_non_ascii_names_is_valid(
    parameter: str, forward: str, inputs: str, named: str, tmp_path: Path
) -> None:
    text = (MODEL % forward).replace("self, x", f"self, {parameter}") + INPUTS % inputs
    (tmp_path / "p.py").write_text(text, "utf-8")
    family = Family.from_document(read_toml(family_files(describe(tmp_path / "p.py"), text, "p")["family.toml"]))
    assert named in {each.name for each in family.operands(family.problem({}))}


@pytest.mark.parametrize("returned", ["{'x': torch.rand(8)}", "torch.rand(8, 2)", "None"])
def test_get_inputs_must_return_a_list(returned: str, tmp_path: Path) -> None:
    text = MODEL % "x" + f"def get_inputs():\n    return {returned}\ndef get_init_inputs():\n    return []\n"
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(InvalidInput, match="it must return a list of tensors and numbers"):
        describe(tmp_path / "p.py")


def test_inputs_drawn_by_generators_of_python_and_numpy_depend_only_on_the_seed(tmp_path: Path) -> None:
    from evo.reference.torch_model import TorchModel

    drawn = "torch.tensor([random.random() for _ in range(n)]), torch.from_numpy(np.random.rand(n)), random.random()"
    text = MODEL % "x + y * s" + INPUTS % drawn
    text = f"import random\nimport numpy as np\n{text.replace('self, x', 'self, x, y, s')}"
    (tmp_path / "p.py").write_text("\ufeff" + text, "utf-8")
    assert "own" in describe(tmp_path / "p.py").distributions
    model = TorchModel(
        path=tmp_path / "p.py", fields={"N": "n"}, given=("x", "y", None), parameters={}, outputs=("out",)
    )
    first, again, other = (model.inputs({"N": 6}, "own", np.random.default_rng(seed)) for seed in (0, 0, 1))
    for name in ("x", "y"):
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
    outputs = [model.reference({"N": 6}, first)["out"] for _ in range(2)]
    assert np.array_equal(outputs[0], outputs[1])


def test_input_structure_is_preserved_and_non_finite_distributions_are_omitted(tmp_path: Path) -> None:
    from evo.reference.torch_model import TorchModel

    (tmp_path / "p.py").write_text(MODEL % "torch.log(x.sum(1))" + INPUTS % "torch.triu(torch.rand(n, n) + 1)")
    found = describe(tmp_path / "p.py")
    assert "shifted" not in found.distributions
    assert "scaled" in found.distributions
    model = TorchModel(path=tmp_path / "p.py", fields={"N": "n"}, given=("x",), parameters={}, outputs=("out",))
    drawn = model.inputs({"N": 6}, "normal", np.random.default_rng(0))["x"]
    assert np.array_equal(drawn, np.triu(drawn))
