"""The key of the compile cache covers every file that the compiler reads, by any kind of include or flag."""

import os
import time
from pathlib import Path

import pytest

from evo.trial.outcome import CompileFailed
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Compiler, Unit
from workers.build.cache import Cache
from workers.build.cached import compile_cached

SPELLINGS = [
    '#include "factor.h"',
    '#include"factor.h"',
    '#include  "factor.h"',
    '#include\t"factor.h"',
    ' #  include "factor.h"',
    "#include <factor.h>",
    "#include<factor.h>",
    '#/* a comment */include "factor.h"',
    '%:include "factor.h"',
    '#inc\\\nlude "factor.h"',
    '#define HEADER "factor.h"\n#include HEADER',
    "#define NAME factor.h\n#define QUOTED(x) <x>\n#include QUOTED(NAME)",
    '#include "between.h"',
    '#if __has_include("factor.h")\n#include "factor.h"\n#endif',
]


class CountingCompiler:
    """A compiler that counts compilations."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler, self.count = compiler, 0
        self.version, self.suffix, self.sandbox = compiler.version, compiler.suffix, compiler.sandbox
        self.resources, self.refusal = compiler.resources, compiler.refusal

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        self.count += 1
        return self.compiler.compile(unit, timeout_s=timeout_s)


@pytest.fixture(scope="module", params=["c", "c++", "cuda"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plain(language: str) -> Compiler:
    if language != "cuda":
        return CCompiler(find_compiler())
    try:
        return NvrtcCompiler()
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


@pytest.fixture
def compiler(plain: Compiler) -> CountingCompiler:
    return CountingCompiler(plain)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def unit(language: str, head: str, *flags: str, folders: tuple[Path, ...] = (), root: Path | None = None) -> Unit:
    bodies = {
        "c": "int f(void) { return FACTOR; }",
        "c++": 'extern "C" int f() { return FACTOR; }',
        "cuda": 'extern "C" __global__ void f(int *x) { *x = FACTOR; }',
    }
    return Unit(
        source=f"{head}\n{bodies[language]}\n",
        architecture="sm_89" if language == "cuda" else "native",
        entry="f",
        flags=flags,
        language=language,  # type: ignore[arg-type]
        folders=folders,
        root=root,
    )


def header(folder: Path, factor: int, name: str = "factor.h") -> Path:
    """Write a header with an old modification time, as if it did not change during a compilation; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#define FACTOR {factor}\n")
    then = time.time() - 10
    os.utime(path, (then, then))
    time.sleep(0.02)  # the ctime cannot be set to an earlier time, so wait instead
    return path


def compiled(compiler: Compiler, cache: Cache, unit: Unit) -> Artefact:
    made = compile_cached(compiler, cache, unit, timeout_s=120)
    assert isinstance(made, Artefact), made
    return made


@pytest.mark.parametrize("head", SPELLINGS)
def test_cache_key_covers_a_header_in_every_include_spelling(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str, head: str
) -> None:
    folder = tmp_path / "common"
    header(folder, 2)
    (folder / "between.h").write_text('#include "factor.h"\n')
    time.sleep(0.02)
    asked = unit(language, head, f"-I{folder}")
    two = compiled(compiler, cache, asked)
    assert compiled(compiler, cache, asked).binary == two.binary
    assert compiler.count == 1
    header(folder, 3)
    three = compiled(compiler, cache, asked)
    assert three.binary != two.binary
    header(folder, 2)
    assert compiled(compiler, cache, asked).binary == two.binary
    assert compiler.count == 2


