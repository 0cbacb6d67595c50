"""Converts phrases of SQL, English and other languages to Python."""

import html
import re
from collections.abc import Iterator, Sequence

_NAME = r"[A-Za-z_]\w*"
_PHRASES: Sequence[tuple[str, str]] = (
    (r"/\*.*?\*/", " "),
    (r"^\s*assert\s+([^'\"]+),\s*(['\"])[^'\"]*\2\s*$", r"\1"),
    (r"(?<=\d)'(?=\d{3}(?!\d))", ""),
    (r"(?<=\d)\s+(?:bytes|elements|threads|warps)\b", ""),
    (r"^\s*(?:assert|return|require|requires|constraint|test|let|const|auto|var)\s+", ""),
    (r"\bis\s+not\s+null\b", "is not None"),
    (r"\bis\s+null\b", "is None"),
    (rf"({_NAME})\s+(?:is\s+)?(?:an?\s+)?power\s+of\s+(?:2|two)\b", r"is_power_of_two(\1)"),
    (rf"({_NAME})\s+(?:must|should|shall|has\s+to|needs\s+to)\s+be\b", r"\1"),
    (rf"({_NAME})\s+(?:from|ranges\s+from)\s+(\w+)\s+to\s+(\w+)", r"\2 <= \1 <= \3"),
    (r"\b(?:static|const|reinterpret|dynamic)_cast\s*<[^<>]*>", ""),
    (r"\bcast\s*\(\s*([^()]+?)\s+as\s+\w+\s*\)", r"(\1)"),
    (r"\|([^|]+)\|(?!\|)(?=\s*(?:[<>=!*/+-]|$))", r"abs(\1)"),
    (r"⌈([^⌈⌉]+)⌉", r"ceil(\1)"),
    (r"⌊([^⌊⌋]+)⌋", r"floor(\1)"),
    (r"√\s*(\w+)", r"sqrt(\1)"),
    (r"√\s*\(", r"sqrt("),
    (r"(?<=\d)[ \t]+(?=\d)", ","),
    (
        rf"\$\{{({_NAME})\}}|\$\(({_NAME})\)|\{{\{{\s*({_NAME})\s*\}}\}}|\{{({_NAME})\}}|%({_NAME})%|@({_NAME})",
        r"\1\2\3\4\5\6",
    ),
    (rf"({_NAME})\s+(?:is\s+)?even\b", r"\1 % 2 == 0"),
    (rf"({_NAME})\s+(?:is\s+)?odd\b", r"\1 % 2 == 1"),
    (rf"({_NAME})\s+like\s+(['\"])%([^%_'\"]*)%\2", r"\2\3\2 in \1"),
    (rf"({_NAME})\s+like\s+(['\"])([^%_'\"]*)%\2", r"\1.startswith(\2\3\2)"),
    (rf"({_NAME})\s+like\s+(['\"])%([^%_'\"]*)\2", r"\1.endswith(\2\3\2)"),
    (rf"({_NAME})\s+between\s+(\w+)\s+and\s+(\w+)", r"\2 <= \1 <= \3"),
    (rf"({_NAME})\s+in\s+[\[(]?(\w+)\s*(?:\.\.=?|:)\s*(\w+)[\])]?", r"\2 <= \1 <= \3"),
    (rf"({_NAME})\s+(?:is\s+)?(?:divisible\s+by|(?:a\s+)?multiple\s+of)\s+(\w+)", r"\1 % \2 == 0"),
    (rf"(\w+)\s+divides\s+({_NAME})", r"\2 % \1 == 0"),
    (rf"({_NAME})(\s*(?:[<>]=?|[!=]=)\s*\w+\s+(?:and|or|&&|\|\|)\s*)(?=[<>!=])", r"\1\2\1 "),
    (rf"({_NAME})(\s+(?:and|or|&&|\|\|)\s*)(?=[<>]|[!=]=)", r"\1\2\1 "),
    (r"==+>|⇒|→", "->"),
    (r"\s*(?:<=+>|<-+>|⇔|↔)\s*", " iff "),
    (r"^(?!.*(?:\b(?:and|or)\b|&&|\|\|))\s*(.+?)\s+(xor|xnor|nand|nor|iff)\s+(.+?)\s*$", r"\2((\1), (\3))"),
    (r"\bcase\s+when\s+(.+?)\s+then\s+(.+?)\s+else\s+(.+?)\s+end\b", r"((\2) if (\1) else (\3))"),
    (r"^\s*if\s+(.+?)\s+then\s+(.+?)\s+else\s+(.+)$", r"(\2) if (\1) else (\3)"),
    (r"^\s*if\s*\(([^()]+)\)\s*([^;]+);\s*else\s+([^;]+);?\s*$", r"(\2) if (\1) else (\3)"),
    (r"\bif\s*\((?=[^()]*,[^()]*,[^()]*\))", "where("),
    (r"^\s*(?:if|when)\s+(.+?)(?:\s+then\b|:)\s*(.+)$", r"not (\1) or (\2)"),
    (r"^(.+?)\s+then\s+(.+)$", r"not (\1) or (\2)"),
    (r"^(?!.*\belse\b)(.+?)\s+(?:if|when|where|given)\s+(.+)$", r"not (\2) or (\1)"),
    (r"^(.+?)\s+unless\s+(.+)$", r"(\1) or (\2)"),
)
"""Pairs (regular expression, replacement) for phrases of other languages. They are applied in this order."""


