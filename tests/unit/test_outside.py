"""Sources and flags of variants that name files outside the family are refused."""

import time
from dataclasses import replace

import pytest

from evo.errors import InvalidInput
from templates import registry
from templates.bundle import family_of
from templates.outside import outside, outside_flag
from templates.source import macro_uses
from templates.variant import read_proposal
from tests.unit.test_variant_composition import FILES

READING = [
    '#include "/etc/passwd"',
    "#include </etc/passwd>",
    '  #  include "../../key"',
    '#include "a/../../key"',
    '%:include "/etc/passwd"',
    '#inc\\\nlude "/etc/passwd"',
    '#/**/include "/etc/passwd"',
    "#define F </etc/passwd>\n#include F",
    '#embed "/etc/passwd"',
    '#include_next "/etc/passwd"',
    '#import "/etc/passwd"',
    '__asm__(".incbin \\"/etc/passwd\\"");',
    '__asm__(".include \\"/etc/passwd\\"");',
    '#pragma GCC dependency "/etc/passwd"',
    '#if __has_include("/etc/passwd")\n#endif',
    '#include "~/key"',
    'const char *a = "/*";\n#include "/etc/passwd"\nconst char *b = "*/";',
    'const char *a = "/*";\n#/**/include "/etc/passwd"\nconst char *b = "*/";',
    '// a comment \\\n#include "/etc/passwd"',
    'R"x(/*)x";\n#include "/etc/passwd"\n/**/',
    '#inc??/\nlude "/etc/passwd"',
    '??=include "/etc/passwd"',
    '_Pragma("GCC dependency \\"/etc/passwd\\"")',
    "#embed </etc/passwd> limit(16)",
    '#include/**/"/etc/passwd"',
]
PLAIN = [
    "#include <math.h>",
    '#include "own.h"\n#include "include/stream.h"',
    "#include <immintrin.h> // see ../notes",
    "// the number # includes itself",
    'const char *text = "/* # */";',
    "float include(float x);",
    "#include <cuda/std/limits>",
]


@pytest.mark.parametrize("text", READING)
def test_variant_source_that_names_files_outside_the_family_is_refused(text: str) -> None:
    assert outside(text) is not None
    with pytest.raises(InvalidInput, match=r"kernel\.c"):
        read_proposal({}, {"kernel.c": text}, "v")


@pytest.mark.parametrize("text", PLAIN)
def test_variant_source_with_ordinary_includes_is_accepted(text: str) -> None:
    assert outside(text) is None


REFUSED_FLAGS = [
    *(
        "-I/etc",
        "-I /etc",
        "-I..",
        "-I ~/x",
        "-I own/../..",
        "-L.",
        "-include own.h",
        "-include/etc/passwd",
        "-isystem .",
    ),
    *("/etc/passwd", "own.o", "@own.h", "-Wp,-imacros,x", "-Wl,-rpath,.", "-Wa,-I.", "-Xlinker -T", "-Xclang -load"),
    *(
        "-B.",
        "-specs=own.h",
        "-wrapper sh,-c,id",
        "-fplugin=x",
        "-fpass-plugin=x",
        "-mllvm -load=x",
        "-T own.h",
        "-Town.h",
    ),
    *(
        "-l:own.h",
        "-fuse-ld=own",
        "--ld-path=own",
        "--sysroot=.",
        "-fprofile-use=own.h",
        "-fprofile-generate",
        "--coverage",
    ),
    *(
        "-fdump-tree-all",
        "-fsave-optimization-record",
        "-fopt-info-all=x",
        "-fstack-usage",
        "-fmodules",
        "-gsplit-dwarf",
    ),
    *(
        "-ccbin=own",
        "--compiler-bindir=own",
        "--compiler-options=-fplugin=x",
        "-Xcompiler -fplugin=x",
        "-fsanitize=address",
    ),
    *("-fdiagnostics-format=sarif-file", "-o x", "-imacros own.h", "-O3\n-B.", ""),
]


@pytest.mark.parametrize("flags", REFUSED_FLAGS)
def test_variant_flags_that_name_files_or_programs_are_refused(flags: str) -> None:
    words = flags.split(" ")
    assert outside_flag(words) is not None
    with pytest.raises(InvalidInput, match="flags"):
        read_proposal({"flags": words}, {"kernel.c": ""}, "v")


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "-O2",
            "-Ofast",
            "-ffast-math",
            "-fno-math-errno",
            "-funroll-loops",
            "-fvect-cost-model=unlimited",
            "-fopenmp",
        ),
        *(
            "-march=native",
            "-mavx2",
            "-mprefer-vector-width=512",
            "-pthread",
            "-Iown",
            "-I own",
            "-DX=1",
            "-D X",
            "-lm",
        ),
        *(
            "-std=gnu11",
            "-Wall",
            "-Wno-unused-variable",
            "-w",
            "-g",
            "--use_fast_math",
            "-maxrregcount=64",
            "--fmad=false",
        ),
        *("--extra-device-vectorization", "--ptxas-options=-v", "--std=c++17", "-fno-strict-aliasing"),
    ],
)
def test_ordinary_variant_flags_are_accepted(flag: str) -> None:
    assert outside_flag(flag.split(" ")) is None


@pytest.mark.parametrize("package", registry.builtin(), ids=lambda package: package.family.name)
def test_sources_and_flags_of_builtin_families_pass_the_variant_check(package: registry.Package) -> None:
    for name, content in registry.own_files(package).items():
        if name.endswith((".j2", ".c", ".cu", ".h", ".cuh")):
            assert outside(content.decode()) is None, name
    for implementation in package.family.implementations.values():
        assert outside_flag(implementation.flags) is None


ADVERSARIAL = {
    name: unit * (200_000 // len(unit))
    for name, unit in {
        "comments": "/*",
        "quotes": '"',
        "apostrophes": "'",
        "raw strings": 'R"(',
        "directives": "#/*",
        "dots": ". ",
        "includes": "#include ",
        "spliced lines": "\\\n",
        "conditions": "#ifndef N\n",
        "blanks": "#\t",
    }.items()
}


@pytest.mark.parametrize("text", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_adversarial_variant_sources_are_checked_in_bounded_time(text: str) -> None:
    package = registry.package_of(family_of(FILES), {**FILES, "kernel.c": text.encode()})
    implementation = replace(package.family.implementation("cpu"), mode="source", file="kernel.c")
    began_s = time.process_time()
    outside(text)
    macro_uses({"kernel.c": text}, implementation, ["N", "WIDTH"])
    assert time.process_time() - began_s < 10
