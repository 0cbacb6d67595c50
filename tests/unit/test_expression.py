"""Expressions are evaluated element-wise with Python's semantics, and all other syntax is refused."""

import json
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evo.errors import InvalidInput
from evo.space.expression import MAX_DEPTH, MAX_TEXT, Expression
from evo.space.expression.spelling import pasted
from evo.trial import Value
from tests.unit.random_expressions import NUMBERS, by_python, expressions


def parse(text: str) -> Expression:
    return Expression.parse(text, "here")


def refusal(text: str, **environment: Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        parse(text).evaluate(environment)
    assert raised.value.field == "here"
    return raised.value.reason


@settings(max_examples=400)
@given(
    text=expressions(),
    rows=st.lists(st.tuples(*[st.integers(-3, 9)] * 3, st.sampled_from("xyz")), min_size=1, max_size=6),
)
def test_expression_has_the_same_value_as_in_python(text: str, rows: list[tuple[int, int, int, str]]) -> None:
    expression = parse(text)
    scalars = [dict(zip((*NUMBERS, "t"), row, strict=True)) for row in rows]
    expected = [by_python(text, scalar) for scalar in scalars]
    for scalar, value in zip(scalars, expected, strict=True):
        if isinstance(value, type):
            with pytest.raises(InvalidInput):
                expression.evaluate(scalar)
        else:
            assert expression.evaluate(scalar) == value
    arrays = {name: np.array([scalar[name] for scalar in scalars]) for name in (*NUMBERS, "t")}
    if any(isinstance(value, type) for value in expected):
        with pytest.raises(InvalidInput):
            expression.evaluate(arrays)
    elif expression.names:
        assert expression.evaluate(arrays).tolist() == expected


SCALAR_VALUES = st.sampled_from([-3, 0, 1, 2, 9, True, False, 0.5, -2.0, 2**53 + 1, 2**61, -(2**62) + 1, 2**62, 1e308])


@settings(max_examples=400)
@given(text=expressions(), values=st.tuples(*[SCALAR_VALUES] * 3), t=st.sampled_from("xyz"))
def test_scalar_evaluation_of_an_expression_equals_array_evaluation(text: str, values: tuple[Any, ...], t: str) -> None:
    expression, environment = parse(text), dict(zip(NUMBERS, values, strict=True)) | {"t": t}
    try:
        expected = expression.evaluate_arrays(environment)
    except InvalidInput as error:
        assert refusal(text, **environment) == error.reason
    else:
        value = expression.evaluate(environment)
        assert (type(value), value) == (type(expected), expected)


@settings(max_examples=400)
@given(text=expressions(), rows=st.lists(st.tuples(*[st.integers(-3, 9)] * 2), min_size=1, max_size=6), data=st.data())
def test_binding_constants_does_not_change_the_value_of_an_expression(
    text: str, rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    constants: dict[str, Value] = {"c": data.draw(SCALAR_VALUES), "t": data.draw(st.sampled_from("xyz"))}
    free = {name: np.array([row[index] for row in rows]) for index, name in enumerate("ab")}
    expression = parse(text)
    bound = expression.bind(constants)
    left = {name: value for name, value in constants.items() if value == 2**62}
    assert bound.names & constants.keys() <= left.keys()
    try:
        expected = expression.evaluate({**free, **constants})
    except InvalidInput:
        with pytest.raises(InvalidInput):
            bound.evaluate({**free, **left})
    else:
        value = bound.evaluate({**free, **left})
        assert np.array_equal(np.broadcast_to(value, np.shape(expected)), expected)


def test_binding_constants_evaluates_constant_parts_of_an_expression() -> None:
    bound = parse("ceil_div(S, 16) * a if causal else max(S - 1, 2) + b // a").bind({"S": 40, "causal": True})
    assert bound.names == {"a"}
    assert bound.size == parse("3 * a").size
    assert bound.evaluate({"a": np.array([1, 2])}).tolist() == [3, 6]


def test_scalar_evaluation_of_an_expression_does_not_use_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expression, "evaluate_arrays", None)
    text = "min(a, 7) // 2 if t == 'x' and a % 4 in (0, 1) else ceil_div(a, b) ** 2"
    assert parse(text).evaluate({"a": 9, "b": 2.0, "t": "x"}) == 3
    assert parse("1 < a <= 2 * b or not b").truth({"a": 9, "b": 5}) is True


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.real",
        "a[0]",
        "lambda: 1",
        "[1, 2]",
        "{1: 2}",
        "(1, 2)",
        "a == (1, 2)",
        "a in b",
        "a in [1, 2]",
        "a in (1, 2) in (1, 2)",
        "(a := 1)",
        "f'{a}'",
        "print(a)",
        "min(a)",
        "min(a, key=b)",
        "min(*a)",
        "abs(a, b)",
        "min.__call__(a, b)",
        "a @ b",
        "a << 1",
        "a & b",
        "~a",
        "a is b",
        "None",
        "...",
        "1j",
        "b'x'",
        "4611686018427387904",
        "1e999",
        "await a",
        "[x for x in (1, 2)]",
        "'" + "x" * 101 + "'",
    ],
)
def test_expression_syntax_outside_the_whitelist_is_refused_at_parsing(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(text)
    assert raised.value.field == "here"
    assert "`" in raised.value.reason


@pytest.mark.parametrize("text", ["", "  ", "a +", "a b", "if", "a = 1", "a; b", "(", "a\0b", "'a", "9" * 900])
def test_invalid_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


@pytest.mark.parametrize(
    "text", ["-" * 900 + "1", "(" * 400 + "1" + ")" * 400, "+".join(["a"] * 400), "a" * (MAX_TEXT + 1)]
)
def test_too_long_or_too_deep_expressions_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


def test_deepest_allowed_expression_is_evaluated() -> None:
    assert parse("-" * (MAX_DEPTH - 2) + "1").evaluate({}) == 1


def test_short_circuited_operands_of_an_expression_are_not_evaluated() -> None:
    n = np.array([0, 2, 3, 0])
    assert parse("n != 0 and 12 % n == 0").evaluate({"n": n}).tolist() == [False, True, True, False]
    assert parse("n == 0 or 7 // n > 2").evaluate({"n": n}).tolist() == [True, True, False, True]
    assert parse("12 // n if n else -1").evaluate({"n": n}).tolist() == [-1, 6, 4, -1]
    assert parse("-1 if n == 0 else 12 // n").evaluate({"n": n}).tolist() == [-1, 6, 4, -1]
    assert parse("0 < n < 12 // n").evaluate({"n": n}).tolist() == [False, True, True, False]


def test_error_for_a_division_by_zero_names_the_subexpression_and_its_values() -> None:
    reason = refusal("S % (n - 1) == 0", S=7, n=np.array([3, 1, 2]))
    assert "`S % (n - 1)` divides by zero for S = 7, n = 1" in reason
    assert "divides by zero" in refusal("1 / 0")


@pytest.mark.parametrize(
    "text", ["a * a", "a + a + a + a", "a ** 9", "a * a // a", "-a - a - a - a", "(a / 1) ** 63 * 1e300"]
)
def test_expression_results_beyond_62_bits_are_refused(text: str) -> None:
    big = 1 << 61
    assert "too large" in refusal(text, a=big)
    assert "too large" in refusal(text, a=np.array([1, big]))


@pytest.mark.parametrize("power", [32, 33, 40])
def test_product_that_overflows_to_a_small_integer_is_refused(power: int) -> None:
    assert "too large" in refusal("a * a", a=np.array([1 << power]))
    assert "too large" in refusal("a ** 2", a=1 << power)


def test_expression_results_just_below_the_limit_are_exact() -> None:
    a = np.array([(1 << 62) - 1])
    assert parse("a - 1").evaluate({"a": a}).tolist() == [(1 << 62) - 2]
    assert parse("a // 2 * 2").evaluate({"a": a}).tolist() == [(1 << 62) - 2]


@pytest.mark.parametrize("exponent", [-1, 64, 1 << 40])
def test_exponents_outside_0_to_63_in_expressions_are_refused(exponent: int) -> None:
    assert "exponent" in refusal("2 ** n", n=exponent)


def test_fractional_exponents_give_the_same_results_as_in_python() -> None:
    assert parse("a ** 0.5").evaluate({"a": np.array([0, 2, 9, 1 << 40])}).tolist() == [0, 2**0.5, 3, 1 << 20]
    assert parse("1e-5 * a ** 1.5").number({"a": 4}) == 1e-5 * 4**1.5
    assert parse("a ** 2.0").number({"a": -3}) == 9.0
    assert parse("a > 0 and a ** 0.5 > 1").evaluate({"a": np.array([-4, 1, 4])}).tolist() == [False, False, True]
    assert "base of at least 0" in refusal("a ** 0.5", a=-4)
    assert "exponent from 0 to 63" in refusal("a ** n", a=4, n=-0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1 << 63, -(1 << 63), None, b"x", 1j])