def with_phrases(text: str) -> str:
    """Convert phrases such as ``a between 1 and 8`` to Python's syntax.

    Comments and the marks of placeholders, as in ``${NAME}`` and ``@NAME``, are removed.
    """
    text = html.unescape(text)
    for phrase, meant in _PHRASES:
        text = re.sub(phrase, meant, text, flags=re.IGNORECASE | re.DOTALL)
    return _without_commas(text)


def _without_commas(text: str) -> str:
    """Return the text with `and` in place of commas between conditions, and without the commas in ``1,024``.

    A comma before a number or string becomes `or`, because ``a == 1, 2`` lists the values of one condition.
    """
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    joined = parts[0]
    for part in filter(str.strip, parts[1:]):
        grouped = re.search(r"(?<![\w.])\d{1,3}$", joined.replace(",", "")[-4:]) or re.search(r"\d{3}$", joined)
        joined += (
            part if grouped and re.match(r"\d{3}(?!\w)", part) else f" {'or' if _VALUE.match(part) else 'and'} {part}"
        )
    return joined


_VALUE = re.compile(r"\s*(?:[\w.]*\d|'[^']*'|\"[^\"]*\")\s*(?:$|or\b)")
_GUESSES: Sequence[tuple[str, str]] = (
    (r"(?<!&)&(?!&)", " and "),
    (r"(?<!\|)\|(?!\|)", " or "),
    (r"(?<![\w.])(\d+)\s*(?=[A-Za-z_(])", r"\1 * "),
    (r"\s+x\s+", " * "),
    (r"^\s*(\d+(?:\.\d+)?)\s*%\s*$", r"\1 / 100"),
    (r"[?]\s*$|\s//\s.*$", ""),
    (r";\s*(?=\S)", " and "),
    (r"^([^()]*\((?:[^()]|\([^()]*\))*)$", r"\1)"),
    (r"^((?:[^()]|\([^()]*\))*)\)\s*$", r"\1"),
)
"""Replacements for ambiguous phrases. They are tried only if the expression is not valid without them."""


def guesses(text: str) -> Iterator[str]:
    """Yield possible meanings of an ambiguous text, e.g. with ``and`` in place of ``&``, each by one replacement."""
    found = (re.sub(pattern, meant, text) for pattern, meant in _GUESSES)
    return (each for each in found if each != text)
