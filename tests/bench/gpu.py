"""The figures of docs/benchmarks.md for this machine's GPU: ``python -m tests.bench.gpu``, or ``make bench-gpu``."""

import sys

from tests.bench.cpu import Contests, main

CONTESTS: Contests = (
    ("sdpa", "B=2,H=8,S=256,D=64", {"torch-cudnn": 2.1, "torch-flash": 2.1}),
    ("sdpa", "B=1,H=8,S=512,D=64", {"torch-cudnn": 2.15, "torch-flash": 2.15}),
    ("sdpa", "B=2,H=8,S=512,D=64", {"torch-cudnn": 1.6, "torch-flash": 1.6}),
    ("sdpa", "B=2,H=8,S=512,D=64,causal=true", {}),
    ("sdpa", "B=4,H=16,S=1024,D=64", {"torch-flash": 1.15}),
    ("sdpa", "B=4,H=16,S=2048,D=64", {"torch-flash": 1.15}),
    ("sdpa", "B=4,H=16,S=4096,D=128", {"torch-flash": 1.0}),
    ("softmax", "rows=4096,cols=4096", {"torch": 2.0}),
    ("softmax", "rows=16384,cols=1024", {"torch": 1.5}),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], CONTESTS, "cuda"))
