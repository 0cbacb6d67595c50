"""The compiler finds CUDA's headers in NVIDIA's packages or in a toolkit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.build import toolkit


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    toolkit.include_folders.cache_clear()
    yield
    toolkit.include_folders.cache_clear()


def headers(folder: Path, version: int, *, library: str | None = None) -> Path:
    """Create a folder of CUDA headers, and return it. `library` is the subfolder with CUDA's C++ library, if any."""
    folder.mkdir(parents=True)
    (folder / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION {version}\n")
    (folder / "cuda_runtime.h").touch()
    if library is not None:
        (folder / library / "cuda/std").mkdir(parents=True)
        (folder / library / "cuda/std/cstdint").touch()
    return folder


@pytest.mark.parametrize(
    ("version", "library", "lent"), [(13000, "cccl", ["cccl"]), (12090, ".", []), (13020, ".", ["."])]
)
def test_cpp_library_of_a_toolkit_of_the_same_version_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, library: str, lent: list[str]
) -> None:
    package = headers(tmp_path / "nvidia/cu13/include", 13010)
    installed = headers(tmp_path / "toolkit", version, library=library)
    monkeypatch.setattr(toolkit, "in_wheels", lambda *_: iter([package / "cuda_runtime.h"]))
    monkeypatch.setattr(toolkit, "_TOOLKIT", installed)
    assert toolkit.include_folders() == (str(package), *(str(installed / each) for each in lent))


def test_cuda_packages_with_the_cpp_library_need_no_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = headers(tmp_path / "nvidia/cu13/include", 13010, library="cccl")
    monkeypatch.setattr(toolkit, "in_wheels", lambda *_: iter([package / "cuda_runtime.h"]))
    monkeypatch.setattr(toolkit, "_TOOLKIT", headers(tmp_path / "toolkit", 13010, library="cccl"))
    assert toolkit.include_folders() == (str(package), str(package / "cccl"))
