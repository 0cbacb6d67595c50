"""Optimises ten operations like an external proposer, only with ``brief`` and ``submit``: ``make bench-operations``.

Five operations are similar to those of KernelBench's level 1. Five are fused operations of language models. Each
operation has a naive variant and a variant with tunables. The table compares the best kernel with eager PyTorch,
torch.compile, the naive variant, and the variant before tuning.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--trials", type=int, default=12, help="maximum number of trials per variant")
    parser.add_argument("--together", type=int, default=3, help="problems that are searched at the same time")
    parser.add_argument("--db", default=None)
    parser.add_argument("--out", default=None, help="new folder for table, results and transcript")
    parser.add_argument("only", nargs="*", help="problems (default: all)")
    terms = parser.parse_args(arguments)
    command = [sys.executable, "-m", "evo", "bench", "kernelbench", str(HERE / "problems")]
    command += ["--proposer", f"folder:{HERE / 'variants'}", "--policy", str(HERE / "policy.toml")]
    for name in ("device", "minutes", "trials", "together", "db", "out"):
        value = getattr(terms, name)
        command += [] if value is None else [f"--{name}", str(value)]
    for name in terms.only:
        command += ["--only", name]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
