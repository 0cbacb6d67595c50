"""Templates are rendered deterministically, and errors name file and line."""

import re
from pathlib import Path
from typing import Any

import pytest

from evo.errors import EvoError, InvalidInput, RenderError
from evo.trial import Value
from templates.registry import Package, find
from templates.render import check, check_source, render, used_names
from tests.unit.family_document import SPEC, TEMPLATES, write_family

CONFIG: dict[str, Value] = {"TILE": 4, "UNROLL": 2, "ORDER": "rows"}
PROBLEM: dict[str, Value] = {"ROWS": 3, "COLS": 5, "squared": True, "dtype": "float32"}
DERIVED = {"parts": 2, "step": 8}
SOURCE_SPEC = SPEC.replace('template = "kernel.c.j2"', 'source = "kernel.c"')


def package(folder: Path, template: str | None = None, spec: str = SPEC, **files: str) -> Package:
    named = {name.replace("__", "."): content for name, content in files.items()}
    if template is not None:
        named["kernel.c.j2"] = template
    return find(str(write_family(folder / "scale", spec, named)))


def rendered(tmp_path: Path, template: str, **files: str) -> str:
    return render(package(tmp_path, template, **files), "cpu", CONFIG, PROBLEM, DERIVED)


def failure(tmp_path: Path, template: str, **files: str) -> str:
    with pytest.raises(RenderError) as raised:
        rendered(tmp_path, template, **files)
    assert isinstance(raised.value, EvoError)
    return str(raised.value)


def test_template_variables_are_tunables_fields_and_derived_values(tmp_path: Path) -> None:
    assert rendered(tmp_path, TEMPLATES["kernel.c.j2"]) == "3 5 4 8 rows squared\n"


def test_template_blocks_leave_no_empty_lines_and_text_is_not_escaped(tmp_path: Path) -> None:
    line = 'r{{ row }} = a < b && "c";\n'
    template = "{% for row in range(2) %}\n    {% if row < TILE %}\n" + line + "    {% endif %}\n{% endfor %}\n"
    assert rendered(tmp_path, template) == 'r0 = a < b && "c";\nr1 = a < b && "c";\n'


def test_template_may_use_the_functions_of_expressions(tmp_path: Path) -> None:
    template = "{{ ceil_div(COLS, TILE) }} {{ max(TILE, COLS) }} {{ min(TILE, COLS) }} {{ gcd(6, TILE) }} {{ abs(-1) }}"
    assert rendered(tmp_path, template) == "2 5 4 2 1"


def test_template_includes_of_the_family_precede_shared_includes(tmp_path: Path) -> None:
    assert rendered(tmp_path, '{% include "part.h" %}', part__h="{{ TILE }} here") == "4 here"
    own = package(tmp_path / "b", '{% include "simd.h.j2" %}', **{"simd.h__j2": "mine"})
    assert render(own, "cpu", CONFIG, PROBLEM, DERIVED) == "mine"


