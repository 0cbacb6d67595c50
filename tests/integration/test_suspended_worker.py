"""A worker that was suspended together with its child processes does not time them out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.serving import wait_until

LIMIT_S = 8.0
STOPPED_S = 10.0

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from workers.system import line_process
from workers.system.program import run

folder, limit_s = Path(sys.argv[1]), float(sys.argv[2])
waiting = f"import sys; print(sys.stdin.readline() and open({str(folder / 'line')!r}).read() or '{{}}')"
line_process._command = lambda _: (sys.executable, "-c", waiting)
with ThreadPoolExecutor() as pool:
    program = pool.submit(run, ["sh", "-c", "cat program; echo compiled"], folder, limit_s)
    line = pool.submit(line_process.LineProcess("", None).ask, {}, limit_s)
    print("ready", flush=True)
    print([program.result(), line.result()], flush=True)
"""
"""Starts two child processes, which wait for the named pipes `program` and `line` of a folder."""


@pytest.mark.slow
def test_suspension_of_the_worker_does_not_time_out_its_child_processes(tmp_path: Path) -> None:
    pipes = [tmp_path / name for name in ("program", "line")]
    for each in pipes:
        os.mkfifo(each)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(LIMIT_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        parent = psutil.Process(worker.pid)
        wait_until(lambda: len(parent.children(recursive=True)) == 3)  # a shell, `cat` and Python
        together = [parent, *parent.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in together:
                process.send_signal(number)
            time.sleep(STOPPED_S if number == signal.SIGSTOP else 0)
        for each in pipes:
            each.write_text("")
        assert worker.stdout.read() == "[(0, 'compiled\\n'), {}]\n"
