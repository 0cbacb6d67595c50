"""A package of exported kernels replaces functions of PyTorch on the CPU."""

import ctypes
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evo.errors import Conflict
from evo.export.called import read_measurements
from evo.export.package import package_files
from evo.search.suite import suite_from
from evo.text.document import read_toml
from templates.registry import find
from tests.dropin import CPU, bundle, imported, write

KERNELS = (
    ("rmsnorm", "rows=6,cols=40"),
    ("rmsnorm", "rows=6,cols=40,residual=true"),
    ("rmsnorm", "rows=6,cols=40,dtype=bfloat16"),
    ("layernorm", "rows=6,cols=40,residual=false"),
    ("softmax", "rows=6,cols=40"),
    ("gemm", "M=6,N=8,K=40,b_layout=nk,epilogue=bias"),
    ("gemm", "M=6,N=8,K=40,b_layout=nk"),
    ("sdpa", "B=1,H=2,S=12,D=8,causal=true"),
    ("sdpa_decode", "B=1,H=4,KV=2,S=12,D=8"),
    ("sdpa", "B=1,H=4,KV=2,S=3,S_KV=12,D=8"),
    ("swiglu", "rows=6,cols=40"),
    ("sdpa", "B=1,H=4,KV=2,S=12,D=8,causal=true,layout=bshd"),
    ("sdpa", "B=2,H=4,S=12,D=8,layout=qkv"),
    ("sdpa", "B=2,H=4,S=12,D=8,layout=qkv_heads,causal=true"),
    ("cross_entropy", "rows=6,cols=40"),
    ("rope", "B=2,S=12,H=4,KV=2,D=8,layout=bshd"),
    ("rope", "B=2,S=12,H=4,D=8,layout=bhsd"),
)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("packages") / "fast"
    write([bundle(number, *each, CPU) for number, each in enumerate(KERNELS, start=1)], folder)
    with imported(folder) as package:
        yield package


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest) -> None:
    if "fast" in request.fixturenames:
        package = request.getfixturevalue("fast")
        package.reset()
        package.strict(False)


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


def served(fast: Any) -> int:
    return sum(fast.report().served.values())


def reasons(fast: Any) -> list[str]:
    return [reason for _, _, reason in fast.report().fallbacks]


def test_rms_norm_takes_any_epsilon_and_leading_dimensions(fast: Any) -> None:
    import torch

    x, weight = drawn(2, 3, 40), drawn(40, seed=1)
    for eps in (1e-6, 1e-5, 0.5):
        expected = torch.nn.functional.rms_norm(x, (40,), weight, eps)
        torch.testing.assert_close(fast.rms_norm(x, (40,), weight, eps), expected, rtol=1e-5, atol=1e-6)
    default = torch.nn.functional.rms_norm(x, (40,), weight)
    torch.testing.assert_close(fast.rms_norm(x, (40,), weight), default, rtol=1e-5, atol=1e-6)
    assert (served(fast), reasons(fast)) == (4, [])


def test_rms_norm_of_bfloat16_returns_bfloat16(fast: Any) -> None:
    import torch

    x, weight = drawn(6, 40, dtype="bfloat16"), drawn(40, dtype="bfloat16", seed=1)
    found, expected = fast.rms_norm(x, (40,), weight, 1e-6), torch.nn.functional.rms_norm(x, (40,), weight, 1e-6)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    assert served(fast) == 1


def test_add_rms_norm_returns_the_sum_and_the_normed_sum(fast: Any) -> None:
    import torch

    x, residual, weight = drawn(6, 40), drawn(6, 40, seed=2), drawn(40, seed=1)
    total, out = fast.add_rms_norm(x, residual, weight, 1e-3)
    torch.testing.assert_close(total, x + residual)
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x + residual, (40,), weight, 1e-3))
    other, normed = fast.add_rms_norm(drawn(5, 40), drawn(5, 40, seed=2), weight)
    assert (other.shape, normed.shape, served(fast)) == ((5, 40), (5, 40), 1)


@pytest.mark.parametrize("bias", [True, False])
def test_exported_package_computes_linear_layer_norm_and_softmax(fast: Any, bias: bool) -> None:
    import torch

    x, weight, offset = drawn(2, 3, 40), drawn(8, 40, seed=1), drawn(8, seed=2) if bias else None
    expected = torch.nn.functional.linear(x, weight, offset)
    torch.testing.assert_close(fast.linear(x, weight, offset), expected, rtol=1e-4, atol=1e-4)
    scale, shift = drawn(40, seed=3), drawn(40, seed=4)
    normed = torch.nn.functional.layer_norm(x, (40,), scale, shift, 1e-2)
    torch.testing.assert_close(fast.layer_norm(x, (40,), scale, shift, 1e-2), normed, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast.softmax(x, -1), torch.softmax(x, -1), rtol=1e-5, atol=1e-6)
    other = drawn(2, 3, 40, seed=5)
    gated = torch.nn.functional.silu(x) * other
    torch.testing.assert_close(fast.swiglu(x, other), gated, rtol=1e-5, atol=1e-6)
    assert (served(fast), reasons(fast)) == (4, [])