def test_shared_template_includes_are_found_with_and_without_their_folder(tmp_path: Path) -> None:
    short = package(tmp_path / "short", '{% include "exp2.h.j2" %}')
    whole = package(tmp_path / "whole", '{% include "number/exp2.h.j2" %}')
    texts = [render(each, "cpu", CONFIG | {"LANES": 8, "EXP_DEGREE": 4}, PROBLEM, DERIVED) for each in (short, whole)]
    assert texts[0] == texts[1]
    assert texts[0]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("\n{{ TILES }}", "kernel.c.j2:2: 'TILES' is undefined"),
        ("{% if TILES > 1 %}{% endif %}", "kernel.c.j2:1: 'TILES' is undefined"),
        ("\n\n{% for x in %}", "kernel.c.j2:3: "),
        ("{% if TILE %}", "kernel.c.j2:1: Unexpected end of template"),
        ("\n{{ TILE // (UNROLL - 2) }}", "kernel.c.j2:2: integer division or modulo by zero"),
        ("{{ ORDER + 1 }}", "kernel.c.j2:1: can only concatenate str"),
        ("{{ ORDER.format }} {{ ().__class__.__base__ }}", "kernel.c.j2:1: access to attribute '__class__'"),
        ("{{ range(10 ** 9) }}", "kernel.c.j2:1: Range too big"),
        ("{{ [1].append(2) }}", "kernel.c.j2:1: "),
        ("{{ lipsum() }}", "kernel.c.j2:1: 'lipsum' is undefined"),
        ("{{ [1, 2] | random }}", "kernel.c.j2:1: No filter named 'random'"),
        ('\n{% include "gone.h" %}', "kernel.c.j2:2: the included file gone.h does not exist"),
        ('{% include "../scale/reference.py" %}', "the included file ../scale/reference.py does not exist"),
        ('\n{% include "part.h" %}', "part.h:2: 'X' is undefined"),
        ('{% import "macros.h" as m %}\n{{ m.tile() }}', "macros.h:3: 'Y' is undefined"),
        ('{% include "kernel.c.j2" %}', "recursion"),
        ("{% for a in range(9000) %}{% for b in range(9000) %}{{ a * b }} {% endfor %}{% endfor %}", "more than 8 MiB"),
    ],
)
def test_render_error_names_template_and_line(tmp_path: Path, template: str, message: str) -> None:
    files = {"part__h": "\n{{ X }}", "macros__h": "{% macro tile() %}\n\n{{ Y }}{% endmacro %}"}
    assert message in failure(tmp_path, template, **files)


def test_render_error_for_a_utf16_template_recommends_utf8(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "scale")
    (folder / "kernel.c.j2").write_bytes(b"\xff\xfe{{ TILE }}")
    with pytest.raises(RenderError, match=r"kernel\.c\.j2: is UTF-16; save it as UTF-8"):
        render(find(str(folder)), "cpu", CONFIG, PROBLEM, DERIVED)


def test_source_with_nul_bytes_is_refused_with_a_command_that_removes_them(tmp_path: Path) -> None:
    found = package(tmp_path, spec=SOURCE_SPEC, kernel__c="int x = TILE;\n\0")
    with pytest.raises(RenderError, match=r"kernel\.c: .*; remove all NUL bytes, e\.g\. `tr -d '\\0' < "):
        check_source(found, "cpu")


def test_empty_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"kernel\.c is empty; it must contain the kernel"):
        check_source(package(tmp_path, spec=SOURCE_SPEC, kernel__c=" \n"), "cpu")


def test_loaded_family_renders_the_loaded_text_even_if_the_files_change(tmp_path: Path) -> None:
    found = package(tmp_path, "{{ TILE }} before")
    (tmp_path / "scale" / "kernel.c.j2").write_text("{{ TILE }} after")
    assert render(found, "cpu", CONFIG, PROBLEM, DERIVED) == "4 before"
    assert render(find(str(tmp_path / "scale")), "cpu", CONFIG, PROBLEM, DERIVED) == "4 after"


def test_source_without_template_is_preceded_by_macro_definitions(tmp_path: Path) -> None:
    used = "dtype ORDER = TILE * half * ROWS + squared; /* {{ not a template }} */\n"
    found = package(tmp_path, spec=SOURCE_SPEC, kernel__c=used)
    text = render(found, "cpu", CONFIG, {**PROBLEM, "ROWS": -3}, {"half": 0.5})
    assert text == (
        "#define ROWS (-3)\n#define squared 1\n#define dtype float32\n#define TILE 4\n#define ORDER rows\n"
        f'#define half 0.5\n#line 1 "kernel.c"\n{used}'
    )


def test_predefined_platform_macros_are_undefined_first(tmp_path: Path) -> None:
    found = package(tmp_path, spec=SOURCE_SPEC, kernel__c="int half = linux + ROWS;\n")
    text = render(found, "cpu", {**CONFIG, "linux": 4}, PROBLEM, DERIVED)
    assert text.startswith("#undef linux\n#define ")
    assert "#define linux 4\n" in text


