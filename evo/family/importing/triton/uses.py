"""Finds how a Triton kernel uses its parameters: as extents, switches, strings, or addresses with a mask."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evo.family.source.triton.source import Kernel, address_of, assigned, bases

_BOUNDED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PARTS = (ast.Mod, ast.FloorDiv, ast.Mult)
_DESCRIBED = ("make_block_ptr", "make_tensor_descriptor")
_BLOCKS = ("arange", "zeros", "full", "make_block_ptr", "make_tensor_descriptor", "reshape", "broadcast_to", "view")
_LOOPS = ("range", "static_range", "cdiv")


@dataclass(frozen=True, kw_only=True)
class Uses:
    """Names in a kernel, grouped by their use.

    Attributes:
        extents: names that limit indices or loops, multiply or divide indices, or are passed on to other functions.
        others: other names that the kernel uses.
        switches: names that are used as conditions.
        texts: the first string with which a name is compared, by name.
        blocks: names that may be extents of a block, which must be powers of two.
    """

    extents: frozenset[str]
    others: frozenset[str]
    switches: frozenset[str]
    texts: Mapping[str, str]
    blocks: frozenset[str]


def uses_of(kernel: Kernel) -> Uses:
    """Group the names in a kernel by their use."""
    extents, switches, texts, every, blocks = set[str](), set[str](), dict[str, str](), set[str](), set[str]()
    for node in (inner for statement in kernel.node.body for inner in ast.walk(statement)):
        match node:
            case ast.Name(id=name):
                every.add(name)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                if isinstance(operator, _BOUNDED) and not any(map(_is_number, (left, right))):
                    extents |= _names(left) | _names(right)
                compared = (each.value for each in ast.walk(right) if isinstance(each, ast.Constant))
                for text in compared if isinstance(left, ast.Name) else ():
                    if isinstance(text, str):
                        texts.setdefault(ast.unparse(left), text)
            case ast.BinOp(op=operator) if isinstance(operator, _PARTS):
                extents |= _names(node)
            case ast.Call(func=function):
                called = ast.unparse(function)
                if called.rpartition(".")[2] in _BLOCKS or "." not in called:
                    blocks |= {name for each in (*node.args, *node.keywords) for name in _names(each)}
                if called.rpartition(".")[2] in _LOOPS or "." not in called:
                    extents |= {name for each in node.args for name in _names(each)}
            case ast.If(test=test) | ast.IfExp(test=test):
                switches |= set(_conditions(test))
    return Uses(
        extents=frozenset(extents),
        others=frozenset(every - extents),
        switches=frozenset(switches),
        texts=texts,
        blocks=frozenset(blocks),
    )


def _conditions(test: ast.expr) -> Iterator[str]:
    match test:
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _conditions(operand)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _conditions(each)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


class Shapes:
    """Finds the shapes of the arrays that a kernel accesses, from its masks and loops.

    Args:
        extents: names of the problem fields that are extents, the outermost first.
        outer: the names in the expressions of the grid.
    """

    def __init__(self, kernel: Kernel, extents: Sequence[str], outer: Collection[str]) -> None:
        self._extents, self._outer = extents, outer
        self._made = assigned(kernel.node)
        self._loops: dict[str, ast.expr] = {}
        self._calls = [each for each in ast.walk(kernel.node) if isinstance(each, ast.Call)]
        for each in ast.walk(kernel.node):
            match each:
                case ast.AugAssign(target=ast.Name(id=name), value=value):
                    self._made.setdefault(name, []).append(value)
                case ast.For(target=ast.Name(id=name), iter=value):
                    self._loops[name] = value

    def indices(self) -> set[str]:
        """Return the arrays whose elements are used in addresses, such as ``order`` in ``x + tl.load(order)``."""
        addresses = (address for call in self._calls if (address := address_of(call)) is not None)
        loads = (each for address in addresses for each in self._parts(address, set()) if isinstance(each, ast.Call))
        loaded = (address for each in loads if (address := address_of(each)) is not None)
        return {name for each in loaded for name in bases(each, self._made, set())}

    def shape(self, name: str) -> tuple[str, ...]:
        """Return the extents that limit the addresses of an array; empty if none do.

        If an address also depends on the program id through a variable without a limit, the array also has the extents
        in the grid.
        """
        found = set[str]()
        for call in self._calls:
            address = address_of(call)
            if address is not None and name in bases(address, self._made, set()):
                found |= self._limits(address, _mask(call))
        return tuple(each for each in self._extents if each in found)

    def _limits(self, address: ast.expr, mask: ast.expr | None) -> set[str]:
        extents, found, limited = {*self._extents}, set[str](), set[str]()
        for node in self._parts(mask, set()):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], _BOUNDED):
                found |= _names(node) & extents
                limited |= _names(node) - extents
        parts = [*self._parts(address, limited)]
        for node in parts:
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _DESCRIBED:
                shape = next((each.value for each in node.keywords if each.arg == "shape"), None)
                found |= _names(shape or ast.Tuple(node.args[1:2])) & extents
        reached = {each.id for each in parts if isinstance(each, ast.Name)}
        for variable in (reached | limited) & self._loops.keys():
            found |= {name for node in self._parts(self._loops[variable], set()) for name in _names(node)} & extents
        programs = (each for each in parts if isinstance(each, ast.Attribute) and each.attr == "program_id")
        return found | ({*self._outer} if any(programs) else set())

    def _parts(self, node: ast.expr | None, stop: Collection[str]) -> Iterator[ast.AST]:
        """Yield the syntax nodes of a value, and of the values of its variables, except variables in `stop`."""
        waiting, seen = [node] if node is not None else [], {*stop}
        while waiting:
            for each in ast.walk(waiting.pop()):
                yield each
                if isinstance(each, ast.Name) and each.id not in seen:
                    seen.add(each.id)
                    waiting += self._made.get(each.id, ())


def _mask(call: ast.Call) -> ast.expr | None:
    """Return the mask of ``tl.load(p, mask)``, ``tl.store(p, value, mask)`` and atomics; None if there is none."""
    given = next((each.value for each in call.keywords if each.arg == "mask"), None)
    place = 1 if ast.unparse(call.func).rpartition(".")[2] == "load" else 2
    return given if given is not None or len(call.args) <= place else call.args[place]
