"""Reads facts about the processor of this machine from the operating system, and pins processes to cores."""

import os
import platform
import subprocess
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evo.device.cores import core_numbers

_CORES = Path("/sys/devices/system/cpu")
_CACHES = _CORES / "cpu0" / "cache"
_SYSCTL_CACHES = {"l1_bytes": "hw.l1dcachesize", "l2_bytes": "hw.l2cachesize", "l3_bytes": "hw.l3cachesize"}
_SMALLEST_CACHES = {"l1_bytes": 32 << 10, "l2_bytes": 256 << 10}
"""Cache sizes in bytes that are assumed if the system reports none. Processors of the last decade have at least these
sizes."""


def processor_model() -> str:
    """Return the model name of the processor. Times on machines with the same model are comparable."""
    if name := _sysctl("machdep.cpu.brand_string"):
        return name
    facts = _cpuinfo(Path("/proc/cpuinfo"))
    if "model name" in facts:
        return facts["model name"]
    if part := facts.get("CPU part"):
        return f"{platform.machine()} {facts.get('CPU implementer', '?')}:{part}"
    return platform.processor() or platform.machine()


def machine_id() -> str:
    """Return an id of this machine that does not change and is hard to guess."""
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        if path.is_file() and (text := path.read_text().strip()):
            return str(uuid.uuid5(uuid.NAMESPACE_OID, text))
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{platform.node()} {uuid.getnode()}"))


def cache_bytes() -> dict[str, int]:
    """Return the sizes of one core's data caches: ``l1_bytes``, ``l2_bytes`` and, if there is one, ``l3_bytes``."""
    found = {name: int(size) for name, key in _SYSCTL_CACHES.items() if (size := _sysctl(key)) and int(size)}
    return {**_SMALLEST_CACHES, **(found or _linux_caches(_CACHES))}


def simd_bytes(macros: Mapping[str, str]) -> int:
    """Return the width of a vector register in bytes. `macros` are the predefined macros of the compiler."""
    if bits := int(macros.get("__ARM_FEATURE_SVE_BITS", "0")):
        return bits // 8
    widths = (("__AVX512F__", 64), ("__AVX__", 32), ("__SSE2__", 16), ("__ARM_NEON", 16))
    return next((width for macro, width in widths if macro in macros), 8)


def architecture(macros: Mapping[str, str]) -> str:
    """Return the name of the instruction set, e.g. ``x86_64+avx512``."""
    names = (("__AVX512F__", "avx512"), ("__AVX2__", "avx2"), ("__AVX__", "avx"), ("__ARM_FEATURE_SVE", "sve"))
    extension = next((name for macro, name in names if macro in macros), "")
    return f"{platform.machine()}+{extension}" if extension else platform.machine()


def frequency_mhz(core: int) -> float | None:
    """Return the current clock rate of a core in MHz, or None if unknown, as on most virtual machines."""
    text = _text(_CORES / f"cpu{core}" / "cpufreq" / "scaling_cur_freq")
    return int(text) / 1000 if text else None


def pin(count: int) -> tuple[int, ...]:
    """Pin this process to the last `count` of its cores. Return the cores, or () if the system cannot pin."""
    if not hasattr(os, "sched_setaffinity"):
        return ()
    chosen = core_numbers()[-count:]
    os.sched_setaffinity(0, chosen)
    return tuple(chosen)


def unpin(cores: Sequence[int]) -> None:
    """Let this thread, and threads that it starts, use these cores, although `pin` has pinned this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def leave_last_core() -> None:
    """Let this thread and its child processes use all cores except the last, which `pin` uses first."""
    if hasattr(os, "sched_setaffinity") and len(core_numbers()) > 1:
        os.sched_setaffinity(0, core_numbers()[:-1])


def _linux_caches(folder: Path) -> dict[str, int]:
    sizes = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        if kind in {"Data", "Unified"} and size:
            sizes[f"l{level}_bytes"] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
    return sizes


def _cpuinfo(path: Path) -> dict[str, str]:
    """Return the entries of the first processor in a cpuinfo file, by name."""
    lines: Iterable[str] = path.read_text().partition("\n\n")[0].splitlines() if path.is_file() else ()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _sysctl(key: str) -> str:
    if platform.system() != "Darwin":
        return ""
    answer = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, timeout=10, check=False)
    return answer.stdout.strip()


def _text(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""
