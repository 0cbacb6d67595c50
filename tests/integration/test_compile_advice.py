"""Compile errors contain a remedy, and the remedy removes the error."""

import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evo.trial.outcome import CompileFailed
from tests.tiers import one_in
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Compiler, Unit
from workers.build.advice import Macros, advised, counterpart, redefinition


@pytest.fixture(scope="module")
def nvrtc() -> NvrtcCompiler:
    try:
        return NvrtcCompiler()
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


@pytest.fixture(scope="module")
def cc() -> CCompiler:
    return CCompiler(find_compiler())


def macros(text: str, **kinds: str) -> Macros:
    return Macros(kinds=kinds, table="cpu", file="source.c", text=text)


def with_macros(text: str, defined: dict[str, str], base: Unit) -> Unit:
    head = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    return replace(base, source=f'{head}#line 1 "source.c"\n{text}')


def failure(compiler: Compiler, unit: Unit, given: Macros | None) -> str:
    made = compiler.compile(unit, timeout_s=120)
    assert isinstance(made, CompileFailed), made
    return advised(made.log, unit, given)


C = Unit(source="", architecture="native", entry="f")
CUDA = Unit(source="", architecture="sm_89", entry="f", language="cuda")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("H", "int f(int W, int H) { return W * H; }"),
        ("x", "float f(const float *restrict x) { return x[0]; }"),
        ("i", "int f(void) { int s = 0; for (int i = 0; i < 4; ++i) s += i; return s; }"),
        ("step", "struct S { int step; };\nint f(struct S *s) { return s->step; }"),
        ("SIZE", "int f(void) { enum { SIZE = 8 }; return SIZE; }"),
        ("SIZE", "enum sizes { SMALL, SIZE, LARGE };\nint f(void) { return LARGE; }"),
        ("b", "struct S { int a, b; };\nint f(struct S *s) { return s->a; }"),
    ],
)
def test_error_for_a_macro_that_collides_with_a_declaration_suggests_defining_only_other_macros(
    cc: CCompiler, name: str, text: str
) -> None:
    unit = with_macros(text, {name: "128", "TILE": "4"}, C)
    said = failure(cc, unit, macros(text, **{name: "problem field", "TILE": "tunable"}))
    first = said.splitlines()[0]
    assert first.startswith(f"The problem field {name} is a macro defined before the source (`#define {name} 128`)")
    assert 'write `macros = ["TILE"]` under [cpu]' in first
    assert isinstance(cc.compile(with_macros(text, {"TILE": "4"}, C), timeout_s=60), Artefact)


@pytest.mark.parametrize(
    ("language", "constant"),
    [
        ("c", "static const int TILE = 8;"),
        ("c", "enum { TILE = 8 };"),
        ("cuda", "const int TILE = 8;"),
        ("cuda", "enum Tile : int { TILE = 8 };"),
        ("cuda", "constexpr int TILE = 8;  // elements"),
        ("cuda", "static constexpr unsigned int TILE = 2 * 4;"),
    ],
)
def test_remedy_for_a_constant_named_like_a_tunable_compiles(
    cc: CCompiler, nvrtc: NvrtcCompiler, language: str, constant: str
) -> None:
    compiler, base = (cc, C) if language == "c" else (nvrtc, CUDA)
    head = "" if language == "c" else 'extern "C" __global__ '
    body = f"{head}void f(int *out) {{ out[0] = TILE; }}"
    text, defined = f"\n{constant}\n{body}", {"TILE": "4"}
    said = failure(compiler, with_macros(text, defined, base), macros(text, TILE="tunable")).splitlines()[0]
    assert "source.c:2 defines a constant TILE: write" in said and "`macros =" not in said
    before, after = re.findall(r"`(.+?)`", said)[1:]
    made = compiler.compile(with_macros(f"{before}\n{constant}\n{after}\n{body}", defined, base), timeout_s=60)
    assert isinstance(made, Artefact)


