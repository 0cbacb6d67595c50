"""JSON and TOML documents of untrusted senders are refused or read with bounded time and memory."""

import contextlib
import json
import time
import tracemalloc
from collections.abc import Callable

import pytest

from evo.errors import InvalidInput
from evo.text.document import DEEPEST, LONGEST_KEY, MOST_NAMES, literal_text, read_json, read_toml
from tests.tiers import one_in

MEBIBYTE = 1 << 20
QUARTER = MEBIBYTE // 4


def cost(read: Callable[[], object]) -> tuple[float, int]:
    """Return processor seconds and peak bytes of reading a document."""
    tracemalloc.start()
    begun = time.thread_time()
    with contextlib.suppress(ValueError):
        read()
    took, peak = time.thread_time() - begun, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return took, peak


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('[{"x": {"b": 1, "c": 2, "b": 3}}]', "0.x.b"),
        ('{"budget": {"trials": 1, "minutes": 2, "trials": 3}}', "budget.trials"),
        ('{"a": {"b": 1, "b": 2}, "a": {"b": 1}}', "a"),
        ('{"": 1, "": 2}', "body"),
        ('{"\\u0061": 1, "a": 2}', "a"),
    ],
)
def test_error_names_the_repeated_json_name(text: str, field: str) -> None:
    with pytest.raises(InvalidInput, match="twice") as caught:
        read_json(text)
    assert caught.value.field == field


def test_same_json_name_in_two_objects_is_accepted() -> None:
    assert read_json('{"a": {"b": 1}, "c": {"b": 2}}') == {"a": {"b": 1}, "c": {"b": 2}}


def test_json_object_with_too_many_names_is_refused() -> None:
    most = {str(number): 1 for number in range(MOST_NAMES)}
    assert read_json(json.dumps([most, most])) == [most, most]
    with pytest.raises(InvalidInput, match="body: has an object with 2,001 names; at most 2,000 are allowed"):
        read_json(json.dumps([{**most, "another": 1}]))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 100_000])
def test_deeply_nested_json_is_refused(opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(InvalidInput, match="deeper"):
        read_json(opening * levels + "1" + closing * levels)


def test_deepest_allowed_json_is_read() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST
    assert json.dumps(read_json(text)) == text


@pytest.mark.parametrize("text", ["", "{", b"\xff", "1" * 5000, "{'a': 1}", "[1,]"])
def test_invalid_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="not valid JSON"):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 12_000 + " = 1\n",
        "[a" + " . a" * 12_000 + "]\n",
        "[[a" + ".a" * 12_000 + "]]\n",
        '"a"' + '."a"' * 12_000 + " = 1\n",
        "'a'" + ".'a b'" * 12_000 + " = 1\n",
        "x = {a" + ".a" * 12_000 + " = 1}\n",
        'x = """\n' + "a.b" * 10 + '"""\na' + ".a" * 12_000 + " = 1\n",
        "x = " + "[" * 100_000,
        "x = " + "{a = " * 100_000,
    ],
    ids=["key", "table", "array of tables", "quoted", "literal", "inline", "after a string", "arrays", "inline tables"],
)
def test_deeply_nested_toml_is_refused_cheaply(text: str) -> None:
    with pytest.raises(ValueError, match=r"parts|nested"):
        read_toml(text)
    took, peak = cost(lambda: read_toml(text))
    assert took < 2
    assert peak < 20 * MEBIBYTE


@pytest.mark.parametrize(
    "filler",
    one_in(5, ['"', "'", '"""', "'''", "\\", "#", "a", ".", "a.", '"a', "'''\"", '"\\', "[", "{", "=", "\n", "a-"]),
)
def test_large_toml_document_is_read_in_linear_time(filler: str) -> None:
    text = (filler * QUARTER)[:QUARTER]
    took, peak = cost(lambda: read_toml(text))
    assert took < 30  # seconds under tracemalloc; quadratic reading would take an hour
    assert peak < 40 * QUARTER


def test_repeated_toml_table_before_many_empty_lines_is_refused_cheaply() -> None:
    took, _ = cost(lambda: read_toml("[a]\nb = 1\n[a]\n" + "\n" * QUARTER))
    assert took < 5  # seconds; quadratic reading would take minutes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a" + ".a" * (LONGEST_KEY - 1) + " = 1", None),
        ('a = "' + "x." * 100 + '"', "x." * 100),
        ("a = '''" + "x." * 100 + "''x'''", "x." * 100 + "''x"),
        ('a = """' + 'x."' * 100 + 'x"""', 'x."' * 100 + "x"),
        ('a = 1 # "' + "x." * 100, 1),
        ('a = "\\"" # ' + "x." * 100, '"'),
        ("a = '\\' # " + "x." * 100, "\\"),
    ],
)
def test_dots_in_toml_values_and_comments_are_not_key_separators(text: str, value: object) -> None:
    document = read_toml(text)
    assert value is None or document == {"a": value}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        ([None, "a", 1.5], '[null, "a", 1.5]'),
        ({"a": False}, '{"a": false}'),
        ("x", "'x'"),
    ],
)
def test_literal_text_formats_values_as_json(value: object, shown: str) -> None:
    assert literal_text(value) == shown


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("{'a': 1}", 'put strings and names in " quotes'),
        ("{a: 1}", 'put strings and names in " quotes'),
        ('{"a": b}', 'put strings and names in " quotes'),
        ('{"a": True}', "write true"),
        ('{"a": [None]}', "write null"),
        ('{"a": 1,}', "leave out the comma"),
        ('{"a": 1}\n{"a": 2}', "keep one value, and remove what follows it"),
        ('{"a": [1, 2, ]}', "leave out the comma"),
        ('{"a": 1} // one', "leave out the comment, which JSON does not allow"),
        ('{ // one\n"a": 1}', "leave out the comment, which JSON does not allow"),
        ('{"a": }', None),
        ("", None),
    ],
)
def test_error_for_invalid_json_suggests_a_correction(text: str, advice: str | None) -> None:
    with pytest.raises(InvalidInput, match="this is not valid JSON: ") as refused:
        read_json(text)
    assert refused.value.reason.endswith(f"; {advice}" if advice else tuple("0123456789"))