def test_exported_package_computes_attention_and_decoding_with_grouped_heads(fast: Any) -> None:
    import torch

    q, k, v = (drawn(1, 2, 12, 8, seed=seed) for seed in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    found = fast.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(found, attention(q, k, v, is_causal=True), rtol=1e-4, atol=1e-5)
    query, keys, values = drawn(1, 4, 1, 8), drawn(1, 2, 12, 8, seed=1), drawn(1, 2, 12, 8, seed=2)
    expected = attention(query, keys, values, enable_gqa=True)
    found = fast.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    query = drawn(1, 4, 3, 8)
    expected = attention(query, keys, values, enable_gqa=True)
    found = fast.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (served(fast), reasons(fast)) == (3, [])


def test_exported_package_computes_attention_on_transposed_bshd_tensors(fast: Any) -> None:
    import torch

    projected = (drawn(1, 12, heads * 8, seed=heads).view(1, 12, heads, 8).transpose(1, 2) for heads in (4, 2, 2))
    q, k, v = projected
    attention = torch.nn.functional.scaled_dot_product_attention
    expected = attention(q, k, v, is_causal=True, enable_gqa=True)
    for keys in (k, k, k.contiguous()):
        found = fast.scaled_dot_product_attention(q, keys, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.stride() == q.stride()
    report = fast.report()
    assert (list(report.served.values()), list(report.copied.values()), report.missed) == ([3], [1], ())
    op = importlib.import_module("fast.operators").OPERATORS["attention"]
    torch.library.opcheck(op, (q, k, v, True, True), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize(
    ("order", "causal"),
    [((2, 0, 3, 1, 4), False), ((3, 0, 2, 1, 4), True)],
    ids=["q, k and v before heads", "heads before q, k and v"],
)
def test_attention_reads_views_of_one_projection_without_a_copy(
    fast: Any, order: tuple[int, ...], causal: bool
) -> None:
    import torch

    projection = drawn(2, 12, 3, 4, 8) if order[0] == 2 else drawn(2, 12, 4, 3, 8)
    q, k, v = projection.permute(*order).unbind(0)
    # strides are equal but offsets differ, so PyTorch's function is called
    fast.scaled_dot_product_attention(v, k, q, is_causal=causal)
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    for calls in (1, 2, 3):
        out = fast.scaled_dot_product_attention(q, k, v, is_causal=causal)
        assert torch.allclose(out, exact, atol=1e-5)
        assert served(fast) == calls
    assert not fast.report().copied
    swapped = fast.scaled_dot_product_attention(q, v, k, is_causal=causal)  # strides are equal but offsets differ
    assert torch.allclose(
        swapped, torch.nn.functional.scaled_dot_product_attention(q, v, k, is_causal=causal), atol=1e-5
    )
    assert served(fast) == 3
    projection.requires_grad_()
    q, k, v = projection.permute(*order).unbind(0)
    fast.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()
    assert projection.grad is not None
    assert served(fast) == 4


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_exported_cross_entropy_equals_pytorch_if_rows_are_ignored(fast: Any, reduction: str) -> None:
    import torch

    x, target = drawn(6, 40), torch.tensor([3, -100, 39, 0, -100, 7])
    exact = torch.nn.functional.cross_entropy(x, target, reduction=reduction)
    for calls in (1, 2):
        assert torch.allclose(fast.cross_entropy(x, target, reduction=reduction), exact, atol=1e-5)
        assert served(fast) == calls
    other = torch.nn.functional.cross_entropy(x, target.abs() % 40, ignore_index=7, reduction=reduction)
    assert torch.allclose(
        fast.cross_entropy(x, target.abs() % 40, ignore_index=7, reduction=reduction), other, atol=1e-5
    )
    smooth = torch.nn.functional.cross_entropy(x, target, reduction=reduction, label_smoothing=0.1)
    assert torch.allclose(fast.cross_entropy(x, target, reduction=reduction, label_smoothing=0.1), smooth, atol=1e-5)
    x.requires_grad_()
    fast.cross_entropy(x, target).backward()
    assert x.grad is not None
    assert served(fast) == 2


@pytest.mark.parametrize(
    ("kv", "by_tokens", "unsqueezed"),
    [(2, True, 1), (4, False, 1), (2, False, 2)],
    ids=["transposed tokens", "contiguous heads", "tokens first"],
)
def test_exported_package_computes_rotary_embedding_in_both_layouts(
    fast: Any, kv: int, by_tokens: bool, unsqueezed: int
) -> None:
    import torch

    angles = drawn(12, 4).repeat(1, 2)
    cos, sin = angles.cos()[None], angles.sin()[None]

    def heads(count: int, seed: int) -> Any:
        if unsqueezed == 2:
            return drawn(2, 12, count, 8, seed=seed)
        if by_tokens:
            return drawn(2, 12, count, 8, seed=seed).transpose(1, 2)
        return drawn(2, count, 12, 8, seed=seed)

    def turned(x: Any) -> Any:
        return torch.cat((-x[..., 4:], x[..., :4]), dim=-1)

    q, k = heads(4, 1), heads(kv, 2)
    exact = [x * cos.unsqueeze(unsqueezed) + turned(x) * sin.unsqueeze(unsqueezed) for x in (q, k)]
    for calls in (1, 2):
        found = fast.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueezed)
        assert all(torch.allclose(*each, atol=1e-5) for each in zip(found, exact, strict=True))
        assert [each.stride() for each in found] == [each.stride() for each in (q, k)]
        assert served(fast) == calls
    each_entry = fast.apply_rotary_pos_emb(q, k, cos.expand(2, -1, -1), sin.expand(2, -1, -1), unsqueeze_dim=unsqueezed)
    assert all(torch.allclose(*each, atol=1e-5) for each in zip(each_entry, exact, strict=True))
    assert served(fast) == 2


CALLS: dict[str, Callable[[Any], Any]] = {
    "cross_entropy": lambda f: (f.cross_entropy, (drawn(6, 40), whole([3, -100, 39, 0, -100, 7]))),
    "rotary": lambda f: (f.apply_rotary_pos_emb, rotation()),
    "packed": lambda f: (lambda p: f.scaled_dot_product_attention(*p.permute(2, 0, 3, 1, 4).unbind(0)), (packed(),)),
}


def whole(numbers: list[int]) -> Any:
    import torch

    return torch.tensor(numbers)


def packed() -> Any:
    return drawn(2, 12, 3, 4, 8)


def rotation() -> tuple[Any, ...]:
    q, k = (drawn(2, 12, heads, 8, seed=heads).transpose(1, 2) for heads in (4, 2))
    angles = drawn(1, 12, 4).repeat(1, 1, 2)
    return q, k, angles.cos(), angles.sin()


@pytest.mark.parametrize("name", list(CALLS))
def test_compiled_call_is_one_operator_or_pytorch_operations_if_gradients_are_needed(fast: Any, name: str) -> None:
    import torch

    function, inputs = CALLS[name](fast)
    graphs: list[Any] = []

    def compiled(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    traced = torch.compile(function, backend=compiled, fullgraph=True)
    expected = tupled(function(*inputs))
    with torch.no_grad():
        found = tupled(traced(*inputs))
    assert [each.stride() for each in found] == [each.stride() for each in expected]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert served(fast) == 2
    (graph,) = graphs
    assert sum("kernel_evo" in str(node.target) for node in graph.graph.nodes) == 1

    first = inputs[0].clone().requires_grad_()
    tupled(traced(first, *inputs[1:]))[0].sum().backward()
    assert first.grad.abs().sum() > 0
    assert not any("kernel_evo" in str(node.target) for node in graphs[-1].graph.nodes)
    assert (len(graphs), served(fast)) == (2, 2)


def tupled(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def test_cross_entropy_rotary_and_attention_operators_pass_opcheck(fast: Any) -> None:
    import torch

    operators = importlib.import_module("fast.operators").OPERATORS
    q, k, v = packed().permute(2, 0, 3, 1, 4).unbind(0)
    # PyTorch's function is called; its output has other strides
    uneven = (rotation()[0], drawn(2, 2, 12, 8), *rotation()[2:])
    for name, arguments in (
        ("cross_entropy", (drawn(6, 40), whole([3, -100, 39, 0, -100, 7]), -100)),
        ("rotary", (*rotation(), 1)),
        ("rotary", (*uneven, 1)),
        ("attention", (q, k, v, False, False)),
    ):
        torch.library.opcheck(operators[name], arguments, test_utils=("test_schema", "test_faketensor"))
    assert served(fast) >= 3


ROTARY = """
import torch

class SomeRotaryEmbedding(torch.nn.Module):
    def __init__(self, halves):
        super().__init__()
        self.register_buffer("inv_freq", torch.tensor([1.0, 0.5, 0.25, 0.125]))
        self.halves = halves

    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq
        angles = torch.cat((freqs, freqs if self.halves else 2 * freqs), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)

def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    size = cos.shape[-1]
    rotated = [x[..., :size] * cos + rotate_half(x[..., :size]) * sin for x in (q, k)]
    return tuple(torch.cat((x, y[..., size:]), dim=-1) for x, y in zip(rotated, (q, k)))

class Attention(torch.nn.Module):
    def __init__(self, halves=True):
        super().__init__()
        self.rotary = SomeRotaryEmbedding(halves)

    def forward(self, q, k):
        cos, sin = self.rotary(q, torch.arange(q.shape[2])[None])
        return apply_rotary_pos_emb(q, k, cos, sin)
"""
INTERLEAVED = ROTARY.replace(
    "torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)",
    "torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)",
)


def test_rotary_embedding_functions_of_models_are_patched_and_restored(
    fast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    (tmp_path / "some_llama.py").write_text(ROTARY)
    monkeypatch.syspath_prepend(tmp_path)
    source = importlib.import_module("some_llama")
    original, attention, (q, k, *_) = source.apply_rotary_pos_emb, source.Attention(), rotation()
    expected = attention(q, k)
    assert fast.patch(attention) == {"apply_rotary_pos_emb": 1}
    assert fast.patch(attention) == {}
    for calls in (1, 2):
        torch.testing.assert_close(attention(q, k), expected, rtol=1e-5, atol=1e-6)
        assert served(fast) == calls
    # only half of each head is rotated: the original function is called
    wide = [torch.cat((each, each), dim=-1) for each in (q, k)]
    torch.testing.assert_close(attention(*wide), original(*wide, *attention.rotary(q, torch.arange(12)[None])))
    assert served(fast) == 2
    assert any("does not have shape (S, D)" in reason for reason in reasons(fast))
    traced = torch.compile(attention, backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(q, k), expected, rtol=1e-5, atol=1e-6)
    assert served(fast) == 3
    fast.unpatch(attention)
    assert source.apply_rotary_pos_emb is original
    sys.modules.pop("some_llama")


@pytest.mark.parametrize(("text", "halves"), [(INTERLEAVED, True), (ROTARY, False)], ids=["interleaved", "halves"])
def test_rotary_functions_with_a_different_formula_are_not_patched(
    fast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, halves: bool
) -> None:
    (tmp_path / "other_llama.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    source = importlib.import_module("other_llama")
    attention = source.Attention(halves)
    assert fast.patch(attention) == {}
    fast.unpatch(attention)
    sys.modules.pop("other_llama")


def test_patched_transformers_llama_has_equal_logits(fast: Any) -> None:
    import torch

    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, vocab_size=40, attn_implementation="sdpa")
    llama = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.arange(24).view(2, 12)
    with torch.no_grad():
        expected = llama(tokens, use_cache=False).logits
        assert fast.patch(llama).items() >= {"apply_rotary_pos_emb": 1, "RMSNorm": 3, "SwiGLU": 1}.items()
        found = llama(tokens, use_cache=False).logits
        fast.unpatch(llama)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert any(name.startswith("rope") for name in fast.report().served)


def test_strict_mode_errors_name_the_unsupported_argument(fast: Any) -> None:
    import torch

    fast.strict()
    weight = drawn(40)
    apart = drawn(6, 80)[:, ::2]
    shifted = drawn(6 * 40 + 1)[1:].view(6, 40)
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: fast.rms_norm(apart, (40,), weight), "input is not contiguous in memory"),
        (lambda: fast.rms_norm(shifted, (40,), weight), "input is not aligned to 64 bytes"),
        (lambda: fast.rms_norm(drawn(6, 40), (40,), weight.to("meta")), "weight is on meta, but input is on cpu"),
        (
            lambda: fast.rms_norm(drawn(6, 40), (40,), weight.double()),
            "weight has dtype torch.float64, but input has torch.float32",
        ),
        (lambda: fast.cross_entropy(apart, torch.zeros(6, dtype=torch.int64)), "input is not contiguous in memory"),
    )
    for call, reason in calls:
        with pytest.raises(LookupError, match=reason):
            call()


def test_calls_with_mismatched_shapes_use_no_kernel_and_fail_like_pytorch(fast: Any) -> None:
    import torch

    x, weight = drawn(6, 40), drawn(40)
    functional = torch.nn.functional
    calls: list[tuple[Any, str]] = [
        (lambda f: f.rms_norm(x, (40,), drawn(39)), "weight has shape (39,), not (40,)"),
        (
            lambda f: f.rms_norm(drawn(12, 20), (40,), weight),
            "input has shape (12, 20), not (…, 40)",
        ),
        (lambda f: f.layer_norm(x, (40,), weight, drawn(39)), "bias has shape (39,), not (40,)"),
        (lambda f: f.layer_norm(x, (40,), drawn(41), weight), "weight has shape (41,), not (40,)"),
        (lambda f: f.linear(x, drawn(8, 40), drawn(9)), "the shape of the input or the bias does not match the weight"),
    ]
    for call, reason in calls:
        with pytest.raises(RuntimeError) as theirs:
            call(functional)
        with pytest.raises(theirs.type):
            call(fast)
        assert reason in reasons(fast)[-1]
    sums: tuple[Callable[[], object], ...] = (
        lambda: fast.add_rms_norm(drawn(12, 20), drawn(12, 20), weight),
        lambda: fast.add_layer_norm(x, x, weight, drawn(39)),
    )
    for added in sums:
        with pytest.raises(RuntimeError):
            added()
    assert served(fast) == 0
    fast.strict()
    with pytest.raises(LookupError, match=r"weight has shape \(39,\), not \(40,\)"):
        fast.rms_norm(x, (40,), drawn(39))


def test_cross_entropy_targets_outside_the_classes_raise_index_error(fast: Any) -> None:
    import torch

    x, functional = drawn(6, 40), torch.nn.functional
    right = torch.tensor([0, 39, -100, 5, -100, 7])
    torch.testing.assert_close(fast.cross_entropy(x, right), functional.cross_entropy(x, right))
    for wrong in (40, -1, 2**32 + 3):
        target = right.clone()
        target[4] = wrong
        with pytest.raises(IndexError):
            functional.cross_entropy(x, target)
        with pytest.raises(IndexError, match=f"target contains {wrong}, but input has 40 classes"):
            fast.cross_entropy(x, target)
    ignoring = torch.where(right == -100, 77, right)
    torch.testing.assert_close(
        fast.cross_entropy(x, ignoring, ignore_index=77), functional.cross_entropy(x, ignoring, ignore_index=77)
    )


def test_attention_copies_and_counts_non_contiguous_keys_and_values(fast: Any) -> None:
    import torch

    q, k, v = (drawn(1, 2, 12, 8, seed=seed) for seed in range(3))
    keys, values = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in (k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    for _ in range(2):
        found = fast.scaled_dot_product_attention(q, keys, values, is_causal=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    fast.scaled_dot_product_attention(q, k, v, is_causal=True)
    report = fast.report()
    assert (list(report.served.values()), list(report.copied.values()), report.missed) == ([3], [2], ())
    assert "keys or values copied: 2" in str(report)
    keys.requires_grad_()
    fast.scaled_dot_product_attention(q, keys, values, is_causal=True).sum().backward()
    assert keys.grad.abs().sum() > 0


def test_calls_without_a_kernel_fall_back_to_pytorch_and_are_reported_as_a_suite(fast: Any) -> None:
    import torch

    x, weight = drawn(7, 40), drawn(40, seed=1)
    for _ in range(3):
        found = fast.rms_norm(x, (40,), weight, 1e-6)
    torch.testing.assert_close(found, torch.nn.functional.rms_norm(x, (40,), weight, 1e-6))
    fast.rms_norm(drawn(40, 6).T, (40,), weight, 1e-6)
    fast.softmax(x, 0)
    q = drawn(1, 2, 12, 8)
    fast.scaled_dot_product_attention(q, q, q, scale=0.5)
    fast.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(12, 12, dtype=torch.bool))
    assert served(fast) == 0
    report = fast.report()
    assert sum(report.fallbacks.values()) == 7
    found = " ".join(reasons(fast))
    assert all(
        each in found for each in ("no kernel for this problem", "is not contiguous in memory", "a mask or dropout")
    )
    assert "rows=7" in str(report)
    suite = suite_from(read_toml(report.suite()), "next")
    assert [(call.family, call.problem["rows"], call.weight) for call in suite.calls] == [("rmsnorm", 7, 3)]
    assert find("rmsnorm").family.problem(suite.calls[0].text)
    fast.strict()
    with pytest.raises(LookupError, match="rms_norm, rmsnorm rows=7"):
        fast.rms_norm(x, (40,), weight, 1e-6)


def test_exported_package_counts_calls_served_by_kernels_and_fallbacks_to_pytorch(fast: Any) -> None:
    import torch

    x, weight = drawn(6, 40), drawn(40, seed=1)
    for eps in (1e-6, 1e-2, 0.5):
        expected = torch.nn.functional.rms_norm(x, (40,), weight, eps)
        torch.testing.assert_close(fast.rms_norm(x, (40,), weight, eps), expected, rtol=1e-5, atol=1e-6)
    for number in range(3):
        fast.softmax(drawn(7, 40, seed=number), -1)
    fast.softmax(drawn(40, 6).T, -1)
    report = fast.report()
    assert (sum(report.served.values()), sorted(report.fallbacks.values())) == (3, [1, 3])
    fast.reset()
    fast.softmax(drawn(7, 40), -1)
    assert list(fast.report().fallbacks.values()) == [1]
    fast.strict()
    with pytest.raises(LookupError, match="rows=7"):
        fast.softmax(drawn(7, 40), -1)


def test_unsupported_calls_fall_back_to_pytorch(fast: Any) -> None:
    import torch

    x, weight = drawn(6, 40), drawn(40, seed=1)
    functional = torch.nn.functional
    fast.linear(x, drawn(8, 40, seed=1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast.linear(x, drawn(8, 40, seed=1)).dtype is torch.bfloat16
    fast.softmax(x, -1)
    batched = torch.vmap(lambda row: fast.softmax(row, -1))(drawn(2, 6, 40))
    torch.testing.assert_close(batched, torch.softmax(drawn(2, 6, 40), -1))
    sparse = torch.eye(40).to_sparse()
    torch.testing.assert_close(
        fast.linear(sparse, drawn(8, 40, seed=1)), functional.linear(sparse, drawn(8, 40, seed=1))
    )
    wrongs: tuple[Callable[[Any], object], ...] = (
        lambda f: f.softmax(x, 7),
        lambda f: f.linear(x, drawn(8, 39)),
        lambda f: f.rms_norm(x, (39,), weight),
    )
    for wrong in wrongs:
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            wrong(functional)
        with pytest.raises(theirs.type):
            wrong(fast)
    assert "autocast is enabled" in reasons(fast)
    assert served(fast) == 2


def test_gated_modules_are_patched_only_if_they_compute_swiglu(fast: Any) -> None:
    import torch

    class Gated(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, act: Any) -> None:
            super().__init__()
            self.gate_proj, self.up_proj = (torch.nn.Linear(8, 40, bias=False) for _ in range(2))
            self.down_proj, self.act = torch.nn.Linear(40, 8, bias=False), act

        def forward(self, x: Any) -> Any:
            return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))

    silu, gelu, x = Gated(torch.nn.SiLU()), Gated(torch.nn.GELU()), drawn(6, 8)
    with torch.no_grad():
        before = silu(x)
        assert fast.patch(silu) == {"SwiGLU": 1, "Linear": 3}
        assert fast.patch(gelu) == {"Linear": 3}
        torch.testing.assert_close(silu(x), before, rtol=1e-5, atol=1e-6)
        assert any(name.startswith("swiglu") for name in fast.report().served)
        fast.unpatch(silu)
        fast.unpatch(gelu)
        torch.testing.assert_close(silu(x), before)


def test_causal_attention_with_unequal_lengths_equals_pytorch(fast: Any) -> None:
    import torch

    q, k = drawn(1, 2, 1, 8), drawn(1, 2, 12, 8, seed=1)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    torch.testing.assert_close(fast.scaled_dot_product_attention(q, k, k, is_causal=True), expected)
    assert served(fast) == 0


def test_call_with_more_threads_than_the_kernel_was_tuned_for_falls_back_to_pytorch(fast: Any) -> None:
    import torch

    torch.set_num_threads(2)
    try:
        fast.softmax(drawn(6, 40), -1)
    finally:
        torch.set_num_threads(1)
    assert (served(fast), reasons(fast)) == (0, ["PyTorch uses 2 threads, but the kernel was tuned for 1"])


def test_rms_norm_gradients_equal_those_of_pytorch(fast: Any) -> None:
    import torch

    gradients = []
    for function in (fast.rms_norm, torch.nn.functional.rms_norm):
        x, weight = drawn(6, 40).requires_grad_(), drawn(40, seed=1).requires_grad_()
        (function(x, (40,), weight, 1e-3) * drawn(6, 40, seed=5)).sum().backward()
        gradients.append((x.grad, weight.grad))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert served(fast) == 1


def test_rms_norm_operator_passes_opcheck_and_can_be_traced(fast: Any) -> None:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    op = importlib.import_module("fast.operators").OPERATORS["rms_norm"]
    arguments = (drawn(6, 40), drawn(40, seed=1), 1e-6)
    torch.library.opcheck(op, arguments, test_utils=("test_schema", "test_faketensor"))
    graph = make_fx(lambda x, weight: op(x, weight, 1e-6), tracing_mode="fake")(*arguments[:2])
    torch.testing.assert_close(graph(*arguments[:2]), fast.rms_norm(arguments[0], (40,), arguments[1], 1e-6))


def model() -> Any:
    import torch

    class SomeRMSNorm(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, plus: float) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(drawn(40, seed=9))
            self.variance_epsilon, self.plus = 1e-5, plus

        def forward(self, hidden: Any) -> Any:
            scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
            return hidden * scale * (self.weight + self.plus)

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SomeRMSNorm(0.0), SomeRMSNorm(1.0)
            self.norm, self.out = torch.nn.LayerNorm(40), torch.nn.Linear(40, 8)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.second(self.first(x)))
            heads = x[:, :16].view(1, 6, 2, 8).transpose(1, 2).repeat(1, 1, 2, 1)
            mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            return self.out(x) + mixed.sum()

    return Block().eval()


def test_patched_model_gives_the_same_result_and_is_restored(fast: Any) -> None:
    import torch

    block, x = model(), drawn(6, 40)
    attention = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        before = block(x)
        counts = fast.patch(block)
        patched = block(x)
        assert counts == {"RMSNorm": 1, "LayerNorm": 1, "Linear": 1}
        assert served(fast) == 4
        assert fast.patch(block) == {}
        fast.unpatch(block)
        torch.testing.assert_close(block(x), before)
    torch.testing.assert_close(patched, before, rtol=1e-4, atol=1e-4)
    assert torch.nn.functional.scaled_dot_product_attention is attention
    assert served(fast) == 4


def test_package_measures_the_time_per_pytorch_call_of_every_kernel(
    fast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast.measuring, "ROUNDS", 1)
    monkeypatch.setattr(fast.measuring, "ROUND_S", 1e-4)
    found = fast.measure("cpu")
    assert len(found) == len(KERNELS), "each family must have an example that its kernel supports"
    assert all(each.called_us > 0 and each.torch_us > 0 for each in found)
    text = fast.measuring.report(found)
    assert "called, µs" in text.splitlines()[0]
    assert len(text.splitlines()) == len(KERNELS) + 2
    assert (served(fast), fast.measure("cuda")) == (0, [])
    path = tmp_path / "called.json"
    path.write_text(fast.measuring.as_json(found))
    stored = read_measurements(path)
    assert stored.software.startswith("PyTorch ")
    assert [(each.champion, each.called_us, each.torch_us) for each in stored.times] == [
        (each.champion, each.called_us, each.torch_us) for each in found
    ]
    assert {each.champion for each in stored.times} == set(range(1, len(KERNELS) + 1))
    assert all(each.machine for each in stored.times)


def test_exported_package_imports_without_kernel_evo(fast: Any) -> None:
    folder = Path(fast.__file__).parent
    program = "import sys; import fast; assert not {'evo', 'workers', 'templates', 'cupy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=folder.parent, check=True, timeout=60)


def test_kernel_built_for_a_different_architecture_is_refused(fast: Any, tmp_path: Path) -> None:
    kernels = importlib.import_module("fast.kernels")
    source = next((Path(fast.__file__).parent / "kernels").glob("softmax*"))
    described = json.loads((source / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**described, "architecture": "s390x"}))
    with pytest.raises(kernels.Unfit, match="built for s390x"):
        kernels.Kernel(tmp_path)
    for built, capability, fits in (
        ("sm_80", (8, 9), True),
        ("sm_90", (8, 9), False),
        ("sm_90a", (9, 0), True),
        ("sm_90a", (9, 1), False),
        ("sm_89", (8, 0), False),
    ):
        if fits:
            kernels.check_gpu(built, capability)
        else:
            with pytest.raises(kernels.Unfit):
                kernels.check_gpu(built, capability)


class Driver:
    """A CUDA driver that records what a launch passes, and fails on request.

    Attributes:
        further: number of parameters after the first four parameters.
    """

    def __init__(self, further: int) -> None:
        self.further = further
        self.launches: list[tuple[Any, ...]] = []
        self.status = 0
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        self.cuModuleLoadData = lambda *_: 0
        self.cuModuleGetFunction = self._found
        self.cuFuncSetAttribute = lambda *_: 0
        self.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int, pointer, *[number] * 7, pointer, pointer, pointer)(
            self._launched
        )

    @staticmethod
    def _found(function: Any, *_: object) -> int:
        ctypes.cast(function, ctypes.POINTER(ctypes.c_void_p))[0] = 1 << 40
        return 0

    def _launched(self, function: int, *rest: Any) -> int:
        *sizes, stream, parameters, _ = rest
        held = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.cast(held[place], ctypes.POINTER(ctypes.c_uint64))[0] for place in (0, 1, 3)]
        epsilon = ctypes.cast(held[2], ctypes.POINTER(ctypes.c_float))[0]
        values += [ctypes.cast(held[4 + place], ctypes.POINTER(ctypes.c_uint64))[0] for place in range(self.further)]
        self.launches.append((function, sizes, stream, values, epsilon))
        return self.status


