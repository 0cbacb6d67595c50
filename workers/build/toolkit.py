"""Where NVIDIA's libraries and headers lie: in its Python packages, or in the CUDA toolkit of this machine."""

from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path


def in_wheels(folder: str, pattern: str) -> Iterator[Path]:
    """In NVIDIA's Python packages: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib …; the newest library first.

    Those of CUDA 12 may lie beside those of 13, whose headers it could not read.
    """
    spec = find_spec("nvidia")
    for root in sorted(spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(root).glob(f"*/{folder}/{pattern}"), key=_version, reverse=True)


def _version(path: Path) -> list[int]:
    """Of ``libnvrtc.so.13``: 13."""
    return [int(part) for part in path.name.partition(".so.")[2].split(".") if part.isdigit()]


@lru_cache(maxsize=1)
def include_folders() -> tuple[str, ...]:
    """Where CUDA's own headers are, for sources that include them; its C++ library has one within from CUDA 13 on."""
    found = sorted({header.parent for header in in_wheels("include", "cuda_runtime.h")})
    folders = [each for root in found or [Path("/usr/local/cuda/include")] for each in (root, root / "cccl")]
    return tuple(str(each) for each in folders if each.is_dir())
