"""Drafts the constraints of a space: block sizes, shared memory, and extents that a kernel does not mask."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from tree_sitter import Node

from evo.errors import EvoError
from evo.family.importing.host.launches import FoundLaunch
from evo.family.importing.syntax import Code, called, is_name, names_in, operator, part, written
from evo.family.importing.tunables import DraftTunable, MacroUses
from evo.family.importing.types import plain_type, size_of
from evo.space.expression import Expression
from evo.trial import Value

_WORDS = re.compile(r"[A-Za-z_]\w*")
_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_MINIMUM = re.compile(r"f?min\w*")
_MOST_THREADS = 1024
_MOST_STATIC = 48 << 10
"""Maximum total size of shared arrays with a constant size, in bytes, on every GPU."""
_MOST_CONFIGS = 10_000
"""Maximum number of configs for which an expression is evaluated."""


@dataclass(frozen=True, kw_only=True)
class DraftConstraint:
    """A constraint of a drafted family.

    Attributes:
        decide: what a person must check about the constraint; empty if nothing.
    """

    expression: str
    because: str
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class Known:
    """The problem fields and tunables that a constraint may use.

    Attributes:
        fields: default values of the problem fields, by name.
    """

    fields: Mapping[str, Value]
    tunables: Sequence[DraftTunable]

    def values(self, text: str) -> list[int]:
        """Evaluate an expression for each combination of its tunables' values, beginning with the defaults.

        At most `_MOST_CONFIGS` combinations are evaluated. The list is empty if a name is unknown, or if an evaluation
        fails, e.g. because of a division by 0.
        """
        words = set(_WORDS.findall(text))
        used = [each for each in self.tunables if each.name in words]
        choices = [dict.fromkeys((each.default, *each.values)) for each in used]
        found = list[int]()
        try:
            expression = Expression.parse(text, "FILE")
            for config in islice(product(*choices), _MOST_CONFIGS):
                scope = {**self.fields, **dict(zip((each.name for each in used), config, strict=True))}
                found.append(int(expression.evaluate(scope)))
        except (EvoError, KeyError):
            return []
        return found


def tail_problem(
    known: Known, extents: Sequence[str], constraints: Sequence[DraftConstraint], powers: Collection[str] = ()
) -> dict[str, str]:
    """Return other values for the extents, as expressions by extent, for a correctness case with a different shape.

    Configs that satisfy a constraint with the old values also satisfy it with the new ones. The new values are distinct
    if possible. An extent that cannot be changed is left out.

    Args:
        powers: extents that must stay powers of two.
    """
    changed, taken = dict[str, str](), set[int]()
    for name in extents:
        odd = [f"{name} // 2 + {more}" for more in range(3, 3 + 2 * len(extents), 2)]
        texts = [*([] if name in powers else odd), *(f"{name} // {divisor}" for divisor in (2, 4, 8)), f"2 * {name}"]
        values = {text: Expression.parse(text, name).whole(known.fields) for text in texts}
        held = [
            text
            for text in texts
            if values[text] != known.fields[name]
            and all(_still_holds(known, each.expression, {**changed, name: text}) for each in constraints)
        ]
        if held:
            changed[name] = next((text for text in held if values[text] not in taken), held[0])
            taken.add(values[changed[name]])
    return changed


def _still_holds(known: Known, condition: str, changed: Mapping[str, str]) -> bool:
    """Return True if all configs that satisfy a condition still satisfy it after a change of problem fields."""
    if not set(_WORDS.findall(condition)) & set(changed):
        return True
    values = {name: Expression.parse(text, name).whole(known.fields) for name, text in changed.items()}
    before = known.values(condition)
    after = replace(known, fields={**known.fields, **values}).values(condition)
    return bool(after) and all(new or not old for old, new in zip(before, after, strict=True))


def launch_constraints(
    known: Known, *, block: Sequence[str], bounds: str, body: Code, launch: FoundLaunch
) -> Iterator[DraftConstraint]:
    """Yield the constraints of a CUDA kernel. Constraints that all configs satisfy are left out.

    Constraints from ``__launch_bounds__`` and from rounding in the launch are also left out if the default config
    violates them.

    Args:
        block: expressions for the extents of a block.
        bounds: expression in ``__launch_bounds__``; empty if there is none.
        body: code of the kernel.
    """
    threads = " * ".join(each if re.fullmatch(r"\w+", each) else f"({each})" for each in block)
    if max(known.values(threads), default=0) > _MOST_THREADS:
        because = "a block must not have more threads than the device allows"
        yield DraftConstraint(expression=f"{threads} <= max_threads", because=because)
    if bounds and _may_fail(known, f"{threads} <= {bounds}"):
        because = "__launch_bounds__ states the largest block for which the kernel is compiled"
        yield DraftConstraint(expression=f"{threads} <= {bounds}", because=because)
    if launch.shared_memory and max(known.values(launch.shared_memory), default=0) > _MOST_STATIC:
        because = "a block must not use more shared memory than the device allows"
        yield DraftConstraint(expression=f"{launch.shared_memory} <= shared_memory_bytes", because=because)
    arrays = " + ".join(_static_bytes(body))
    if arrays and max(known.values(arrays), default=0) > _MOST_STATIC:
        because = "all shared arrays of constant size together must not exceed 48 KiB"
        yield DraftConstraint(expression=f"{arrays} <= {_MOST_STATIC}", because=because)
    for number, divisor in launch.remainders:
        left = number if re.fullmatch(r"\w+", number) else f"({number})"
        right = divisor if re.fullmatch(r"\w+", divisor) else f"({divisor})"
        if _may_fail(known, f"{left} % {right} == 0", fields=True):
            because = "the launch in the source rounds down, so the last elements would be skipped"
            yield DraftConstraint(expression=f"{left} % {right} == 0", because=because)


def loop_constraints(known: Known, uses: MacroUses, body: Code, passed: Mapping[str, str]) -> Iterator[DraftConstraint]:
    """Yield the constraint ``extent % step == 0`` for each loop that does not handle a remainder.

    Args:
        passed: problem field whose value a parameter receives, by parameter.
    """
    for each in known.tunables:
        for bound in sorted(uses.of(each.name).bounds):
            name = passed.get(bound, bound)
            expression = f"{name} % {each.name} == 0"
            if name in known.fields and _is_unmasked(bound, body) and _may_fail(known, expression, fields=True):
                because = f"a loop in steps of {each.name} does not handle a remainder"
                decide = "remove this constraint if the kernel handles remainders"
                yield DraftConstraint(expression=expression, because=because, decide=decide)


def _is_unmasked(bound: str, body: Code) -> bool:
    """Return True if the code compares a name only in loop conditions, and does not pass it to a minimum function."""
    for node in body.nodes("binary_expression", "call_expression"):
        limits = operator(node) in _COMPARISONS or _MINIMUM.fullmatch(called(node))
        if limits and bound in names_in(node) and not _is_loop(node, body):
            return False
    return True


def _is_loop(node: Node, body: Code) -> bool:
    """Return True for a loop condition that compares two names, e.g. ``i < n``."""
    named = is_name(part(node, "left")) and is_name(part(node, "right"))
    return body.parent(node).type == "for_statement" and operator(node) == "<" and named


def _may_fail(known: Known, condition: str, *, fields: bool = False) -> bool:
    """Return True if the default config satisfies a condition, and another config violates it.

    Args:
        fields: True if other problems also count. Any condition that contains a problem field may then fail.
    """
    values = known.values(condition)
    depends = fields and bool(set(_WORDS.findall(condition)) & set(known.fields))
    return bool(values) and bool(values[0]) and (depends or not all(values))


def _static_bytes(body: Code) -> Iterator[str]:
    """Yield the size in bytes of each shared array with a constant size, as an expression."""
    for node in shared_arrays(body):
        size = size_of(plain_type(written(part(node, "type"))))
        for array in node.children if size else ():
            extents, inner = list[str](), array
            while inner.type == "array_declarator" and (extent := part(inner, "size")) is not None:
                extents.insert(0, written(extent))
                inner = part(inner, "declarator") or extent
            if extents:
                factors = (each if re.fullmatch(r"\w+", each) else f"({each})" for each in extents)
                yield " * ".join([str(size), *factors])


def shared_arrays(body: Code) -> list[Node]:
    """Return the declarations of ``__shared__`` arrays."""
    declarations = body.nodes("declaration")
    return [node for node in declarations if any(written(each) == "__shared__" for each in node.children)]
