"""Parent process of a runner, which protects the worker from candidates that kill their parent process.

A slot starts the guardian as ``python -m workers.runner.guardian WORKER_PID``. If a candidate kills its parent process
or its process group, the guardian ends, the system kills the runner, and the slot reports a crash. The worker
continues. The guardian forks before it imports large modules, and ends with the runner's exit status.

The guardian protects only against accidents. A program that kills all processes of its user also kills the worker.
"""

import gc
import os
import signal
import sys
from typing import NoReturn

from workers.runner import confinement

PEAK = "kernel-evo-peak-bytes="
"""Prefix of the guardian's last line on standard error, which states the peak memory of the runner. The slot cannot
measure this value, because the system's value for the guardian includes memory of the worker.
"""


def main(arguments: list[str]) -> NoReturn:
    """Start a runner, and wait until it ends."""
    own = os.getpid()
    runner = os.fork()
    if runner == 0:
        gc.disable()  # imports create lasting objects and no garbage, and collecting takes a tenth of their time
        from workers.runner.process import serve

        gc.freeze()
        gc.enable()
        raise SystemExit(serve(own))
    # after the fork: this starts a thread on some systems, and processes with threads should not fork
    confinement.die_with(int(arguments[0]))
    for pipe in (0, 1):  # the slot must detect when the runner closes them
        os.close(pipe)
    _, status, usage = os.wait4(runner, 0)
    peak_bytes = usage.ru_maxrss << (0 if sys.platform == "darwin" else 10)
    os.write(2, f"\n{PEAK}{peak_bytes}\n".encode())
    _end_as(status)


def _end_as(status: int) -> NoReturn:
    """End this process with the given status or signal, without a core file."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        confinement.limit_core()
        if -code not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