TENSOR_MAP = """
import ctypes

def parameters(address, of, shape, box, passes_shape):
    return [ctypes.c_uint64(address + box), *map(ctypes.c_int64, [*shape, *shape] if passes_shape else [])]
"""


@pytest.mark.parametrize(
    ("mapped", "triton"),
    [([], False), (["out"], False), (["weight", "out"], False), (["weight"], True)],
    ids=[
        "no tensor map",
        "one tensor map",
        "two tensor maps",
        "tensor map in front of the last argument, with shape and strides",
    ],
)
def test_launch_passes_addresses_scalars_tensor_maps_and_the_current_stream(
    fast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: list[str], *, triton: bool
) -> None:
    import torch

    kernels, driver = importlib.import_module("fast.kernels"), Driver(len(mapped) + 4 * triton)
    source = next((Path(fast.__file__).parent / "kernels").glob("rmsnorm*"))
    described = json.loads((source / "config.json").read_text())
    assert [each["role"] for each in described["arguments"]] == ["input", "input", "scalar", "output"]
    maps = [{"of": name, "box": 1, "shape": [5, 6], "passes_shape": triton} for name in mapped]
    (tmp_path / "tensor_map.py").write_text(TENSOR_MAP)
    launch = {"grid": [6], "block": [32, 2], "shared_memory_bytes": 64, "tensor_maps": maps}
    launch |= {"maps_at": 3 if triton else None}
    described |= {"launch": launch, "binary": "kernel.cubin"}
    (tmp_path / "config.json").write_text(json.dumps(described))
    (tmp_path / "kernel.cubin").write_bytes(b"")
    streams = iter([7 << 40, 7 << 40, 0, 0])
    monkeypatch.setattr(kernels, "_LIBRARY", driver)
    monkeypatch.setattr(kernels, "_raw_stream", lambda _: next(streams))
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    kernel = kernels.Kernel(tmp_path)
    first, second = (kernel.prepare(torch.device("cpu"), {"epsilon": epsilon}) for epsilon in (0.5, 0.25))
    outputs = [run([1 << 41, number])[0] for run, number in ((first, 16), (second, 32), (first, 48))]

    def passed(weight: int, out: int) -> list[int]:
        encoded = [{"weight": weight, "out": out}[name] + 1 for name in mapped]
        return [*encoded, 5, 6, 5, 6, out] if triton else [out, *encoded]

    expected = [
        (
            1 << 40,
            [6, 1, 1, 32, 2, 1, 64],
            stream,
            [1 << 41, number, *passed(number, output.data_ptr())],
            epsilon,
        )
        for stream, number, output, epsilon in zip(
            (7 << 40, 7 << 40, None), (16, 32, 48), outputs, (0.5, 0.25, 0.5), strict=True
        )
    ]
    assert driver.launches == expected
    driver.status = 719
    with pytest.raises(RuntimeError, match="cuLaunchKernel failed with error 719"):
        first([1 << 41, 16])


