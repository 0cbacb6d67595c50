"""Times the functions of this package and the corresponding functions of PyTorch on this machine."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as nnf

from . import functions
from .table import TABLE, Entry, counted, described

Run = Callable[[], Any]

ROUNDS, ROUND_S = 7, 0.05
"""Number of alternating rounds, and approximate time in seconds that each function runs in a round."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Times of one kernel.

    Attributes:
        champion: number of the champion in the service that exported it.
        model: model of the device on which the champion was confirmed.
        machine: name of this machine's device.
        kernel_us: time of the kernel alone in µs, as confirmed by its search on `model`.
        called_us: time of a call of this package's function on this machine, in µs. This is the kernel's time or, if
            longer, the time that the call takes on the host.
        torch_us: time of PyTorch's function in µs, called in the same way.
    """

    champion: int
    family: str
    problem: Mapping[str, Any]
    model: str
    machine: str
    kernel_us: float
    called_us: float
    torch_us: float

    @property
    def ratio(self) -> float:
        """Speed-up of this package's function over PyTorch's function."""
        return self.torch_us / self.called_us


def measure(kind: str | None = None) -> list[Measured]:
    """Time every kernel that this machine can run, with consecutive calls and without CUDA graphs.

    These calls do not change the numbers of calls in the package's `report`.

    Args:
        kind: ``cpu`` or ``cuda``; None for both.
    """
    before = {id(each): each.calls for each in counted()}
    kinds = {"cpu", "cuda"} if torch.cuda.is_available() else {"cpu"}
    wanted = kinds if kind is None else kinds & {kind}
    found = [each for entry in TABLE.entries if entry.device in wanted for each in _measured(entry)]
    for each in counted():
        each.calls = before.get(id(each), 0)
    return found


def _measured(entry: Entry) -> Iterator[Measured]:
    """Yield the times of a kernel, or nothing if PyTorch would compute its call on this machine."""
    calls = entry.calls
    with torch.no_grad():
        ours, theirs = example(functions, entry.family, entry.problem, entry.device)
        try:
            ours()
        except LookupError:  # with `strict`, a call without a kernel raises
            return
        if entry.calls > calls:
            called_us, torch_us = in_turns(ours, theirs, entry.device)
            yield Measured(
                champion=entry.champion,
                family=entry.family,
                problem=entry.problem,
                model=entry.model,
                machine=_device_name(entry.device),
                kernel_us=entry.time_us,
                called_us=called_us,
                torch_us=torch_us,
            )


def _device_name(kind: str) -> str:
    if kind == "cuda":
        return str(torch.cuda.get_device_name())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def in_turns(ours: Run, theirs: Run, kind: str) -> tuple[float, float]:
    """Return the median time per call of each callable in µs. Rounds of the two callables alternate."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for run, taken in zip((ours, theirs), times, strict=True):
            run()
            count = max(1, min(1000, int(ROUND_S / max(seconds(run, 1, kind), 1e-7))))
            taken.append(seconds(run, count, kind) / count * 1e6)
    return statistics.median(times[0]), statistics.median(times[1])


def seconds(run: Run, count: int, kind: str) -> float:
    """Return the time of `count` calls in seconds, including the time until the device has finished."""
    if kind == "cuda":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        run()
    if kind == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def example(  # noqa: PLR0911 — one call for each family
    package: Any, family: str, problem: Mapping[str, Any], device: str
) -> tuple[Run, Run]:
    """Return two callables that compute the problem on the same random tensors.

    The first callable calls the package's function, the second callable PyTorch's function.
    """
    dtype = getattr(torch, str(problem["dtype"]))

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    if family.startswith("sdpa"):
        given, terms = _attention(family, problem, drawn)
        return _both(package, "scaled_dot_product_attention", given, terms)
    if family == "rope":
        rotated = _rotation(problem, drawn)
        return (lambda: package.apply_rotary_pos_emb(*rotated)), (lambda: functions.rotated_by_torch(*rotated))
    if family == "gemm":
        bias = (drawn(problem["N"]),) if problem.get("epilogue", "none") == "bias" else ()
        return _both(package, "linear", (drawn(problem["M"], problem["K"]), drawn(problem["N"], problem["K"]), *bias))
    shape = (problem["rows"], problem["cols"])
    if family == "cross_entropy":
        target = torch.randint(0, shape[1], shape[:1], device=device)
        return _both(package, "cross_entropy", (drawn(*shape), target), {"reduction": "none"})
    if family == "swiglu":
        gate, up = drawn(*shape), drawn(*shape)
        return (lambda: package.swiglu(gate, up)), (lambda: nnf.silu(gate) * up)
    if family == "softmax":
        return _both(package, "softmax", (drawn(*shape), -1))
    weights = (drawn(shape[1]),) if family == "rmsnorm" else (drawn(shape[1]), drawn(shape[1]))
    name = "rms_norm" if family == "rmsnorm" else "layer_norm"
    if not problem.get("residual", False):
        return _both(package, name, (drawn(*shape), shape[1:], *weights, 1e-5))
    x, residual = drawn(*shape), drawn(*shape)
    fused = getattr(package, f"add_{name}")
    normed = getattr(nnf, name)
    return (lambda: fused(x, residual, *weights, 1e-5)), (lambda: normed(x + residual, shape[1:], *weights, 1e-5))


