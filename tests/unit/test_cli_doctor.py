"""`kernel-evo doctor` reports GPUs, compilers, the separation of kernels, and the temporary folder."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from evo.cli.commands import doctor
from evo.cli.exits import Exit
from evo.device.estimate.target import known
from evo.errors import EvoError
from workers.backends.cpu import support
from workers.backends.cpu.compiler import CCompiler
from workers.backends.cuda.compilers import nvrtc
from workers.backends.cuda.device import CudaDriver
from workers.backends.cuda.machine.survey import NO_DRIVER
from workers.system import sandbox


def test_doctor_states_why_no_gpu_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaDriver, "look", lambda _: ([], NO_DRIVER))
    finding = doctor._cuda()
    assert (finding.found, finding.detail, finding.remedy) == (False, "no usable GPU", NO_DRIVER)


def test_doctor_lists_usable_gpus_and_a_broken_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaDriver, "look", lambda _: ([known("sm_89")], "GPU 1 cannot be used"))
    finding = doctor._cuda()
    assert (finding.found, finding.detail, finding.remedy) == (False, "NVIDIA L4", "GPU 1 cannot be used")


def test_doctor_lists_usable_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaDriver, "look", lambda _: ([known("sm_89"), known("sm_90")], None))
    finding = doctor._cuda()
    assert finding.found
    assert finding.detail == "NVIDIA L4, NVIDIA H100 80GB HBM3"
    assert finding.remedy == ""


@pytest.mark.parametrize(
    ("held", "found", "detail", "remedy"),
    [
        ("another user, Landlock, seccomp", True, "level full: another user, Landlock, seccomp", ""),
        ("seccomp", False, "level confined: seccomp", "run workers as root"),
        ("none", False, "level none: none", "run workers as root"),
    ],
)
def test_doctor_states_how_kernels_are_separated_and_what_more_separation_needs(
    monkeypatch: pytest.MonkeyPatch, held: str, found: bool, detail: str, remedy: str
) -> None:
    monkeypatch.setattr(support, "separation_here", lambda *_: held)
    finding = doctor._separation()
    assert (finding.found, finding.detail) == (found, detail)
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(("held", "works"), [("Landlock, seccomp", True), ("bubblewrap", False), ("", False)])
def test_doctor_names_the_sandbox_of_the_compiler_or_a_remedy(
    monkeypatch: pytest.MonkeyPatch, held: str, works: bool
) -> None:
    monkeypatch.setattr(sandbox, "sandbox_here", lambda: held)
    monkeypatch.setattr(CCompiler, "sandbox", held if works else "")
    finding = doctor._sandbox()
    assert finding.found is works
    assert finding.detail == f"compilers of proposed code: {held if works else 'none'}"
    assert finding.remedy.startswith("" if works else "set CC to a compiler" if held else "use Linux")


def test_doctor_states_why_no_kernel_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise support.SupportError("no compiler")

    monkeypatch.setattr(support, "separation_here", fail)
    finding = doctor._separation()
    assert (finding.found, finding.remedy) == (False, "no compiler")


def test_doctor_tests_nvrtc_by_compiling_for_each_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeCompiler:
        toolkit = (13, 0)

    monkeypatch.setattr(nvrtc, "NvrtcCompiler", FakeCompiler)
    monkeypatch.setattr(nvrtc, "failures", lambda _, wanted: {})
    finding = doctor._nvrtc([known("sm_90")])
    assert finding.found
    assert finding.detail == "NVRTC 13.0, compiles for sm_90, sm_80, sm_89"
    monkeypatch.setattr(nvrtc, "failures", lambda _, wanted: dict.fromkeys(wanted, "failed to open its built-ins"))
    finding = doctor._nvrtc([])
    assert not finding.found
    assert finding.detail == "NVRTC 13.0, compiles nothing"
    assert finding.remedy.startswith("sm_80: failed to open its built-ins; sm_89: ")


def test_doctor_reports_a_noexec_temporary_folder_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doctor._temporary().found
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    finding = doctor._temporary()
    assert (finding.found, finding.detail) == (False, str(tmp_path))
    assert "set TMPDIR to a folder on another file system" in finding.remedy


def test_doctor_reports_a_missing_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    finding = doctor._temporary()
    assert (finding.found, "set TMPDIR" in finding.remedy) == (False, True)


def test_doctor_reports_a_compiler_that_states_its_version_but_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "true")
    finding = doctor._compiler()
    assert not finding.found
    assert finding.detail.endswith("which does not compile an empty function")
    assert finding.remedy.startswith("set CC to a different compiler: true reported success, but wrote no library")


def test_doctor_reports_its_findings_if_no_device_can_be_examined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> list[object]:
        raise EvoError("the C compiler does not compile support.c")

    monkeypatch.setattr("evo.cli.service.devices.local_devices", broken)
    monkeypatch.setattr(doctor, "look_around", lambda *_: [doctor.Finding(what="C compiler", found=False, detail="x")])
    with pytest.raises(typer.Exit) as ended:
        doctor.doctor()
    assert ended.value.exit_code == Exit.NOTHING_FOUND
    assert "C compiler" in capsys.readouterr().out
