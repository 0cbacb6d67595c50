"""Preprocessed sources show which macros headers redefine."""

import pytest

from workers.build.prefixed import replaced_macros

HEAD = '# 1 "kernel.c"\n#define U 2\n#line 1 "kernel.c"\n'


def header(text: str, *, system: bool = True) -> str:
    return f'# 7 "/usr/include/h.h" 1 {"3 4" if system else ""}\n{text}\n# 2 "kernel.c" 2\nint f;\n'


@pytest.mark.parametrize(
    ("text", "how", "line"),
    [
        ("#define U 3", "redefined", 7),
        ("int x;\n\n#undef U\n#define U 3", "redefined", 10),
        ("int x;\n#undef U", "undefined", 8),
    ],
)
def test_warning_names_the_header_and_line_that_redefine_a_macro(text: str, how: str, line: int) -> None:
    found = list(replaced_macros(HEAD + header(text), ["U"], own="kernel.c"))
    assert found == [f'/usr/include/h.h:{line}: warning: "U" {how}']


@pytest.mark.parametrize(
    "text",
    [
        header("#define U 2"),
        header("#define V 3\n#undef W"),
        header('#pragma push_macro("U")\n#undef U\n#pragma pop_macro("U")'),
        header("#undef U", system=False),
        "int f;\n#undef U\n#define U 5\n",
    ],
)
def test_macro_that_is_unchanged_or_redefined_by_the_source_gives_no_warning(text: str) -> None:
    assert not list(replaced_macros(HEAD + text, ["U"], own="kernel.c"))
