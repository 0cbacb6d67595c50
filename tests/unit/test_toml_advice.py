"""A syntax error in TOML is reported with a corrected line."""

import re
import tomllib

import pytest

from evo.text.document import read_toml


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("entry = fam", 'entry = "fam"'),
        ('entry = "fam";', 'entry = "fam"'),
        ("expression = WIDTH * UNROLL <= 64  # why", 'expression = "WIDTH * UNROLL <= 64" # why'),
        ("title = it's", 'title = "it\'s"'),
        ("shape = [N, M // 2]", 'shape = ["N", "M // 2"]'),
        ("values = [1; 2; 4]", "values = [1, 2, 4]"),
        ("values = (1, 4, 8)", "values = [1, 4, 8]"),
        ("values = [True, False]", "values = [true, false]"),
        ("values = range(1, 4)", "values = [1, 2, 3]"),
        ("rel_l2 = 1e-6f", "rel_l2 = 1e-6"),
        ("rel_l2 = .5", "rel_l2 = 0.5"),
        ("rel_l2 = 5.", "rel_l2 = 5.0"),
        ("max = 16u", "max = 16"),
        ("name: saxpy", 'name = "saxpy"'),
        ("x = “abc”", 'x = "abc"'),
        ("x = 3 // three", "x = 3 # three"),
    ],
)
def test_toml_error_suggests_a_valid_line(line: str, written: str) -> None:
    for before, after in (("", ""), ("a = 1\n[table]\n", "\nb = 2\n"), ("", "\nworse = = =")):
        with pytest.raises(ValueError, match=re.escape(f"; write `{written}`") + "$"):
            read_toml(before + line + after)
    tomllib.loads(written)


@pytest.mark.parametrize("text", ["x = None", "x = 010", "= 3", "[cpu", 'x = "a', "a = 1\na = 2", "values = [1 2 4]"])
def test_ambiguous_toml_error_has_no_suggestion(text: str) -> None:
    with pytest.raises(ValueError, match="at ") as refused:
        read_toml(text)
    assert ": write" not in str(refused.value)


def test_error_for_a_repeated_toml_table_suggests_a_list_of_tables() -> None:
    with pytest.raises(ValueError, match=r"; write `\[\[cpu\.constraints\]\]` where it may be given several times"):
        read_toml("[cpu.constraints]\na = 1\n[cpu.constraints]\na = 2\n")