def test_cache_key_covers_the_content_of_family_headers_but_not_their_path(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    for name, factor in (("one", 2), ("two", 2), ("three", 3)):
        header(tmp_path / name, factor)
    made = [
        compiled(compiler, cache, unit(language, '#include"factor.h"', folders=(tmp_path / name,)))
        for name in ("one", "two", "three")
    ]
    assert made[0].binary == made[1].binary != made[2].binary
    assert compiler.count == 2


def test_new_header_in_an_earlier_include_folder_causes_recompilation(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    header(second, 2)
    asked = unit(language, "#include <factor.h>", f"-I{first}", f"-I{second}")
    two = compiled(compiler, cache, asked)
    header(first, 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_cache_key_covers_a_header_included_by_a_flag(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    path = header(tmp_path / "common", 2)
    asked = unit(language, "", "-include", str(path))
    two = compiled(compiler, cache, asked)
    header(tmp_path / "common", 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_relative_include_flags_refer_to_the_family_folder(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    header(tmp_path / "include", 2)
    compiled(compiler, cache, unit(language, "#include <factor.h>", "-Iinclude", folders=(tmp_path,), root=tmp_path))


def test_working_directory_of_the_caller_is_not_searched_for_headers(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header(tmp_path, 2)
    monkeypatch.chdir(tmp_path)
    made = compile_cached(compiler, cache, unit(language, '#include "factor.h"'), timeout_s=120)
    assert isinstance(made, CompileFailed)
    assert "factor.h" in made.log


def test_changed_linked_library_causes_recompilation(tmp_path: Path, cache: Cache) -> None:
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", "int factor(void);\n#define FACTOR factor()", f"-L{tmp_path}", "-lfactor")

    def library(factor: int) -> None:
        made = compiler.compiler.compile(
            Unit(source=f"int factor(void) {{ return {factor}; }}", architecture="native", entry="factor"), timeout_s=60
        )
        assert isinstance(made, Artefact)
        (tmp_path / "libfactor.so").write_bytes(made.binary)
        time.sleep(0.02)

    library(2)
    compiled(compiler, cache, asked)
    compiled(compiler, cache, asked)
    assert compiler.count == 1
    library(3)
    compiled(compiler, cache, asked)
    assert compiler.count == 2


@pytest.mark.parametrize("directive", [".incbin", '.inc" "bin', '.i"\n"ncbin', ".include", '.incl" "ude'])
def test_source_with_a_file_included_by_the_assembler_is_always_recompiled(
    cache: Cache, tmp_path: Path, directive: str
) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"\2\0\0\0" if "bin" in directive else b".long 2\n")
    head = f'__asm__(".data\\nvalue: {directive} \\"{data}\\"\\n.text");\n'
    head += 'extern int value __attribute__((visibility("hidden")));\n#define FACTOR value'
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", head)
    two = compiled(compiler, cache, asked)
    data.write_bytes(b"\3\0\0\0" if "bin" in directive else b".long 3\n")
    assert compiled(compiler, cache, asked).binary != two.binary


@pytest.fixture
def default_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two default search folders of the C compiler; the first one does not exist."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("CPATH", f"{first}:{second}")
    return first, second


@pytest.mark.parametrize("name", ["factor.h", "deep/down/factor.h"])
def test_new_header_in_an_earlier_default_folder_causes_recompilation(
    cache: Cache, default_folders: tuple[Path, Path], name: str
) -> None:
    first, second = default_folders
    header((second / name).parent, 2)
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", f"#include <{name}>")
    two = compiled(compiler, cache, asked)
    compiled(compiler, cache, asked)
    assert compiler.count == 1
    header((first / name).parent, 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_new_header_in_a_default_folder_precedes_an_idirafter_folder(
    cache: Cache, tmp_path: Path, default_folders: tuple[Path, Path]
) -> None:
    late = tmp_path / "late"
    header(late, 2)
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", "#include <factor.h>", "-idirafter", str(late))
    two = compiled(compiler, cache, asked)
    compiled(compiler, cache, asked)
    assert compiler.count == 1
    header(default_folders[0], 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_new_header_tested_with_has_include_causes_recompilation(
    cache: Cache, default_folders: tuple[Path, Path]
) -> None:
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", "#if __has_include(<factor.h>)\n#include <factor.h>\n#else\n#define FACTOR 2\n#endif")
    two = compiled(compiler, cache, asked)
    compiled(compiler, cache, asked)
    assert compiler.count == 1
    header(default_folders[0], 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_new_header_next_to_the_including_header_precedes_include_folders(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    header(tmp_path / "folder", 2)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "outer.h").write_text('#include "factor.h"\n')
    time.sleep(0.02)
    asked = unit(language, f'#include "{tmp_path}/beside/outer.h"', f"-I{tmp_path}/folder")
    two = compiled(compiler, cache, asked)
    compiled(compiler, cache, asked)
    assert compiler.count == 1
    header(tmp_path / "beside", 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_header_behind_a_formerly_broken_symlink_causes_recompilation(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (first / "factor.h").symlink_to(tmp_path / "target" / "factor.h")
    header(second, 2)
    asked = unit(language, "#include <factor.h>", f"-I{first}", f"-I{second}")
    two = compiled(compiler, cache, asked)
    header(tmp_path / "target", 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_include_path_through_a_symlink_is_resolved_from_the_target_of_the_symlink(
    compiler: CountingCompiler, cache: Cache, tmp_path: Path, language: str
) -> None:
    header(tmp_path / "real", 2)
    (tmp_path / "real" / "deep").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "real" / "deep")
    asked = unit(language, '#include "link/../factor.h"', f"-I{tmp_path}/folder")
    two = compiled(compiler, cache, asked)
    header(tmp_path / "real", 3)
    assert compiled(compiler, cache, asked).binary != two.binary


def test_new_header_named_by_a_macro_in_has_include_causes_recompilation(
    cache: Cache, default_folders: tuple[Path, Path]
) -> None:
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", "#define H <factor.h>\n#if __has_include(H)\n#include H\n#else\n#define FACTOR 2\n#endif")
    two = compiled(compiler, cache, asked)
    header(default_folders[0], 3)
    assert compiled(compiler, cache, asked).binary != two.binary


@pytest.mark.parametrize("script", [False, True])
def test_cache_key_covers_a_library_in_a_default_folder(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: bool
) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    for folder in (first, second, other):
        folder.mkdir()
    monkeypatch.setenv("LIBRARY_PATH", f"{first}:{second}")
    compiler = CountingCompiler(CCompiler(find_compiler()))

    def library(folder: Path, factor: int) -> None:
        source = f"int factor(void) {{ return {factor}; }}"
        made = compiler.compiler.compile(Unit(source=source, architecture="native", entry="factor"), timeout_s=60)
        assert isinstance(made, Artefact)
        (folder / "libfactor.so").write_bytes(made.binary)
        time.sleep(0.02)

    library(other if script else second, 2)
    if script:
        (second / "libfactor.so").write_text(f"INPUT({other}/libfactor.so)\n")
    asked = unit("c", "int factor(void);\n#define FACTOR factor()", "-lfactor")
    for _ in range(2):
        compiled(compiler, cache, asked)
    assert compiler.count == (2 if script else 1)  # the cache cannot know files that a linker script names
    library(second, 3)
    compiled(compiler, cache, asked)
    library(first, 4)
    compiled(compiler, cache, asked)
    assert compiler.count == (4 if script else 3)


@pytest.mark.parametrize("name", ["LD_RUN_PATH", "CPATH"])
def test_compiler_version_in_the_cache_key_covers_environment_variables(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = CCompiler(find_compiler()).version
    monkeypatch.setenv(name, "/nowhere")
    assert CCompiler(find_compiler()).version != before


@pytest.mark.parametrize("ahead_s", [0.0, 3600.0])
def test_header_edited_during_compilation_is_detected_even_if_the_clock_is_set_back(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    compiler = CCompiler(find_compiler())
    folder, now = tmp_path / "common", time.time
    header(folder, 2)
    asked = unit("c", '#include "factor.h"', f"-I{folder}")

    class Edited(CountingCompiler):
        def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
            made = super().compile(unit, timeout_s=timeout_s)
            (folder / "factor.h").write_text("#define FACTOR 3\n")
            monkeypatch.setattr("workers.build.cached.time.time", now)
            return made

    monkeypatch.setattr("workers.build.cached.time.time", lambda: now() + ahead_s)
    two = compiled(Edited(compiler), cache, asked)
    time.sleep(0.02)
    assert compiled(compiler, cache, asked).binary != two.binary


@pytest.mark.slow
def test_truncated_cache_entry_is_compiled_again(cache: Cache, tmp_path: Path) -> None:
    compiler = CountingCompiler(CCompiler(find_compiler()))
    asked = unit("c", "#define FACTOR 2")
    two = compiled(compiler, cache, asked)
    for entry in cache.folder.glob("??/*"):
        entry.write_bytes(entry.read_bytes()[:-5])
    assert compiled(compiler, cache, asked).binary == two.binary
    assert compiler.count == 2
