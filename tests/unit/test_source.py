"""A macro counts as used, as redefined, as only tested with `#ifdef`, or as unused in a source."""

import time
from dataclasses import replace

import pytest

from evo.family import Family
from evo.family.implementation import Implementation
from templates.source import all_read, macro_uses, near_miss, words_of
from tests.unit.family_document import document

FILE = "kernel.c"


def implementation(*flags: str) -> Implementation:
    return replace(Family.from_document(document(), "family.toml").implementation("cpu"), file=FILE, flags=flags)


def macro_use(source: str, *flags: str, **headers: str) -> tuple[str, str]:
    files = {FILE: source, **{name.replace("__", "."): text for name, text in headers.items()}}
    found = macro_uses(files, implementation(*flags), ["TILE"])["TILE"]
    return found.state, found.place


@pytest.mark.parametrize(
    "source",
    [
        "int x = TILE;",
        "#ifndef TILE\n#define TILE 16\n#endif\nint x = TILE;",
        "#if !defined(TILE)\n#define TILE 16\n#endif\nint x = TILE;",
        "#if TILE > 4\nint x;\n#endif",
        "#if defined(TILE) && TILE > 4\nint x;\n#endif",
        "#define SIZE (2 * TILE)\nint x = SIZE;",
        "#pragma unroll TILE\n",
        "int x = TI\\\nLE;",
        "int x = TILE;\n#undef TILE\n#define TILE 4",
        "#ifdef DEBUG\n#define TILE 4\n#endif\n",
        "#ifdef TILE\nint x = TILE;\n#undef TILE\n#endif\n#define TILE 16\n",
        "#ifdef TILE\nint x;\n#else\n#define TILE 16\n#endif\nint y = TILE;",
        '#include "size.h"',
        "#include <size.h>",
        '#define HEADER "size.h"\n#include HEADER',
        "char c = '\"'; int x = TILE; char d = '\"';",
        "int big = 1'000'000 * TILE;",
        '_Pragma("omp simd simdlen(TILE)") int x;',
        '#define UNROLL _Pragma ( "GCC unroll TILE" )\nint x;',
        'const char *a = R"(/* "not a comment)"; int x = TILE;',
        'const char *a = R"x(\n)" // still text\n)x"; int x = TILE;',
    ],
)
def test_macro_in_code_or_condition_counts_as_used(source: str) -> None:
    assert macro_use(source, size__h="#define SIZE TILE\n")[0] == "used"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("#define TILE 16\nint x = TILE;", 1),
        ("// a comment\n\n# define TILE 16\nint x = TILE;", 3),
        ("#undef TILE\n#define TILE 16\nint x = TILE;", 1),
        ("#ifdef TILE\n#endif\n#define TILE(x) x\n", 3),
        ("#ifdef TILE\n#undef TILE\n#endif\n#define TILE 16\nint x = TILE;", 2),
        ("#if defined(TILE)\n# undef TILE\n#endif\n#define TILE 16\nint x = TILE;", 2),
        ("#ifndef GUARD_H\n#define GUARD_H\n#define TILE 16\n#endif", 3),
        ("/* #ifndef TILE */\n#define TILE 16", 2),
    ],
)
def test_macro_redefined_before_any_use_counts_as_redefined(source: str, line: int) -> None:
    assert macro_use(source) == ("redefined", f"{FILE}:{line}")


def test_macro_used_in_a_header_of_a_subfolder_counts_as_used() -> None:
    files = {FILE: '#include "deep/size.h"', "deep/size.h": '#include "more.h"', "deep/more.h": "int x = TILE;"}
    assert macro_uses(files, implementation(), ["TILE"])["TILE"].state == "used"


def test_macro_redefined_by_a_header_counts_as_redefined() -> None:
    assert macro_use('#include "size.h"\nint x = TILE;', size__h="#pragma once\n#define TILE 4") == (
        "redefined",
        "size.h:2",
    )
    assert macro_use("int x = TILE;", "-include", "size.h", size__h="#define TILE 4") == ("redefined", "size.h:1")


@pytest.mark.parametrize(
    "source",
    [
        "int x = TILES;",
        "// TILE\n/* TILE\n TILE */ int x;",
        'const char *text = "TILE";',
        "int x = 'TILE';",
        "int OTHER_TILE;",
        'const char *a = R"(\nTILE\n)"; int x;',
        '// _Pragma("unroll TILE")\nint x;',
        'const char *a = "_Pragma(", *b = "TILE";',
    ],
)
def test_macro_that_occurs_only_in_comments_or_strings_counts_as_unused(source: str) -> None:
    assert macro_use(source)[0] == "unused"


@pytest.mark.parametrize(
    "source", ["#ifdef TILE\nint x;\n#endif", "#ifndef TILE\n#define TILE 1\n#endif", "#if defined TILE\n#endif"]
)
def test_macro_used_only_in_ifdef_counts_as_tested_for_definition(source: str) -> None:
    assert macro_use(source)[0] == "tested"


def test_suggested_macro_names_exclude_comments() -> None:
    files = {FILE: "// TILE_W\nint x = TILE_H + y;"}
    assert near_miss("TILE_HH", files, implementation()) == "TILE_H"
    assert words_of(files, implementation()) == {"int", "x", "TILE_H", "y"}


def test_source_with_unknown_headers_or_pasted_tokens_counts_as_incompletely_read() -> None:
    assert all_read({FILE: "int x;"}, implementation("-O2"))
    assert not all_read({FILE: "int x;"}, implementation("-I/opt/common"))
    assert not all_read({FILE: "#define GLUE(a, b) a##b"}, implementation())


@pytest.mark.parametrize(
    "text", ["#if defined" + " " * 100_000, "#if !defined" + " " * 100_000, "'" + "\\'" * 50_000, '"\\"' * 30_000]
)
def test_long_malicious_source_line_is_read_in_linear_time(text: str) -> None:
    begun_s = time.process_time()
    macro_uses({FILE: f"{text}\nint x = TILE;\n"}, implementation(), ["TILE"])
    words_of({FILE: text}, implementation())
    assert time.process_time() - begun_s < 2.0


def test_unclosed_string_in_a_source_ends_at_the_end_of_its_line() -> None:
    assert macro_use("#error it's \"not closed\nint x = TILE;")[0] == "used"
