"""Exhausted memory, disk space or process limits are reported as errors of the machine, not of the family."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cpu.support import load_support
from workers.runner.pool import TroubleError, ask
from workers.runner.process import Runner
from workers.runner.protocol import Open, Trouble, Unfit
from workers.system.exhaustion import MachineExhausted, is_exhaustion, refuse_exhaustion, refuse_noexec, with_remedy


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EDQUOT, "free disk space, or raise the disk quota"),
        (errno.EROFS, "make the file system writable"),
    ],
)
def test_full_or_read_only_disk_counts_as_machine_exhaustion(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number), "kernel.o")
    assert is_exhaustion(error)
    assert with_remedy(error, "it failed") == f"{remedy}: it failed"
    with pytest.raises(MachineExhausted, match=f"{remedy}: kernel"):
        refuse_exhaustion(f"kernel.c: warning: x\nkernel.s: Fatal error: can't write: {os.strerror(number)}\nmore")


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "x"), OSError(errno.EMFILE, "x"), ValueError("x")])
def test_errors_unrelated_to_disk_space_are_not_machine_exhaustion(error: Exception) -> None:
    assert not is_exhaustion(error)
    assert with_remedy(error, "it failed") == "it failed"
    refuse_exhaustion(f"kernel.c:1: error: {error}")


def test_runner_reports_a_full_disk_as_machine_exhaustion(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Runner, "_answer", full)
    reply = Runner().answer(Open.__new__(Open))
    assert isinstance(reply, Trouble)
    assert reply.exhausted
    assert reply.reason.startswith("free disk space: the open step failed")


def test_noexec_temporary_folder_counts_as_machine_exhaustion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuse_noexec(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    with pytest.raises(MachineExhausted, match="set TMPDIR") as refused:
        refuse_noexec(tmp_path)
    assert is_exhaustion(refused.value)
    with pytest.raises(MachineExhausted, match="noexec"):
        load_support(CCompiler(find_compiler()), tmp_path / "cache", tmp_path / "support.so")


class Says:
    def __init__(self, reply: object) -> None:
        self.reply = reply

    def ask(self, *_: object) -> object:
        return self.reply


def test_runner_reply_raises_machine_exhausted_only_if_it_reports_exhaustion() -> None:
    for reply, error in (
        (Trouble(reason="no space", exhausted=True), MachineExhausted),
        (Trouble(reason="reference.py fails"), TroubleError),
    ):
        with pytest.raises(error):
            ask(Says(reply), Open.__new__(Open), Unfit, stage="open", limit_s=1.0)  # type: ignore[arg-type]
