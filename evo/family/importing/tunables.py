"""Drafts tunables from the macros of a source. The use of a macro in the code suggests its values."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from evo.family.importing.source import Macro, whole_number
from evo.family.importing.syntax import (
    Code,
    declared,
    descendants,
    expression,
    is_name,
    names_in,
    operator,
    part,
    written,
)
from evo.trial import Value

_THREADS = re.compile(r"(?i)(?:N_?|NUM_?)?THREADS(?:_PER_BLOCK)?|TPB|BLOCK(?:_?SIZE|_?DIM)?(?:_?[XY])?|TILE(?:_?[XY])?")
_TUNABLE = re.compile(r"(?i)TILE|BLOCK|THREADS|WARPS|UNROLL|ITEMS|VEC|STAGES|STEP|CHUNK|SPLIT|PREFETCH")
_SIZE = re.compile(r"(?i)UNROLL|ITEMS|VEC|TILE|BLOCK|STEP")
_UNDEFINED = re.compile(r"(?<!::)(?<!->)(?<!\.)\b(?:[A-Z][A-Z0-9_]*|[a-z0-9]+(?:_[a-z0-9]+)+)\b(?!\s*(?:\(|::))")
"""Matches a name that may be a macro, although the source does not define it."""
_ACROSS, _DOWN = (32, 64, 128, 256), (1, 2, 4, 8)
"""Values for the threads of a block in x, and in y or z."""
_AMOUNTS = frozenset({"/", "%", "*", "<<", ">>"})
"""Operators whose right operand is usually not 0."""


@dataclass(frozen=True, kw_only=True)
class DraftTunable:
    """A tunable of a drafted family, with plausible values.

    Attributes:
        decide: what a person must check about the tunable; empty if nothing.
        choice: True if the values have no order.
    """

    name: str
    values: tuple[Value, ...]
    default: Value
    decide: str = ""
    choice: bool = False


@dataclass(kw_only=True)
class MacroUse:
    """How the code uses a macro.

    Attributes:
        cases: values that the code compares with the macro for equality.
        directives: values that ``#if`` and ``#elif`` compare with the macro for equality.
        step: True if the macro is the step of a loop.
        bounds: upper bounds of the loops with this step, e.g. ``n`` in ``i < n``.
        amount: True if the macro is a divisor, a factor, the bound of a loop or the extent of an array, so 0 is not a
            plausible value.
        extent: True if the macro is the bound of a loop whose variable is the index of an argument, e.g. ``TAPS`` if a
            loop over ``t < TAPS`` accesses ``w[t]``.
    """

    cases: set[int] = field(default_factory=set)
    directives: set[int] = field(default_factory=set)
    step: bool = False
    bounds: set[str] = field(default_factory=set)
    amount: bool = False
    extent: bool = False


class MacroUses:
    """How the code uses each macro.

    Args:
        pointers: names of the function's parameters that are arrays.

    Attributes:
        constants: macros that only name a value of another macro, e.g. ``BOX`` in ``#if FILTER == BOX``.
    """

    def __init__(self, code: Code, macros: Sequence[Macro], pointers: Collection[str] = ()) -> None:
        self._pointers = pointers
        self._values = {each.name: each.value for each in macros}
        self._of = {name: MacroUse() for name in self._values}
        self.constants: set[str] = set()
        self._code = code
        self._starts: dict[str, list[Node]] = {}
        for node in code.nodes("init_declarator", "assignment_expression"):
            value = part(node, "value") or part(node, "right")
            if value is not None and operator(node) in ("", "="):
                name = written(declared(part(node, "declarator") or part(node, "left")))
                self._starts.setdefault(name, []).append(value)
        for node in code.nodes("binary_expression"):
            self._read_operation(node)
        for node in code.nodes("case_statement"):
            self._read_case(node)
        for node in code.nodes("for_statement"):
            self._read_loop(node)
        for node in code.nodes("array_declarator", "subscript_argument_list"):
            size = part(node, "size") or (node.named_children[0] if len(node.named_children) == 1 else None)
            self.of(_operand(size)).amount = True
        self.constants |= {each.alias for each in macros if each.alias and self.of(each.name).cases}

    def of(self, name: str) -> MacroUse:
        """Return how the code uses a macro. For a name that is not a macro, the result is an empty `MacroUse`."""
        return self._of.get(name) or MacroUse()

    def _read_operation(self, node: Node) -> None:
        sign, left, right = operator(node), _operand(part(node, "left")), _operand(part(node, "right"))
        if sign in ("==", "!="):
            self._read_comparison(node, *((left, right) if left in self._values else (right, left)))
        elif sign in _AMOUNTS:
            self.of(right).amount = True
            if sign == "*":
                self.of(left).amount = True

    def _read_comparison(self, node: Node, name: str, value: str) -> None:
        if name in self._values and (number := self._number(value)) is not None:
            self._of[name].cases.add(number)
            around = next((each.type for each in self._code.ancestors(node) if each.type not in _CONDITIONS), "")
            if around in ("preproc_if", "preproc_elif"):
                self._of[name].directives.add(number)
            self.constants |= {value} & self._values.keys()

    def _read_case(self, node: Node) -> None:
        switch = next((each for each in self._code.ancestors(node, 5) if each.type == "switch_statement"), None)
        tested = "" if switch is None else _operand(part(switch, "condition"))
        if tested in self._values and (number := self._number(written(part(node, "value")))) is not None:
            self._of[tested].cases.add(number)

    def _read_loop(self, loop: Node) -> None:
        condition, update = part(loop, "condition"), part(loop, "update")
        if condition is None or update is None:
            return
        for each in descendants(condition):
            if each.type == "binary_expression" and operator(each) in ("<", "<="):
                use = self.of(_operand(part(each, "right")))
                use.amount = True
                use.extent |= self._indexes(written(part(each, "left")), loop)
        steps = (part(each, "right") for each in descendants(update) if each.type == "assignment_expression")
        bound, is_whole = part(condition, "right"), operator(condition) == "<" and is_name(part(condition, "left"))
        for name in (name for step in steps if step is not None for name in names_in(step)):
            self.of(name).step = True
            if is_whole and is_name(bound) and not self._is_by_thread(written(part(condition, "left"))):
                self.of(name).bounds.add(written(bound))

    def _is_by_thread(self, variable: str) -> bool:
        """Return True if a variable begins at a sum with ``threadIdx``, so that each thread has its own elements."""
        waiting, seen = [variable], set[str]()
        while waiting:
            name = waiting.pop()
            terms = {term for value in self._starts.get(name, ()) for term in _terms(expression(value))}
            if any(each.startswith("threadIdx.") for each in terms):
                return True
            seen.add(name)
            waiting += terms & self._starts.keys() - seen
        return False

    def _indexes(self, variable: str, loop: Node) -> bool:
        """Return True if a loop uses the variable alone as the index of an argument, as in ``w[t]`` or ``w + t``."""
        pairs = (
            [part(each, "argument"), part(each, "indices")]
            if each.type == "subscript_expression"
            else [part(each, "left"), part(each, "right")]
            for each in descendants(loop)
            if each.type == "subscript_expression" or (each.type == "binary_expression" and operator(each) == "+")
        )
        return any(
            written(array) in self._pointers and written(index).strip("[]") == variable for array, index in pairs
        )

    def _number(self, text: str) -> int | None:
        return self._values[text] if text in self._values else whole_number(text)


def _terms(node: ast.expr) -> set[str]:
    """Return the terms of a sum, as text."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _terms(node.left) | _terms(node.right)
    return {ast.unparse(node)}