@pytest.mark.parametrize("language", ["c++", "cuda"])
def test_error_for_restrict_in_a_cpp_or_cuda_source_suggests_the_underscored_keyword(
    cc: CCompiler, nvrtc: NvrtcCompiler, language: str
) -> None:
    compiler, base = (cc, replace(C, language="c++")) if language == "c++" else (nvrtc, CUDA)
    head = 'extern "C" ' if language == "c++" else 'extern "C" __global__ '
    text = f"{head}void f(const float *restrict x, float *restrict out) {{ out[0] = x[0]; }}"
    said = failure(compiler, with_macros(text, {}, base), macros(text))
    assert said.startswith("`restrict` is a keyword of C; write `__restrict__` in C++ and CUDA\n")
    mended = with_macros(re.sub(r"\brestrict\b", "__restrict__", text), {}, base)
    assert isinstance(compiler.compile(mended, timeout_s=60), Artefact)


@pytest.mark.parametrize("pragma", ["#pragma GCC unroll UNROLL", "  # pragma  GCC unroll (UNROLL)"])
def test_code_suggested_for_a_macro_in_a_gcc_pragma_compiles(cc: CCompiler, pragma: str) -> None:
    loop = "int f(const int *x) {{ int s = 0;\n{}\nfor (int i = 0; i < 64; ++i) s += x[i]; return s; }}"
    defined, given = {"UNROLL": "4"}, {"UNROLL": "tunable"}
    if isinstance(cc.compile(with_macros(loop.format(pragma), defined, C), timeout_s=60), Artefact):
        pytest.skip("this compiler replaces macros in the pragma")
    said = failure(cc, with_macros(loop.format(pragma), defined, C), macros(loop.format(pragma), **given))
    written, *definitions = re.findall(r"`(.+?)`", said.splitlines()[0])
    mended = "\n".join([*definitions, loop.format(written)])
    assert isinstance(cc.compile(with_macros(mended, defined, C), timeout_s=60), Artefact)


@pytest.mark.parametrize(
    "text",
    [
        "int f(void) { return SIZE * ; }",
        "int f(void { return SIZE; }",
        "int f(void) { int a[SIZE] = {1 2}; }",
        '_Static_assert(0, "a SIZE");',
    ],
)
def test_syntax_error_near_a_macro_does_not_blame_the_macro(cc: CCompiler, text: str) -> None:
    said = failure(cc, with_macros(text, {"SIZE": "4"}, C), macros(text, SIZE="tunable"))
    assert "is a macro defined before" not in said


def test_compile_advice_removes_all_colliding_macros_in_one_step(cc: CCompiler) -> None:
    text = "int f(int W, int H) { return W * H; }"
    unit = with_macros(text, {"W": "1", "H": "2", "TILE": "4"}, C)
    said = failure(cc, unit, macros(text, W="problem field", H="problem field", TILE="tunable"))
    assert '`macros = ["TILE"]`' in said
    assert '"W"' not in said and '"H"' not in said


@pytest.mark.parametrize(
    "text",
    [
        "struct S { int W; };\nint f(struct S *s) { s->W = 2; for (int i = 0; i < SIZE; ++i) s->W += i; return s->W; }",
        "enum { W = 4 }; int f(void) { return W + SIZE; }",
        "int f(void) { const int W = 4; return W + SIZE; }",
    ],
)
@pytest.mark.parametrize("language", ["c", "cuda"])
def test_compile_advice_does_not_blame_other_macros_on_the_line_of_a_colliding_macro(
    cc: CCompiler, nvrtc: NvrtcCompiler, language: str, text: str
) -> None:
    compiler, base = (cc, C) if language == "c" else (nvrtc, CUDA)
    if language == "cuda":
        text = text.replace("int f", "__device__ int f")
    said = failure(
        compiler, with_macros(text, {"W": "1", "SIZE": "2"}, base), macros(text, W="tunable", SIZE="tunable")
    )
    assert "The tunable W is a macro" in said and "The tunable SIZE" not in said
    assert '`macros = ["SIZE"]`' in said


def test_compile_advice_keeps_macros_that_the_source_uses(cc: CCompiler) -> None:
    text = "#define SIZE COLS\nint f(int ROWS) {\n    int r = 2;\n    return r * COLS + ROWS > TILE;\n}"
    unit = with_macros(text, {"ROWS": "1", "COLS": "2", "TILE": "4"}, C)
    said = failure(cc, unit, macros(text, ROWS="problem field", COLS="problem field", TILE="tunable"))
    assert '`macros = ["COLS", "TILE"]`' in said


