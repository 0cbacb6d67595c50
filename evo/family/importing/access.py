"""Finds how a function accesses the memory of its parameters, directly and through functions of the same file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evo.family.importing.source import Function, Parameter

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d[\w.]*|\"(?:\\.|[^\"\\\n])*\"|::|->|\+\+|--|<<=|>>=|[-+*/%&|^]=|[<>=!]=|<<|>>|&&|\|\||\S"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_CHANGING = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})
_DIRECTIVE = re.compile(r"^[ \t]*#.*(?:\\\n.*)*", re.MULTILINE)
_KEYWORDS = frozenset({"if", "while", "for", "switch", "return", "sizeof", "alignof", "decltype", "else", "case"})
_TYPES = frozenset({"float", "double", "char", "short", "int", "long", "unsigned", "half", "float2", "float4", "auto"})
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
"""Accesses of library functions to the memory of their arguments (see `Access.kinds`), by index of the argument."""
_ATOMIC = re.compile(r"_*(?:atomic|sync_)\w*")
_LOADS = re.compile(r"_mm\w*(?:load|gather|prefetch)\w*|vld\d\w*|__ld\w+")
_STORES = re.compile(r"_mm\w*(?:store|stream)\w*|vst\d\w*|__st\w+")
_DEEPEST = 50
"""Maximum depth of the brackets around a name, and of nested calls, that are examined."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The accesses to a parameter's memory.

    Attributes:
        kinds: each kind of access once, in the order of the code: ``r`` reads, ``w`` overwrites, ``c`` changes
            (``+=``), ``a`` changes atomically, ``u`` passes it to a function that the file does not define.
        unknown: name of a function that gets the memory and that the file does not define; empty if there is none.
    """

    kinds: str = ""
    unknown: str = ""


class Accesses:
    """The accesses of a function to its parameters, including accesses in functions and macros that it calls.

    Only functions and macros of the same file are read. The code is assumed to run in the order of the text.
    """

    def __init__(self, function: Function, helpers: Mapping[str, tuple[Function, ...]]) -> None:
        self._entry = _Body(function.body)
        self._helpers = helpers
        self._bodies: dict[int, _Body] = {}
        self._known: dict[tuple[int, str, bool], Access] = {}
        self._depth = 0

    def of(self, parameter: Parameter) -> Access:
        """Return the accesses to the memory of a pointer of the entry function."""
        return self._accesses(self._entry, parameter.name, element=False)

    def _accesses(self, body: "_Body", name: str, *, element: bool) -> Access:
        """Return the accesses through a name and through all names that are assigned from it.

        Args:
            element: True if the name is a reference to an element; False if it is a pointer.
        """
        found, names = list[tuple[int, Access]](), {name: element}
        waiting = [name]
        while waiting:
            word = waiting.pop()
            for use in body.uses(word, element=names[word]):
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
        """Return the accesses of a called function to its argument."""
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
            self._known[key] = Access()  # for recursive calls
            body = self._bodies.setdefault(id(callee), _Body(callee.body))
            self._depth += 1
            self._known[key] = self._accesses(body, parameter.name, element=use.element)
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
    """One use of a name: an access, an argument of a call, or the definition of an alias."""

    position: int = 0
    kind: str = ""
    callee: str = ""
    argument: int = 0
    count: int = 0
    element: bool = False
    alias: str = ""


class _Body:
    """The tokens of a function's body, with the brackets around each token."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(_DIRECTIVE.sub("", text))
        size = len(self._tokens)
        self._partner, self._opener = [size] * size, [-1] * size
        self._around, self._commas, self._target = [-1] * size, [0] * size, [-1] * size
        self._first = [0] * size
        self._places: dict[str, list[int]] = {}
        self._read()
        self._ends, end = [size] * size, size
        for place in range(size - 1, -1, -1):
            end = place if self._tokens[place] == ";" else end
            self._ends[place] = end

    def _read(self) -> None:
        """Find the surroundings of each token.

        These are the bracket around the token and, inside this bracket, the number of commas before the token, the
        ``=`` before it in the same statement, and the first token of the statement.
        """
        opened, commas, target, first = list[int](), [0], [-1], [0]
        for place, token in enumerate(self._tokens):
            if token in ")]}" and opened:
                self._opener[place] = opened[-1]
                self._partner[opened.pop()] = place
                commas.pop()
                target.pop()
                first.pop()
            self._around[place] = opened[-1] if opened else -1
            self._commas[place], self._target[place], self._first[place] = commas[-1], target[-1], first[-1]
            if token in "([{":
                opened.append(place)
                commas.append(0)
                target.append(-1)
                first.append(place + 1)
            elif token in ",;}":
                commas[-1] += token == ","
                target[-1] = -1
                first[-1] = first[-1] if token == "," else place + 1
            elif token == "=":
                target[-1] = place
            elif _WORD.match(token):
                member = place > 0 and self._tokens[place - 1] in (".", "->")
                self._places.setdefault(f".{token}" if member else token, []).append(place)

    def uses(self, name: str, *, element: bool) -> Iterator[_Use]:
        for place in self._places.get(name, ()):
            if (use := self._use(place, element=element)) is not None:
                yield use

    def _use(self, place: int, *, element: bool) -> _Use | None:  # noqa: PLR0911 - one return per kind of use
        """Return the use of the name at a position; None if the memory is not used there.

        Args:
            element: True if the name is a reference to an element; False if it is a pointer.
        """
        start, end = place, place + 1
        for _ in range(_DEEPEST):
            while self._token(end) == "[":
                element, end = True, self._partner[end] + 1
            before = self._token(start - 1)
            if before == "&" and self._is_type(start - 2) and self._token(end) == "=":
                return None  # the declaration of a reference
            if before == "&" and not self._is_operand(start - 2):
                element, start = False, start - 1
            elif before == ")" and self._callee(self._opener[start - 1]) in ("", "return"):
                start = self._opener[start - 1]  # a cast
            elif before == "*" and not element:
                if self._declares(start - 2):
                    return None
                element, start = True, start - 1
                end += self._token(end) in ("++", "--")
            elif element and (access := self._access(start, end)):
                return access
            elif (use := self._further(start, element=element)) is not None:
                return use
            elif self._around[start] < 0 or self._token(self._around[start]) != "(" or self._is_header(start):
                return self._access(start, end, last=True) if element else None
            elif element and self._token(end) != ")":
                return _Use(position=start, kind="r")
            else:  # a cast, or brackets that only group
                end = self._partner[self._around[start]] + 1
                start = self._callee_place(self._around[start])
        return _Use(position=place, kind="u")

    def _access(self, start: int, end: int, *, last: bool = False) -> _Use | None:
        """Return the write to the element at these tokens. Without one, return a read if `last` is set, else None."""
        while self._token(end) in (".", "->", "["):
            end = self._partner[end] + 1 if self._token(end) == "[" else end + 2
        if self._token(end) == "=":
            return _Use(position=self._ends[end] if end < len(self._ends) else end, kind="w")
        if self._token(end) in _CHANGING or self._token(start - 1) in ("++", "--"):
            return _Use(position=start, kind="c")
        return _Use(position=start, kind="r") if last else None

    def _further(self, start: int, *, element: bool) -> _Use | None:
        """Return the use of a pointer or element (assignment to an alias, call, or read); None if there is none."""
        target, bracket = self._target[start], self._around[start]
        if target >= 0 and (alias := self._assigned(target, element=element)):
            return _Use(alias=alias, element=element)
        if element and target >= 0:
            return _Use(position=start, kind="r")
        if bracket >= 0 and self._token(bracket) == "{" and self._token(bracket - 1) in ("=", ",", "(", "return"):
            return _Use(position=start, kind="r" if element else "u")
        callee = self._callee(bracket) if bracket >= 0 and self._token(bracket) == "(" else ""
        if not callee or callee in _KEYWORDS or _SAME_POINTER.fullmatch(callee):
            return None
        if element and self._token(start - 1) not in ("(", ",", "&", "*", "++", "--"):
            return _Use(position=start, kind="r")
        end = min(self._partner[bracket], len(self._tokens) - 1)
        count = self._commas[end - 1] + 1
        end = start if element else end  # a function accesses memory after all its arguments are evaluated
        return _Use(position=end, callee=callee, argument=self._commas[start], count=count, element=element)

    def _assigned(self, equals: int, *, element: bool) -> str:
        """Return the alias left of ``=``, which is a pointer or a reference to an element; empty if there is none."""
        place = equals - 1
        while self._token(place) == "]":
            place = self._opener[place] - 1
        place -= self._token(place) == ")"
        name = self._token(place)
        if not _WORD.fullmatch(name) or (element and self._token(place - 1) != "&"):
            return ""
        return f".{name}" if self._token(place - 1) in (".", "->") else name

    def _callee(self, bracket: int) -> str:
        """Return the name of the function whose arguments a bracket contains; empty for a C cast or grouping."""
        name = self._token(self._callee_place(bracket))
        return name if _WORD.fullmatch(name) else ""

    def _callee_place(self, bracket: int) -> int:
        """Return the position of the function's name before a bracket; if there is no name, that of the bracket."""
        place = bracket - 1
        if self._token(place) == ">":
            while place >= max(0, bracket - _DEEPEST) and self._token(place) != "<":
                place -= 1
            place -= 1
        return place if _WORD.fullmatch(self._token(place)) else bracket

    def _is_header(self, start: int) -> bool:
        """Return True if a word precedes the bracket around a token: a statement such as ``if``, or a function."""
        callee = self._callee(self._around[start])
        return bool(callee) and not _SAME_POINTER.fullmatch(callee)

    def _is_operand(self, place: int) -> bool:
        """Return True if this token can end the left operand of an operator."""
        token = self._token(place)
        return token in (")", "]") or (_WORD.fullmatch(token) is not None and token not in _KEYWORDS)

    def _declares(self, place: int) -> bool:
        """Return True if a ``*`` after this token declares a pointer: ``T *p``, ``T (*p)[4]`` or ``T *o, *p``."""
        if self._token(place) == ",":
            first = self._first[place]
            return self._is_type(first) and self._is_part_of_type(first + 1)
        return self._is_type(place) or (self._token(place) == "(" and self._token(place - 1) in _TYPES)

    def _is_part_of_type(self, place: int) -> bool:
        return self._token(place) in ("*", "&", "<", "::") or self._is_type(place)

    def _is_type(self, place: int) -> bool:
        token = self._token(place)
        return _WORD.fullmatch(token) is not None and token not in _KEYWORDS

    def _token(self, place: int) -> str:
        return self._tokens[place] if 0 <= place < len(self._tokens) else ""
