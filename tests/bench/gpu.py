"""Runs the benchmarks of docs/results on this machine's GPU: ``python -m tests.bench.gpu`` or ``make bench-gpu``."""

import sys

from tests.bench.cpu import main
from tests.bench.searching import Match


def _best(least: float) -> dict[str, float]:
    """Require a speed-up of at least `least` over the two PyTorch backends that may be the fastest."""
    return {"torch-cudnn": least, "torch-flash": least}


def _long(problem: str, flash: float) -> Match:
    return Match(family="sdpa", problem=problem, minutes=1.5, least={"torch-flash": flash, "torch-cudnn": 1.0})


def _row_kernel(family: str) -> Match:
    """Return the contest of a memory-bound kernel, which reads 128 MiB and, unless it reduces, writes 128 MiB."""
    problem = "rows=16384,cols=4096"
    least = {"torch": 1.0, "torch-compile": 1.0}
    return Match(family=family, problem=problem, minutes=1.0, cache="cold", least_share=0.92, least=least)


def _decode(problem: str, share: float | None = None) -> Match:
    """Return the contest of a decode kernel, which is memory-bound: it reads the cache of keys and values once."""
    return Match(family="sdpa_decode", problem=problem, minutes=1.5, cache="cold", least_share=share, least=_best(1.0))


def _fp8(problem: str) -> Match:
    """Return an FP8 contest. Its results do not apply to an L4; see the family's note."""
    return Match(family="sdpa_fp8", problem=problem, minutes=1.5)


def _skinny(m: int, n: int, k: int) -> Match:
    """Return the contest of a matrix product with few rows, whose time is mostly the time to read matrix `b`."""
    return Match(family="gemm", problem=f"M={m},N={n},K={k}", minutes=1.0, cache="cold")


SHORT = ("B=2,H=8,S=256,D=64", "B=1,H=8,S=512,D=64", "B=2,H=8,S=512,D=64")
LAYOUTS = ("rows", "columns")
MATCHES = (
    Match(family="sdpa", problem="B=2,H=8,S=256,D=64", minutes=2.5, within_us=3.0, least=_best(2.1)),
    Match(family="sdpa", problem="B=1,H=8,S=512,D=64", minutes=3.5, within_us=3.9, least=_best(2.15)),
    Match(family="sdpa", problem="B=2,H=8,S=512,D=64", minutes=3.5, within_us=5.0, least=_best(1.6)),
    *(Match(family="sdpa", problem=each, minutes=1.5, launch="pdl") for each in SHORT),
    Match(family="sdpa", problem="B=2,H=8,S=512,D=64,causal=true", minutes=1.5),
    _long("B=4,H=16,S=1024,D=64", flash=1.15),
    _long("B=4,H=16,S=2048,D=64", flash=1.15),
    _long("B=4,H=16,S=2048,D=64,causal=true", flash=1.0),
    _long("B=4,H=16,S=4096,D=128", flash=1.0),
    _long("B=4,H=16,S=4096,D=128,causal=true", flash=1.0),
    *(_fp8(f"B=2,H=8,S=512,D=64,{more}") for more in ("v_layout=rows", "v_layout=columns", "accuracy=fine")),
    _fp8("B=2,H=8,S=256,D=64"),
    *(Match(family="quantize_e4m3", problem=f"B=2,H=8,S=512,D=64,layout={each}", minutes=0.7) for each in LAYOUTS),
    _decode("B=8,H=32,KV=8,S=8192,D=128", share=0.94),
    _decode("B=1,H=32,KV=8,S=8192,D=128"),
    _decode("B=8,H=32,KV=8,S=1024,D=128"),
    _decode("B=1,H=32,KV=8,S=1024,D=128"),
    Match(family="softmax", problem="rows=4096,cols=4096", minutes=0.7, cache="cold", least_share=0.9),
    Match(family="softmax", problem="rows=16384,cols=1024", minutes=0.7, cache="cold", least_share=0.9),
    _row_kernel("rmsnorm"),
    _row_kernel("layernorm"),
    _row_kernel("transpose"),
    _row_kernel("reduce"),
    Match(family="gemm", problem="M=4096,N=4096,K=4096", minutes=1.5, least={"torch": 0.95}),
    *(_skinny(*shape) for shape in ((16, 4096, 4096), (64, 4096, 4096), (16, 14336, 4096))),
    Match(family="gemm_fp8", problem="M=4096,N=4096,K=4096", minutes=1.5, least={"torch": 0.9}),
    *(_skinny(*shape) for shape in ((64, 14336, 4096), (64, 4096, 14336))),
    _long("B=4,H=16,S=1024,D=64,causal=true", flash=1.0),
    _fp8("B=4,H=16,S=4096,D=128,v_layout=columns"),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], MATCHES, device="cuda", trials=100_000, rounds=100))