def test_compile_advice_keeps_macros_used_in_array_bounds_of_a_parameter(cc: CCompiler) -> None:
    text = "void f(const float A[static restrict M * K], float B[restrict N]) { B[0] = A[0]; }"
    unit = with_macros(text, {"M": "1", "N": "2", "K": "3", "B": "4"}, C)
    said = failure(cc, unit, macros(text, **dict.fromkeys("MNKB", "problem field")))
    assert "The problem field B is a macro" in said
    assert '`macros = ["M", "N", "K"]`' in said


@pytest.mark.parametrize("name", ["T", "N"])
def test_compile_advice_names_a_macro_that_collides_with_a_template_parameter(nvrtc: NvrtcCompiler, name: str) -> None:
    text = f"template <typename {name}> __device__ int g({name} a) {{ return a; }}\n"
    text += 'extern "C" __global__ void f(int *x) { *x = g(1); }'
    said = failure(nvrtc, with_macros(text, {name: "3"}, CUDA), macros(text, **{name: "problem field"}))
    assert f"The problem field {name} is a macro" in said.splitlines()[0]


def test_error_for_a_macro_that_collides_with_a_header_suggests_renaming_the_macro(nvrtc: NvrtcCompiler) -> None:
    text = '#include <cuda/std/array>\nextern "C" __global__ void f(int *x) { *x = _Tp; }'
    said = failure(nvrtc, with_macros(text, {"_Tp": "3"}, CUDA), macros(text, _Tp="tunable"))
    assert re.match(r"The tunable _Tp is a macro .* and /.+:\d+ uses _Tp for something else. Rename", said), said
    assert "macros =" not in said


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            "__shared__ float s[12400]; int y = 0;",
            r"49,600 bytes of at most 49,152\. Replace them with one `extern",
        ),
        ("int y = 0; __shared__ double s[9000];", r"72,000 bytes of at most 49,152"),
    ],
)
def test_error_for_static_shared_memory_beyond_the_limit_states_a_remedy(
    nvrtc: NvrtcCompiler, declared: str, said: str
) -> None:
    body = f"{declared} s[threadIdx.x] = x[y]; __syncthreads(); x[y] = s[threadIdx.x ^ 1];"
    source = f'extern "C" __global__ void f(float *x) {{ {body} }}'
    assert re.search(said, failure(nvrtc, replace(CUDA, source=source), None))


def test_error_for_constant_memory_beyond_the_limit_states_a_remedy(nvrtc: NvrtcCompiler) -> None:
    source = '__constant__ float t[17000];\nextern "C" __global__ void f(float *x) { *x = t[(int)*x]; }'
    said = failure(nvrtc, replace(CUDA, source=source), None)
    assert re.search(r"__constant__` data: 68,000 bytes of at most 65,536\. Make some of it `__device__ const`", said)


def test_undeclared_name_error_does_not_blame_a_macro(cc: CCompiler, nvrtc: NvrtcCompiler) -> None:
    text = "int f(void) { return N + missing; }"
    assert "macro in front" not in failure(cc, with_macros(text, {"N": "3"}, C), macros(text, N="problem field"))
    text = 'extern "C" __global__ void f(int *x) { *x = N + missing; }'
    assert "macro in front" not in failure(nvrtc, with_macros(text, {"N": "3"}, CUDA), macros(text, N="problem field"))


STANDARD = (
    *("cstdint", "stdint.h", "cstddef", "stddef.h", "cassert", "assert.h", "cfloat", "float.h", "climits", "limits.h"),
    *("cmath", "math.h", "cstdio", "stdio.h", "cstring", "string.h", "cstdlib", "stdlib.h", "type_traits", "limits"),
    *(
        "utility",
        "tuple",
        "array",
        "algorithm",
        "vector",
        "string",
        "iostream",
        "memory",
        "atomic",
        "chrono",
        "complex",
    ),
    *("numeric", "functional", "iterator", "initializer_list", "optional", "variant", "span", "bit", "cinttypes"),
    *("inttypes.h", "thread"),
)


