"""The properties of the processor are read from each operating system."""

import os
from pathlib import Path

import pytest

from evo.device.cores import core_numbers
from evo.reference.pieces import usable_cores
from workers.system import machine


@pytest.mark.parametrize(
    ("macros", "width", "suffix"),
    [
        ({"__AVX512F__": "1", "__AVX2__": "1", "__AVX__": "1", "__SSE2__": "1"}, 64, "+avx512"),
        ({"__AVX2__": "1", "__AVX__": "1", "__SSE2__": "1"}, 32, "+avx2"),
        ({"__SSE2__": "1"}, 16, ""),
        ({"__ARM_NEON": "1"}, 16, ""),
        ({"__ARM_FEATURE_SVE": "1", "__ARM_FEATURE_SVE_BITS": "256", "__ARM_NEON": "1"}, 32, "+sve"),
        ({}, 8, ""),
    ],
)
def test_simd_width_and_architecture_come_from_compiler_macros(macros: dict[str, str], width: int, suffix: str) -> None:
    assert machine.simd_bytes(macros) == width
    assert machine.architecture(macros) == f"{os.uname().machine}{suffix}"


def test_linux_caches_exclude_instruction_caches(tmp_path: Path) -> None:
    entries = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"), ("3", "Unified", "32M")]
    for number, (level, kind, size) in enumerate(entries):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert machine._linux_caches(tmp_path) == {"l1_bytes": 48 << 10, "l2_bytes": 1 << 20, "l3_bytes": 32 << 20}


def test_unknown_cache_sizes_have_small_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    assert machine.cache_bytes() == {"l1_bytes": 32 << 10, "l2_bytes": 256 << 10}


def test_processor_model_and_caches_come_from_sysctl_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"machdep.cpu.brand_string": "Apple M3", "hw.l1dcachesize": "65536", "hw.l2cachesize": "4194304"}
    monkeypatch.setattr(machine, "_sysctl", lambda key: answers.get(key, ""))
    assert machine.processor_model() == "Apple M3"
    assert machine.cache_bytes() == {"l1_bytes": 65536, "l2_bytes": 4 << 20}


def test_core_frequency_is_none_unless_the_system_reports_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CORES", tmp_path)
    assert machine.frequency_mhz(3) is None
    (tmp_path / "cpu3" / "cpufreq").mkdir(parents=True)
    (tmp_path / "cpu3" / "cpufreq" / "scaling_cur_freq").write_text("2596123\n")
    assert machine.frequency_mhz(3) == pytest.approx(2596.123)


def test_pinning_has_no_effect_on_systems_without_affinity_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.pin(1) == ()
    assert core_numbers() == list(range(os.cpu_count() or 1))
    assert usable_cores() == (os.cpu_count() or 1)
    machine.leave_last_core()


def test_machine_id_is_the_same_at_every_call() -> None:
    assert machine.machine_id() == machine.machine_id()
    assert len(machine.machine_id()) == 36