def test_non_finite_values_in_expressions_are_refused(value: object) -> None:
    assert "`a`" in refusal("a", a=value)


def test_expressions_that_mix_strings_and_numbers_are_refused() -> None:
    assert "compares a string with a number" in refusal("dtype == 1", dtype="float32")
    assert "needs numbers" in refusal("dtype * 2", dtype="float32")
    assert "one is a string" in refusal("'a' if n else 1", n=np.array([0, 1]))


def test_error_about_an_unknown_name_suggests_a_name() -> None:
    expression = parse("BLOK_M * 2")
    with pytest.raises(InvalidInput, match="there is no `BLOK_M`; did you mean `BLOCK_M`"):
        expression.check_names({"BLOCK_M", "S"}, "tunables")
    assert "did you mean `BLOCK_M`" in refusal("BLOK_M", BLOCK_M=1)
    assert parse("max(a, b) + a").names == {"a", "b"}


def test_inlining_replaces_names_and_preserves_text_and_short_circuits() -> None:
    waste = parse("S % n")
    expression = parse("n > 0 and waste == 0").inline({"waste": waste})
    assert expression.text == "n > 0 and waste == 0"
    assert expression.names == {"n", "S"}
    assert expression.evaluate({"S": 6, "n": np.array([0, 3, 4])}).tolist() == [False, True, False]
    assert parse("n").inline({"waste": waste}).names == {"n"}