def _both(package: Any, name: str, given: tuple[Any, ...], terms: Mapping[str, Any] | None = None) -> tuple[Run, Run]:
    ours, theirs = getattr(package, name), getattr(nnf, name)
    return (lambda: ours(*given, **(terms or {}))), (lambda: theirs(*given, **(terms or {})))


def _attention(
    family: str, problem: Mapping[str, Any], drawn: Callable[..., torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, bool]]:
    decodes = family == "sdpa_decode"
    kv_heads = problem.get("KV", 0) or problem["H"]
    queries = problem["Q"] if decodes else problem["S"]
    keys = problem["S"] if decodes else problem.get("S_KV", 0) or problem["S"]
    terms = {"is_causal": bool(problem["causal"]), "enable_gqa": kv_heads != problem["H"]}
    layout = problem.get("layout")
    if layout == "qkv_heads":
        together = drawn(problem["B"], queries, problem["H"], 3, problem["D"])
        return together.permute(3, 0, 2, 1, 4).unbind(0), terms
    if layout == "qkv":
        together = drawn(problem["B"], queries, problem["H"] + 2 * kv_heads, problem["D"]).transpose(1, 2)
        return together.split((problem["H"], kv_heads, kv_heads), dim=1), terms
    inputs = []
    for heads, length in ((problem["H"], queries), (kv_heads, keys), (kv_heads, keys)):
        by_tokens = layout == "bshd"
        shape = (length, heads) if by_tokens else (heads, length)
        tensor = drawn(problem["B"], *shape, problem["D"])
        inputs.append(tensor.transpose(1, 2) if by_tokens else tensor)
    return tuple(inputs), terms


def _rotation(problem: Mapping[str, Any], drawn: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return random q and k of shape (B, heads, S, D), and the tables of cosines and sines."""
    batch, length, size = problem["B"], problem["S"], problem["D"]
    heads = (problem["H"], problem.get("KV", 0) or problem["H"])
    if problem.get("layout", "bshd") == "bshd":
        q, k = (drawn(batch, length, each, size).transpose(1, 2) for each in heads)
    else:
        q, k = (drawn(batch, each, length, size) for each in heads)
    angles = drawn(1, length, size // 2).repeat(1, 1, 2)
    return q, k, angles.cos(), angles.sin()


def as_json(found: Sequence[Measured]) -> str:
    """Return the times as a JSON document, which ``kernel-evo champion called`` can store."""
    document = {"software": f"PyTorch {torch.__version__}", "times": [asdict(each) for each in found]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def report(found: Sequence[Measured]) -> str:
    """Return the times as a text table."""
    lines = [f"{'kernel, µs':>12}{'called, µs':>12}{'PyTorch, µs':>13}{'ratio':>8}  problem"]
    lines += [
        f"{each.kernel_us:>12.2f}{each.called_us:>12.2f}{each.torch_us:>13.2f}{each.ratio:>8.2f}  "
        f"{described(each.family, each.problem)}"
        for each in found
    ]
    models = ", ".join(sorted({each.model for each in found}))
    note = f"kernel: time confirmed by the search on {models}; called, PyTorch: times on this machine"
    return "\n".join([*lines, note])
