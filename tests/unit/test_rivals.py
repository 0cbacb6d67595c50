"""Baselines of other libraries get the right arguments, and a missing library is reported."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evo.reference import rivals as module
from evo.reference.rivals import RIVALS, rivals
from templates.registry import find

ATTENTION = {"B": 2, "H": 4, "KV": 2, "S": 6, "S_KV": 0, "D": 8, "causal": True, "window": 0, "dtype": "float16"}


def test_library_baselines_have_unique_names_and_existing_families() -> None:
    assert len({(each.family, each.name) for each in RIVALS}) == len(RIVALS)
    for each in RIVALS:
        family = find(each.family).family
        assert each.name in rivals(each.family, family.problem("", "cuda"))


def test_import_error_names_the_missing_baseline_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in RIVALS:
        monkeypatch.setitem(sys.modules, each.module.split(".")[0], None)
        with pytest.raises(ImportError, match=each.module.split(".", maxsplit=1)[0]):
            rivals(each.family, {"dtype": "float16"})[each.name]({})


class Library:
    """A fake module whose functions return their arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **terms: (name, given, terms)


def prepared(
    monkeypatch: pytest.MonkeyPatch, library: object, name: str, family: str, problem: dict[str, Any], **inputs: Any
) -> Any:
    """Return the prepared call of a baseline, with a fake library and tensors on the CPU."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(module, "importlib", SimpleNamespace(import_module=lambda _: library))
    monkeypatch.setattr(module, "on_gpu", lambda array, _: torch.from_numpy(array))
    return rivals(family, problem)[name](inputs)


def heads() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 4, 6, 8), "k": (2, 2, 6, 8), "v": (2, 2, 6, 8)}
    return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}


def test_flash_attention_baseline_gets_bshd_tensors_and_the_window_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for window, terms in ((0, {"causal": True}), (3, {"causal": True, "window_size": (2, 0)})):
        problem = {**ATTENTION, "window": window}
        name, given, found = prepared(monkeypatch, Library(), "flash-attention-3", "sdpa", problem, **heads())()
        assert (name, found) == ("flash_attn_func", terms)
        assert [tuple(each.shape) for each in given] == [(2, 6, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)]
    with pytest.raises(ValueError, match="16-bit dtypes"):
        prepared(monkeypatch, Library(), "flash-attention-2", "sdpa", {**ATTENTION, "dtype": "float32"}, **heads())
    with pytest.raises(ValueError, match="only for the layouts bhsd and bshd"):
        prepared(monkeypatch, Library(), "flash-attention-2", "sdpa", {**ATTENTION, "layout": "qkv"}, qkv=heads()["q"])


class Wrapper:
    """A fake of FlashInfer's wrapper classes."""

    def __init__(self, _workspace: Any, layout: str) -> None:
        assert layout == "NHD"

    def plan(self, *given: Any, **terms: Any) -> None:
        self.planned = given, terms

    def run(self, *given: Any) -> Any:
        return *self.planned, given


def test_flashinfer_baseline_gets_ragged_queries_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKSPACE_BYTES", 16)
    library = SimpleNamespace(BatchPrefillWithRaggedKVCacheWrapper=Wrapper, BatchDecodeWithPagedKVCacheWrapper=Wrapper)
    starts, terms, given = prepared(monkeypatch, library, "flashinfer", "sdpa", ATTENTION, **heads())()
    assert [each.tolist() for each in starts] == [[0, 6, 12], [0, 6, 12]]
    assert (terms["num_kv_heads"], terms["window_left"]) == (2, -1)
    assert [tuple(each.shape) for each in given] == [(12, 4, 8), (12, 2, 8), (12, 2, 8)]
    inputs = heads()
    inputs["q"] = inputs["q"][:, :, :1]
    decode = {"B": 2, "H": 4, "KV": 2, "S": 6, "Q": 1, "D": 8, "causal": False, "dtype": "float16"}
    planned, _, (query, caches) = prepared(monkeypatch, library, "flashinfer", "sdpa_decode", decode, **inputs)()
    assert [each.tolist() for each in planned[:3]] == [[0, 1, 2], [0, 1], [6, 6]]
    assert tuple(query.shape) == (2, 4, 8)
    assert [tuple(each.shape) for each in caches] == [(2, module.PAGE, 2, 8)] * 2
    np.testing.assert_array_equal(caches[0][1, :6].numpy(), inputs["k"][1].swapaxes(0, 1))


def test_library_baselines_pass_the_arguments_that_their_library_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = np.ones((3, 8), np.float16), np.ones(8, np.float16)
    plain = {"rows": 3, "cols": 8, "residual": False, "dtype": "float16"}
    called = prepared(monkeypatch, Library(), "liger", "rmsnorm", plain, x=x, weight=weight)()
    assert (called[0], called[2]) == ("liger_rms_norm", {"in_place": False})
    fused = {**plain, "residual": True}
    called = prepared(monkeypatch, Library(), "quack", "rmsnorm", fused, x=x, residual=x, weight=weight)()
    assert (called[0], called[2]["prenorm"]) == ("rmsnorm", True)
    library = SimpleNamespace(activation=Library())
    _, (both,), _ = prepared(monkeypatch, library, "flashinfer", "swiglu", plain, gate=x, up=2 * x)()
    assert (tuple(both.shape), both[0, 0].item(), both[0, -1].item()) == ((3, 16), 1.0, 2.0)

    target = np.array([1, 2, -100], np.int32)
    name, (_, classes), terms = prepared(monkeypatch, Library(), "quack", "cross_entropy", plain, x=x, target=target)()
    assert (name, terms) == ("cross_entropy", {"reduction": "none"})
    assert (str(classes.dtype), classes.tolist()) == ("torch.int64", [1, 2, -100])

    def multiply(a: Any, b: Any, out: Any) -> None:
        out.copy_(a @ b.T)

    product = {"M": 3, "N": 4, "K": 8, "b_layout": "kn", "epilogue": "none", "dtype": "bfloat16"}
    library = SimpleNamespace(bf16_gemm_nt=multiply)
    a, b = np.ones((3, 8), np.float32), np.arange(32, dtype=np.float32).reshape(8, 4)
    found = prepared(monkeypatch, library, "deep-gemm", "gemm", product, a=a, b=b)()
    np.testing.assert_array_equal(found.numpy(), a @ b)


def test_library_baselines_refuse_unsupported_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = np.ones((3, 8), np.float16), np.ones(8, np.float16)
    fused = {"rows": 3, "cols": 8, "residual": True, "dtype": "float16"}
    with pytest.raises(ValueError, match="overwrites the residual input"):
        library = SimpleNamespace(norm=Library())
        prepared(monkeypatch, library, "flashinfer", "rmsnorm", fused, x=x, residual=x, weight=weight)
    product = {"M": 3, "N": 4, "K": 8, "b_layout": "kn", "epilogue": "bias", "dtype": "bfloat16"}
    a, b = np.ones((3, 8), np.float32), np.ones((8, 4), np.float32)
    with pytest.raises(ValueError, match="without an epilogue"):
        prepared(monkeypatch, SimpleNamespace(bf16_gemm_nt=Library()), "deep-gemm", "gemm", product, a=a, b=b)
