"""Finds how a function accesses the memory of its parameters, directly and through functions of the same file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

from evo.family.importing.source import Helper, Parameter
from evo.family.importing.syntax import (
    Code,
    arguments,
    called,
    declared,
    descendants,
    groups,
    is_cast,
    operator,
    part,
    written,
)

_SAME_POINTER = re.compile(r"\w+_cast|(?:__builtin_)?assume_aligned|__cvta_\w+|launder|begin|data|make_\w*ptr")
_LIBRARY: Mapping[str, Mapping[int, str]] = {
    "memset": {0: "w"},
    "memcpy": {0: "w", 1: "r"},
    "memmove": {0: "w", 1: "r"},
    "fill": {0: "w"},
    "fill_n": {0: "w"},
    "copy": {0: "r", 2: "w"},
    "copy_n": {0: "r", 2: "w"},
    "swap": {0: "rw", 1: "rw"},
    "sort": {0: "rw"},
    "qsort": {0: "rw"},
    "accumulate": {0: "r"},
    "reduce": {0: "r"},
    "iota": {0: "w"},
    "transform": {0: "r", 2: "w"},
    "partial_sum": {0: "r", 2: "w"},
    "inclusive_scan": {0: "r", 2: "w"},
    "exclusive_scan": {0: "r", 2: "w"},
    "merge": {0: "r", 1: "r", 2: "r", 3: "r", 4: "w"},
    "reverse": {0: "rw"},
    "stable_sort": {0: "rw"},
    "partial_sort": {0: "rw"},
    "nth_element": {0: "rw"},
    "printf": {},
    "prefetch": {},
    "free": {},
    "assert": {},
    "__pipeline_memcpy_async": {0: "w", 1: "r"},
}
"""How library functions access the memory of their arguments (see `Access.kinds`), by function and argument index."""
_ATOMIC = re.compile(r"_*(?:atomic|sync_)\w*")
_LOADS = re.compile(r"_mm\w*(?:load|gather|prefetch)\w*|vld\d\w*|__ld\w+")
_STORES = re.compile(r"_mm\w*(?:store|stream)\w*|vst\d\w*|__st\w+")
_DEEPEST = 50
"""Maximum number of syntax-tree ancestors of a name, and of nested calls, that are examined."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a function accesses the memory of a parameter.

    Attributes:
        kinds: each kind of access once, in the order of the code: ``r`` reads, ``w`` overwrites, ``c`` changes
            (``+=``), ``a`` changes atomically, ``u`` passes the pointer to a function that the file does not define.
        unknown: name of the first such undefined function; empty if there is none.
    """

    kinds: str = ""
    unknown: str = ""


class Accesses:
    """How a function accesses the memory of its parameters, also in functions and macros that it calls.

    Only functions and macros of the same file are read. The statements are assumed to run in textual order.
    """

    def __init__(self, body: Code, helpers: Mapping[str, tuple[Helper, ...]]) -> None:
        self._entry = body
        self._helpers = helpers
        self._known: dict[tuple[int, str, bool], Access] = {}
        self._depth = 0

    def of(self, parameter: Parameter) -> Access:
        """Return the accesses through a pointer parameter of the entry function."""
        return self._accesses(self._entry, parameter.name, element=False)

    def _accesses(self, body: Code, name: str, *, element: bool) -> Access:
        """Return the accesses through a name and its aliases, i.e. variables to which the name is assigned.

        Args:
            element: True if the name is a reference to an element; False if it is a pointer.
        """
        found, names = list[tuple[int, Access]](), {name: element}
        waiting = [name]
        while waiting:
            word = waiting.pop()
            for use in filter(None, (_use(each, body, element=names[word]) for each in body.uses.get(word, ()))):
                if use.alias and use.alias not in names:
                    names[use.alias] = use.element
                    waiting.append(use.alias)
                elif use.callee:
                    found.append((use.position, self._passed(use)))
                elif use.kind:
                    found.append((use.position, Access(kinds=use.kind)))
        ordered = [access for _, access in sorted(found, key=lambda each: each[0])]
        return Access(
            kinds="".join(dict.fromkeys("".join(each.kinds for each in ordered))),
            unknown=next((each.unknown for each in ordered if each.unknown), ""),
        )

    def _passed(self, use: "_Use") -> Access:
        """Return how a called function accesses the argument that is passed to it."""
        given = self._helpers.get(use.callee, ())
        callee = next((each for each in given if len(each.parameters) == use.count), given[0] if given else None)
        if callee is None or use.argument >= len(callee.parameters):
            return _library(use)
        parameter = callee.parameters[use.argument]
        if parameter.constant or (use.element and not parameter.reference):
            return Access(kinds="r")
        key = (id(callee), parameter.name, use.element)
        if key not in self._known:
            if self._depth >= _DEEPEST:
                return Access(kinds="u", unknown=use.callee)
            self._known[key] = Access()  # ends the recursion if the function calls itself
            self._depth += 1
            self._known[key] = self._accesses(callee.body, parameter.name, element=use.element)
            self._depth -= 1
        return self._known[key]


def _library(use: "_Use") -> Access:
    name = use.callee.removeprefix("__builtin_")
    if name in _LIBRARY:
        return Access(kinds=_LIBRARY[name].get(use.argument, ""))
    for pattern, kind in ((_ATOMIC, "a"), (_LOADS, "r"), (_STORES, "w")):
        if pattern.fullmatch(name):
            return Access(kinds=kind if kind == "r" or use.argument == 0 else "")
    return Access(kinds="r") if use.element else Access(kinds="u", unknown=use.callee)


@dataclass(frozen=True, kw_only=True)
class _Use:
    """One use of a name: an access, an argument of a call, or the definition of an alias.

    Attributes:
        position: position in the code, in bytes, that determines the order of accesses.
        kind: kind of an access (see `Access.kinds`); empty for other uses.
        callee: function that the name is passed to; empty for other uses.
        argument: index of the argument of the call.
        count: number of arguments of the call.
        element: True if an element is passed or gets an alias; False if a pointer does.
        alias: variable to which the name is assigned; empty for other uses.
    """

    position: int = 0
    kind: str = ""
    callee: str = ""
    argument: int = 0
    count: int = 0
    element: bool = False
    alias: str = ""


def _use(node: Node, body: Code, *, element: bool) -> _Use | None:  # noqa: PLR0911, PLR0912 - one case per kind of node
    """Return how the name at a node is used; None if the use does not access the memory to which the name refers.

    Args:
        element: True if the name is a reference to an element; False if it is a pointer.
    """
    begin = node.start_byte
    if node.type == "field_identifier":
        node = body.parent(node)
    read = _Use(position=begin, kind="r")
    for around in body.ancestors(node, _DEEPEST):
        match around.type:
            case _ if groups(around, body):
                pass
            case "subscript_expression" | "field_expression" if part(around, "argument") == node:
                element = element or around.type == "subscript_expression" or operator(around) == "->"
            case "subscript_argument_list" | "sizeof_expression":
                return read if element else None
            case "pointer_expression":
                element = operator(around) == "*"
            case "update_expression" if element:
                return _Use(position=begin, kind="c")
            case "update_expression" | "cast_expression" | "condition_clause" | "call_expression":
                pass
            case "conditional_expression" | "comma_expression" if part(around, "condition") != node:
                pass
            case "binary_expression" if not element and operator(around) in ("+", "-"):
                pass
            case "assignment_expression" if part(around, "left") == node:
                kind = "w" if operator(around) == "=" else "c"
                return _Use(position=around.end_byte if kind == "w" else begin, kind=kind) if element else None
            case "assignment_expression" | "init_declarator":
                left = part(around, "left") or part(around, "declarator")
                if left is None or _declares(left, node):
                    return None
                alias = _alias(left, element=element)
                return _Use(alias=alias, element=element) if alias else read if element else None
            case "initializer_list":
                return _Use(position=begin, kind="r" if element else "u")
            case "argument_list" if (call := body.parent(around)).type == "call_expression":
                if not is_cast(call) and not _SAME_POINTER.fullmatch(called(call)):
                    return _passed(call, node, element=element)
            case kind if kind.endswith("declarator") or kind in ("function_definition", "declaration"):
                return None
            case _:
                return read if element else None
        node = around
    return _Use(position=begin, kind="u")


def _passed(call: Node, argument: Node, *, element: bool) -> _Use:
    """Return the use of a name as the argument of a call."""
    given = arguments(call)
    index = next((place for place, each in enumerate(given) if each == argument), 0)
    position = argument.start_byte if element else call.end_byte  # memory is accessed after all arguments are evaluated
    return _Use(position=position, callee=called(call), argument=index, count=len(given), element=element)


def _declares(left: Node, node: Node) -> bool:
    return left.start_byte <= node.start_byte < left.end_byte


def _alias(left: Node, *, element: bool) -> str:
    """Return the name on the left side of an assignment if it becomes an alias of the right side; otherwise empty."""
    if element:
        return written(declared(left)) if left.type == "reference_declarator" else ""
    if left.type == "field_expression":
        return f".{written(part(left, 'field'))}"
    if left.type == "subscript_expression":  # in C++, `float (*m)[4] = x` can also be read as an assignment
        names = [each for each in descendants(left) if each.type == "identifier"]
        return written(names[0]) if names else ""
    return written(declared(left))