@pytest.mark.parametrize(
    ("source", "defined"),
    [
        ("int tile = TILE;\n", {"TILE"}),
        ('/* ROWS */ const char *COLS = "ORDER";\n', {"COLS"}),
        ('#include "own.h"\n', {"UNROLL"}),
        ("#define GLUE(a, b) a##b\nint tile = GLUE(TI, LE);\n", {*CONFIG, *PROBLEM, "half"}),
    ],
)
def test_only_macros_that_the_source_uses_are_defined(tmp_path: Path, source: str, defined: set[str]) -> None:
    found = package(tmp_path, spec=SOURCE_SPEC, kernel__c=source, own__h="int unrolled = UNROLL;\n")
    text = render(found, "cpu", CONFIG, PROBLEM, {"half": 0.5})
    assert set(re.findall(r"^#define (\w+) ", text.partition("#line")[0], re.MULTILINE)) == defined


def test_used_template_names_include_names_in_includes_and_imports(tmp_path: Path) -> None:
    template = '{% set own = TILE %}{{ own }}{% include "a.h" %}{% for i in range(COLS) %}{{ i }}{% endfor %}'
    found = package(tmp_path, template, a__h='{% import "b.h" as b with context %}{{ step }}', b__h="{{ ORDER }}")
    assert used_names(found, "cpu") == {"TILE", "COLS", "step", "ORDER"}


def test_used_template_names_include_names_in_conditional_includes(tmp_path: Path) -> None:
    template = '{% include "a.h" if TILE > 1 else "b.h" if UNROLL else "a.h" %}'
    found = package(tmp_path, template, a__h="{{ ORDER }}", b__h="{{ step }}")
    assert used_names(found, "cpu") == {"TILE", "UNROLL", "ORDER", "step"}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ TILE }}{{ UNROLL }}{{ ORDER }}{{ PARTS }}", "there is no `PARTS`; did you mean `parts`"),
        ("{{ TILE }}{{ ORDER }}", "the tunable UNROLL has no effect; use it in the template"),
        ("{{ TILE", "kernel.c.j2:1: "),
        ('{% include "gone.h" %}', "the included file gone.h does not exist"),
    ],
)
def test_error_of_the_template_check_names_unused_and_unknown_names(
    tmp_path: Path, template: str, message: str
) -> None:
    with pytest.raises(RenderError) as raised:
        check(package(tmp_path, template), "cpu")
    assert message in str(raised.value)


@pytest.mark.parametrize("template", ["{{ TILE }}{{ UNROLL }}{{ ORDER }}", "{{ step }}{{ ORDER }}"])
def test_tunable_may_be_used_through_a_derived_value(tmp_path: Path, template: str) -> None:
    found = package(tmp_path, template)
    check(found, "cpu")
    assert used_names(found, "cpu") == set(re.findall(r"\w+", template))


def test_tunable_may_be_used_through_the_launch_or_in_a_source(tmp_path: Path) -> None:
    check(package(tmp_path), "cuda")  # only the launch uses BLOCK
    check(package(tmp_path / "b", spec=SOURCE_SPEC, kernel__c="TILE UNROLL ORDER"), "cpu")
    with pytest.raises(RenderError, match=r"ORDER has no effect.*did you mean `ORDERED`"):
        check(package(tmp_path / "c", spec=SOURCE_SPEC, kernel__c="TILE UNROLL ORDERED"), "cpu")


def test_rendering_depends_only_on_its_arguments(tmp_path: Path) -> None:
    found = package(tmp_path, "{% set n = namespace(x=0) %}{% set n.x = n.x + TILE %}{{ n.x }}")
    values: list[dict[str, Any]] = [{**CONFIG, "TILE": tile} for tile in (1, 2, 1)]
    assert [render(found, "cpu", value, PROBLEM, DERIVED) for value in values] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("#define TILE 4\nTILE UNROLL ORDER", "kernel.c:1: `#define TILE` overrides the tunable TILE"),
        ("TILE UNROLL ORDER\n#undef ROWS\nROWS", "kernel.c:2: `#undef ROWS` overrides the problem field ROWS"),
        ("#ifdef UNROLL\n#endif\nTILE ORDER", "the tunable UNROLL has no effect: it is always defined"),
    ],
)
def test_error_of_the_template_check_names_macros_that_the_source_overrides(
    tmp_path: Path, source: str, message: str
) -> None:
    with pytest.raises(RenderError) as raised:
        check(package(tmp_path, spec=SOURCE_SPEC, kernel__c=source), "cpu")
    assert message in str(raised.value)


