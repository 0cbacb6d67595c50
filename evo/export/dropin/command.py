"""Prints the time of each kernel alone, the time of the package's function, and the time of PyTorch's function.

An exported package contains this file as ``__main__.py``, so ``python -m`` with the package's name runs it.
"""

import argparse
import sys

from .measuring import as_json, measure, report

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("--json", action="store_true", help="write JSON for `kernel-evo champion called`")
    options = parser.parse_args()
    found = measure()
    if not found:
        sys.exit("No kernel of this package can run on this machine. Tune kernels on this machine and export them.")
    sys.stdout.write((as_json(found) if options.json else report(found)) + "\n")
