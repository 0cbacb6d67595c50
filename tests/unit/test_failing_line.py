"""The tunables on which a failing source line depends are found."""

from dataclasses import replace
from typing import Any

import pytest

from evo.family import Family
from evo.family.implementation import Implementation
from evo.space import Tunable
from evo.space.expression import Expression
from templates.failing_line import deciding_tunables
from tests.unit.family_document import document

FILE = "kernel.c"
TUNABLES = (Tunable(name="A", values=[1, 2, 4]), Tunable(name="B", values=[1, 2, 4]))


def implementation(**changes: Any) -> Implementation:
    found = Family.from_document(document(), "family.toml").implementation("cpu")
    given = {"mode": "source", "file": FILE, "tunables": TUNABLES, "derived": {}, "flags": (), **changes}
    return replace(found, **given)


def decided_by(
    source: str, error: str = "#error unsupported", *, line: int = 0, made: Implementation | None = None, **headers: str
) -> tuple[str, ...] | None:
    """Return the tunables that decide whether a line is compiled: `line`, or the first one with ``FAILS``."""
    headers = {name.replace("__", "."): text for name, text in headers.items()}
    files = {FILE: source, **headers, "reference.py": "# if A == 8\n", "family.toml": "# define B"}
    file = next(name for name, text in files.items() if "FAILS" in text)
    line = line or files[file][: files[file].index("FAILS")].count("\n") + 1
    place = file if file == FILE else f"/copy/{file}"
    log = f"In file included from kernel.c:1:\n{place}:{line}:2: error: {error}\n {line} | FAILS\n"
    return deciding_tunables(log, files, made or implementation(), ["N"], ["/copy"])


@pytest.mark.parametrize(
    "source",
    [
        "#error FAILS",
        "int x = A * B;\n#error FAILS",
        "#if A == 1\nint x;\n#endif\n#error FAILS",
        "#if N % 7\n#error FAILS\n#endif",
        "#ifndef __AVX512F__\n# error FAILS\n#endif",
        "#include <limits.h>\n#if INT_MAX > 7\n#error FAILS\n#endif",
        "#define LANES 8\n#if LANES > 4\n#error FAILS\n#endif",
        "// #if A == 1\n#error FAILS\n// #endif",
        '#include "kernel.h"\nFAILS',
    ],
)
def test_source_line_outside_all_preprocessor_conditions_depends_on_no_tunable(source: str) -> None:
    assert decided_by(source, kernel__h="int A0;\n") == ()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("#if A == 1\n#error FAILS\n#endif", "A"),
        ("#if A == 1 && B == 2\nint x;\n#else\n#error FAILS\n#endif", "AB"),
        ("#if A == 1\n#elif B == 2\n#else\n#error FAILS\n#endif", "AB"),
        ("#if A == 1\n#if B == 2\n#endif\n#error FAILS\n#endif", "A"),
        ("#ifdef A\n#error FAILS\n#endif", "A"),
        ("#define SIZE (A * 4)\n#define TWICE 2 * SIZE\n#if TWICE > 8\n#error FAILS\n#endif", "A"),
        ("#if B == 2\n#define FAST\n#endif\n#ifndef FAST\n#error FAILS\n#endif", "B"),
        ("#define FAST\n#if B == 2\n#undef FAST\n#endif\n#ifdef FAST\n#error FAILS\n#endif", "B"),
        ('#include "size.h"\n#if SIZE > 8\n#error FAILS\n#endif', "A"),
        ('#if B == 2\n#include "size.h"\n#endif\n#if SIZE > 8\n#error FAILS\n#endif', "AB"),
        ('#if B == 2\n#include "check.h"\n#endif\n', "B"),
        ('#if B == 2\n#define ON\n#endif\n#ifdef ON\n#include "check.h"\n#endif\n', "B"),
        ("#if A == \\\n 1\n#error FAILS\n#endif", "A"),
    ],
)
def test_source_line_depends_on_the_tunables_in_the_preprocessor_conditions_around_the_line(
    source: str, names: str
) -> None:
    check = "#error FAILS\n" if "check.h" in source else ""
    assert decided_by(source, size__h="#define SIZE A\n", check__h=check) == tuple(names)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('_Static_assert(0, "A == 1 FAILS");', ""),
        ("_Static_assert(sizeof(long) == 4 && N % 7 == 0, FAILS);", None),
        ("_Static_assert(sizeof(long) == 4 && N % 7 == 0); /* FAILS */", ""),
        ('_Static_assert(A == 7 /* FAILS */,\n  "text");', "A"),
        ("_Static_assert(A\n  % B == 7); // FAILS", None),
        ("#if B == 1\n_Static_assert(A == 7); // FAILS\n#endif", "AB"),
        ("#define OK(x) ((x) % A == 0)\n_Static_assert(OK(7)); // FAILS", "A"),
        ("#define CHECK _Static_assert(A == 7)\nCHECK; // FAILS", "A"),
        ("#define CHECK _Static_assert(A == 7) // FAILS\nCHECK;", None),
        ("enum { LANES = A };\n_Static_assert(LANES == 7); // FAILS", None),
        ("template <int T> void f() { static_assert(T == 7); } // FAILS", None),
        ("template <int T> void f() { static_assert(false); } // FAILS", None),
        ("_Static_assert(\n#if A == 1\n1\n#else\n0\n#endif\n); // FAILS", None),
    ],
)
def test_failed_static_assertion_depends_on_the_tunables_in_it(source: str, names: str | None) -> None:
    line = 1 if source.startswith("_Static_assert(A\n") else 0
    found = decided_by(source, "static assertion failed", line=line)
    assert found == (("A", "B") if line else None if names is None else tuple(names))