BODY = 'extern "C" __global__ void f(int *x) { *x = 1; }'


def remedy(nvrtc: NvrtcCompiler, name: str) -> str:
    """Return the lines that the advice puts in place of an included header."""
    unit = replace(CUDA, source=f"#include <{name}>\n{BODY}")
    made = nvrtc.compile(unit, timeout_s=120)
    if isinstance(made, Artefact):
        return f"#include <{name}>"  # this NVRTC version includes the header
    said = advised(made.log, unit, None).splitlines()[0]
    assert said.startswith(f"NVRTC has no C++ standard library, so <{name}> cannot be included; ")
    instead = re.search(r"write `(#include <[^>]+>)`", said)
    assert instead or "put `#ifndef __CUDACC_RTC__` on the line before" in said
    return instead[1] if instead else f"#ifndef __CUDACC_RTC__\n#include <{name}>\n#endif"


@pytest.mark.slow
def test_replacements_of_all_missing_standard_headers_compile_together(nvrtc: NvrtcCompiler) -> None:
    heads = "\n".join(remedy(nvrtc, name) for name in STANDARD)
    done = nvrtc.compile(replace(CUDA, source=f"{heads}\n{BODY}"), timeout_s=120)
    assert isinstance(done, Artefact), done


@pytest.mark.parametrize("name", one_in(8, STANDARD))
def test_replacement_of_each_missing_standard_header_compiles(nvrtc: NvrtcCompiler, name: str) -> None:
    done = nvrtc.compile(replace(CUDA, source=f"{remedy(nvrtc, name)}\n{BODY}"), timeout_s=120)
    assert isinstance(done, Artefact), done


def test_replacement_for_stdint_h_compiles_under_nvrtc(nvrtc: NvrtcCompiler) -> None:
    assert counterpart("stdint.h") == counterpart("cstdint") == "cuda/std/cstdint"
    source = '#include <cuda/std/cstdint>\nextern "C" __global__ void f(int32_t *x, uint8_t *y) { *x = *y; }'
    assert isinstance(nvrtc.compile(replace(CUDA, source=source), timeout_s=120), Artefact)


@pytest.mark.parametrize("flag", ["-O3", "--expt-relaxed-constexpr", "-Xcompiler=-fopenmp", "--extended-lambda"])
def test_compile_advice_for_an_option_unknown_to_nvrtc_is_to_remove_the_option_or_use_nvcc(
    nvrtc: NvrtcCompiler, flag: str
) -> None:
    unit = replace(CUDA, source='extern "C" __global__ void f() {}', flags=(flag,))
    said = failure(nvrtc, unit, None)
    assert said.startswith(f"NVRTC has no option {flag}; remove it from `flags` under [cuda]")
    assert 'compiler = "nvcc"' in said


def test_compile_advice_names_the_option_unknown_to_the_c_compiler(cc: CCompiler) -> None:
    said = failure(cc, replace(C, source="void f(void) { }", flags=("-qopenmp",)), None)
    assert said.startswith("the compiler has no option -qopenmp; remove it from `flags` under [cpu]")


def test_compile_advice_names_the_missing_header_and_the_folder_for_the_header(
    cc: CCompiler, nvrtc: NvrtcCompiler
) -> None:
    own = failure(cc, replace(C, source='#include "mine.h"\nint f(void) { return 1; }'), None)
    assert own.startswith("mine.h is not in the source's folder") and '`flags = ["-I/its/folder"]` under [cpu]' in own
    above = failure(cc, replace(C, source='#include "../mine.h"\nint f(void) { return 1; }'), None)
    assert "outside the family's folder" in above and "put mine.h into that folder" in above
    backslash = failure(cc, replace(C, source='#include "part\\mine.h"\nint f(void) { return 1; }'), None)
    assert 'the separator of folders is `/`; write `#include "part/mine.h"`' in backslash
    variants = failure(cc, replace(C, source='#include "mine.h"\nint f(void) { return 1; }', untrusted=True), None)
    assert "submit the header too" in variants
    assert "flags" not in variants
    own = failure(nvrtc, replace(CUDA, source='#include "mine.h"\n'), None)
    assert own.startswith("mine.h is not in the source's folder") and "under [cuda]" in own


