"""Functions of other languages, and the equivalent expressions."""

import ast
import re
from collections.abc import Mapping, Sequence

from evo.space.expression.spelling import POWER
from evo.space.expression.substitution import replaced

_SYNONYMS: Mapping[str, str] = {
    **dict.fromkeys(("fmin", "Min", "MIN", "minimum"), "min"),
    **dict.fromkeys(("fmax", "Max", "MAX", "maximum"), "max"),
    **dict.fromkeys(("fabs", "absolute"), "abs"),
    **dict.fromkeys(("cdiv", "CEIL_DIV", "div_up", "DIV_UP"), "ceil_div"),
}
"""Functions that expressions support, by their names in other languages."""
_FORMS: Mapping[str, str] = {
    "{0}": "require check constraint static_assert assert_",
    "{0} ** {1}": "pow power",
    "{0} ** 0.5": "sqrt",
    "{0} ** (1 / 3)": "cbrt",
    "({0} ** 2 + {1} ** 2) ** 0.5": "hypot",
    "{0} ** 2": "square",
    "{0} % {1}": "mod fmod remainder",
    "{0} // {1}": "floor_divide floordiv div idiv",
    "{0} / {1}": "divide truediv true_divide",
    "{0} * {1}": "mul multiply",
    "{0} + {1}": "add",
    "{0} - {1}": "sub subtract",
    "{0} * {1} // gcd({0}, {1})": "lcm",
    "min(max({0}, {1}), {2})": "clamp clip",
    "({0} > 0) - ({0} < 0)": "sign sgn",
    "not {0}": "not logical_not",
    "(not {0}) != (not {1})": "xor logical_xor",
    "(not {0}) == (not {1})": "iff xnor",
    "{0} and {1}": "logical_and",
    "{0} or {1}": "logical_or",
    "not ({0} and {1})": "nand",
    "not ({0} or {1})": "nor",
    "not {0} or {1}": "implies",
    "{0} == {1}": "eq equal equals",
    "{0} != {1}": "ne not_equal strcmp",
    "{0} < {1}": "lt less",
    "{0} <= {1}": "le less_equal",
    "{0} > {1}": "gt greater",
    "{0} >= {1}": "ge greater_equal",
    "{0} in {1}": "isin",
    "{0} % 2 == 0": "even is_even iseven",
    "{0} % 2 == 1": "odd is_odd isodd",
    "{1} if {0} else {2}": "where select iif if_else ifelse",
    "{0} // 1": "int floor trunc int_ fix",
    "ceil_div({0}, 1)": "ceil",
    "({0} + 0.5) // 1": "round rint nint lround",
}
"""Functions of other languages, in lower case, by the equivalent expression."""
_OPERATIONS: Mapping[tuple[str, int], str] = {
    (name, len(set(re.findall(r"{\d}", text)))): text for text, names in _FORMS.items() for name in names.split()
}
_ROUNDING = frozenset(_FORMS["{0} // 1"].split() + _FORMS["({0} + 0.5) // 1"].split() + ["ceil"])
_POWER_TEST = re.compile(r"is_?pow(?:er)?_?(?:of_?)?(?:2|two)", re.IGNORECASE)
"""Matches names of functions that test for a power of two, such as ``is_power_of_2`` and ``isPow2``."""
_LISTS = (ast.List, ast.Tuple, ast.Set)


def form(text: str, *operands: ast.expr) -> ast.expr:
    """Return the tree of a template such as ``{0} % {1}``, with the operands in place of ``{0}``, ``{1}`` and so on."""
    return ast.parse(text.format(*(f"({ast.unparse(each)})" for each in operands)), mode="eval").body


def operation(name: str, operands: Sequence[ast.expr]) -> ast.expr | None:
    """Return the operation that a call such as ``mod(a, b)`` or ``And(a, b)`` denotes; None for unknown functions.

    Args:
        name: name of the called function.
        operands: arguments of the call.
    """
    if _POWER_TEST.fullmatch(name) and len(operands) == 1:
        return power_of_two(operands[0], "==")
    if name.lower() in ("and", "or") and len(operands) > 1:
        return ast.BoolOp(op=ast.And() if name.lower() == "and" else ast.Or(), values=list(operands))
    if name.lower() in _ROUNDING and len(operands) == 1 and _whole(operands[0]):
        return operands[0]
    text = _OPERATIONS.get((name.lower(), len(operands)))
    return form(text, *operands) if text else None


