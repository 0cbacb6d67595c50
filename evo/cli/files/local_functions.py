"""Copies functions of local modules into the Triton source that imports them, because a Triton family has only one
source file.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from evo.errors import InvalidInput
from evo.family.source.triton.source import definitions, names_used, needed
from evo.text.encoding import not_utf8, python_text

OTHERS = ("triton", "torch", "numpy", "__future__")
"""Installed packages. Their modules are not looked for in the user's folders."""

FOLDERS_ABOVE = 4
"""Number of parent folders of the source that are searched for a module."""


def with_local_functions(text: str, file: Path, within: Sequence[Path] = ()) -> tuple[str, tuple[str, ...]]:
    """Return a source in which the imported functions and constants replace imports from local modules.

    Args:
        within: files that import `file`, directly or indirectly. An import of such a file is a cycle.

    Returns:
        The source, and a note for each import that a person must replace.

    Raises:
        InvalidInput: the source or a module is not Python.
    """
    own, lines, notes = definitions(text, file.name), text.split("\n"), list[str]()
    used = {name for node in own.values() for name in names_used(node)}
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            notes += _modules_in_use(node, file, used)
        if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] in OTHERS:
            continue
        wanted = [each for each in node.names if each.name == "*" or (each.asname or each.name) in used]
        module = _path((node.module or "").split("."), node.level, file.parent)
        if module is None:
            names = [each.name for each in wanted if each.name != "*" and node.module]
            notes += [
                f"{name} is imported from {node.module}: copy it into {file.name}" for name in names if node.module
            ]
            continue
        if module in (*within, file.absolute()):
            notes.append(f"{module.name} and {file.name} import each other: move the functions into one file")
            continue
        if not wanted:
            continue
        inner, others = with_local_functions(_read(module), module, (*within, file.absolute()))
        found = definitions(inner, module.name)
        aliases = {each.name: each.asname or each.name for each in wanted if each.name in found}
        if any(each.name == "*" for each in wanted):
            aliases = {name: name for name in found if name in used}
        copied = needed(inner, list(aliases), module.name)
        copies = definitions(copied, module.name)
        if clash := sorted(name for name in copies.keys() & own.keys() if not _is_import(copies[name])):
            notes.append(
                f"{module.name} also defines {', '.join(clash)}: rename one definition, and copy the functions that "
                "the kernel needs"
            )
            continue
        notes += others
        lost = [each.name for each in wanted if each.name != "*" and each.name not in found]
        notes += [f"{name} of {module.name} is neither a kernel nor a constant, so it is not copied" for name in lost]
        own |= copies
        block = [line for line in copied.split("\n") if line]
        block += [f"{alias} = {name}" for name, alias in aliases.items() if alias != name]
        left = [each for each in node.names if each.name not in aliases and each.name != "*"]
        kept = [ast.unparse(ast.ImportFrom(node.module, left, node.level))] if left else []
        lines[node.lineno - 1 : node.end_lineno] = [*kept, *([f"# from {module.name}"] if block else []), *block]
    return "\n".join(lines), tuple(dict.fromkeys(reversed(notes)))


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _modules_in_use(node: ast.Import | ast.ImportFrom, file: Path, used: set[str]) -> Iterator[str]:
    """Yield a note for each local module that the source uses as a whole, e.g. after ``import helper``.

    Only functions and constants that are imported by name are copied into the family's source.
    """
    for each in node.names:
        if isinstance(node, ast.Import):
            path = _path(each.name.split("."), 0, file.parent)
        else:
            path = _path([*(node.module or "").split("."), each.name], node.level, file.parent)
        name = each.asname or each.name.partition(".")[0]
        if path is not None and name in used:
            remedy = f"import its functions by name (`from {path.stem} import …`) and import the file again"
            yield f"{path.name} is used as the module `{name}`: {remedy}"


def _path(parts: Sequence[str], level: int, folder: Path) -> Path | None:
    parts = [each for each in parts if each]
    if not parts:
        return None
    absolute = folder.absolute()
    above = [absolute, *absolute.parents]
    places = above[level - 1 : level] if level else above[: FOLDERS_ABOVE + 1]
    candidates = (each.joinpath(*parts).with_suffix(".py") for each in places)
    return next((each for each in candidates if each.is_file()), None)


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
        return python_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput("FILE", f"{path} {not_utf8(content, error, str(path))}") from error
    except (OSError, SyntaxError) as error:
        raise InvalidInput("FILE", f"{path} cannot be read: {error}") from error