@pytest.mark.parametrize("text", ["-" * 900 + "1", "not " * 240 + "n"])
def test_deeply_nested_expression_is_refused_as_nested(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is nested .*; split it, e.g. into derived values"):
        parse(text)


def test_size_of_an_inlined_expression_is_limited() -> None:
    definitions = {"x0": parse("a + a")}
    with pytest.raises(InvalidInput, match="grows to"):
        for level in range(1, 60):
            definitions[f"x{level}"] = parse(f"x{level - 1} + x{level - 1}").inline(definitions)
    chain = {"y0": parse("a")}
    with pytest.raises(InvalidInput, match="nested"):
        for level in range(1, 200):
            chain[f"y{level}"] = parse(f"y{level - 1} + 1").inline(chain)


def test_integer_and_numeric_evaluation_refuse_values_of_the_wrong_type() -> None:
    assert parse("S / 2").whole({"S": 8}) == 4
    assert parse("S / 2").number({"S": 7}) == 3.5
    with pytest.raises(InvalidInput, match="must be a whole number"):
        parse("S / 2").whole({"S": 7})
    with pytest.raises(InvalidInput, match="must be a number"):
        parse("S > 2").number({"S": 7})


def test_result_of_array_evaluation_has_the_length_of_the_arrays() -> None:
    assert parse("1 or a").evaluate({"a": np.arange(3)}).tolist() == [1, 1, 1]
    assert parse("a in ()").truth({"a": np.arange(2)}).tolist() == [False, False]
    assert parse("'x'").evaluate({}) == "x"
    assert parse("a").evaluate({"a": np.arange(0)}).tolist() == []


def test_pickled_expression_has_the_same_value() -> None:
    evaluated = parse("a + 1")
    assert evaluated.evaluate({"a": 1}) == 2
    expression = pickle.loads(pickle.dumps(evaluated))
    assert expression.evaluate({"a": 2}) == 3


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A == 1 && B", "A == 1 and B"),
        ("A || !B", "A or not B"),
        ("A == !B", "A == (not B)"),
        ("A = 1", "A == 1"),
        ("A <> 1", "A != 1"),
        ("A ~= 1", "A != 1"),
        ("$A ∈ [1, 2]", "A in (1, 2)"),
        ("A === 1", "A == 1"),
        ("A => 1", "A >= 1"),
        ("A AND NOT B", "A and (not B)"),
        ("A ? B : A == 2", "B if A else A == 2"),
        ("A == 16u", "A == 16"),
        ("(int)A % 2 == 0;", "A % 2 == 0"),
        ("std::max(A, B) < 4", "max(A, B) < 4"),
        ("A & (A - 1) == 0", "A == 0 or 2 ** 30 % A == 0"),
        ("(A & (A - 1)) != 0", "A != 0 and 2 ** 30 % A != 0"),
        ("!A == 1", "(not A) == 1"),
        ("!A == !B", "(not A) == (not B)"),
        ("!A >= B - 1", "(not A) >= B - 1"),
        ("!A * 2 == 2", "(not A) * 2 == 2"),
        ("!min(A, B) == 1", "(not min(A, B)) == 1"),
        ("!(A > B) || !B", "not A > B or not B"),
        ("!(A & (A - 1))", "A == 0 or 2 ** 30 % A == 0"),
        ("A & 3 == 0", "A % 4 == 0"),
        ("A << 2 <= 8", "A * 4 <= 8"),
        ("A >> B == 1", "A // 2 ** B == 1"),
        ("A == 1 & B == 2", "A == 1 and B == 2"),
        ("(A == 1) | (B == 2)", "A == 1 or B == 2"),
        ("A in [1, 2]", "A in (1, 2)"),
        ("A in (1)", "A in (1,)"),
        ("A in range(1, 4)", "A in (1, 2, 3)"),
        ('lambda p: p["A"] % 2 == 0', "A % 2 == 0"),
        ("math.ceil(A / B) <= 3", "ceil_div(A, B) <= 3"),
        ("int(A / B) <= 3", "A // B <= 3"),
        ("pow(A, 2) < 9", "A ** 2 < 9"),
        ("math.log2(A) <= 7", "A <= 128"),
        ("7 >= log2(A)", "128 >= A"),
        ("math.log2(A) % 1 == 0", "2 ** 30 % A == 0"),
        ("any([A > 3])", "A > 3"),
        ("max([A]) > 3", "A > 3"),
        ("all((A > 3,)) or min((B,)) < 2", "A > 3 or B < 2"),
        ("math.sqrt(A) > 3", "A > 9"),
        ("1e-5 * np.sqrt(A)", "1e-05 * A ** 0.5"),
        ("sqrt(A + B) <= B", "(A + B) ** 0.5 <= B"),
        ("square(A) <= B", "A ** 2 <= B"),
        ("sum([A, B, 1]) < 9", "A + B + 1 < 9"),
        ("A mod 4 == 0", "A % 4 == 0"),
        ("A MOD (B) = 0", "A % B == 0"),
        ("“a b” == A", "'a b' == A"),
        ("A == `rows` && B", "A == 'rows' and B"),
        ("A in [‘rows’, 'columns']", "A in ('rows', 'columns')"),
        ("A > 4 xor B > 4", "(A > 4) != (B > 4)"),
        ("A > 4 ^^ B > 4", "(A > 4) != (B > 4)"),
        ("A XOR B", "(not A) != (not B)"),
        ("A -le 8 && B -ne 4", "A <= 8 and B != 4"),
        ("A .LT. 8 .and. .not. B", "A < 8 and (not B)"),
        ("A.ge.8", "A >= 8"),
        ("A eq B", "A == B"),
        ("A div 2 equals 4", "A // 2 == 4"),
        ("A * B <= 10K", "A * B <= 10240"),
        ("A <= 48 KiB / 4", "A <= 49152 / 4"),
        ("A <= 1.5M", "A <= 1572864"),
        ("A <= 65,536", "A <= 65536"),
        ("A <= 1,048,576, B > 1", "A <= 1048576 and B > 1"),
        ("A <= 8, B <= 4", "A <= 8 and B <= 4"),
        ("A ! = 8 and B < = 4", "A != 8 and B <= 4"),
        ("A /= 8", "A != 8"),
        ("A =! 8", "A != 8"),
        ("A² ⋅ B ≤ 64", "A ** 2 * B <= 64"),
        ("A BETWEEN 1 AND 8", "1 <= A <= 8"),
        ("A in 1..8", "1 <= A <= 8"),
        ("A in [1:8]", "1 <= A <= 8"),
        ("1 <= A and <= 8", "1 <= A and A <= 8"),
        ("A <= 8 && >= 2", "A <= 8 and A >= 2"),
        ("A is divisible by B", "A % B == 0"),
        ("B divides A", "A % B == 0"),
        ("if A == 8 then B == 4", "not A == 8 or B == 4"),
        ("A == 8 if B == 4", "not B == 4 or A == 8"),
        ("A == 8 unless B == 4", "A == 8 or B == 4"),
        ("${A} <= {{ B }}", "A <= B"),
        ("assert A <= 8 /* bytes */", "A <= 8"),
        ("And(A == 8, Not(B == 4), mod(A, B) == 0)", "A == 8 and (not B == 4) and (A % B == 0)"),
        ("Implies(A, B)", "not A or B"),
        ("isPowerOfTwo(A)", "2 ** 30 % A == 0"),
    ],
)
def test_error_for_c_or_sql_operators_shows_the_python_expression(written: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=r"^here: ") as raised:
        Expression.parse(written, "here")
    assert f'write `"{meant}"`' in raised.value.reason
    suggested = Expression.parse(meant, "here")
    suggested.check_names(["A", "B"])
    if "'" not in meant:
        suggested.evaluate({"A": 4, "B": 2})


