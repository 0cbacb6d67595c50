"""Converts tokens of C, SQL and other languages to Python."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*'|“[^“”]*”|‘[^‘’]*’|`[^`]*`)
      | (?P<number>0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
        (?:\s?(?P<unit>[kKMG])(?:i?[bB])?|[uUlLfF]*)(?![A-Za-z0-9_])
      | (?P<name>\\?[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>:=|===|!==|=/=|¬=|/=|=!|[<>!=]\s+=|=\s+[<>]|\^\^|%%|>>>|&&|\|\||<<|>>|<=|>=|==|!=
                  |~=|<>|=<|=>|//|\*\*|::|[^\s])""",
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
    "~=": "!=",
    "∈": "in",
    "∉": "not in",
    "$": "",
    "×": "*",
    "·": "*",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    ";": "",
    "/=": "!=",
    "=!": "!=",
    "^^": "^",
    "⊕": "^",
    "⋅": "*",
    "÷": "/",
    "−": "-",
    "²": "** 2",
    "³": "** 3",
    "%%": "%",
    ">>>": ">>",
    "=/=": "!=",
    ":=": "==",
    "¬=": "!=",
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
    "And": "and",
    "Or": "or",
    "Not": "not",
    "andalso": "and",
    "orelse": "or",
    r"\times": "*",
    r"\cdot": "*",
    r"\le": "<=",
    r"\leq": "<=",
    r"\ge": ">=",
    r"\geq": ">=",
    r"\ne": "!=",
    r"\neq": "!=",
    r"\land": "and",
    r"\lor": "or",
    r"\in": "in",
}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FORTRAN = _COMPARISONS | {"and": "and", "or": "or", "not": "not", "neqv": "^", "true": "True", "false": "False"}
_INFIX = _COMPARISONS | {
    "mod": "%",
    "rem": "%",
    "div": "//",
    "xor": "^",
    **dict.fromkeys(("equals", "equal", "equal to", "strequal"), "=="),
    **dict.fromkeys(("not equal", "not equal to"), "!="),
    **dict.fromkeys(("less", "less than", "below"), "<"),
    **dict.fromkeys(("greater", "greater than", "more than", "exceeds", "above"), ">"),
    **dict.fromkeys(("less_equal", "less than or equal to", "at most"), "<="),
    **dict.fromkeys(("greater_equal", "greater than or equal to", "at least"), ">="),
}
"""Operators that are words, of Fortran, SQL, CMake and English."""
_WORD_PATTERNS = [each.replace(" ", r"\s+") for each in sorted(_INFIX, key=len, reverse=True)]
_OPERATOR = re.compile(
    rf"""\.(?P<fortran>{"|".join(_FORTRAN)})\.
       | (?<=\s)-(?P<shell>{"|".join(_COMPARISONS)})(?=\s)
       | (?<=[\w)\s])(?<!\band\s)(?<!\bor\s)(?<!\bnot\s)\b(?:is\s+)?
         (?P<infix>{"|".join(_WORD_PATTERNS)})\b
         (?=\s+[\w("'])(?!\s+(?:and|or|in|not|if|else)\b)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Matches operators that are words: Fortran's ``.LT.``, ``-lt`` of a shell, and ``mod`` or ``xor`` between operands."""
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
"""Size in bytes of C and CUDA types that have the same size on all platforms."""
_SIZEOF = re.compile(rf"\bsizeof\s*\(\s*(?:(?:un)?signed\s+)?({'|'.join(_SIZES)})\s*\)")
_NAMESPACE = re.compile(r"\b[A-Za-z_]\w*::")


def with_sizes(text: str) -> str:
    """Return the text with calls of ``sizeof`` replaced by their values."""
    return _SIZEOF.sub(lambda found: str(_SIZES[found[1]]), text)


def foreign(text: str) -> dict[str, str]:
    """Return a mapping from each token of another language in the text to its equivalent in an expression.

    Such tokens are operators, words, numbers with a unit, strings in quotes other than ``"`` and ``'``, and calls of
    ``sizeof``.
    """
    found = {each[0]: _shown(_operator(each)) for each in _OPERATOR.finditer(text)}
    for token in _TOKEN.finditer(_OPERATOR.sub(" ", text)):
        sign, name = token["sign"], token["name"]
        meant = "not" if sign == "!" else _sign(sign or "", "") or _WORDS.get(name or "", "")
        if meant:
            found[sign or name] = _shown(meant)
        elif token["unit"]:
            found[token[0]] = _number(token)
        elif (token["text"] or "'")[0] not in "\"'":
            found[token["text"]] = _unquoted(token, text)
    found |= {each[0]: str(_SIZES[each[1]]) for each in _SIZEOF.finditer(text)}
    return found


def _shown(operator: str) -> str:
    """Return the operator to recommend: ``!=`` instead of ``^``, because both mean the same for truth values."""
    return "!=" if operator == "^" else operator


def _operator(found: re.Match[str]) -> str:
    """Return the operator of expressions that a word of another language denotes, e.g. ``<`` for ``.LT.``."""
    return (_FORTRAN if found["fortran"] else _INFIX)[" ".join(found[found.lastgroup or 0].lower().split())]


def _sign(sign: str, default: str) -> str:
    """Convert an operator of another language, or one that contains spaces, to Python; `default` for other signs."""
    joined = "".join(sign.split())
    return _SIGNS.get(joined, default if joined == sign else joined)


def _number(token: re.Match[str]) -> str:
    """Return a number without its suffix. The suffixes k, M and G multiply it by 1,024, 1,024² and 1,024³."""
    if not token["unit"]:
        return token["number"]
    return f"{float(token['number']) * _UNITS[token['unit'].upper()]:.17g}"


def word(name: str) -> bool | None:
    """Return the truth value of ``true``, ``yes``, ``on`` and their opposites, in any case; None for other words."""
    return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(name.lower())


def spelled(text: str) -> str:
    """Return the text with each token, and C's ``? :``, converted to Python."""
    parts: list[str] = []
    text = _NAMESPACE.sub("", _CAST.sub("", _OPERATOR.sub(lambda found: f" {_operator(found)} ", text)))
    for token in _TOKEN.finditer(text):
        sign, name = token["sign"], token["name"]
        if sign is not None:
            parts.append(_sign(sign, sign))
        elif name is not None:
            parts.append(_WORDS.get(name, name))
        else:
            parts.append(_unquoted(token, text) if token["text"] else _number(token))
    return _ternary(" ".join(_negations(part for part in parts if part)))


def _unquoted(token: re.Match[str], text: str) -> str:
    """Convert a string in quotes or backquotes to Python's syntax.

    A text in backquotes, as in SQL and Markdown, is a string if it follows a comparison operator, a comma or an opening
    bracket, or if it is not an identifier. Otherwise, it is a name.
    """
    inner = token["text"][1:-1]
    first = not text[: token.start()].rstrip().endswith(("=", "(", ",", "[", ">", "<"))
    return inner if token["text"][0] == "`" and inner.isidentifier() and first else repr(inner)


def _negations(names: Iterable[str]) -> list[str]:
    """Replace C's ``! x`` in a list of tokens with ``(not x)``, in parentheses because ``!`` binds more tightly."""
    parts = list(names)
    for index in reversed(range(len(parts))):
        if parts[index] == "!":
            end = _operand_end(parts, index + 1)
            parts[index:end] = [f"(not {' '.join(parts[index + 1 : end])})"]
    return parts


def _operand_end(parts: Sequence[str], start: int) -> int:
    """Return the index after the operand (in C's syntax) that begins at `start`.

    An operand is a group in parentheses, or a name or number, optionally with calls and indices.
    """
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
    """Convert C's ``a ? b : c`` to Python's ``b if a else c``, except within parentheses."""
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


POWER = 30
"""``2 ** 30 % x == 0`` is true for the powers of two up to 2**30, and for no other positive number."""


def pasted(text: str) -> str:
    """Return an expression as it is written in a document: in double quotes, which TOML, JSON and Python all accept.

    If the expression tests for a power of two (see `POWER`), a note that explains the test is added.
    """
    note = f" (2 ** {POWER} % n is 0 for powers of two)" if f"2 ** {POWER} % " in text else ""
    return f"`{json.dumps(text, ensure_ascii=False)}`{note}"
