"""Suggests a valid expression for text written in the syntax of C, SQL or full Python."""

import ast
import copy
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*'|“[^“”]*”|‘[^‘’]*’|`[^`]*`)
      | (?P<number>0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
        (?P<suffix>[uUlLfF]*)(?![A-Za-z0-9_])
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>===|!==|&&|\|\||<<|>>|<=|>=|==|!=|<>|=<|=>|//|\*\*|::|[^\s])""",
    re.VERBOSE,
)
_SIGNS: Mapping[str, str] = {
    "&&": "and",
    "||": "or",
    "===": "==",
    "!==": "!=",
    "<>": "!=",
    "=<": "<=",
    "=>": ">=",
    "=": "==",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "*",
    "·": "*",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    ";": "",
}
_WORDS: Mapping[str, str] = {
    "true": "True",
    "false": "False",
    "TRUE": "True",
    "FALSE": "False",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "IN": "in",
}
_FUNCTIONS: Mapping[str, str] = {
    "fmin": "min",
    "fmax": "max",
    "MIN": "min",
    "MAX": "max",
    "fabs": "abs",
    "cdiv": "ceil_div",
    "CEIL_DIV": "ceil_div",
    "div_up": "ceil_div",
    "DIV_UP": "ceil_div",
}
_REMAINDER = re.compile(
    r"(?<=[\w)\s])(?<!\band )(?<!\bor )(?<!\bnot )\b(?:mod|MOD)\b(?=\s+[\w(])(?!\s+(?:and|or|in|not|if|else)\b)"
)
_CAST = re.compile(r"(?<!\w)\(\s*(?:unsigned |signed )?(?:int|long|short|char|size_t|unsigned|float|double|bool)\s*\)")
_SIZES = {
    "char": 1,
    "bool": 1,
    "int8_t": 1,
    "uint8_t": 1,
    "short": 2,
    "half": 2,
    "__half": 2,
    "__nv_bfloat16": 2,
    "int16_t": 2,
    "uint16_t": 2,
    "int": 4,
    "unsigned": 4,
    "float": 4,
    "int32_t": 4,
    "uint32_t": 4,
    "half2": 4,
    "long long": 8,
    "double": 8,
    "size_t": 8,
    "int64_t": 8,
    "uint64_t": 8,
    "float2": 8,
    "float4": 16,
    "int4": 16,
}
"""Bytes of C and CUDA types that have the same size everywhere."""
_SIZEOF = re.compile(rf"\bsizeof\s*\(\s*(?:(?:un)?signed\s+)?({'|'.join(_SIZES)})\s*\)")
_NAMESPACE = re.compile(r"\b[A-Za-z_]\w*::")
_POWER = 30
"""``2 ** 30 % x == 0`` is true for the powers of two up to 2**30, and for no other number above zero."""