@pytest.mark.parametrize(
    "written",
    [
        "A &&",
        "f(A",
        "A ? B",
        "malloc(A)",
        "A @ B",
        "'",
        "[A for A in B]",
        "log2(A) <= B",
    ],
)
def test_expression_that_cannot_be_corrected_is_refused_without_a_suggestion(written: str) -> None:
    with pytest.raises(InvalidInput, match=r"^here: ") as raised:
        Expression.parse(written, "here")
    assert "write `" not in raised.value.reason


@pytest.mark.parametrize("written", ["'a' in A", "'a' not in A"])
def test_in_operator_on_a_string_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput, match="is not available") as raised:
        Expression.parse(written, "here")
    assert "(A,)" not in raised.value.reason


def test_suggested_power_of_two_test_is_correct() -> None:
    expression = Expression.parse("2 ** 30 % A == 0", "here")
    assert [a for a in range(1, 100) if expression.truth({"A": a})] == [1, 2, 4, 8, 16, 32, 64]


CHOICES = {"ORDER": ("rows", "columns"), "FLAG": (True, False), "N": (1, 2, 4), "PINNED": ("a",), "ANY": ()}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ORDER == rows", "ORDER == 'rows'"),
        ("N == 1 or ORDER in (rows, columns)", "N == 1 or ORDER in ('rows', 'columns')"),
        ("FLAG == true", "FLAG == True"),
        ("FLAG or false", "FLAG or False"),
    ],
)
def test_error_for_unquoted_words_shows_the_quoted_expression(written: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(written, "here").check_names(CHOICES)
    assert f'write `"{meant}"`' in raised.value.reason
    Expression.parse(meant, "here").check_names(CHOICES)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ORDER == rows && N > 1", "ORDER == 'rows' and N > 1"),
        ("ORDER in [rows, columns]", "ORDER in ('rows', 'columns')"),
        ("!FLAG || ORDER = columns", "not FLAG or ORDER == 'columns'"),
        ("FLAG == true && N mod 2 = 0", "FLAG == True and N % 2 == 0"),
    ],
)
def test_suggestion_for_c_operators_also_puts_choices_in_quotes(written: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(written, "here", CHOICES)
    assert f'write `"{meant}"`' in raised.value.reason
    Expression.parse(meant, "here", CHOICES).check_names(CHOICES)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('ORDER == "rwos"', "ORDER == 'rows'"),
        ('"colums" != ORDER', "'columns' != ORDER"),
        ('ORDER in ("rows", "diagonal")', "ORDER in ('rows', 'rows')"),
        ('FLAG == "true"', "FLAG == True"),
        ('N == "4"', "N == 4"),
        ('N == 1 and (FLAG or ORDER not in ("row",))', "N == 1 and (FLAG or ORDER not in ('rows',))"),
        ("ORDER == 2", "ORDER == 'rows'"),
        ("PINNED == 2", "PINNED == 'a'"),
        ("N > 'four'", "N > 1"),
    ],
)
def test_error_for_a_comparison_with_an_invalid_choice_shows_a_valid_comparison(written: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(written, "here").check_names(CHOICES)
    assert raised.value.reason.endswith(f'`"{meant}"`')
    Expression.parse(meant, "here").check_names(CHOICES)


def test_error_for_a_comparison_without_a_similar_choice_lists_the_choices() -> None:
    with pytest.raises(InvalidInput, match="'x' is not a value of ORDER, which has 'rows', 'columns'; write"):
        Expression.parse("ORDER == 'x'", "here").check_names(CHOICES)


@pytest.mark.parametrize("written", ['ORDER == "rows"', 'PINNED == "b"', 'ANY == "x"', "N == 3", 'ORDER < "s"'])
def test_comparison_with_a_valid_choice_is_accepted(written: str) -> None:
    accepted = Expression.parse(written, "here").check_names(CHOICES)
    assert set(accepted.names) == {written.partition(" ")[0]}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("T == 1 or 2", "T in (1, 2)"),
        ("T == 1 or 2 or 4", "T in (1, 2, 4)"),
        ("T in (1, 2) or 4", "T in (1, 2, 4)"),
        ("T == (1 or 2)", "T in (1, 2)"),
        ("T != (1 or 2)", "T not in (1, 2)"),
        ("T != 1 and 2", "T not in (1, 2)"),
        ("O == 'a' or 'b'", "O in ('a', 'b')"),
        ("U > 1 and (T == 1 or 2)", "U > 1 and T in (1, 2)"),
        ("not (T == 1 or 2)", "not T in (1, 2)"),
        ("U == 1 or T == 2 or 4", "U == 1 or T in (2, 4)"),
        ("T > 1 or 2", "T > 1 or T == 2"),
        ("1 or T == 2", "T in (2, 1)"),
        ("T and 2", "T and T == 2"),
        ("T + 1 > 1 or 2", None),
    ],
)
def test_error_about_a_number_as_operand_of_a_boolean_operator_suggests_a_comparison(
    text: str, meant: str | None
) -> None:
    with pytest.raises(InvalidInput, match="counts as a truth value") as refused:
        Expression.parse(text, "f").check_condition()
    if meant is None:
        assert refused.value.reason.endswith("compare it as well")
        return
    assert refused.value.reason.endswith(f'write `"{meant}"`')
    Expression.parse(meant, "f").check_condition()


