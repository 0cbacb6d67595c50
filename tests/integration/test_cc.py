"""The C compiler is found, states its version, respects the time limit, and gives reproducible binaries."""

import ctypes
import re
import sys
import time
from pathlib import Path

import pytest

from evo.trial.outcome import CompileFailed
from workers.backends.cpu.compiler import CCompiler, NoCompilerError, find_compiler
from workers.build import Artefact, Unit


def unit(source: str, *flags: str) -> Unit:
    return Unit(source=source, architecture="native", entry="f", flags=flags)


@pytest.fixture(scope="module")
def compiler() -> CCompiler:
    return CCompiler(find_compiler())


def test_cc_variable_selects_the_compiler() -> None:
    assert find_compiler({"CC": "gcc -pipe", "PATH": "/usr/bin:/bin"}) == ("gcc", "-pipe")


def test_error_names_the_missing_compiler_in_the_cc_variable() -> None:
    with pytest.raises(NoCompilerError, match="CC: 'no-such-cc'"):
        find_compiler({"CC": "no-such-cc -O1", "PATH": "/usr/bin"})


def test_missing_compiler_error_names_both_ways_to_install_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NoCompilerError, match=r"package manager.*extra `cpu-compiler`"):
        find_compiler({"PATH": str(tmp_path)})


def test_ziglang_is_used_if_no_other_compiler_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert find_compiler({"PATH": str(tmp_path)}) == (sys.executable, "-m", "ziglang", "cc")


def test_identical_sources_give_identical_working_binaries(compiler: CCompiler, tmp_path: Path) -> None:
    square = unit("int f(int x) { return x * x + ADD; }", "-DADD=2")
    first, second = (compiler.compile(square, timeout_s=300) for _ in range(2))
    assert isinstance(first, Artefact)
    assert isinstance(second, Artefact)
    assert first.digest == second.digest
    path = tmp_path / f"kernel{compiler.suffix}"
    path.write_bytes(first.binary)
    assert ctypes.CDLL(str(path)).f(5) == 27


def test_changed_constant_changes_the_binary_and_changed_comment_does_not(compiler: CCompiler) -> None:
    sources = ("int f(void) { return 1; }", "int f(void) { return /* one */ 1; }", "int f(void) { return 2; }")
    results = [compiler.compile(unit(source), timeout_s=300) for source in sources]
    digests = [result.digest for result in results if isinstance(result, Artefact)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "source",
    [
        "void naive_kernel(void) { }\nvoid kernel(void) { }",  # the linker stores the common suffix only once
        "void kernel(void) { }\nvoid my_kernel(void) { }\nvoid a_my_kernel(void) { }",
        'static void other(void) { }\nvoid kernel(void) __attribute__((alias("other")));',
        "__attribute__((weak)) void kernel(void) { }",
        "static void one(void) { }\nstatic void *choose(void) { return one; }\n"
        'void kernel(void) __attribute__((ifunc("choose")));',
        '__asm__(".globl kernel\\nkernel: ret");',
        '#pragma GCC visibility push(hidden)\n__attribute__((visibility("default"))) void kernel(void) { }',
    ],
    ids=["suffix of another name", "one of three", "alias", "weak", "ifunc", "assembly", "default visibility"],
)
def test_kernel_is_found_among_other_exported_functions_and_aliases(compiler: CCompiler, source: str) -> None:
    made = compiler.compile(Unit(source=source, architecture="native", entry="kernel"), timeout_s=60)
    assert isinstance(made, Artefact), made


