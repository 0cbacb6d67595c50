"""``python -m`` of this package: prints the time of each kernel alone, as a program calls it, and of PyTorch."""

import argparse
import sys

from .measuring import as_json, measure, report

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("--json", action="store_true", help="write JSON for `kernel-evo champion called`")
    options = parser.parse_args()
    found = measure()
    if not found:
        sys.exit("This machine can run none of the kernels.")
    sys.stdout.write((as_json(found) if options.json else report(found)) + "\n")
