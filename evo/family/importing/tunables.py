"""Drafts tunables from the macros of a source. The use of a macro in the code suggests its values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.family.importing.braces import Marks, closed
from evo.family.importing.source import Function, Macro, Source, whole_number
from evo.trial import Value

_THREADS = re.compile(r"(?:N_?|NUM_?)?THREADS(?:_PER_BLOCK)?|BLOCK(?:_?SIZE|_?DIM)?|TPB|BLOCK_?[XY]|TILE(?:_?[XY])?")
_TUNABLE = re.compile(r"TILE|BLOCK|THREADS|WARPS|UNROLL|ITEMS|VEC|STAGES|STEP|CHUNK|SPLIT|PREFETCH")
_SIZE = re.compile(r"UNROLL|ITEMS|VEC|TILE|BLOCK|STEP")
_CONSTANT = re.compile(r"\b(?:constexpr|const|enum)\b")
_WORDS = re.compile(r"\w+")
_LOOP = re.compile(r"\bfor\s*\(")
_BOUND = re.compile(r"<=?\s?(\w+)")
_WHOLE_BOUND = re.compile(r"^\s?\w+\s?<\s?(\w+)\s?$")
_LONGEST_HEADER = 300
"""Maximum number of characters of a loop's header that are read."""
_COMPARED = re.compile(r"\b(\w+)\s?\)?\s?[=!]=\s?\(?\s?(-?\w+)")
_SWITCH = re.compile(r"\bswitch\s*\(\s*(\w+)\s*\)\s*\{")
_CASE = re.compile(r"\bcase\s+(-?\w+)\s?:")
_AMOUNTS = re.compile(r"(?:[/%*]|<<|>>)\s?\(?(\w+)|\b(\w+)\s?\*|\[\s?(\w+)\s?\]")


@dataclass(frozen=True, kw_only=True)
class DraftTunable:
    """A tunable with plausible values.

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
        cases: values with which the code compares the macro for equality.
        directives: values with which ``#if`` and ``#elif`` compare the macro for equality.
        step: True if the macro is the step of a loop.
        bounds: names below which the loops with this step continue, e.g. ``n`` in ``i < n``.
        amount: True if the macro is a divisor, a factor, the bound of a loop or the extent of an array, so 0 is not a
            plausible value.
    """

    cases: set[int] = field(default_factory=set)
    directives: set[int] = field(default_factory=set)
    step: bool = False
    bounds: set[str] = field(default_factory=set)
    amount: bool = False


class MacroUses:
    """How the code uses each macro.

    Attributes:
        constants: macros that only name a value of another macro, e.g. ``BOX`` in ``#if FILTER == BOX``.
    """

    def __init__(self, code: str, macros: Sequence[Macro]) -> None:
        self._code = re.sub(r"[ \t]+", " ", code)
        self._values = {each.name: each.value for each in macros}
        self._of = {name: MacroUse() for name in self._values}
        self.constants: set[str] = set()
        for line in self._code.split("\n"):
            self._read_comparisons(line)
        self._read_switches()
        self._read_loops()
        for found in _AMOUNTS.finditer(self._code):
            self.of(found[1] or found[2] or found[3]).amount = True
        self.constants |= {each.alias for each in macros if each.alias and self.of(each.name).cases}

    def of(self, name: str) -> MacroUse:
        """Return how the code uses a macro. For a name that is not a macro, the result is an empty `MacroUse`."""
        return self._of.get(name) or MacroUse()

    def _read_comparisons(self, line: str) -> None:
        for found in _COMPARED.finditer(line):
            left, right = found.groups()
            name, value = (left, right) if left in self._values else (right, left)
            if name in self._values and (number := self._number(value)) is not None:
                self._of[name].cases.add(number)
                if re.match(r"\s*#\s*(?:el)?if\b", line):
                    self._of[name].directives.add(number)
                self.constants |= {value} & self._values.keys()

    def _read_switches(self) -> None:
        marks, end = Marks(self._code), 0
        for found in _SWITCH.finditer(self._code):
            if found[1] in self._values and found.start() >= end:
                end = marks.closing(found.end() - 1)
                numbers = {self._number(case[1]) for case in _CASE.finditer(self._code, found.end(), end)}
                self._of[found[1]].cases |= {each for each in numbers if each is not None}

    def _read_loops(self) -> None:
        for loop in _LOOP.finditer(self._code):
            parts = self._code[loop.end() : loop.end() + _LONGEST_HEADER].split(";")
            if len(parts) < 3:
                continue
            for found in _BOUND.finditer(parts[1]):
                self.of(found[1]).amount = True
            for name in _WORDS.findall(closed(parts[2]).partition("=")[2]):
                self.of(name).step = True
                self.of(name).bounds |= set(_WHOLE_BOUND.findall(parts[1]))

    def _number(self, text: str) -> int | None:
        return self._values[text] if text in self._values else whole_number(text)


def tunable(
    name: str, defined: Sequence[int], use: MacroUse, *, cuda: bool, extents: Mapping[str, int]
) -> DraftTunable:
    """Return the tunable for a macro.

    Args:
        defined: values of the macro in the source; several if the source has several definitions.
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
        decide = "further values, all above 0" if amount else "further values"
        return DraftTunable(name=name, values=(value,), default=value, decide=decide)
    around = [max(1, value * 2**power // 4) for power in range(5)]
    if cuda and _THREADS.fullmatch(name) and value >= 32:
        around = [each for each in around if 32 <= each <= 1024]
    bounds = [extents[each] for each in use.bounds if each in extents] if use.step else []
    around = [each for each in around if each == value or all(bound % each == 0 for bound in bounds)]
    known = use.step or use.amount or _TUNABLE.search(name)
    decide = "" if known else "its values (the source does not show what they mean)"
    return DraftTunable(name=name, values=tuple(dict.fromkeys(around)), default=value, decide=decide)


def undefined(function: Function, source: Source, taken: set[str]) -> Iterator[DraftTunable]:
    """Yield a tunable for each name that looks like a macro but is not defined, so that ``-D`` must set it."""
    used = f"{function.bounds} {function.body}"
    constants = set[str]()
    for statement in source.plain.split(";"):
        if (declared := _CONSTANT.search(statement)) is not None:
            constants.update(_WORDS.findall(statement, declared.end()))
    for name in dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*\b", used)):
        if _TUNABLE.search(name) and name not in taken and name not in constants:
            values = (64, 128, 256, 512) if "THREADS" in name or name.startswith("BLOCK") else (1, 2, 4, 8)
            decide = "its values (the source does not define it)"
            yield DraftTunable(name=name, values=values, default=values[-2], decide=decide)


def is_thread_count(name: str) -> bool:
    """Return True if a name looks like a number of threads per block, e.g. ``THREADS``."""
    return _THREADS.fullmatch(name) is not None
