"""A package of exported kernels replaces PyTorch's functions on a GPU, also in streams, graphs and gradients.

The kernels are compiled from default configs, without a search.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evo.device import Device
from tests.dropin import bundle, imported, write

pytestmark = pytest.mark.gpu

KERNELS = (
    ("rmsnorm", "rows=64,cols=4096,dtype=bfloat16"),
    ("rmsnorm", "rows=64,cols=4096,residual=true,dtype=bfloat16"),
    ("layernorm", "rows=64,cols=1024,residual=false"),
    ("softmax", "rows=64,cols=1003"),
    ("gemm", "M=64,N=256,K=512,b_layout=nk,epilogue=bias,dtype=bfloat16"),
    ("swiglu", "rows=64,cols=1024,dtype=bfloat16"),
    ("sdpa", "B=1,H=8,KV=2,S=300,D=64,causal=true,dtype=bfloat16"),
    ("sdpa", "B=1,H=8,KV=2,S=300,D=64,causal=true,dtype=bfloat16,layout=bshd"),
    ("sdpa_decode", "B=2,H=8,KV=2,S=300,D=64,dtype=bfloat16"),
)
LARGEST_HOST_US = 8.0
"""Maximum host time of a call in µs, in addition to the host time of PyTorch's own call."""


@pytest.fixture(scope="module")
def fast(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch cannot use the GPU")
    folder = tmp_path_factory.mktemp("packages") / "fast_on_gpu"
    write([bundle(number, *each, gpu) for number, each in enumerate(KERNELS, start=1)], folder)
    with imported(folder) as package:
        yield package


def drawn(*shape: int, dtype: str = "bfloat16") -> Any:
    import torch

    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype))


def calls(fast: Any) -> list[tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return pairs of calls: a function of the package and the same function of PyTorch."""
    from torch.nn import functional

    x, weight = drawn(2, 32, 4096), drawn(4096)
    h, scale, shift = drawn(64, 1024, dtype="float16"), drawn(1024, dtype="float16"), drawn(1024, dtype="float16")
    scores = drawn(64, 1003, dtype="float16")
    gate, up = drawn(2, 32, 1024), drawn(2, 32, 1024)
    rows, matrix, bias = drawn(64, 512), drawn(256, 512), drawn(256)
    q, k, v = drawn(1, 8, 300, 64), drawn(1, 2, 300, 64), drawn(1, 2, 300, 64)
    p, r = drawn(1, 300, 8, 64).transpose(1, 2), drawn(1, 300, 2, 64).transpose(1, 2)
    query, keys, values = drawn(2, 8, 1, 64), drawn(2, 2, 300, 64), drawn(2, 2, 300, 64)
    attention = functional.scaled_dot_product_attention
    ours = fast.scaled_dot_product_attention
    return [
        (lambda: fast.rms_norm(x, (4096,), weight, 1e-5), lambda: functional.rms_norm(x, (4096,), weight, 1e-5)),
        (
            lambda: fast.layer_norm(h, (1024,), scale, shift),
            lambda: functional.layer_norm(h, (1024,), scale, shift),
        ),
        (lambda: fast.softmax(scores, -1), lambda: functional.softmax(scores, -1)),
        (lambda: fast.linear(rows, matrix, bias), lambda: functional.linear(rows, matrix, bias)),
        (lambda: fast.swiglu(gate, up), lambda: functional.silu(gate) * up),
        (
            lambda: ours(q, k, v, is_causal=True, enable_gqa=True),
            lambda: attention(q, k, v, is_causal=True, enable_gqa=True),
        ),
        (
            lambda: ours(p, r, r, is_causal=True, enable_gqa=True),
            lambda: attention(p, r, r, is_causal=True, enable_gqa=True),
        ),
        (lambda: ours(query, keys, values, enable_gqa=True), lambda: attention(query, keys, values, enable_gqa=True)),
    ]


def test_kernels_of_an_exported_package_give_the_results_of_pytorch_on_a_gpu(fast: Any) -> None:
    import torch

    fast.reset()
    for ours, theirs in calls(fast):
        torch.testing.assert_close(ours(), theirs(), rtol=0.03, atol=0.03)
        torch.testing.assert_close(ours(), theirs(), rtol=0.03, atol=0.03)
    report = fast.report()
    assert (sum(report.served.values()), dict(report.fallbacks)) == (2 * len(calls(fast)), {})


def test_exported_kernels_are_correct_on_non_default_streams_and_in_cuda_graphs(fast: Any) -> None:
    import torch

    x, weight = drawn(64, 4096), drawn(4096)
    expected = torch.nn.functional.rms_norm(x, (4096,), weight, 1e-5)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = fast.rms_norm(x, (4096,), weight, 1e-5)
    torch.cuda.synchronize()
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = fast.rms_norm(x, (4096,), weight, 1e-5)
    x.copy_(drawn(64, 4096))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(captured, torch.nn.functional.rms_norm(x, (4096,), weight, 1e-5), rtol=0.03, atol=0.03)


def test_gradients_of_an_exported_package_on_a_gpu_equal_those_of_pytorch(fast: Any) -> None:
    import torch

    found = []
    start = drawn(64, 4096)
    for function in (fast.rms_norm, torch.nn.functional.rms_norm):
        x = start.clone().requires_grad_()
        function(x, (4096,), drawn(4096).fill_(2.0), 1e-5).float().square().sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found, rtol=0.05, atol=0.05)


def test_host_time_per_call_of_an_exported_package_is_close_to_that_of_pytorch(
    fast: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    with torch.no_grad():
        beyond = [(_host_us(ours), _host_us(theirs)) for ours, theirs in calls(fast)]
    with capsys.disabled():
        for ours, theirs in beyond:
            sys.stdout.write(f"\nhost: {ours:.1f} µs per call, PyTorch {theirs:.1f} µs")
    assert max(ours - theirs for ours, theirs in beyond) <= LARGEST_HOST_US


def _host_us(call: Callable[[], Any], count: int = 500) -> float:
    """Return the shortest host time of a call in three rounds, without waiting for the launched kernels."""
    import torch

    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - begun) / count * 1e6)
    return min(times)
