"""Sources of variants that would read files of the worker's machine."""

import pytest

from evo.errors import InvalidInput
from templates import registry
from templates.outside import outside, outside_flag
from templates.variant import read_proposal

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
]
PLAIN = [
    "#include <math.h>",
    '#include "own.h"\n#include "include/stream.h"',
    "#include <immintrin.h> // see ../notes",
    '// #include "/etc/passwd"',
    "float include(float x);",
    "#include <cuda/std/limits>",
]


@pytest.mark.parametrize("text", READING)
def test_source_that_names_files_elsewhere_is_refused(text: str) -> None:
    assert outside(text) is not None
    with pytest.raises(InvalidInput, match=r"kernel\.c"):
        read_proposal({}, {"kernel.c": text}, "v")


@pytest.mark.parametrize("text", PLAIN)
def test_source_with_ordinary_includes_is_accepted(text: str) -> None:
    assert outside(text) is None


@pytest.mark.parametrize(
    "flag", ["-I/etc", "-include/etc/passwd", "/etc/passwd", "@/etc/x", "-I..", "-Wp,-imacros,x", "-Xlinker"]
)
def test_flag_that_names_paths_elsewhere_is_refused(flag: str) -> None:
    assert outside_flag(flag)
    with pytest.raises(InvalidInput, match="flags"):
        read_proposal({"flags": [flag]}, {"kernel.c": ""}, "v")


@pytest.mark.parametrize(
    "flag", ["-O2", "-ffast-math", "-march=native", "-pthread", "-Iown", "--use_fast_math", "-DX=1", "-lm"]
)
def test_ordinary_flags_are_accepted(flag: str) -> None:
    assert not outside_flag(flag)


@pytest.mark.parametrize("package", registry.builtin(), ids=lambda package: package.family.name)
def test_sources_and_flags_of_built_in_families_are_accepted(package: registry.Package) -> None:
    for name, content in registry.own_files(package).items():
        if name.endswith((".j2", ".c", ".cu", ".h", ".cuh")):
            assert outside(content.decode()) is None, name
    for implementation in package.family.implementations.values():
        assert not any(map(outside_flag, implementation.flags))