@pytest.mark.parametrize(
    "text", ["T or U", "T == 1 or FLAG", "T == 1 or False", "max(T or 1, U) > 2", "(T or 1) * U < 9"]
)
def test_names_and_truth_values_are_valid_operands_of_or(text: str) -> None:
    Expression.parse(text, "f").check_condition()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("N / W * W == N", ["N // W * W == N"]),
        ("W * (N / W) == N", ["W * (N // W) == N"]),
        ("N - N / W * W == 0", ["N - N // W * W == 0"]),
        ("T > 0 and (N + T - 1) / T * T <= 99", ["T > 0 and (N + T - 1) // T * T <= 99"]),
        ("W > 4 == U > 2", ["(W > 4) == (U > 2)", "W > 4 and 4 == U and (U > 2)"]),
        ("W < 4 != U", ["(W < 4) != U", "W < 4 and 4 != U"]),
        ("W == U < 4", ["W == (U < 4)", "W == U and U < 4"]),
        ("W == 4 == U > 3", ["(W == 4) == (U > 3)", "W == 4 and 4 == U and (U > 3)"]),
    ],
)
def test_expression_with_a_different_meaning_in_c_is_refused(text: str, meant: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(text).check_meaning()
    assert refused.value.reason.endswith("write " + " or ".join(f'`"{each}"`' for each in meant))
    for each in meant:
        parse(each).check_meaning()


@pytest.mark.parametrize("text", ["1 <= W < 4", "W == U == 4", "N // W * W == N", "N / W * U > 3", "(W > 4) == U"])
def test_expression_with_the_same_meaning_in_c_is_accepted(text: str) -> None:
    parse(text).check_meaning()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("sizeof(float) * W <= 64", "4 * W <= 64"),
        ("sizeof( unsigned  int)*W<=64 && W > 1", "4 * W <= 64 and W > 1"),
        ("W * sizeof(__half) < sizeof(double)", "W * 2 < 8"),
        ("MAX(W, 2) > 3", "max(W, 2) > 3"),
        ("DIV_UP(N, W) > 3", "ceil_div(N, W) > 3"),
    ],
)
def test_error_for_c_functions_shows_the_equivalent_expression(text: str, meant: str) -> None:
    assert refusal(text).endswith(f'write `"{meant}"`')
    parse(meant)