@pytest.mark.parametrize(
    "source",
    ["#include <vector>\nint f;", "#include <cstdint>\nint f;", "template <class T> T g(T x) { return x; }\nint f;"],
)
def test_compile_advice_for_cpp_code_in_a_c_file_is_a_cpp_suffix(cc: CCompiler, source: str) -> None:
    assert ".cpp, .cc or .cxx" in failure(cc, replace(C, source=source), None).splitlines()[0]


def test_compile_advice_names_the_header_with_a_byte_order_mark(nvrtc: NvrtcCompiler, tmp_path: Path) -> None:
    unit = replace(CUDA, source='#include "marked.h"\nextern "C" __global__ void f() {}', flags=(f"-I{tmp_path}",))
    (tmp_path / "marked.h").write_bytes(b"\xef\xbb\xbf#define A 1\n")
    assert "marked.h begins with a byte order mark" in failure(nvrtc, unit, None)
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "marked.h").write_text("#define A 1\n", encoding=encoding)
        said = failure(nvrtc, unit, None)
        assert "marked.h is UTF-16" in said and "`iconv -f utf-16" in said


def test_compile_advice_on_a_missing_header_names_a_file_that_differs_only_in_case(
    cc: CCompiler, tmp_path: Path
) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "size.h").write_text("#define SIZE 4\n")
    body = "\nint f(void) { return SIZE; }"
    unit = replace(C, source=f'#include "Inc/Size.h"{body}', root=tmp_path, folders=(tmp_path,))
    said = failure(cc, unit, None).splitlines()[0]
    written = said.split("`")[1]
    assert written == '#include "inc/size.h"'
    assert isinstance(cc.compile(replace(unit, source=written + body), timeout_s=60), Artefact)


def test_guard_suggested_for_host_code_compiles_under_nvrtc(nvrtc: NvrtcCompiler) -> None:
    kernel, host = 'extern "C" __global__ void f(float *x) { x[0] = 1; }', "int main() { return 0; }"
    said = failure(nvrtc, replace(CUDA, source=f"{kernel}\n{host}\n"), None).splitlines()[0]
    assert said.startswith("NVRTC compiles only device code")
    before, after = re.findall(r"`(#.+?)`", said)
    guarded = replace(CUDA, source=f"{kernel}\n{before}\n{host}\n{after}\n")
    assert isinstance(nvrtc.compile(guarded, timeout_s=60), Artefact)


def test_compile_advice_names_the_intrinsic_that_needs_disabled_instructions(cc: CCompiler) -> None:
    source = "#include <immintrin.h>\nint f(void) { return _mm256_movemask_epi8(_mm256_setzero_si256()); }"
    if platform.machine() != "x86_64":
        pytest.skip("the intrinsics are those of x86-64")
    said = failure(cc, replace(C, source=source, flags=("-mno-avx",)), None).splitlines()[0]
    assert re.match(r"`_mm256_\w+` needs instructions that this CPU lacks, or that `flags` under \[cpu\] exclude", said)


def test_code_suggested_for_template_placeholders_in_a_c_source_compiles(cc: CCompiler) -> None:
    text = "int f(void) { return 2 * {{ TILE }}; }"
    said = failure(cc, with_macros(text, {"TILE": "4"}, C), macros(text, TILE="tunable")).splitlines()[0]
    placeholder, written, template = re.findall(r"`(.+?)`", said)
    assert template == 'template = "source.c.j2"'
    mended = with_macros(text.replace(placeholder, written), {"TILE": "4"}, C)
    assert isinstance(cc.compile(mended, timeout_s=60), Artefact)


@pytest.mark.parametrize(
    "text",
    [
        "#include <span>\nint g(std::span<int> s) { return s[0]; }",
        "#include <concepts>\ntemplate <std::integral T> T g(T x) { return x; }",
        "template <class T> requires (sizeof(T) > 1) T g(T x) { return x; }",
        "consteval int g() { return 1; }\nint h() { return g(); }",
    ],
)
def test_error_for_a_cpp20_source_names_the_required_flag(cc: CCompiler, text: str) -> None:
    unit = replace(C, source=f'{text}\nextern "C" int f() {{ return 1; }}', language="c++")
    assert 'write `flags = ["-std=c++20"]` under [cpu]' in failure(cc, unit, None)
    assert isinstance(cc.compile(replace(unit, flags=("-std=c++20",)), timeout_s=60), Artefact)


