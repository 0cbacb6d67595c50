"""A program's calls are recorded as a suite. Arguments become problems, and numbers of calls become weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.cli.session.watching import watched
from evo.search.suite import suite_from
from evo.search.suite.recorder import Recorder
from evo.text.document import read_toml
from templates.registry import find


@dataclass(frozen=True)
class Tensor:
    """A fake tensor whose memory layout is contiguous, transposed, or neither."""

    shape: Sequence[int]
    dtype: str = "torch.bfloat16"
    memory: str = "in order"

    def is_contiguous(self) -> bool:
        return self.memory == "in order"

    def transpose(self, _dim0: int, _dim1: int, /) -> "Tensor":
        return replace(self, memory="in order" if self.memory == "swapped" else "other")


Q, KV = Tensor((2, 8, 100, 64)), Tensor((2, 2, 100, 64))
WEIGHT = Tensor((64,))


def recorded(function: str, *arguments: Any, **named: Any) -> Recorder:
    recorder = Recorder()
    recorder.observe(function, arguments, named)
    return recorder


@pytest.mark.parametrize(
    ("function", "arguments", "named", "family", "problem"),
    [
        (
            "scaled_dot_product_attention",
            (Q, KV, KV),
            {"is_causal": True, "enable_gqa": True},
            "sdpa",
            {"B": 2, "H": 8, "KV": 2, "S": 100, "D": 64, "causal": True, "dtype": "bfloat16"},
        ),
        (
            "scaled_dot_product_attention",
            (Tensor((1, 4, 50, 64)), Tensor((1, 4, 77, 64)), Tensor((1, 4, 77, 64)), None, 0.0, False, 0.125),
            {},
            "sdpa",
            {"B": 1, "H": 4, "S": 50, "S_KV": 77, "D": 64, "causal": False, "dtype": "bfloat16"},
        ),
        (
            "scaled_dot_product_attention",
            (Tensor((2, 8, 1, 64)), KV, KV),
            {"enable_gqa": True},
            "sdpa_decode",
            {"B": 2, "H": 8, "KV": 2, "S": 100, "Q": 1, "D": 64, "dtype": "bfloat16"},
        ),
        (
            "rms_norm",
            (Tensor((2, 3, 64)), (64,), WEIGHT, 1e-5),
            {},
            "rmsnorm",
            {"rows": 6, "cols": 64, "residual": False, "dtype": "bfloat16"},
        ),
        (
            "layer_norm",
            (Tensor((64,)), (64,)),
            {"weight": WEIGHT, "bias": WEIGHT},
            "layernorm",
            {"rows": 1, "cols": 64, "residual": False, "dtype": "bfloat16"},
        ),
        ("softmax", (Tensor((4, 9)),), {"dim": 1}, "softmax", {"rows": 4, "cols": 9, "dtype": "bfloat16"}),
        (
            "linear",
            (Tensor((2, 3, 64), "torch.float16"), Tensor((32, 64), "torch.float16")),
            {"bias": Tensor((32,))},
            "gemm",
            {"M": 6, "N": 32, "K": 64, "b_layout": "nk", "epilogue": "bias", "dtype": "float16"},
        ),
    ],
)
def test_call_arguments_become_the_problem_of_a_family(
    function: str, arguments: Sequence[Any], named: dict[str, Any], family: str, problem: dict[str, Any]
) -> None:
    recorder = recorded(function, *arguments, **named)
    suite = suite_from(read_toml(recorder.suite()), "recorded")
    assert [(call.family, dict(call.problem)) for call in suite.calls] == [(family, problem)]
    assert find(family).family.problem(suite.calls[0].text)


@pytest.mark.parametrize(
    ("function", "arguments", "named", "reason"),
    [
        ("scaled_dot_product_attention", (Q, Q, Q, object()), {}, "mask"),
        ("scaled_dot_product_attention", (Q, Q, Q), {"dropout_p": 0.1}, "dropout"),
        ("scaled_dot_product_attention", (Q, Q, Q), {"scale": 1.0}, "scale"),
        ("scaled_dot_product_attention", (Tensor((2, 8, 1, 64)), Q, Q), {"is_causal": True}, "causal"),
        ("scaled_dot_product_attention", (Tensor((2, 64, 64)), Q, Q), {}, "the queries have 3 dimensions instead of 4"),
        ("scaled_dot_product_attention", (Q, Q, KV), {}, "keys and values have different shapes"),
        ("rms_norm", (Tensor((2, 64)), (64,)), {}, "the call has no weight"),
        ("layer_norm", (Tensor((2, 64)), (64,), WEIGHT), {}, "the call has no bias"),
        ("layer_norm", (Tensor((2, 4, 16)), (4, 16), WEIGHT, WEIGHT), {}, "over 2 dimensions instead of 1"),
        ("softmax", (Tensor((4, 9)), 0), {}, "dim is not the last dimension"),
        ("softmax", (Tensor((4, 9)), 1), {"dtype": "torch.float32"}, "dtype differs from the dtype of the input"),
        ("softmax", (Tensor((4, 0)), 1), {}, "has no elements"),
        ("linear", (Tensor((2, 64), "torch.float64"), Tensor((8, 64))), {}, "float64"),
    ],
)
def test_calls_that_no_family_supports_are_counted_with_the_reason(
    function: str, arguments: Sequence[Any], named: dict[str, Any], reason: str
) -> None:
    recorder = recorded(function, *arguments, **named)
    assert not recorder.counts
    ((name, said),) = recorder.skipped
    assert (name, reason in said) == (function, True)


def test_attention_layout_is_recorded_from_the_tensor_strides() -> None:
    q, kv = replace(Q, memory="swapped"), replace(KV, memory="swapped")
    recorder = recorded("scaled_dot_product_attention", q, kv, kv, enable_gqa=True)
    recorder.observe("scaled_dot_product_attention", (replace(Q, memory="other"), kv, kv), {"enable_gqa": True})
    (call,) = suite_from(read_toml(recorder.suite()), "recorded").calls
    assert (call.problem["layout"], call.weight) == ("bshd", 1)
    assert dict(recorder.skipped) == {("scaled_dot_product_attention", "a tensor is not contiguous in memory"): 1}


def test_gated_modules_are_recorded_as_swiglu(torch: Any) -> None:
    recorder = Recorder()
    linear = SimpleNamespace(out_features=96)
    with watched(recorder, torch):
        for hook in torch.hooks:
            hook(SimpleNamespace(gate_proj=linear, up_proj=linear, down_proj=linear), (Tensor((2, 3, 64)),))
    (call,) = suite_from(read_toml(recorder.suite()), "recorded").calls
    assert (call.family, call.problem) == ("swiglu", {"rows": 6, "cols": 96, "dtype": "bfloat16"})


def test_repeated_calls_become_weights_with_frequent_calls_first() -> None:
    recorder = Recorder()
    for rows, times in ((4, 1), (8, 3)):
        for _ in range(times):
            recorder.observe("softmax", (Tensor((rows, 9)), -1), {})
    recorder.observe("relu", (Tensor((4, 9)),), {})
    suite = suite_from(read_toml(recorder.suite()), "recorded")
    assert [(call.problem["rows"], call.weight) for call in suite.calls] == [(8, 3), (4, 1)]
    assert (suite.goal, recorder.skipped) == ("time", {})


class StubMode:
    """A fake TorchFunctionMode. The innermost active mode receives the calls of the fake PyTorch."""

    active: list["StubMode"]

    def __enter__(self) -> None:
        type(self).active.append(self)

    def __exit__(self, *_: object) -> None:
        type(self).active.remove(self)


@pytest.fixture
def torch() -> Iterator[Any]:
    """Install a fake PyTorch with the functions that the recorder uses."""
    active: list[Any] = []
    hooks: list[Callable[..., None]] = []

    def function(name: str) -> Callable[..., str]:
        def called(*arguments: Any, **named: Any) -> str:
            if not active:
                return name
            mode = active.pop()
            try:
                return str(mode.__torch_function__(called, (), arguments, named))
            finally:
                active.append(mode)

        return called

    def register(hook: Callable[..., None]) -> Any:
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    functional = SimpleNamespace(**{name: function(name) for name in ("softmax", "linear", "relu")})
    own = type("RMSNorm", (), {})
    module = SimpleNamespace(register_module_forward_pre_hook=register)
    nn = SimpleNamespace(functional=functional, RMSNorm=own, modules=SimpleNamespace(module=module))
    mode = type("TorchFunctionMode", (StubMode,), {"active": active})
    yield SimpleNamespace(nn=nn, overrides=SimpleNamespace(TorchFunctionMode=mode), hooks=hooks, active=active)


def test_watched_functions_are_recorded_and_return_their_result(torch: Any) -> None:
    recorder = Recorder()
    with watched(recorder, torch):
        assert torch.nn.functional.softmax(Tensor((4, 9)), dim=-1) == "softmax"
        assert torch.nn.functional.relu(Tensor((4, 9))) == "relu"
        llama = type("LlamaRMSNorm", (), {"weight": WEIGHT})()
        for hook in torch.hooks:
            hook(llama, (Tensor((3, 64)),))
            hook(torch.nn.RMSNorm(), (Tensor((3, 64)),))
            hook(object(), (Tensor((3, 64)),))
    torch.nn.functional.softmax(Tensor((4, 9)), dim=-1)
    assert sorted(family for family, _ in recorder.counts) == ["rmsnorm", "softmax"]
    assert set(recorder.counts.values()) == {1}
    assert (torch.hooks, torch.active) == ([], [])


def test_suite_record_command_records_calls_of_a_pytorch_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from evo.cli.main import main

    (tmp_path / "model.py").write_text(
        "import sys, torch\n"
        "with torch.no_grad():\n"
        "    for _ in range(int(sys.argv[1])): torch.nn.Linear(16, 8)(torch.randn(2, 3, 16))\n"
        "    q = torch.randn(1, 4, 6, 8)\n"
        "    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)\n"
    )
    file = tmp_path / "suite.toml"
    assert main(["suite", "record", str(tmp_path / "model.py"), "3", "--to", str(file)]) == 0
    suite = suite_from(read_toml(file.read_text()), "recorded")
    assert [(call.family, call.weight) for call in suite.calls] == [("gemm", 3), ("sdpa", 1)]
    assert suite.calls[0].problem["M"] == 6
    (tmp_path / "model.py").write_text("raise SystemExit(3)")
    assert main(["suite", "record", str(tmp_path / "model.py"), "--to", str(tmp_path / "other.toml")]) != 0
    assert "exited with 3" in capsys.readouterr().err


def test_error_names_the_missing_program_to_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from evo.cli.main import main

    assert main(["suite", "record", str(tmp_path / "none.py"), "--to", str(tmp_path / "s.toml")]) == 2
    assert "none.py" in capsys.readouterr().err