@pytest.mark.parametrize(
    ("source", "flags", "says"),
    [
        ("static void kernel(void) { }\nvoid other(void) { kernel(); }", (), r"\(it exports other\).*without `static`"),
        ('const char text[] = "\\0kernel\\0";', (), "exports no function `kernel`, which"),
        ("void kernel(void);\nvoid other(void) { kernel(); }", (), r"\(it exports other\)"),
        ("int kernel = 3;", (), "exports no function `kernel`, which"),
        ("void kernel(void) { }", ("-fvisibility=hidden",), "`-fvisibility=hidden` hides functions without"),
    ],
)
def test_missing_entry_error_lists_the_available_functions(
    compiler: CCompiler, source: str, flags: tuple[str, ...], says: str
) -> None:
    made = compiler.compile(Unit(source=source, architecture="native", entry="kernel", flags=flags), timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert re.search(says, made.log), made.log


def test_compiler_warnings_are_in_the_build_log(compiler: CCompiler) -> None:
    result = compiler.compile(unit("int f(void) { int unused; return 1; }", "-Wall"), timeout_s=300)
    assert isinstance(result, Artefact)
    assert "unused variable" in result.log


def test_compile_error_is_an_outcome_with_the_message_of_the_compiler(compiler: CCompiler) -> None:
    result = compiler.compile(unit("int f(void) { return undeclared; }"), timeout_s=300)
    assert isinstance(result, CompileFailed)
    assert "kernel.c:1" in result.log
    assert "undeclared" in result.log


def test_hanging_compiler_is_stopped_with_its_child_processes(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck-cc"
    stuck.write_text("#!/bin/sh\necho thinking\nsleep 600 & sleep 600\n")
    stuck.chmod(0o755)
    before = time.monotonic()
    result = CCompiler([str(stuck)]).compile(unit("int f;"), timeout_s=2.0)
    assert time.monotonic() - before < 300
    assert isinstance(result, CompileFailed)
    assert result.log == "the compiler was stopped after 2 s\nthinking"


def test_compiler_version_contains_product_and_flags(compiler: CCompiler) -> None:
    assert compiler.product in compiler.version
    assert "-ffp-contract=fast" in compiler.version
    assert compiler.version == CCompiler(find_compiler()).version


def test_broken_compiler_is_reported() -> None:
    with pytest.raises(NoCompilerError, match="does not work"):
        _ = CCompiler(["false"]).version


def test_compiler_that_writes_no_library_is_reported() -> None:
    outcome = CCompiler(("true",)).compile(unit("int x;"), timeout_s=10)
    assert isinstance(outcome, CompileFailed)
    assert outcome.log.startswith("true reported success, but wrote no library; set CC to a C compiler")


def test_compiler_prints_english_messages_in_any_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "my tools" / "cc"
    wrapper.parent.mkdir()
    translated = "printf 'gcc (\\251) F\\374r\\n'; exit 1"
    wrapper.write_text(f'#!/bin/sh\n[ "$LC_ALL" = C ] || {{ {translated}; }}\nexec {find_compiler()[0]} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    compiler = CCompiler(find_compiler({"CC": f"'{wrapper}'", "PATH": "/usr/bin:/bin"}))
    assert compiler.product
    assert "target" in compiler.version
    assert isinstance(compiler.compile(unit("int f(void) { return 1; }"), timeout_s=60), Artefact)


def test_compiler_messages_in_any_encoding_are_in_the_build_log(compiler: CCompiler, tmp_path: Path) -> None:
    (tmp_path / "odd.h").write_bytes(b'#error "F\xfcr \xa9 \xff"\n')
    made = compiler.compile(unit("#include <odd.h>", f"-I{tmp_path}"), timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert '"F\ufffdr' in made.log


def test_embed_directives_find_files_in_the_include_folders(tmp_path: Path) -> None:
    compiler = CCompiler(find_compiler())
    if not compiler.embeds:
        pytest.skip("the compiler does not support #embed")
    (tmp_path / "header.h").write_text('static const unsigned char values[] = {\n#embed "values.bin"\n};\n')
    source = '#include "header.h"\nint f(void) { return values[0]; }'
    embedding = Unit(source=source, architecture="native", entry="f", folders=(tmp_path,))
    for value in (7, 9):
        (tmp_path / "values.bin").write_bytes(bytes([value]))
        built = compiler.compile(embedding, timeout_s=60)
        assert isinstance(built, Artefact), built.log
        path = tmp_path / f"kernel{value}{compiler.suffix}"
        path.write_bytes(built.binary)
        assert ctypes.CDLL(str(path)).f() == value


def test_embed_dir_flag_is_passed_only_to_compilers_that_support_embed(tmp_path: Path) -> None:
    compiler, unit_ = CCompiler(find_compiler()), Unit(source="", architecture="", entry="f", folders=(tmp_path,))
    for embeds, expected in ((False, [f"-I{tmp_path}"]), (True, [f"-I{tmp_path}", f"--embed-dir={tmp_path}"])):
        compiler.embeds = embeds
        assert list(compiler.searched_flags(unit_)) == expected