def test_outputs_after_a_first_call_in_inference_mode_support_gradients(fast: Any) -> None:
    import torch

    with torch.inference_mode():
        fast.softmax(drawn(2, 3, 40), -1)
    out = fast.softmax(drawn(2, 3, 40), -1)
    assert (out.is_inference(), out.shape, out.untyped_storage().nbytes()) == (False, (2, 3, 40), 960)
    (out * torch.ones(40, requires_grad=True)).sum().backward()
    assert served(fast) == 2


def test_gradients_work_after_a_call_without_gradients(fast: Any) -> None:
    import torch

    x = drawn(6, 40)
    fast.softmax(x, -1)
    fast.softmax(x.requires_grad_(), -1)[:, 0].sum().backward()
    assert x.grad is not None
    with torch.no_grad():
        assert not fast.softmax(x, -1).requires_grad
    assert served(fast) == 3


def test_package_refuses_families_without_a_pytorch_function() -> None:
    plain = bundle(1, "softmax", "rows=2,cols=8", CPU)
    with pytest.raises(Conflict, match="rmsnorm"):
        package_files([replace(plain, champion=replace(plain.champion, family="saxpy"))])
    made = package_files([plain])
    assert {"__init__.py", "functions.py", "kernels.json", "kernels/softmax_1/libkernel.so"} <= made.keys()
    (entry,) = json.loads(made["kernels.json"])["kernels"]
    assert (entry["family"], entry["device"], entry["champion"]) == ("softmax", "cpu", 1)
    assert entry["problem"] == {"rows": 2, "cols": 8, "dtype": "float32"}
