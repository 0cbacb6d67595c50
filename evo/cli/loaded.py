"""Loads the modules of ``serve`` or ``worker``, waits for the arguments, and runs the subcommand.

A command starts this program as a `StandbyProcess` (`evo.cli.service.standby`).
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from evo.cli.service.standby import TOKEN, loading

MODULES: Mapping[str, Sequence[str]] = {
    "serve": ("api.server", "api.settings"),
    "worker": ("workers.daemon.daemon", "evo.cli.service.devices", "api.operations.logs"),
}
"""Modules that are loaded in advance, by subcommand."""


def main(subcommand: str) -> int:
    """Load the modules of a subcommand, read its arguments from standard input, and run it. Return its exit code.

    If the input ends without arguments, return 0.
    """
    with loading():
        from evo.cli.main import main as run

        for module in MODULES[subcommand]:
            import_module(module)
    line = sys.stdin.readline()
    if not line:
        return 0
    order = json.loads(line)
    with Path(order["log"]).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for output in (1, 2):
            os.dup2(log.fileno(), output)
    if order["token"] is not None:
        os.environ[TOKEN] = order["token"]
    sys.argv[1:] = order["arguments"]
    return run(order["arguments"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
