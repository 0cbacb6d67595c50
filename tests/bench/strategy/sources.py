"""Finds the source files that a module imports, directly or indirectly."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def sources(*modules: str) -> tuple[Path, ...]:
    """Return the files of modules and of all their imports from the same top-level packages, sorted by path."""
    known: dict[str, Path] = {}
    waiting = list(modules)
    tops = {name.partition(".")[0] for name in modules}
    while waiting:
        name = waiting.pop()
        path = None if name in known else _file(name)
        if path is not None:
            known[name] = path
            waiting += [each for each in _imported(path) if each.partition(".")[0] in tops]
    return tuple(sorted(known.values()))


def _imported(path: Path) -> Iterator[str]:
    """Yield the names of imported modules, and of objects imported from them, which may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _file(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # not a module, because the parent of the name is not a package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
