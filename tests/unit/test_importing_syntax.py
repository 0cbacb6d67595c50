"""Imports read complex syntax: literals, declarations, scopes and macros."""

from collections.abc import Mapping

import pytest

from evo.family.importing import Draft, drafted, read_source
from evo.family.source.language import Language

LOOPS = "for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j)"


def draft(text: str, language: Language, entry: str | None = None) -> Draft:
    return drafted(read_source(text, language), [entry] if entry else [])


def shapes(text: str, language: Language = "c++", entry: str | None = None) -> dict[str, str]:
    found = draft(text, language, entry).arguments
    return {each.name: " ".join(extent.replace(" ", "") for extent in each.shape) for each in found if each.shape}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(f"{LOOPS} y[(size_t)i * (size_t)n + j] = *(a + i * n + j);", {"a": "M N", "y": "M N"}, id="casts"),
        pytest.param(
            f"{LOOPS} *(y + (i * n) + j) = (a + i * n)[j];", {"a": "M N", "y": "M N"}, id="index of a shifted pointer"
        ),
        pytest.param(
            f"{LOOPS} y[static_cast<std::ptrdiff_t>(i) * n + j] = a[j * std::size_t{{4}} + 1];",
            {"y": "M N"},
            id="static_cast",
        ),
        pytest.param(f"{LOOPS} y[j * m + i] = *(&a[i * n] + j);", {"a": "M N", "y": "N M"}, id="address of an element"),
        pytest.param(
            f"{LOOPS} y[j + n * i] = *(i * n + a + j);", {"a": "M N", "y": "M N"}, id="offset before a pointer"
        ),
        pytest.param(
            f'{LOOPS} {{ if (i < 0) printf("y[%d] = a;", i); y[j * m + i] = a[i * n + j]; }}',
            {"a": "M N", "y": "N M"},
            id="array access in a string",
        ),
        pytest.param(f"{LOOPS} y[i * n + j] = a[1'0 * j + 3];", {"a": "N 10", "y": "M N"}, id="digit separators"),
        pytest.param(
            f"auto *o = y, *unused = y + 0; {LOOPS} o[i * n + j] = a[i * n + j];", {"a": "M N", "y": "M N"}, id="auto"
        ),
        pytest.param(
            f"auto at = [=](int r, int c) {{ return a[r * n + c]; }}; {LOOPS} y[j * m + i] = at(i, j);",
            {"y": "N M"},
            id="lambda",
        ),
        pytest.param(
            f"{LOOPS} for (int p = 0; p < k; ++p) y[i * n + j] += a[i * k + p] * (*(b + p * n + j));",
            {"a": "M K", "b": "K N", "y": "M N"},
            id="product",
        ),
        pytest.param(
            f"{LOOPS} y[i *\\\n n + j] = a[i * n /* rows */ + j // ] */\n];",
            {"a": "M N", "y": "M N"},
            id="continued lines",
        ),
        pytest.param(
            "int i = 0; do { int j = 0; do { y[j * m + i] = a[i * n + j]; } while (++j < n); } while (++i < m);",
            {"a": "M N", "y": "N M"},
            id="do loops",
        ),
    ],
)
def test_argument_shapes_are_inferred_from_parsed_indices(body: str, expected: Mapping[str, str]) -> None:
    found = shapes(f"void f(const float *a, const float *b, float *y, int m, int n, int k) {{ {body} }}")
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("const float *__restrict x, int n = 3", [("x", True, "float32"), ("n", False, "int32")]),
        ("float const *const __restrict__ x, const int n", [("x", True, "float32"), ("n", False, "int32")]),
        ("const float *const __restrict x, int n", [("x", True, "float32"), ("n", False, "int32")]),
        ("[[maybe_unused]] const float *x, int n", [("x", True, "float32"), ("n", False, "int32")]),
        ("const std::complex<float>*x, long long n = (1 << 3)", [("x", True, "float32"), ("n", False, "int64")]),
        ("const float *x __attribute__((aligned(64))), int n", [("x", True, "float32"), ("n", False, "int32")]),
        ("const float (&x)[64], int n", [("x", True, "float32"), ("n", False, "int32")]),
    ],
)
def test_kernel_parameters_are_read_with_attributes_and_defaults(
    parameters: str, expected: list[tuple[str, bool, str]]
) -> None:
    found = draft(f"void f({parameters}, float *y) {{ for (int i = 0; i < n; ++i) y[i] = 1; }}", "c++").arguments
    assert [(each.name, bool(each.shape), each.dtype) for each in found[:2]] == expected