def function_name(call: ast.Call) -> str:
    """Return the name of the called function without its module; empty for other callees."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def own_name(function: str) -> str:
    """Return the name that expressions use for a function of another language; the unchanged name if there is none."""
    return _SYNONYMS.get(function, function)


def elements(arguments: Sequence[ast.expr]) -> list[ast.expr]:
    """Return the arguments of a call or, if its only argument is a list, the elements of the list.

    A generator over a list, such as ``a == x for x in (1, 2)``, is expanded.
    """
    match arguments:
        case [ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values)]:
            return values
        case [
            ast.GeneratorExp(elt=part, generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])])
            | ast.ListComp(elt=part, generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])])
        ] if isinstance(source, _LISTS):
            return [replaced(part, {name: each}) for each in source.elts]
    return list(arguments)


def given_by_name(function: str, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """Return the name in ``params.get("a")`` or Optuna's ``trial.suggest_int("a", 1, 8)``; None for other calls."""
    match arguments:
        case [ast.Constant(value=str() as name), *_] if function == "get" or function.startswith("suggest_"):
            return ast.Name(id=name, ctx=ast.Load())
    return None


def _whole(node: ast.expr) -> bool:
    """Return True if the node's value is a whole number whenever all names have whole numbers as values."""
    return not any(
        isinstance(each, ast.Div | ast.Pow) or (isinstance(each, ast.Constant) and type(each.value) is not int)
        for each in ast.walk(node)
    )


def power_of_two(base: ast.expr, sign: str) -> ast.expr:
    """Return a comparison that is true if `base` is a power of two (see `POWER`); with ``!=``, its negation."""
    return form(f"2 ** {POWER} % {{0}} {sign} 0", base)


def zero_or_power_of_two(base: ast.expr, sign: str) -> ast.expr:
    """Return a comparison that is true if `base` is zero or a power of two; with the sign ``!=``, its negation."""
    return form(f"{{0}} {sign} 0 {'or' if sign == '==' else 'and'} {{1}}", base, power_of_two(base, sign))


def without_root(node: ast.Compare) -> ast.expr | None:
    """Return an equivalent comparison without ``log2`` and ``sqrt``; None if none is known.

    ``log2(a) <= 7`` becomes ``a <= 128``, ``sqrt(a) < 9`` becomes ``a < 81``, and ``log2(a) % 1 == 0`` becomes a test
    for a power of two.
    """
    if len(node.ops) != 1:
        return None
    op, left, right = node.ops[0], node.left, node.comparators[0]
    match left, right:
        case ast.BinOp(left=ast.Call() as call, op=ast.Mod(), right=ast.Constant(value=1)), ast.Constant(value=0):
            base = _argument(call, "log2")
            sign = {ast.Eq: "==", ast.NotEq: "!="}.get(type(op))
            return None if base is None or sign is None else power_of_two(base, sign)
        case ast.Call() as call, ast.Constant() as bound if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=call.args[0], ops=[op], comparators=[inverse])
        case ast.Constant() as bound, ast.Call() as call if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=inverse, ops=[op], comparators=[call.args[0]])
    return None


def _inverse(call: ast.Call, bound: ast.Constant) -> ast.Constant | None:
    """Return the bound for x that a bound for ``log2(x)`` or ``sqrt(x)`` implies, e.g. 128 for 7; None if unknown."""
    value = bound.value
    if type(value) is not int or not 0 <= value < 62:
        return None
    if _argument(call, "log2") is not None:
        return ast.Constant(value=1 << value)
    return ast.Constant(value=value * value) if _argument(call, "sqrt") is not None else None


def _argument(call: ast.Call, function: str) -> ast.expr | None:
    """Return the argument of a call if it calls the named function, with or without its module; else None."""
    return call.args[0] if function_name(call) == function and len(call.args) == 1 and not call.keywords else None