@pytest.mark.parametrize(
    ("language", "source", "remedy"),
    [
        ("c++", "int f() { return 1; }", 'declare the function as `extern "C"`'),
        ("c", "static int f(void) { return 1; }\nint g(void) { return f(); }", "without `static`"),
        ("c", "inline int f(void) { return 1; }", "and `inline`"),
        ("c", "int other(void) { return 1; }", "define a function with this name"),
    ],
)
def test_error_for_an_unexported_entry_states_the_remedy(
    cc: CCompiler, language: str, source: str, remedy: str
) -> None:
    failed = cc.compile(replace(C, source=source, language=language), timeout_s=60)  # type: ignore[arg-type]
    assert isinstance(failed, CompileFailed)
    assert failed.log.startswith("the source exports no function `f`") and remedy in failed.log


def test_cpp_source_with_standard_library_headers_compiles(cc: CCompiler) -> None:
    source = '#include <vector>\n#include <string>\nextern "C" int f() { return int(std::vector<int>(3).size()); }'
    assert isinstance(cc.compile(replace(C, source=source, language="c++"), timeout_s=60), Artefact)


def warned(compiler: Compiler, unit: Unit, **kinds: str) -> str | None:
    made = compiler.compile(unit, timeout_s=120)
    assert isinstance(made, Artefact), made
    return redefinition(made.log, unit, macros(unit.source, **kinds))


@pytest.mark.parametrize(
    ("name", "value", "header"),
    [("B0", "2", "termios.h"), ("B50", "4096", "termios.h"), ("ECHO", "4", "termios.h"), ("EOF", "7", "stdio.h")],
)
def test_macro_redefined_by_a_system_header_is_refused(cc: CCompiler, name: str, value: str, header: str) -> None:
    """The compiler does not warn about system headers. The kernel would use the header's value of the macro."""
    unit = with_macros(f"#include <{header}>\nlong f(void) {{ return (long){name}; }}", {name: value}, C)
    told = warned(cc, unit, **{name: "tunable"})
    assert told is not None
    assert re.search(rf"\.h:\d+ gives {name} another value\. Rename the tunable", told), told


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("I", "complex.h"),
        ("complex", "complex.h"),
        ("major", "sys/sysmacros.h"),
        ("isnan", "math.h"),
        ("bool", "stdbool.h"),
    ],
)
def test_compile_error_names_the_macro_that_a_header_redefines_or_removes(
    cc: CCompiler, name: str, header: str
) -> None:
    unit = with_macros(f"#include <{header}>\nint f(void) {{ int a[{name}]; return sizeof a; }}", {name: "4"}, C)
    told = failure(cc, unit, macros("", **{name: "problem field"}))
    assert re.search(rf"\.h:\d+ (gives {name} another value|removes {name})", told), told


@pytest.mark.parametrize(("name", "header"), [("printf", "stdio.h"), ("va_list", "stdio.h"), ("div", "stdlib.h")])
def test_compile_error_names_the_macro_that_has_the_name_of_a_header_function(
    cc: CCompiler, name: str, header: str
) -> None:
    unit = with_macros(f"#include <{header}>\nint f(void) {{ return {name}; }}", {name: "4"}, C)
    told = failure(cc, unit, macros("", **{name: "tunable"}))
    assert f"uses {name} for something else. Rename the tunable in family.toml, e.g. TUNED_{name}" in told


