"""Case-insensitive substring match in SQL."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

ESCAPE = "/"


class Occurs(FunctionElement[bool]):
    """``text LIKE pattern``, ignoring case. It avoids lower(), which would copy every text."""

    inherit_cache = True
    type = Boolean()


def occurs(part: str, text: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that `text` contains `part`, without wildcards and ignoring case."""
    plain = "".join(ESCAPE + each if each in (ESCAPE, "%", "_") else each for each in part)
    return Occurs(text, literal(f"%{plain}%"))


@compiles(Occurs)
def _anywhere(element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    return _with("ILIKE", element, compiler, **given)


@compiles(Occurs, "sqlite")
def _in_sqlite(element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    return _with("LIKE", element, compiler, **given)


def _with(operator: str, element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    text, pattern = (compiler.process(each, **given) for each in element.clauses)
    return f"({text} {operator} {pattern} ESCAPE '{ESCAPE}')"