def test_sizeof_of_an_unknown_type_is_refused_with_a_remedy() -> None:
    assert (
        refusal("sizeof(T) * W <= 64") == "`sizeof(T)` is not available; write the number of bytes, e.g. 4 for a float"
    )


SCOPE: dict[str, tuple[Value, ...]] = {"T": (1, 2, 4), "U": (1, 2), "N": (), "O": ("a", "b"), "B": (False, True)}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("T == 1 || 2", "T in (1, 2)"),
        ("T == 1 || 2 || 4", "T in (1, 2, 4)"),
        ("T != 1 && 2", "T not in (1, 2)"),
        ("`T` > 1", "T > 1"),
        ("B => T > 1", "not B or T > 1"),
        ("B -> T > 1 && U > 1", "not B or (T > 1 and U > 1)"),
        ("T > 1 implies B", "not T > 1 or B"),
        ("T => 2 and U > 1", "T >= 2 and U > 1"),
        ("T > 1 and U => 2", "T > 1 and U >= 2"),
        ("N % T == 0 == True", "N % T == 0"),
        ("T != 1 != 2", "T not in (1, 2)"),
        ("T == 1 == 2", "T in (1, 2)"),
    ],
)
def test_suggested_expression_is_itself_accepted(text: str, written: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(text, "f", SCOPE).check_meaning()
    suggested = json.loads(raised.value.reason.partition("write `")[2].rpartition("`")[0])
    assert suggested == written
    Expression.parse(suggested, "f", SCOPE).check_meaning().check_names(SCOPE).check_condition()


@pytest.mark.parametrize("text", ["O in ['a' 'b']", "O in 'ab'", "O == “c”", "1 < T < 4 == True", "T < 2 > 1"])
def test_expression_without_a_valid_correction_is_refused_without_a_suggestion(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(text, "f", SCOPE).check_meaning()
    assert 'write `"' not in raised.value.reason


LANGUAGES: dict[str, tuple[Value, ...]] = {
    "N": (1, 2, 4, 8, 16),
    "T": (1, 2, 4),
    "Z": (0, 3, 9),
    "M": (),
    "ORDER": ("a", "ab", "rows"),
    "FLAG": (False, True),
    "dtype": ("float32", "float16", "bfloat16"),
}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("N ^ 2 == 4", "N ** 2 == 4"),
        ("2^T + 1 > 4", "2 ** T + 1 > 4"),
        ("FLAG ^ (N > 2)", "FLAG != (N > 2)"),
        ("N > 2 & FLAG", "N > 2 and FLAG"),
        ("N & T > 1", "N and T > 1"),
        ("N == 1 | 2", "N in (1, 2)"),
        ("~FLAG", "not FLAG"),
        ("~N == -2", "-N - 1 == -2"),
        ("round(N / 2) == 2", "(N / 2 + 0.5) // 1 == 2"),
        ("ceil(N * 0.3) > 1", "ceil_div(N * 0.3, 1) > 1"),
        ("int(N * 0.5) == 1", "N * 0.5 // 1 == 1"),
        ("static_cast<int>(N) > 2", "N > 2"),
        ("CAST(N AS int) > 2", "N > 2"),
        ("(x := N) > 2", "N > 2"),
        ("1e400 > N", "4611686018427387903 > N"),
        ("float('inf') > N", "4611686018427387903 > N"),
        ("INT_MAX > N", "2147483647 > N"),
        ("N > 1 xor FLAG", "(N > 1) != FLAG"),
        ("N > 1 nand FLAG", "not (N > 1 and FLAG)"),
        ("FLAG <=> N > 1", "FLAG == (N > 1)"),
        ("FLAG ==> N > 1", "not FLAG or N > 1"),
        ("N%%2 == 0", "N % 2 == 0"),
        ("N >>> 1 > 2", "N // 2 > 2"),
        ("N = > 2", "N >= 2"),
        ("N =/= 2", "N != 2"),
        ("2N > 4", "2 * N > 4"),
        ("N x T <= 8", "N * T <= 8"),
        ("|N - T| > 1", "abs(N - T) > 1"),
        ("⌈N/T⌉ > 1 or √N > 1", "ceil_div(N, T) > 1 or N > 1"),
        ("N \\times T \\le 8", "N * T <= 8"),
        ("N &lt; 8 &amp;&amp; FLAG", "N < 8 and FLAG"),
        ("N in 1, 2, 4", "N in (1, 2, 4)"),
        ("N in [1 2 4]", "N in (1, 2, 4)"),
        ("N == [1, 2]", "N in (1, 2)"),
        ("any(N == x for x in (1, 2))", "N == 1 or N == 2"),
        ("[N > 2, T > 1]", "N > 2 and T > 1"),
        ("np.prod((N, T)) < sum([N, 1])", "N * T < N + 1"),
        ("np.logical_and(N > 1, np.equal(T, 2))", "N > 1 and T == 2"),
        ("np.where(FLAG, N, T) > 2", "(N if FLAG else T) > 2"),
        ("CASE WHEN FLAG THEN N ELSE T END > 2", "(N if FLAG else T) > 2"),
        ("if FLAG then N > 2 else T > 2", "N > 2 if FLAG else T > 2"),
        ("N > 2 when FLAG", "not FLAG or N > 2"),
        ("np.clip(N, 1, 4) == N", "min(max(N, 1), 4) == N"),
        ("divmod(N, T)[1] == 0", "N % T == 0"),
        ("N.gt(2)", "N > 2"),
        ("N.value > 2", "N > 2"),
        ('params.get("N") > 2', "N > 2"),
        ("tl.static_assert(N > 2, 'small')", "N > 2"),
        ("N GREATER_EQUAL 2", "N >= 2"),
        ("N is less than or equal to 4", "N <= 4"),
        ("N is even", "N % 2 == 0"),
        ("[ $N -gt 2 ]", "N > 2"),
        ('ORDER.startswith("a")', "ORDER in ('a', 'ab')"),
        ("ORDER LIKE '%b'", "ORDER == 'ab'"),
        ("'a' in ORDER", "ORDER in ('a', 'ab')"),
        ("len(ORDER) > 2 or FLAG", "ORDER == 'rows' or FLAG"),
        ("ORDER.upper() == 'ROWS'", "ORDER == 'rows'"),
        ("N.bit_length() > 3", "N in (8, 16)"),
        ("math.log(N) > 2", "N in (8, 16)"),
        ("sizeof(dtype) * N <= 64", "(4 if dtype == 'float32' else 2) * N <= 64"),
        ("N > 2 // at least one warp", "N > 2"),
        ("N && 2", "N and N == 2"),
        ("N != None and N > 2", "N > 2"),
        ("N is null or N > 2", "N > 2"),
        ("N > 2 if N != nan else FLAG", "N > 2"),
        ("not (N is None) and np.isfinite(N) and T < 4", "T < 4"),
        ("N in [1, 2, null]", "N in (1, 2)"),
        ("Z is not None", "Z != 0"),
        ("Z == undefined", "Z == 0"),
        ("N := 2", "N == 2"),
        ("(N := 2) > 1", "N > 1"),
        ("FLAG := true", "FLAG == True"),
        ("let N = 2", "N == 2"),
        ("FLAG == yes", "FLAG == True"),
        ("off == FLAG", "False == FLAG"),
        ("N < 1 << 64", "N < 4611686018427387903"),
        ("1 << N > T", "2 ** N > T"),
        ("math.pi * N < 9", "3.141592653589793 * N < 9"),
        ("Z divides N", "Z and N % Z == 0"),
        ("Z is a power of two", "Z and 2 ** 30 % Z == 0"),
        ("N in range(T)", "0 <= N < T"),
        ("N in range(T, 9)", "T <= N < 9"),
        ("N from 1 to 4", "1 <= N <= 4"),
        ("N should be at most 4", "N <= 4"),
        ("assert N > 1, 'small'", "N > 1"),
        ("N > 1'000", "N > 1000"),
        ("N >= 2 bytes", "N >= 2"),
        ("N > 2; T > 1", "N > 2 and T > 1"),
        ("(N > 2 and (T > 1)", "N > 2 and T > 1"),
        ("N > (T + 1))", "N > T + 1"),
    ],
)
def test_error_for_an_expression_of_another_language_suggests_an_accepted_one(written: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(written, "f", LANGUAGES).check_names(LANGUAGES)
    assert raised.value.field == "f"
    assert raised.value.reason.endswith(f"write {pasted(meant)}")
    accepted = Expression.parse(meant, "f", LANGUAGES).check_meaning().check_names(LANGUAGES).check_condition()
    accepted.truth({name: values[0] if values else 1 for name, values in LANGUAGES.items()})


@pytest.mark.parametrize(
    ("written", "says", "meant"),
    [
        ("N // 0 == 1", "`N // 0` divides by zero", "N // 2 == 1"),
        ("N % (2 - 2) == 0", "`N % (2 - 2)` divides by zero", "N % 2 == 0"),
        ("ceil_div(N, 0) > 1", "`ceil_div(N, 0)` divides by zero", "ceil_div(N, 2) > 1"),
        ("N < 2 ** 64", "`2 ** 64` is too large", "N < 4611686018427387903"),
        ("M > 8 * 2 ** 60", "`8 * 2 ** 60` is too large", "M > 4611686018427387903"),
        ("N ** 100 > 1", "`N ** 100` needs an exponent from 0 to 63", "N ** 2 > 1"),
    ],
)
def test_error_for_an_undefined_constant_operation_suggests_an_accepted_expression(
    written: str, says: str, meant: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse(written, "f", LANGUAGES).check_meaning()
    assert raised.value.reason.startswith(f"`{written}`: {says}")
    assert raised.value.reason.endswith(pasted(meant))
    accepted = Expression.parse(meant, "f", LANGUAGES).check_meaning()
    accepted.truth({name: values[0] if values else 1 for name, values in LANGUAGES.items()})


def test_caret_between_two_names_may_be_a_power_or_an_exclusive_or() -> None:
    with pytest.raises(InvalidInput) as raised:
        Expression.parse("N ^ T", "f", LANGUAGES)
    assert raised.value.reason == (
        'in `N ^ T`, `^` may be a power or an exclusive or; write `"N ** T"` or `"(not N) != (not T)"`'
    )
    assert [parse(each).truth({"N": 0, "T": 2}) for each in ("N ** T", "(not N) != (not T)")] == [False, True]


@pytest.mark.parametrize(
    "written",
    ["N!", "print(N)", "N != None", "nan < N", "N ?? 2", "ORDER matches 'a'", "FLAG @ 2", "f() > M", "N + wrap > 2"],
)
def test_error_without_a_correction_ends_with_a_valid_condition(written: str) -> None:
    with pytest.raises(InvalidInput, match=r"; a valid condition is, e\.g\., ") as raised:
        Expression.parse(written, "f", LANGUAGES).check_names(LANGUAGES)
    condition = json.loads(raised.value.reason.rpartition(" e.g., `")[2].removesuffix("`"))
    accepted = Expression.parse(condition, "f", LANGUAGES).check_names(LANGUAGES).check_condition()
    assert accepted.names <= set(re.findall(r"\w+", written))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("N // T", "(N // T if T else 0)"),
        ("2 ** -1", "1 / 2 ** 1"),
        ("N ** 40", "(1.0 * N) ** 40"),
        ("(T - N) ** 0.5", "max(0, T - N) ** 0.5"),
    ],
)
def test_error_for_an_undefined_operation_suggests_a_defined_operation(written: str, meant: str) -> None:
    assert f"write `{meant}`" in refusal(written, N=4, T=0)
    parse(meant).evaluate({"N": 4, "T": 0})


def test_condition_that_would_build_a_huge_string_is_refused_cheaply() -> None:
    with pytest.raises(InvalidInput, match="a valid condition is"):
        Expression.parse("len('%999999999d' % N) > 2", "f", LANGUAGES)