@pytest.mark.parametrize("file", ["kernel.c", "source.c"])
def test_compiler_message_contains_the_text_of_the_source_line(cc: CCompiler, file: str) -> None:
    text = "int g(void) { return 0; }\nint f(void) { return absent; }\n"
    unit = replace(C, source=f'#define A 1\n#define B 2\n#line 1 "{file}"\n{text}')
    made = cc.compile(unit, timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert re.search(rf"{file}:2:\d+: error: .*absent.*\n +2 \| int f\(void\) {{ return absent; }}", made.log), made.log


def test_macro_redefined_by_a_family_header_is_refused(cc: CCompiler, tmp_path: Path) -> None:
    (tmp_path / "tiles.h").write_text("#define TILE 16\n")
    unit = with_macros('#include "tiles.h"\nint f(void) { return TILE; }', {"TILE": "8"}, C)
    told = warned(cc, replace(unit, folders=(tmp_path,)), TILE="tunable")
    assert told is not None and "tiles.h:1 gives TILE another value" in told


def test_family_header_that_defines_a_macro_under_ifndef_compiles_without_warning(
    cc: CCompiler, tmp_path: Path
) -> None:
    (tmp_path / "tiles.h").write_text("#ifndef TILE\n#define TILE 16\n#endif\n")
    unit = with_macros('#include "tiles.h"\nint f(void) { return TILE; }', {"TILE": "8"}, C)
    made = cc.compile(replace(unit, folders=(tmp_path,)), timeout_s=120)
    assert isinstance(made, Artefact) and made.log == ""


@pytest.mark.parametrize(
    "text",
    [
        "#include <termios.h>\nint f(void) { return B50 + SIZE; }",  # the header defines no macro SIZE
        "#ifndef SIZE\n#define SIZE 3\n#endif\nint f(void) { return SIZE; }",
        "int f(void) { return SIZE; }\n#undef SIZE\n#define SIZE 3",  # the macro changes after its last use
        "int f(void) { return SIZE; }\n#define SIZE 3",
    ],
)
def test_macro_with_an_unchanged_value_at_every_use_is_accepted(cc: CCompiler, text: str) -> None:
    assert warned(cc, with_macros(text, {"SIZE": "8"}, C), SIZE="tunable") is None


def test_macro_redefined_by_a_header_under_nvrtc_is_refused(nvrtc: NvrtcCompiler, tmp_path: Path) -> None:
    (tmp_path / "tiles.h").write_text("#define TILE 16\n")
    text = '#include "tiles.h"\nextern "C" __global__ void f(int *x) { x[0] = TILE; }'
    unit = replace(with_macros(text, {"TILE": "8"}, CUDA), folders=(tmp_path,))
    told = warned(nvrtc, unit, TILE="tunable")
    assert told is not None and "gives TILE another value" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "inside", "words"),
    [
        ("#undef TILE\n#define TILE 16\n", True, "gives TILE another value"),
        ("#ifdef TILE\n# undef TILE\n#endif\n# define TILE 2 + 6 + 8\n", True, "gives TILE another value"),
        ("#undef TILE\n#define TILE 16\n", False, "gives TILE another value"),
        ("#undef TILE\n", False, "removes TILE"),
        ("#undef TILE\n", True, None),
        ("#undef TILE\n#define TILE 8\n", True, None),
        ("#if 0\n#undef TILE\n#define TILE 16\n#endif\n", True, None),
        ("// #undef TILE\n", True, None),
        (
            '#pragma push_macro("TILE")\n#undef TILE\n#define TILE 3\n#pragma pop_macro("TILE")\n',
            True,
            "gives TILE another value",
        ),
    ],
)
def test_macro_removed_by_a_header_under_nvrtc_is_refused_if_its_value_changes(
    nvrtc: NvrtcCompiler, tmp_path: Path, header: str, inside: bool, words: str | None
) -> None:
    """NVRTC ignores `push_macro` and `pop_macro`."""
    (family := tmp_path / "family").mkdir()
    (outside := tmp_path / "outside").mkdir()
    ((family if inside else outside) / "tiles.h").write_text(header)
    text = '#include "tiles.h"\n#ifndef TILE\n# define SIZE 1\n#else\n# define SIZE TILE\n#endif\n'
    text += 'extern "C" __global__ void f(int *x) { x[0] = SIZE; }'
    unit = replace(with_macros(text, {"TILE": "8"}, CUDA), folders=(family,), flags=(f"-I{outside}",))
    found = warned(nvrtc, unit, TILE="tunable")
    assert (found is None) == (words is None), found
    assert words is None or words in str(found)
