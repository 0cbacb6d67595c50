"""Command of the chaos run: ``python -m tests.e2e.chaos --faults 100``."""

import time
from argparse import ArgumentParser

from tests.e2e.chaos.run import run


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.e2e.chaos")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--services", type=int, default=3)
    parser.add_argument(
        "--workers", type=int, default=4, help="number of simulated workers; two real workers run in addition"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    done, answers = run(options.faults, services=options.services, workers=options.workers, seed=options.seed)
    print(f"{done.total()} faults in {time.monotonic() - began:.0f} s: {dict(done)}")
    print(f"every trial ended exactly once; {dict(answers)}")


if __name__ == "__main__":
    main()
