"""The language of a source is determined by its file name."""

import pytest

from evo.errors import InvalidInput
from evo.family.source.language import language_of


@pytest.mark.parametrize("file", ["k.cpp", "k.cc", "k.cxx", "k.C", "src/k.c++", "k.cpp.j2", "k.hpp"])
def test_source_files_with_cpp_suffixes_count_as_cpp(file: str) -> None:
    assert language_of("cpu", file, "cpu.source") == "c++"


@pytest.mark.parametrize("file", ["k.c", "k.c.j2", "k.h", "k", "k.tmpl", "k.cpp.c"])
def test_source_files_with_other_suffixes_count_as_c(file: str) -> None:
    assert language_of("cpu", file, "cpu.source") == "c"


@pytest.mark.parametrize(
    ("file", "language"),
    [
        ("k.cu", "CUDA"),
        ("k.cuh.j2", "CUDA"),
        ("k.f90", "Fortran"),
        ("k.rs", "Rust"),
        ("k.s", "assembly"),
        ("k.o", "code"),
    ],
)
def test_error_names_the_unsupported_language(file: str, language: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{language}.*C \(\.c\) or C\+\+ \(\.cpp") as refused:
        language_of("cpu", file, "family.toml: cpu.source")
    assert refused.value.field == "family.toml: cpu.source"


def test_cuda_sources_may_have_any_suffix() -> None:
    assert language_of("cuda", "k.cpp", "cuda.source") == "cuda"