ENTRIES = {
    "comment marker in a string": ('const char *url = "http://x"; void f(float *y, int n) { y[n] = 1; }', "c++"),
    "raw string with braces": (
        'const char *t = R"(} void g(float *x) { /* )"; void f(float *y, int n) { y[n] = 1; }',
        "c++",
    ),
    "braces in characters": ("char a = '{', b = '\"'; void f(float *y, int n) { char c = '}'; y[n] = c; }", "c"),
    "brace in a string": (
        'void f(float *y, int n) { puts("}"); y[n] = 1; }\nstatic void g(float *x) { x[0] = 1; }',
        "c",
    ),
    "macro with an open brace": ("#define BEGIN {\nvoid f(float *y, int n) { y[n] = 1; }", "c"),
    "method of a structure": (
        "struct S { void g(float *x) { x[0] = 1; } };\nvoid f(float *y, int n) { y[n] = 1; }",
        "c++",
    ),
    "continued comment": (
        "// a comment \\\nvoid g(float *x) { x[0] = 1; }\nvoid f(float *y, int n) { y[n] = 1; }",
        "c++",
    ),
    "branches with unknown conditions": (
        "#if A\nvoid f(float *y, int n)\n{\n#if B\n y[n] = 1;\n#else\n y[n] = 2;\n#endif\n}\n#endif",
        "c",
    ),
    "trailing return type": ("auto g(int i) -> int { return i; }\nvoid f(float *y, int n) { y[n] = g(n); }", "c++"),
    "braces of a macro": (
        "#define LOOP(i, n) for (int i = 0; i < n; i++) {\nvoid f(float *y, int n) { y[n] = 1; }",
        "c",
    ),
    "nested templates": (
        "template <typename T, typename = std::enable_if_t<(sizeof(T) > 2)>> T g(T x) { return x; }\n"
        "void f(float *y, int n) { y[n] = g<std::complex<std::complex<float>>>(1); }",
        "c++",
    ),
    "static kernel": ("static __global__ void f(float *y, int n) { y[n] = 1; }", "cuda"),
    "attributes of a kernel": ("__global__ __attribute__((used)) void f(float *y, int n) { y[n] = 1; }", "cuda"),
    "trailing return type of a kernel": ('extern "C" __global__ auto f(float *y, int n) -> void { y[n] = 1; }', "cuda"),
    "launch bounds with calls": (
        "__global__ void __launch_bounds__(mx(1, (2)), 2) f(float *y, int n) { y[n] = 1; }",
        "cuda",
    ),
    "K&R spacing": ("__global__\nvoid\nf (float* y, int n)\n{\n  y [n] = 1 ;\n}\n", "cuda"),
    "template with a default": (
        "template <typename T = float, int (*F)(int, int) = nullptr>\n__global__ void f(T *y, int n) { y[n] = 1; }",
        "cuda",
    ),
}


@pytest.mark.parametrize(("text", "language"), ENTRIES.values(), ids=ENTRIES)
def test_entry_function_is_found_among_other_code(text: str, language: Language) -> None:
    found = draft(text, language)
    assert (found.entry.partition("<")[0], [(each.name, each.role) for each in found.arguments]) == (
        "f",
        [("y", "output"), ("n", "scalar")],
    )