_CONDITIONS = frozenset({"binary_expression", "parenthesized_expression", "unary_expression"})


def _operand(node: Node | None) -> str:
    """Return the text of an operand without parentheses."""
    while node is not None and node.type in ("parenthesized_expression", "condition_clause") and node.named_children:
        node = node.named_children[0]
    return written(node)


def tunable(
    name: str, defined: Sequence[int], use: MacroUse, *, cuda: bool, extents: Mapping[str, int]
) -> DraftTunable:
    """Draft the tunable for a macro.

    Args:
        defined: values of the macro, one for each definition in the source.
        extents: default values of problem fields and parameters, by name.
    """
    value = defined[0]
    amount = use.step or use.amount or _SIZE.search(name) is not None
    chain = len(use.directives | {value}) > 2 or (bool(use.cases) and not amount and not _TUNABLE.search(name))
    choices = tuple(sorted({*defined, *(use.cases if chain else ())}))
    if len(choices) > 1:
        return DraftTunable(name=name, values=choices, default=value, choice=chain and len(choices) > 2)
    if value in (0, 1) and not amount:
        return DraftTunable(name=name, values=(0, 1), default=value)
    if chain or value < 1 or value & (value - 1):
        decide = "more values, all above 0" if amount else "more values"
        return DraftTunable(name=name, values=(value,), default=value, decide=decide)
    around = [max(1, value * 2**power // 4) for power in range(5)]
    if cuda and _THREADS.fullmatch(name) and value >= 32:
        around = [each for each in around if 32 <= each <= 1024]
    bounds = [extents[each] for each in use.bounds if each in extents] if use.step else []
    around = [each for each in around if each == value or all(bound % each == 0 for bound in bounds)]
    known = use.step or use.amount or _TUNABLE.search(name)
    decide = "" if known else "its values (the source does not show what they mean)"
    return DraftTunable(name=name, values=tuple(dict.fromkeys(around)), default=value, decide=decide)


def is_fixed(name: str, defined: Sequence[int], use: MacroUse) -> bool:
    """Return True if the results probably depend on the value of a macro, such as the number of filter taps.

    Such a macro is the extent of an argument, or its value is not a power of two. A macro is never fixed if it has a
    typical name of a tunable, is the step of a loop, is compared with a value for equality, or has several values.

    Args:
        defined: values of the macro in the source.
    """
    if _TUNABLE.search(name) or use.step or use.cases or len(set(defined)) > 1:
        return False
    return use.extent or not (defined[0] < 1 or defined[0] & (defined[0] - 1) == 0)


def is_tunable(name: str) -> bool:
    """Return True if a name looks like that of a tunable, e.g. ``TILE_H`` or ``block_size_x``."""
    return _TUNABLE.search(name) is not None


def undefined_names(text: str, taken: Collection[str]) -> list[str]:
    """Return the names in code that look like macros but are not in `taken`, the names that the source defines."""
    return [name for name in dict.fromkeys(_UNDEFINED.findall(text)) if name not in taken]


def undefined(text: str, taken: Collection[str]) -> Iterator[DraftTunable]:
    """Yield a tunable for each name that looks like a macro but is not defined, so that ``-D`` must set it.

    Args:
        text: code of the function.
        taken: names that the source defines or declares.
    """
    names = [name for name in undefined_names(text, taken) if is_tunable(name)]
    for name in names:
        values = (64, 128, 256, 512) if "THREADS" in name or is_thread_count(name) else (1, 2, 4, 8)
        if is_thread_count(name) and f"{name[:-1]}{'yY'[name[-1].isupper()]}" in names:
            values = _DOWN if name[-1] in "yY" else _ACROSS
        decide = "its values (the source does not define it)"
        yield DraftTunable(name=name, values=values, default=values[-2], decide=decide)


def is_thread_count(name: str) -> bool:
    """Return True if a name looks like a number of threads per block, e.g. ``THREADS``."""
    return _THREADS.fullmatch(name) is not None
