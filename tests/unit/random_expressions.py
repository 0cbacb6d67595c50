"""Random expressions, and their values in Python."""

import math
from typing import Any

from hypothesis import strategies as st

NUMBERS = ("a", "b", "c")
"""Names of integer variables. The variable ``t`` is a string."""

PYTHON = {"__builtins__": {}, "min": min, "max": max, "abs": abs, "gcd": math.gcd, "ceil_div": lambda x, y: -(-x // y)}

LEAVES = [*NUMBERS, "3", "0", "(-2)", "7", "2.5", "True"]
TESTS = ["(t == 'x')", "(t != 'y')", "(t in ('x', 'z'))", "(t not in ())", "(t < 'y')"]
FORMS = [
    *(f"({{}} {operator} {{}})" for operator in ["+", "-", "*", "/", "//", "%", "and", "or"]),
    *(f"({{}} {operator} {{}})" for operator in ["<", "<=", ">", ">=", "==", "!="]),
    *("({} < {} <= {})", "({} in ({}, {}))", "({} not in ({}, 1))", "({} if {} else {})"),
    *("min({}, {})", "max({}, {}, {})", "ceil_div({}, {})", "abs({})", "(-{})", "(+{})", "(not {})"),
    *("(a ** {exponent})", "(abs({}) ** 0.5)", "gcd(a, b)", "gcd(b * 2, c, 12)"),
]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LEAVES + TESTS))
    form = draw(st.sampled_from(FORMS))
    parts = [draw(expressions(depth=depth - 1)) for _ in range(form.count("{}"))]
    return form.format(*parts, exponent=draw(st.integers(0, 3)))


def by_python(text: str, environment: dict[str, Any]) -> Any:
    """Return the expression's value in Python, or the type of the exception."""
    try:
        return eval(text, PYTHON, environment)
    except ZeroDivisionError as error:
        return type(error)
