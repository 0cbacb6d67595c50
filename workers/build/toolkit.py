"""Finds NVIDIA's libraries and headers in its Python packages or in an installed CUDA toolkit."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_TOOLKIT = Path("/usr/local/cuda/include")
_VERSION = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")


def in_wheels(folder: str, pattern: str) -> Iterator[Path]:
    """Yield the files that match `pattern` in NVIDIA's Python packages, newest version first.

    Packages of CUDA 12 and 13 may both be installed. A library of one version cannot use headers of the other version.

    Args:
        folder: folder within a package, e.g. ``lib``.
        pattern: pattern of file names.
    """
    spec = find_spec("nvidia")
    for root in sorted(spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(root).glob(f"*/{folder}/{pattern}"), key=_version, reverse=True)


def _version(path: Path) -> list[int]:
    """Return the version in a file name as numbers, e.g. [13] for ``libnvrtc.so.13``."""
    return [int(part) for part in path.name.partition(".so.")[2].split(".") if part.isdigit()]


@lru_cache(maxsize=1)
def include_folders() -> tuple[str, ...]:
    """Return the folders of CUDA's headers; empty if there are none. Since CUDA 13, the C++ library has its own folder.

    PyTorch installs NVIDIA's package of headers, but not the package of the C++ library. If this library is missing,
    the library of an installed CUDA toolkit with the same major version is used.
    """
    found = sorted({header.parent for header in in_wheels("include", "cuda_runtime.h")})
    folders = [each for root in found or [_TOOLKIT] for each in (root, root / "cccl")]
    if not any(map(_has_library, folders)):
        lenders = (_TOOLKIT / "cccl", _TOOLKIT) if _major(_TOOLKIT) in {_major(root) for root in found} else ()
        folders += filter(_has_library, lenders)
    return tuple(str(each) for each in folders if each.is_dir())


def _has_library(folder: Path) -> bool:
    return (folder / "cuda/std/cstdint").is_file()


def _major(folder: Path) -> int | None:
    """Return the major CUDA version of the headers in a folder, or None if there are none."""
    with suppress(OSError):
        if found := _VERSION.search((folder / "cuda_runtime_api.h").read_text(errors="replace")):
            return int(found[1]) // 1000
    return None
