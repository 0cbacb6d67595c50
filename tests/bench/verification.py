"""Compares the trials per second of a search in this source tree and in another commit, e.g. without a new check.

``python -m tests.bench.verification COMMIT`` (``make bench-verification ARGS=COMMIT``) searches with both trees
alternately, with empty databases and compile caches. It prints the trials per second of each search, and the ratio of
each pair. COMMIT may also be a folder with the files of the commit.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent.parent.parent


def unpack(commit: str, folder: Path) -> Path:
    """Unpack a commit into `folder`, and return the folder. If `commit` is a folder, return it."""
    if (given := Path(commit)).is_dir():
        return given.resolve()
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=HERE, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    return folder


def trials_per_s(tree: Path, search: Sequence[str], folder: Path) -> float:
    """Run a search, and return its ended trials per second, including start and confirmations."""
    folder.mkdir()
    command = [sys.executable, "-m", "evo", "search", *search, "--db", str(folder / "bench.db"), "--json"]
    libraries = filter(
        None, (str(tree), os.environ.get("PYTHONPATH"))
    )  # modules of the tree take precedence over installed modules
    own = {
        "PYTHONPATH": os.pathsep.join(libraries),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
    }
    began_s = time.monotonic()
    done = subprocess.run(command, cwd=tree, env=os.environ | own, stdout=subprocess.PIPE, check=False)
    passed_s = time.monotonic() - began_s
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[2:])} in {tree} ended with status {done.returncode}")
    counts: dict[str, int] = json.loads(done.stdout)["counts"]
    return sum(counts.values()) / passed_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="commit to compare with, or a folder with its files")
    parser.add_argument("--family", default="softmax")
    parser.add_argument("--problem", default="rows=256,cols=512")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trials", type=int, default=60, help="number of trials per search (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=3, help="number of pairs of searches (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first pair; it increases by 1 for each pair")
    parser.add_argument(
        "--within", type=float, default=float("inf"), help="seconds after which no more pairs are started"
    )
    asked = parser.parse_args()
    ratios, began_s = list[float](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as name:
        trees = {"before": unpack(asked.commit, Path(name) / "before"), "now": HERE}
        for pair in range(asked.pairs):
            kernel = [asked.family, "--problem", asked.problem, "--device", asked.device]
            search = [*kernel, "--trials", str(asked.trials), "--minutes", "10", "--seed", str(asked.seed + pair)]
            found: dict[str, float] = {}
            if time.monotonic() - began_s > asked.within:
                break
            for which in ("before", "now") if pair % 2 else ("now", "before"):
                found[which] = trials_per_s(trees[which], search, Path(name) / f"{which}-{pair}")
                print(f"{which:6s} seed {asked.seed + pair}: {found[which]:.3f} trials/s", flush=True)
            ratios.append(found["now"] / found["before"])
    print(f"now / before: median {statistics.median(ratios):.2f} ({', '.join(f'{each:.2f}' for each in ratios)})")


if __name__ == "__main__":
    main()
