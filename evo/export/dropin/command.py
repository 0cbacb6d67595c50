"""``python -m`` of this package: prints the time of each kernel alone, as a program calls it, and of PyTorch."""

import sys

from .measuring import measure, report

if __name__ == "__main__":
    found = measure()
    sys.stdout.write((report(found) if found else "This machine can run none of the kernels.") + "\n")
