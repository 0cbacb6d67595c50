"""A worker that was suspended together with its child processes does not time them out."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

LIMIT_S = 8.0
STOPPED_S = 10.0

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from workers.system import line_process
from workers.system.program import run

folder, limit_s = Path(sys.argv[1]), float(sys.argv[2])
slow = "import sys, time; print(sys.stdin.readline() and time.sleep(2) or '{}')"
line_process._command = lambda _: (sys.executable, "-c", slow)
with ThreadPoolExecutor() as pool:
    program = pool.submit(run, ["sh", "-c", "sleep 2; echo compiled"], folder, limit_s)
    line = pool.submit(line_process.LineProcess("", None).ask, {}, limit_s)
    print("ready", flush=True)
    print([program.result(), line.result()], flush=True)
"""


@pytest.mark.slow
def test_suspension_of_the_worker_does_not_time_out_its_child_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(LIMIT_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(0.2)
        together = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for each in together:
                each.send_signal(number)
            time.sleep(STOPPED_S if number == signal.SIGSTOP else 0)
        assert worker.stdout.read() == "[(0, 'compiled\\n'), {}]\n"
