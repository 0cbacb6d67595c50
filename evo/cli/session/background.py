"""Runs a search in the background, by starting the same command as a detached process."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from evo.cli.console.output import console, print_json
from evo.cli.exits import Exit
from evo.cli.service.locations import LocalDatabase
from evo.errors import EvoError
from evo.text.visible import visible

Tell: TypeAlias = Callable[[dict[str, Any], int], None]
"""Function that reports the start of a background search.

Its arguments are the content of the file `announce` (see `evo.cli.session.session.run`) and the process id.
"""

START_S = 120.0
LOOK_S = 0.1


def detach(arguments: Sequence[str], location: LocalDatabase, options: str, *, as_json: bool = False) -> int:
    """Run ``kernel-evo`` with the given arguments in the background, and return when its search has begun.

    Args:
        options: options that make another command use the same service.
        as_json: True to print the search as JSON, False to print it as text.

    Returns:
        0 if the search has begun. If the background process ended earlier, or is ended because its search did not begin
        within `START_S`, its output is shown. Its exit code is then returned or, if that is 0, `Exit.UNAVAILABLE`.

    Raises:
        EvoError: the log file cannot be written.
    """
    log = location.log(
        "search"
    )  # one log file per search, so that an error is not mixed with the progress of other searches

    def tell(begun: dict[str, Any], pid: int) -> None:
        own = Path(output.name).replace(location.log(f"search-{begun['search']}"))
        print_json(begun["view"]) if as_json else _tell(begun, pid, own, options)

    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="kernel-evo-") as folder,
            tempfile.NamedTemporaryFile(dir=log.parent, prefix=f"{log.stem}-", suffix=".log", delete=False) as output,
        ):
            try:
                return _begin(arguments, Path(folder) / "search.json", output, tell)
            finally:
                Path(output.name).unlink(missing_ok=True)  # no search began, so nothing was renamed
    except OSError as error:
        raise EvoError(f"{log} cannot be written ({error.strerror}); use another --db") from None


def _begin(arguments: Sequence[str], news: Path, output: Any, tell: Tell) -> int:
    command = [sys.executable, "-m", "evo", *arguments, "--announce", str(news)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    deadline = time.monotonic() + START_S
    while (begun := _read(news)) is None and process.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    if begun is not None:
        tell(begun, process.pid)
        return Exit.DONE
    process.terminate()
    output.seek(0)
    sys.stderr.write(visible(output.read().decode(errors="replace")))
    return process.wait() or Exit.UNAVAILABLE


def _read(news: Path) -> dict[str, Any] | None:
    try:
        begun: dict[str, Any] = json.loads(news.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return begun


def _tell(begun: dict[str, Any], pid: int, log: Path, options: str) -> None:
    out, number = console(), begun["search"]
    out.print(f"Search {number} runs in the background (process {pid}, log {log}).")
    out.print(f"  leaderboard  {begun['page']}")
    out.print(f"  follow it kernel-evo watch {number}{options}")
    out.print(f"  end it       kernel-evo stop {number}{options}")
