"""Parses, checks and evaluates expressions, e.g. those of a family document."""

import ast
import copy
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cached_property
from typing import Any

import numpy as np

from evo.errors import InvalidInput
from evo.space.expression import arithmetic
from evo.space.expression.absent import absent_name
from evo.space.expression.choices import Scope, impossible_value, words_meant
from evo.space.expression.evaluation import Environment, Evaluation, Undefined, free_names
from evo.space.expression.misread import compared, guarded, of_c, value_alone, with_defined_constants
from evo.space.expression.repair import implied, renamed, rewritten
from evo.space.expression.scalar import SCALARS, Reading, Unsure, reading
from evo.space.expression.spelling import foreign, pasted
from evo.space.expression.substitution import Binder, replaced, terms
from evo.space.expression.whitelist import MAX_INLINED_DEPTH, MAX_NODES, MAX_TEXT, admit, available, check_depth
from evo.text.document import literal_text
from evo.text.suggestion import unknown
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Expression:
    """An expression over named values, e.g. tunables, parsed and checked.

    Attributes:
        text: the expression as the author wrote it.
        field: name of the document's key in error messages, e.g. ``cpu.constraints[0].expression``.
        names: the free names. An evaluation needs a value for each of them.
        tree: the syntax tree.
    """

    text: str
    field: str
    names: frozenset[str]
    tree: ast.expr = attribute(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, field: str, scope: Scope = ()) -> "Expression":
        """Parse the text of an expression, and check that it contains only allowed syntax.

        Args:
            text: the expression.
            field: name of the document's key in error messages.
            scope: known names, as for `check_names`. If their possible values are given, a suggested correction can add
                missing quotes.

        Raises:
            InvalidInput: the text is not an expression, contains syntax that is not allowed, is too long, or is nested
                too deeply.
        """
        if not isinstance(text, str):
            raise InvalidInput(field, f"must be an expression in quotes, not {literal_text(text)}")
        if len(text) > MAX_TEXT:
            raise InvalidInput(
                field, f"is {len(text)} characters long; the limit is {MAX_TEXT}; split it, e.g. into derived values"
            )
        try:
            return cls._parse(text, field)
        except InvalidInput as error:
            if not (others := cls._rewritten(text, field, scope)):
                example = _example(text, scope) if error.reason.startswith("`") else ""
                raise InvalidInput(field, f"{error.reason}{example}") from error
            spelled = ", ".join(f"`{sign}` is written `{meant}`" for sign, meant in foreign(text).items())
            reason = f"in `{text}`, {spelled}" if spelled else f"`{text}` is not available in an expression"
            if len(others) > 1:
                reason = f"in `{text}`, `^` may be a power or an exclusive or"
            if implied(text) != text:
                reason = f"in `{text}`, an implication is written `not a or b`"
            raise InvalidInput(field, f"{reason}; write {' or '.join(map(pasted, others))}") from error

    @classmethod
    def _parse(cls, text: str, field: str) -> "Expression":
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            reason = f"`{text}` is not an expression in Python's syntax: {error.msg}; {available()}"
            raise InvalidInput(field, reason) from error
        except ValueError as error:
            raise InvalidInput(field, f"is not an expression in Python's syntax: {error}; {available()}") from error
        except (RecursionError, MemoryError):
            raise InvalidInput(field, "is nested too deeply; split it, e.g. into derived values") from None
        check_depth(tree, field)
        admit(tree, field)
        return cls(text=text, field=field, names=free_names(tree), tree=tree)

    @classmethod
    def _rewritten(cls, text: str, field: str, scope: Scope) -> list[str]:
        """Return valid expressions that the author may mean: two for ``a ^ b``, none if the meaning is unclear."""
        found: list[str] = []
        for tree in rewritten(text, scope):
            if found and "^" not in text:
                break
            with suppress(InvalidInput, RecursionError):
                found.append(cls._corrected(ast.unparse(tree), field, scope))
        return list(dict.fromkeys(found))[:2]

    @classmethod
    def _corrected(cls, text: str, field: str, scope: Scope) -> str:
        """Return the expression that the author probably meant, after checking it.

        Strings without quotes get quotes, and ``x == 1 or 2`` becomes ``x in (1, 2)``.

        Raises:
            InvalidInput: the expression is not valid.
        """
        found = cls._parse(text, field)
        meant = words_meant(found.names.difference(scope), scope) if isinstance(scope, Mapping) else {}
        written = renamed(with_defined_constants(compared(found.tree) or found.tree)[0], meant)
        checked = cls._parse(written, field).check_meaning()
        if not scope:
            return checked.text
        if not checked.names.issubset(scope):
            raise InvalidInput(field, "contains unknown names")
        return checked.check_names(scope)._defined(scope).text

    def _defined(self, scope: Scope) -> "Expression":
        """Return this expression, changed if necessary so that it can be evaluated with the scope's values.

        The expression is evaluated twice: with the first and with the last known value of every name. It is returned
        unchanged if the scope does not contain possible values for all its names.

        Raises:
            InvalidInput: the expression has no value in one of these cases, and no correction is known.
        """
        known = scope if isinstance(scope, Mapping) and all(map(scope.get, self.names)) else {}
        if not self.names <= known.keys():
            return self
        found = self
        for place in (0, -1):
            for _ in range(3):
                try:
                    found.evaluate_arrays({name: known[name][place] for name in self.names})
                    break
                except Undefined as fault:
                    if (tree := guarded(found.tree, fault)) is None:
                        raise
                    found = self._parse(ast.unparse(ast.fix_missing_locations(tree)), self.field)
        return found

    @cached_property
    def size(self) -> int:
        """Number of terms. The time to evaluate one element is proportional to this number."""
        return terms(self.tree, {})

    def check_names(self, scope: Scope, meaning: str = "") -> "Expression":
        """Return this expression after checking its names, and the strings with which they are compared.

        Args:
            scope: the known names. A mapping also gives the possible values of each name; if these are empty, any value
                is possible.
            meaning: plural noun for the names in the message, e.g. ``problem fields``.

        Raises:
            InvalidInput: a name is unknown (the message contains similar names and all names), or a name is compared
                with a string that is not one of its values.
        """
        choices = scope if isinstance(scope, Mapping) else {}
        missing = self.names.difference(scope)
        if meant := words_meant(missing, choices):
            kinds = {type(each) for each in meant.values()}
            truths = "truth values must be `True` and `False`"
            reason = "put strings in quotes" if str in kinds else truths if bool in kinds else "bounds must be numbers"
            raise InvalidInput(self.field, f"in `{self.text}`, {reason}; write {pasted(renamed(self.tree, meant))}")
        if missing and choices and (others := self._rewritten(self.text, self.field, scope)):
            raise InvalidInput(self.field, f"`{self.text}` is not available; write {' or '.join(map(pasted, others))}")
        for name in sorted(missing):
            nothing = f"no field or tunable can have the value `{name}`; remove the comparison"
            reason = nothing if absent_name(name, scope) else unknown(name, scope, meaning or "names")
            condition = isinstance(self.tree, ast.Compare | ast.BoolOp)
            raise InvalidInput(self.field, f"`{self.text}`: {reason}{_example(self.text, scope, condition=condition)}")
        if (absent := impossible_value(self.tree, choices)) is not None:
            raise InvalidInput(self.field, f"`{self.text}`: {absent}")
        return self

    def check_meaning(self) -> "Expression":
        """Return this expression after checking that it would have the same meaning in C.

        Raises:
            InvalidInput: the expression divides and multiplies by the same term; it contains a chain of comparisons
                that C reads differently, such as ``a < b == c`` or ``a == 0 == True``; or it contains an operation that
                has no value because of its constants, such as ``N // 0``.
        """
        if (reason := of_c(self.tree)) is not None:
            raise InvalidInput(self.field, f"`{self.text}`: {reason}")
        return self

    def check_condition(self, scope: Scope = ()) -> "Expression":
        """Return this expression after checking that its truth value can differ between configs.

        Args:
            scope: known names, as for `check_names`, from which the error forms an example.

        Raises:
            InvalidInput: the expression contains no name (e.g. because it is quoted twice), or a number or string is an
                operand of ``and`` or ``or``.
        """
        if self.names:
            if (reason := value_alone(self.tree)) is not None:
                raise InvalidInput(self.field, f"`{self.text}`: {reason}")
            return self
        if isinstance(self.tree, ast.Constant) and isinstance(self.tree.value, str) and self.tree.value.strip():
            reason = f"is a string, which counts as true for every config; write {pasted(self.tree.value)}"
        else:
            reason = "contains no tunable, field or limit, so it is the same for every config; use one, or remove it"
            reason += _example(self.text, scope)
        raise InvalidInput(self.field, f"`{self.text}` {reason}")

    def inline(self, definitions: Mapping[str, "Expression"]) -> "Expression":
        """Return the expression with each name in `definitions` replaced by its definition. `text` is not changed.

        Raises:
            InvalidInput: the result is too large to evaluate.
        """
        used = self.names.intersection(definitions)
        if not used:
            return self
        trees = {name: definitions[name].tree for name in used}
        grown = terms(self.tree, {name: definitions[name].size for name in used})
        if grown > MAX_NODES:
            raise InvalidInput(
                self.field, f"`{self.text}` grows to {grown} terms; the limit is {MAX_NODES}: simplify it"
            )
        tree = replaced(self.tree, trees)
        check_depth(tree, self.field, depth_limit=MAX_INLINED_DEPTH)
        names = self.names.difference(used).union(*(definitions[name].names for name in used))
        return Expression(text=self.text, field=self.field, names=names, tree=tree)

    def bind(self, constants: Mapping[str, Value]) -> "Expression":
        """Return a copy in which the names of constants are replaced by their values, and constant parts are evaluated.

        If the expression contains none of the names, it is returned itself.
        """
        if not self.names.intersection(constants):
            return self
        tree = Binder(constants).visit(copy.deepcopy(self.tree))
        return Expression(text=self.text, field=self.field, names=free_names(tree), tree=tree)

    def evaluate(self, environment: Environment) -> Any:
        """Return the expression's value: a Python scalar if all names have scalar values, else an array.

        Raises:
            InvalidInput: a name has no value, a string is used as a number, a divisor is zero, or a result is not a
                finite number below 2**62. The message contains the faulty part of the expression, and the values of its
                names.
        """
        if all(type(environment.get(name)) in SCALARS for name in self.names):
            try:
                return self._reading(environment)
            except Unsure:
                pass
        return self.evaluate_arrays(environment)

    def evaluate_arrays(self, environment: Environment) -> Any:
        """Return the value computed by `Evaluation`, which supports arrays and reports faults in detail."""
        if not self.names <= environment.keys():
            self.check_names(environment.keys())
        lengths = [np.shape(environment[name]) for name in self.names]
        with np.errstate(all="ignore"):
            result = Evaluation(field=self.field, environment=environment).value(self.tree, np.asarray(True))
        return np.broadcast_to(result, max(lengths, default=())) if any(lengths) else result.item()

    @cached_property
    def _reading(self) -> Reading:
        return reading(self.tree)

    def __getstate__(self) -> dict[str, Any]:
        # `_reading` contains functions, which cannot be pickled
        return {name: value for name, value in vars(self).items() if name != "_reading"}

    def truth(self, environment: Environment) -> Any:
        """Return the expression's truth value: a bool or an array of bools.

        Raises:
            InvalidInput: see `evaluate`.
        """
        value = self.evaluate(environment)
        return bool(value) if type(value) in SCALARS else arithmetic.truth(value)

    def number(self, environment: Mapping[str, Value]) -> int | float:
        """Return the expression's value, which must be a number. All names must have scalar values.

        Raises:
            InvalidInput: the value is not a number; see also `evaluate`.
        """
        result = self.evaluate(environment)
        if isinstance(result, bool) or not isinstance(result, int | float):
            raise InvalidInput(self.field, f"`{self.text}` evaluates to {result!r}, but must be a number")
        return result

    def whole(self, environment: Mapping[str, Value]) -> int:
        """Return the expression's value, which must be a whole number. All names must have scalar values.

        Raises:
            InvalidInput: the value is not a whole number; see also `evaluate`.
        """
        result = self.number(environment)
        if result != int(result):
            remedy = "but must be a whole number; divide with //"
            raise InvalidInput(self.field, f"`{self.text}` evaluates to {result!r}, {remedy}")
        return int(result)


def _example(text: str, scope: Scope, *, condition: bool = True) -> str:
    """Return the last part of an error message: a valid expression with a name from the text or, if none, the scope.

    Args:
        condition: True if the expression must be a condition, False if it may be a number.
    """
    names = [*(name for name in re.findall(r"[A-Za-z_]\w*", text) if name in scope), *scope]
    if not isinstance(scope, Mapping) or not names:
        return ""
    if not condition:
        number = next((name for name in names if not scope[name] or isinstance(scope[name][0], int | float)), names[0])
        return f"; a valid expression is, e.g., {pasted(number)}"
    values = scope[names[0]]
    value = values[0] if values else 1
    sign = "==" if isinstance(value, str) else ">="
    written = names[0] if isinstance(value, bool) else f"{names[0]} {sign} {value!r}"
    return f"; a valid condition is, e.g., {pasted(written)}"