@pytest.mark.parametrize(
    "source",
    [
        "#define JOIN(x, y) x##y\n#error FAILS",
        "#line 7\n#error FAILS",
        "#include HEADER\n#error FAILS",
        "#endif\n#error FAILS",
        '#include "outside.h"\n#ifdef FAST\n#error FAILS\n#endif',
        "#include <immintrin.h>\n#ifdef FAST\n#error FAILS\n#endif",
        "#define BODY FAILS\nBODY",
    ],
)
def test_tunables_that_enable_a_line_are_unknown_if_the_source_is_ambiguous(source: str) -> None:
    assert decided_by(source) is None


def test_tunables_that_enable_a_line_are_unknown_if_the_error_is_outside_the_family() -> None:
    files, made = {FILE: "#error x\n"}, implementation()
    for log in (
        "the compiler was stopped after 60 s",
        "ptxas error : too much shared data",
        "ptxas error : x\nkernel.c:1:2: error: #error x",
        "/usr/include/x.h:1:2: error: #error x",
    ):
        assert deciding_tunables(log, files, made, [], ["/copy"]) is None
    assert deciding_tunables("kernel.c(1): catastrophic error: #error directive: x", files, made, [], []) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "template"},
        {"flags": ("-I/opt/headers",)},
        {"flags": ("-DSIZE=A",)},
        {"specific": Expression.parse("A == 1", "specific")},
    ],
    ids=str,
)
def test_tunables_that_enable_a_line_are_unknown_if_tunables_act_outside_the_source(changes: dict[str, Any]) -> None:
    assert decided_by("#error FAILS", made=implementation(**changes)) is None


def test_derived_values_and_prefixed_macros_are_traced_to_their_tunables() -> None:
    made = implementation(derived={"SIZE": Expression.parse("A * N", "derived")}, macro_prefix="TUNED_")
    assert decided_by("#if TUNED_SIZE > 8\n#error FAILS\n#endif", made=made) == ("A",)
    assert decided_by("#if SIZE > 8 && B\n#error FAILS\n#endif", made=made) == ()