def rewritten(text: str) -> ast.expr | None:
    """Return a syntax tree of the probable meaning of `text`, which may still contain forbidden syntax; None if it is
    unclear.
    """
    text = _SIZEOF.sub(lambda found: str(_SIZES[found[1]]), text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        spelled = _ternary(_spelled(text))
        try:
            tree = ast.parse(spelled, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    except (ValueError, RecursionError, MemoryError):
        return None
    try:
        return ast.fix_missing_locations(_Translator().visit(tree))  # type: ignore[no-any-return]
    except RecursionError:
        return None


def foreign(text: str) -> dict[str, str]:
    """Return the operators and words of other languages in the text, with their counterparts here."""
    found: dict[str, str] = {}
    for token in _TOKEN.finditer(text):
        sign, name = token["sign"], token["name"]
        meant = "not" if sign == "!" else _SIGNS.get(sign or "", "") or _WORDS.get(name or "", "")
        if meant:
            found[sign or name] = meant
        elif (token["text"] or "'")[0] not in "\"'":
            found[token["text"]] = repr(token["text"][1:-1])
    found |= {each[0]: str(_SIZES[each[1]]) for each in _SIZEOF.finditer(text)}
    if _REMAINDER.search(text):
        found["mod"] = "%"
    return found


def pasted(text: str) -> str:
    """Return an expression as a document contains it: in double quotes, which TOML, JSON and Python read alike."""
    note = f" (2 ** {_POWER} % n is 0 for powers of two)" if f"2 ** {_POWER} % " in text else ""
    return f"`{json.dumps(text, ensure_ascii=False)}`{note}"


def renamed(tree: ast.expr, constants: Mapping[str, Any]) -> str:
    """Return the tree's text, in which constants replace the given names."""

    class Quoter(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(value=constants[node.id]) if node.id in constants else node

    return ast.unparse(Quoter().visit(ast.parse(ast.unparse(tree), mode="eval")))


def word(name: str) -> bool | None:
    """Return the truth value that this word means in another language; None if it means none."""
    return {"true": True, "false": False}.get(name.lower())


def _spelled(text: str) -> str:
    """Return the text with each token in Python's spelling."""
    parts: list[str] = []
    text = _NAMESPACE.sub("", _CAST.sub("", _REMAINDER.sub("%", text)))
    for token in _TOKEN.finditer(text):
        sign, name = token["sign"], token["name"]
        if sign is not None:
            parts.append(_SIGNS.get(sign, sign))
        elif name is not None:
            parts.append(_WORDS.get(name, name))
        else:
            parts.append(repr(token["text"][1:-1]) if token["text"] else token["number"])
    return " ".join(_negations(part for part in parts if part))


def _negations(names: Iterable[str]) -> list[str]:
    """Replace C's ``! x`` by ``(not x)``, because C's operator binds tighter than comparisons and arithmetic."""
    parts = list(names)
    for index in reversed(range(len(parts))):
        if parts[index] == "!":
            end = _operand_end(parts, index + 1)
            parts[index:end] = [f"(not {' '.join(parts[index + 1 : end])})"]
    return parts


def _operand_end(parts: Sequence[str], start: int) -> int:
    """Return the index behind the operand of a sign of C: a name or number, a call or an element, or a group."""
    end = start
    while parts[end : end + 1] in (["-"], ["+"], ["~"]):
        end += 1
    end += parts[end : end + 1] not in ([], ["("])
    depth = 0
    while end < len(parts) and (depth or parts[end] in ("(", "[")):
        depth += (parts[end] in ("(", "[")) - (parts[end] in (")", "]"))
        end += 1
    return end


def _ternary(text: str) -> str:
    """Return C's ``a ? b : c``, at the outermost level, as ``b if a else c``."""
    depth, nested = 0, 0
    question = None
    for index, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth:
            continue
        if letter == "?":
            nested += question is not None
            question = index if question is None else question
        elif letter == ":" and question is not None:
            if nested:
                nested -= 1
                continue
            chosen, other = text[question + 1 : index], text[index + 1 :]
            return f"({_ternary(chosen)}) if ({text[:question]}) else ({_ternary(other)})"
    return text


class _Translator(ast.NodeTransformer):
    """Replaces operators and calls that expressions lack by equivalent expressions."""

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self.visit(node.body)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(name, str) and name.isidentifier():
            return ast.Name(id=name, ctx=ast.Load())
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return ast.Name(id=node.attr, ctx=ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> Any:  # noqa: PLR0911
        self.generic_visit(node)
        match node.op:
            case ast.BitAnd() if _logical(node.left) and _logical(node.right):
                return ast.BoolOp(op=ast.And(), values=[node.left, node.right])
            case ast.BitOr() if _logical(node.left) and _logical(node.right):
                return ast.BoolOp(op=ast.Or(), values=[node.left, node.right])
            case ast.BitXor() if _logical(node.left) and _logical(node.right):
                return ast.Compare(left=node.left, ops=[ast.NotEq()], comparators=[node.right])
            case ast.BitAnd() if (mask := _mask(node.right)) is not None:
                return ast.BinOp(left=node.left, op=ast.Mod(), right=ast.Constant(value=mask + 1))
            case ast.LShift():
                return ast.BinOp(left=node.left, op=ast.Mult(), right=_two_to(node.right))
            case ast.RShift():
                return ast.BinOp(left=node.left, op=ast.FloorDiv(), right=_two_to(node.right))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not) and (base := _without_lowest_bit(node.operand)) is not None:
            return _zero_or_power_of_two(self.visit(base), ast.Eq())
        self.generic_visit(node)
        if isinstance(node.op, ast.Invert) and _logical(node.operand):
            return ast.UnaryOp(op=ast.Not(), operand=node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if (flattened := _conjunction(node)) is not None:
            return self.visit(flattened)
        base, right = _without_lowest_bit(node.left), node.comparators[0]
        zero = isinstance(right, ast.Constant) and right.value == 0 and not isinstance(right.value, bool)
        if (inverted := _without_root(node)) is not None:
            return self.visit(inverted)
        if base is not None and zero and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return _zero_or_power_of_two(self.visit(base), node.ops[0])
        self.generic_visit(node)
        node.ops = [_EQUALITIES.get(type(op), lambda op=op: op)() for op in node.ops]
        node.comparators = [
            _choices(right) if isinstance(op, ast.In | ast.NotIn) and not _within(node.left, right) else right
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]
        return node

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: PLR0911
        node.args = [self.visit(each) for each in node.args]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        node.func = ast.Name(id=_FUNCTIONS.get(name, name), ctx=ast.Load())
        match name, node.args:
            case "ceil", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return ast.Call(func=ast.Name(id="ceil_div", ctx=ast.Load()), args=[left, right], keywords=[])
            case "int" | "floor", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return ast.BinOp(left=left, op=ast.FloorDiv(), right=right)
            case "pow", [base, exponent]:
                return ast.BinOp(left=base, op=ast.Pow(), right=exponent)
            case "sum", [ast.List(elts=[first, *others]) | ast.Tuple(elts=[first, *others])]:
                return functools.reduce(
                    lambda left, right: ast.BinOp(left=left, op=ast.Add(), right=right), others, first
                )
            case "min" | "max", [ast.List(elts=values) | ast.Tuple(elts=values)]:
                node.args = values
            case "int" | "float" | "bool", [value]:
                return value
            case "all", [ast.List(elts=values) | ast.Tuple(elts=values)] if len(values) > 1:
                return ast.BoolOp(op=ast.And(), values=values)
            case "any", [ast.List(elts=values) | ast.Tuple(elts=values)] if len(values) > 1:
                return ast.BoolOp(op=ast.Or(), values=values)
        return node


class _Spread(ast.NodeTransformer):
    """Compares each value of ``x == 1 or 2`` and of ``x == (1 or 2)``, which Python reads as a truth value.

    Attributes:
        found: True after a value without a comparison was found.
        unclear: True if it is unclear what such a value should be compared with.
    """

    found = unclear = False

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        wanted, member = (ast.Eq, ast.In) if isinstance(node.op, ast.Or) else (ast.NotEq, ast.NotIn)
        kept: list[ast.expr] = []
        for each in node.values:
            if not _is_value(each):
                kept.append(each)
                continue
            self.found = True
            match kept[-1] if kept else None:
                case ast.Compare(left=left, ops=[op], comparators=[first]) if isinstance(op, wanted):
                    choices = ast.Tuple(elts=[first, each], ctx=ast.Load())
                    kept[-1] = ast.Compare(left=left, ops=[member()], comparators=[choices])
                case ast.Compare(left=left, ops=[op], comparators=[ast.Tuple(elts=elts)]) if isinstance(op, member):
                    choices = ast.Tuple(elts=[*elts, each], ctx=ast.Load())
                    kept[-1] = ast.Compare(left=left, ops=[op], comparators=[choices])
                case _:
                    self.unclear = True
                    kept.append(each)
        return ast.BoolOp(op=node.op, values=kept) if len(kept) > 1 else kept[0]

    def visit_Compare(self, node: ast.Compare) -> Any:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.BoolOp(values=values)]):
                if all(map(_is_value, values)):
                    self.found = True
                    member = ast.In() if isinstance(op, ast.Eq) else ast.NotIn()
                    return ast.Compare(left=left, ops=[member], comparators=[ast.Tuple(elts=values, ctx=ast.Load())])
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        return node  # ``max(x or 1, 2)`` is about numbers

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return node


def value_alone(tree: ast.expr) -> str | None:
    """Return what to do about a number or text that is an operand of and/or in a condition; None if there is none."""
    spread = _Spread()
    meant = spread.visit(copy.deepcopy(tree))
    if not spread.found:
        return None
    reason = "a number or text beside `and` or `or` counts as a truth value"
    remedy = (
        "compare it as well" if spread.unclear else f"write {pasted(ast.unparse(ast.fix_missing_locations(meant)))}"
    )
    return f"{reason}: {remedy}"


class _WholeDivision(ast.NodeTransformer):
    """Replaces ``/`` by ``//`` in ``a / b * b``, which C uses to round down to a multiple.

    Attributes:
        found: True after such a term was found.
    """

    found = False

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        match node:
            case ast.BinOp(op=ast.Mult(), left=ast.BinOp(op=ast.Div(), right=by) as quotient, right=other):
                pass
            case ast.BinOp(op=ast.Mult(), left=other, right=ast.BinOp(op=ast.Div(), right=by) as quotient):
                pass
            case _:
                return node
        if ast.dump(by) == ast.dump(other):
            quotient.op, self.found = ast.FloorDiv(), True
        return node


def of_c(tree: ast.expr) -> str | None:
    """Return a correction for a term that is useless in Python but has another meaning in C; None if there is none."""
    division = _WholeDivision()
    whole = division.visit(copy.deepcopy(tree))
    if division.found:
        return f"`/` does not round here, so it cancels out: write {pasted(ast.unparse(whole))}"
    for node in ast.walk(tree):
        equal = [isinstance(op, ast.Eq | ast.NotEq) for op in getattr(node, "ops", ())]
        if isinstance(node, ast.Compare) and any(equal) and not all(equal):
            return _unchained(node)
    return None


def _unchained(chain: ast.Compare) -> str:
    """Return advice that gives both meanings of a chain such as ``a > 4 == b > 2``: Python's and C's."""
    links: list[ast.expr] = []
    sides: list[ast.expr] = [chain.left]
    signs: list[ast.cmpop] = []
    left = chain.left
    for op, right in zip(chain.ops, chain.comparators, strict=True):
        links.append(ast.Compare(left=left, ops=[op], comparators=[right]))
        if isinstance(op, ast.Eq | ast.NotEq):
            signs.append(op)
            sides.append(right)
        else:
            sides[-1] = ast.Compare(left=sides[-1], ops=[op], comparators=[right])
        left = right
    here, there = ast.BoolOp(op=ast.And(), values=links), sides[0]
    for sign, side in zip(signs, sides[1:], strict=True):
        there = ast.Compare(left=there, ops=[sign], comparators=[side])
    reason = "a chain of comparisons means something else in C"
    return f"{reason}: write {pasted(ast.unparse(there))} or {pasted(ast.unparse(here))}"


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool)


_EQUALITIES: Mapping[type[ast.cmpop], Callable[[], ast.cmpop]] = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


def _logical(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _mask(node: ast.expr) -> int | None:
    """Return the constant of a node if it is 1, 3, 7 …, the bits below a power of two; else None."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int and value > 0 and value & (value + 1) == 0 else None


def _two_to(exponent: ast.expr) -> ast.expr:
    if isinstance(exponent, ast.Constant) and type(exponent.value) is int and 0 <= exponent.value < 62:
        return ast.Constant(value=1 << exponent.value)
    return ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=exponent)


def _without_lowest_bit(node: ast.expr) -> ast.expr | None:
    """Return `x` of ``x & (x - 1)``, which is zero for a power of two; None for other nodes."""
    match node:
        case ast.BinOp(
            left=left, op=ast.BitAnd(), right=ast.BinOp(left=again, op=ast.Sub(), right=ast.Constant(value=1))
        ):
            return left if ast.dump(left) == ast.dump(again) else None
    return None


def _power_of_two(base: ast.expr, op: ast.cmpop) -> ast.expr:
    power = ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=ast.Constant(value=_POWER))
    remainder = ast.BinOp(left=power, op=ast.Mod(), right=base)
    return ast.Compare(left=remainder, ops=[op], comparators=[ast.Constant(value=0)])


def _zero_or_power_of_two(base: ast.expr, op: ast.cmpop) -> ast.expr:
    """Return the meaning of ``x & (x - 1) == 0``: x is zero or a power of two."""
    is_zero = ast.Compare(left=base, ops=[op], comparators=[ast.Constant(value=0)])
    joined = ast.Or() if isinstance(op, ast.Eq) else ast.And()
    return ast.BoolOp(op=joined, values=[is_zero, _power_of_two(base, op)])


def _without_root(node: ast.Compare) -> ast.expr | None:
    """Rewrite ``log2(a) <= 7`` as ``a <= 128``, ``sqrt(a) < 9`` as ``a < 81``, and ``log2(a) % 1 == 0`` as a power of
    two.
    """
    if len(node.ops) != 1:
        return None
    op, left, right = node.ops[0], node.left, node.comparators[0]
    match left, right:
        case ast.BinOp(left=ast.Call() as call, op=ast.Mod(), right=ast.Constant(value=1)), ast.Constant(value=0):
            base = _argument(call, "log2")
            return None if base is None or not isinstance(op, ast.Eq | ast.NotEq) else _power_of_two(base, op)
        case ast.Call() as call, ast.Constant() as bound if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=call.args[0], ops=[op], comparators=[inverse])
        case ast.Constant() as bound, ast.Call() as call if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=inverse, ops=[op], comparators=[call.args[0]])
    return None


def _inverse(call: ast.Call, bound: ast.Constant) -> ast.Constant | None:
    """Return the bound of the argument that corresponds to a bound of ``log2`` or ``sqrt``; None if there is none."""
    value = bound.value
    if type(value) is not int or not 0 <= value < 62:
        return None
    if _argument(call, "log2") is not None:
        return ast.Constant(value=1 << value)
    return ast.Constant(value=value * value) if _argument(call, "sqrt") is not None else None


def _argument(call: ast.Call, function: str) -> ast.expr | None:
    """Return the argument, if this is a call of the named function with or without its module."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return call.args[0] if name == function and len(call.args) == 1 and not call.keywords else None


def _conjunction(node: ast.Compare) -> ast.expr | None:
    """Rewrite ``a == 1 & b == 2``, which Python reads as a chain around ``1 & b``, as two comparisons."""
    if len(node.ops) != 2:
        return None
    match node.comparators[0]:
        case ast.BinOp(left=inner_left, op=(ast.BitAnd() | ast.BitOr()) as op, right=inner_right):
            first = ast.Compare(left=node.left, ops=node.ops[:1], comparators=[inner_left])
            second = ast.Compare(left=inner_right, ops=node.ops[1:], comparators=node.comparators[1:])
            return ast.BoolOp(op=ast.And() if isinstance(op, ast.BitAnd) else ast.Or(), values=[first, second])
    return None


def _within(left: ast.expr, right: ast.expr) -> bool:
    """Return True for a search within a text such as ``'float' in dtype``, which expressions do not support."""
    return isinstance(left, ast.Constant) and isinstance(left.value, str) and isinstance(right, ast.Name)


def _choices(node: ast.expr) -> ast.expr:
    """Return the right side of ``in`` as a tuple; a range with constant ends is listed."""
    match node:
        case ast.List(elts=values) | ast.Set(elts=values):
            return ast.Tuple(elts=values, ctx=ast.Load())
        case ast.Constant() | ast.Name():
            return ast.Tuple(elts=[node], ctx=ast.Load())
        case ast.Call(func=ast.Name(id="range"), args=ends) if all(isinstance(end, ast.Constant) for end in ends):
            numbers = range(*(end.value for end in ends if isinstance(end, ast.Constant)))  # type: ignore[arg-type]
            return ast.Tuple(elts=[ast.Constant(value=each) for each in numbers[:100]], ctx=ast.Load())
    return node