def test_only_macros_listed_in_the_family_are_defined(tmp_path: Path) -> None:
    spec = SOURCE_SPEC.replace('source = "kernel.c"', 'source = "kernel.c"\nmacros = ["TILE", "UNROLL", "ORDER"]')
    made = package(tmp_path, spec=spec, kernel__c="int f(int ROWS) { return ROWS * TILE * UNROLL * ORDER; }")
    check(made, "cpu")
    source = render(made, "cpu", CONFIG, PROBLEM, DERIVED)
    assert "#define TILE 4\n" in source
    assert "#define ROWS" not in source
    unknown = SOURCE_SPEC.replace('source = "kernel.c"', 'source = "kernel.c"\nmacros = ["TILES"]')
    with pytest.raises(InvalidInput, match="did you mean `TILE`"):
        package(tmp_path / "b", spec=unknown, kernel__c="")
    with pytest.raises(InvalidInput, match="applies only to `source`"):
        package(tmp_path / "c", spec=SPEC.replace('template = "kernel.c.j2"', 'template = "kernel.c.j2"\nmacros = []'))


def test_template_names_with_a_default_may_be_undeclared(tmp_path: Path) -> None:
    template = "{{ TILE }} {{ UNROLL }} {{ ORDER }} {{ heads | default(0) or TILE }}"
    check(package(tmp_path, template), "cpu")
    with pytest.raises(RenderError, match="there is no `heads`"):
        check(package(tmp_path / "other", template.replace(" | default(0)", "")), "cpu")


PREFIXED = SOURCE_SPEC.replace('source = "kernel.c"', 'source = "kernel.c"\nmacro_prefix = "TUNED_"')


def test_template_names_that_are_set_in_every_branch_are_not_unknown(tmp_path: Path) -> None:
    template = "{% if TILE > 4 %}{% set wide = 1 %}{% else %}{% set wide = 0 %}{% endif %}{{ wide }} {{ UNROLL }}"
    assert rendered(tmp_path, template) == "0 2"
    assert "wide" not in used_names(package(tmp_path / "b", template), "cpu")


def test_macro_prefix_is_added_to_every_macro(tmp_path: Path) -> None:
    kernel = "int TILE, tile = TUNED_TILE, unrolled = TUNED_UNROLL, order = TUNED_ORDER, rows = TUNED_ROWS;\n"
    made = package(tmp_path, spec=PREFIXED, kernel__c=kernel)
    check(made, "cpu")
    source = render(made, "cpu", CONFIG, PROBLEM, DERIVED)
    assert "#define TUNED_TILE 4\n" in source
    assert "#define TILE" not in source


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            "int tile = TUNED_TILE, order = TUNED_ORDER, unrolled = UNROLL;\n",
            "the tunable UNROLL has no effect: .* `UNROLL`, but its macro is `TUNED_UNROLL`; write `TUNED_UNROLL`, or",
        ),
        ("#define TUNED_TILE 8\nint tile = TUNED_TILE;\n", "#ifndef TUNED_TILE"),
    ],
)
def test_error_of_the_template_check_names_a_prefixed_macro_without_effect(
    tmp_path: Path, kernel: str, message: str
) -> None:
    with pytest.raises(RenderError, match=message):
        check(package(tmp_path, spec=PREFIXED, kernel__c=kernel), "cpu")


def test_macro_prefix_is_refused_for_templates(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="applies only to `source`"):
        package(
            tmp_path, spec=SPEC.replace('template = "kernel.c.j2"', 'template = "kernel.c.j2"\nmacro_prefix = "A_"')
        )