@pytest.mark.parametrize(
    ("host", "grid", "block"),
    [
        ("void g(int n) { CHECK((k<<<(n + T - 1) / T, T>>>(p, n))); }", ("ceil_div(N, T)",), ("T",)),
        ("void g(int n) { k<<<n, std::min<int>(T, 256)>>>(p, n); }", ("N",), ("min(T, 256)",)),
        ("void g(int n) { k<<<n, /* >>> */ T>>>(p, n); }", ("N",), ("T",)),
        (
            "void h() { int b = 3; }\nvoid g(int n) { int b = T; k<<<n, b>>>(p, n); }\nvoid i() { int b = 5; }",
            ("N",),
            ("T",),
        ),
        ("void g(int n) { dim3 b; b = dim3(T, 2); k<<<n, b>>>(p, n); }", ("N",), ("T", "2")),
        ("void g(int n) { dim3 b(T), g(n); k<<<g, b>>>(p, n); }", ("N",), ("T",)),
        ("void g(int n) { dim3 b (T, U), g(n * U); k<<<g, b>>>(p, n); }", ("N * U",), ("T", "U")),
        ("void g(int n) { dim3 b; b.x = T; b.y = 2; b.z = 1; k<<<n / b.y, b>>>(p, n); }", ("N // 2",), ("T", "2")),
        ("const int B = T;\nvoid h() { int B = 5; }\nvoid g(int n) { k<<<n, B>>>(p, n); }", ("N",), ("T",)),
        ("template <int V> void g(int n) { k<<<dim3{static_cast<unsigned>(n), 1u}, T>>>(p, n); }", ("N",), ("T",)),
        ("void g(int n) { k<<<n, 1'28>>>(p, n); }", ("N",), ("128",)),
        ('void g(int n) { puts("k<<<1, 1>>>(p, n)"); k<<<n, T>>>(p, n); }', ("N",), ("T",)),
        ("void g(int n) { auto run = [&](dim3 b) { k<<<n, T>>>(p, n); }; run(1); }", ("N",), ("T",)),
    ],
)
def test_launch_arguments_are_resolved_in_the_launching_function(
    host: str, grid: tuple[str, ...], block: tuple[str, ...]
) -> None:
    found = draft(
        f"#define T 128\n#define U 8\n__global__ void k(float *x, int n) {{ x[threadIdx.x] = 1; }}\n{host}", "cuda"
    )
    assert (found.launches[0].grid, found.launches[0].block, found.launches[0].is_launched) == (grid, block, True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('printf("x[0] = 1"); y[0] = x[0];', "input"),
        ("y[0] = a * x[0];", "input"),
        ("float *p = n > 2 ? x : y; p[0] = 1;", "output"),
        ("[&] { x[0] += 1; }();", "inout"),
        ("y[0] = x[0], x[0] = 1;", "inout"),
        ("if (auto *p = x + n; n) *p = 1;", "output"),
        ("float *p{x}; p[0] += 1;", "inout"),
        ("(*(x + n))++;", "inout"),
        ("y[0] = (float)(*x);", "input"),
        ("g(n, (x)); y[0] = 1;", "inout"),
    ],
)
def test_argument_roles_are_inferred_from_parsed_accesses(body: str, expected: str) -> None:
    text = f"static void g(int n, float *p) {{ p[n] += 1; }}\nvoid f(float *x, float *y, int n, float a) {{ {body} }}"
    assert draft(text, "c++", "f").arguments[0].role == expected


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('#define VEC 4\nvoid f(float *x) { puts("VEC"); x[N] = 1; }', []),
        ("#define VEC 4\nvoid f(float *x) { x[N] = ((VEC)); }", [("VEC", (1, 2, 4, 8, 16))]),
        ("#define W 4\nvoid f(float *x) { switch ((W)) { case 2: { x[N] = 1; } break; case 8: x[N] = 2; } }", []),
        (
            "#define HOP 4\nvoid f(float *x) { for (int i{0}; i < N; i = i + HOP) x[i] = 1; }",
            [("HOP", (1, 2, 4, 8, 16))],
        ),
        ("void f(float *x) { constexpr int TILE_M{4}, TILE_N{8}; x[N] = TILE_M * TILE_N; }", []),
        ("void f(float *x) { x[N] = cub::BLOCK_LOAD; }", []),
        ("enum { TILE_M = 4 };\nvoid f(float *x) { x[N] = TILE_M; }", []),
    ],
)
def test_tunables_are_inferred_from_macros_that_the_code_uses(
    text: str, values: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert [(each.name, each.values) for each in draft(text, "c++").tunables] == values


INDEX_MACROS = "#define AT(r, c, width) ((r) * (width) + (c))\n#define ROW(p, i) ((p) + (i) * n)\n"
INDEX_FUNCTIONS = """
static inline int at(int r, int c, int width) { return r * width + c; }
template <typename T> static const T *row(const T *p, int i, int width) { return p + i * width; }
static float get(const float *p, int i, int j, int width) { return p[at(i, j, width)]; }
"""


@pytest.mark.parametrize(
    "body",
    [
        "y[AT(j, i, m)] = a[AT(i, j, n)];",
        "y[AT(j, i, m)] = ROW(a, i)[j];",
        "*(y + AT(j, i, m)) = *(ROW(a, i) + j);",
        "y[at(j, i, m)] = a[at(i, j, n)];",
        "y[at(j, i, m)] = row(a, i, n)[j];",
        "y[at(j, i, m)] = get(a, i, j, n);",
    ],
)
def test_import_follows_macros_and_functions_that_compute_an_index(body: str) -> None:
    text = f"{INDEX_MACROS}{INDEX_FUNCTIONS}void f(const float *a, float *y, int m, int n) {{ {LOOPS} {body} }}"
    assert shapes(text, "c++", "f") == {"a": "M N", "y": "N M"}


def test_import_does_not_expand_macro_calls_with_an_excessively_long_expansion() -> None:
    text = "#define G(i) (i + i + i + i)\nvoid f(float *y, int n) { y[" + "G(" * 200 + "n" + ")" * 200 + "] = 1; }"
    assert draft(text, "c").arguments[0].role == "output"
