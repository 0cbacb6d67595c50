"""Check that the wheel contains every package with its data files, and nothing else: `python -m tests.packaging`."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("evo", "templates", "workers", "api", "db")


def tracked_files() -> set[str]:
    """Return the files tracked by git in the packages, which a wheel must contain."""
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def wheel_files(directory: str) -> set[str]:
    """Build the wheel and list its files, without the metadata."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = Path(directory).glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        packed, tracked = wheel_files(directory), tracked_files()
    for name in sorted(tracked - packed):
        print(f"missing from the wheel: {name}", file=sys.stderr)
    for name in sorted(packed - tracked):
        print(f"in the wheel, but not in git: {name}", file=sys.stderr)
    return int(packed != tracked)


if __name__ == "__main__":
    sys.exit(main())
