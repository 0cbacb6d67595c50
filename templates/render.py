"""Generates the source of a config: renders a template in a sandbox, or inserts macros before a plain source."""

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd

from jinja2 import BaseLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evo.device import DeviceKind, kind_of
from evo.errors import RenderError
from evo.family import Implementation
from evo.family.problem import Problem
from evo.family.source.language import PREDEFINED
from evo.text.encoding import not_utf8, utf8_text
from evo.text.suggestion import unknown
from evo.trial import Config, Value
from templates import triton
from templates.registry import Package
from templates.source import MacroUse, all_read, macro_uses, near_miss, words_of

MAX_SOURCE_CHARACTERS = 8 << 20


def render(package: Package, kind: DeviceKind, config: Config, problem: Problem, derived: Mapping[str, Value]) -> str:
    """Return the source of a config for a problem. Equal arguments give equal text.

    Args:
        derived: derived values by name, as `Family.candidate` returns them.

    Raises:
        RenderError: the template or source is invalid.
    """
    implementation = package.family.implementation(kind)
    variables = {**problem, **config, **derived}
    if implementation.mode == "triton":
        return triton.rendered(_text(package, implementation.file), implementation, problem, variables)
    if implementation.mode == "source":
        text, needed = _text(package, implementation.file), _needed(package, implementation)
        chosen = {name: value for name, value in variables.items() if implementation.becomes_macro(name)}
        macros = {implementation.macro(name): value for name, value in chosen.items()}
        macros = {name: value for name, value in macros.items() if needed is None or name in needed}
        return _with_macros(text, implementation.file, macros)
    return _rendered(package, implementation.file, variables)


def check(package: Package, kind: DeviceKind) -> None:
    """Check that a template or source uses the names that family.toml declares.

    Recordings have no source and need no check.

    Raises:
        RenderError: a template uses a name that is not declared, a tunable has no effect, or a source redefines a
            macro.
    """
    implementation = package.family.implementation(kind)
    if kind_of(kind).runs == "recordings":
        return
    tunables = [tunable.name for tunable in implementation.tunables]
    if implementation.mode == "triton":
        known = [*tunables, *implementation.derived, *(field.name for field in package.family.fields)]
        triton.check(_text(package, implementation.file), implementation, known)
        return
    if implementation.mode == "source":
        _check_source(package, implementation, tunables)
        return
    declared, used = _declared(package, implementation), used_names(package, kind)
    for name in sorted(used - declared):
        place = _place_of(name, package, implementation)
        raise RenderError(f"template {place}: {unknown(name, declared, 'variables')}")
    for name in tunables:
        if name not in used | implementation.reach(used):
            remedy = "use it in the template, the launch, or a derived value that is used; or remove it"
            raise RenderError(f"template {implementation.file}: the tunable {name} has no effect; {remedy}")


def check_source(package: Package, kind: DeviceKind) -> None:
    """Check that a plain or Triton source uses every tunable, and redefines no macro.

    Templates are checked later, when they are rendered, because a template may be valid only for some configs.

    Raises:
        RenderError: a tunable has no effect, or the source redefines a macro.
    """
    if package.family.implementation(kind).mode != "template":
        check(package, kind)


def used_names(package: Package, kind: DeviceKind) -> frozenset[str]:
    """Return the free variables of a template, or the identifiers in a source, including those in included files.

    For a Triton source, these are the names that affect the compilation. A variable with a default in the template is
    omitted unless the family declares it.
    """
    implementation = package.family.implementation(kind)
    if implementation.mode == "triton":
        return triton.names_of(_text(package, implementation.file), implementation)
    if implementation.mode == "source":
        _text(package, implementation.file)
        return words_of(texts_of(package), implementation)
    own = _optional(package, implementation) | _assigned(package, implementation)
    return _undeclared(package, implementation) - (own - _declared(package, implementation))


def _declared(package: Package, implementation: Implementation) -> frozenset[str]:
    """Return the names of the family's tunables, problem fields and derived values."""
    tunables = (tunable.name for tunable in implementation.tunables)
    fields = (field.name for field in package.family.fields)
    return frozenset((*tunables, *fields, *implementation.derived))


def _needed(package: Package, implementation: Implementation) -> frozenset[str] | None:
    """Return the identifiers in a source, or None if other names may also become macros.

    A tunable or problem field normally becomes a macro only if the source uses its name, because a system header may
    use the same name for something else. The result is None if family.toml lists the macros, if headers outside the
    family may use the names, or if the source forms names with ``##``.
    """
    texts = texts_of(package)
    if implementation.macros is not None or not all_read(texts, implementation):
        return None
    other = " ".join((*implementation.entries, *implementation.flags))
    return words_of(texts, implementation) | frozenset(re.findall(r"[A-Za-z_]\w*", other))


def _check_source(package: Package, implementation: Implementation, tunables: Sequence[str]) -> None:
    if not _text(package, implementation.file).strip():
        raise RenderError(f"{implementation.file} is empty; it must contain the kernel")
    texts = texts_of(package)
    kinds = {field.name: "problem field" for field in package.family.fields}
    kinds |= dict.fromkeys(implementation.derived, "derived value") | dict.fromkeys(tunables, "tunable")
    macros = {implementation.macro(name): name for name in kinds if implementation.becomes_macro(name)}
    found = macro_uses(texts, implementation, list(macros))
    for macro, use in found.items():
        if use.state == "redefined":
            meant = f"the {kinds[macros[macro]]} {macros[macro]}"
            raise RenderError(
                f"{use.place}: `{use.text}` overrides {meant}, so its value has no effect on the "
                f"kernel; write `#ifndef {macro}` on the line before and `#endif` on the line after it"
            )
    used = {macros[macro] for macro, use in found.items() if use.state == "used"}
    used |= {macros[macro] for entry in implementation.entries for macro in macros if re.search(rf"\b{macro}\b", entry)}
    for name in tunables:
        if name not in used | implementation.reach(used) and all_read(texts, implementation):
            use_of = found.get(implementation.macro(name)) if implementation.becomes_macro(name) else None
            raise RenderError(_unused(name, use_of, texts, implementation))


def _unused(name: str, use: MacroUse | None, texts: Mapping[str, str], implementation: Implementation) -> str:
    where = f"{implementation.file}: the tunable {name} has no effect: "
    if use is None:
        return f"{where}it is not among the `macros` of family.toml; add it there, or remove the tunable"
    if use.state == "tested":
        tested = "it is always defined, but the source only tests whether it is defined"
        return f"{where}{tested}; use its value, or remove the tunable"
    macro = implementation.macro(name)
    if macro != name and name in words_of(texts, implementation):
        return f"{where}the source has `{name}`, but its macro is `{macro}`; write `{macro}`, or remove `macro_prefix`"
    subject = "it" if macro == name else f"its macro `{macro}`"
    meant = near_miss(macro, texts, implementation)
    hint = f"; did you mean `{meant}`? Use" if meant else "; use"
    remedy = "it there or in the launch, or remove the tunable"
    return f"{where}{subject} does not appear in the source or its headers{hint} {remedy}"


def texts_of(package: Package) -> dict[str, str]:
    """Return the contents of a package's text files, by file name."""
    texts: dict[str, str] = {}
    for name, content in package.files.items():
        if b"\0" not in content[:8192]:
            texts[name] = content.decode("utf-8-sig", errors="replace")  # headers may have any encoding
    return texts


_SHARED = ("include", "include/row", "include/number")
"""Folders of shared includes. A template may omit them from the name of an included file."""


class _Files(BaseLoader):
    """Jinja2 loader for the files of a package. The family's own files take precedence over shared includes."""

    def __init__(self, package: Package) -> None:
        self.package = package

    def get_source(self, environment: object, template: str) -> tuple[str, str, Callable[[], bool]]:
        for name in (template, *(f"{folder}/{template}" for folder in _SHARED)):
            if name in self.package.files:
                return _text(self.package, name), name, lambda: True
        raise TemplateNotFound(template)


@lru_cache(maxsize=32)
def _environment(package: Package) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=_Files(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    # equal configs must give equal sources, so templates must not use random values
    del environment.globals["lipsum"], environment.filters["random"]
    environment.globals |= {"min": min, "max": max, "abs": abs, "gcd": gcd, "ceil_div": lambda a, b: -(-a // b)}
    return environment


def _rendered(package: Package, name: str, variables: Mapping[str, Value]) -> str:
    parts: list[str] = []
    length = 0
    try:
        for part in _environment(package).get_template(name).generate(**variables):
            parts.append(part)
            length += len(part)
            if length > MAX_SOURCE_CHARACTERS:
                size = f"{MAX_SOURCE_CHARACTERS >> 20} MiB"
                raise RenderError(f"template {name}: renders to more than {size}; shorten its loops")
    except RenderError:
        raise
    except TemplateSyntaxError as error:
        raise _syntax_error(error, error.filename or name) from error
    except TemplateNotFound as error:
        raise RenderError(f"template {_line(error, package, name)}: {_missing(error)}") from error
    except (
        TemplateError,
        ArithmeticError,
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        raise RenderError(f"template {_line(error, package, name)}: {error or type(error).__name__}") from error
    return "".join(parts)


def _syntax_error(error: TemplateSyntaxError, name: str) -> RenderError:
    """Return the error for a template that Jinja cannot parse or compile, e.g. because it uses an unknown filter."""
    return RenderError(f"template {name}:{error.lineno}: {error.message}")


def _missing(error: TemplateNotFound) -> str:
    return f"the included file {error.name} does not exist; add it to the family's folder"


def _line(error: BaseException, package: Package, name: str) -> str:
    """Return the position of an error in a template: ``file:line`` or, if the line is unknown, the template's name."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in package.files]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else name


def _text(package: Package, name: str) -> str:
    try:
        return utf8_text(package.files[name])
    except UnicodeDecodeError as error:
        file = name if package.location is None else f"{package.location}/{name}"
        raise RenderError(f"{name}: {not_utf8(package.files[name], error, file)}") from error


def _undeclared(package: Package, implementation: Implementation) -> frozenset[str]:
    found = set[str]()
    for file, tree in _trees(package, implementation):
        try:
            found |= meta.find_undeclared_variables(tree)
        except TemplateSyntaxError as error:
            raise _syntax_error(error, file) from error
    return frozenset(found.difference(_environment(package).globals))


def _place_of(variable: str, package: Package, implementation: Implementation) -> str:
    """Return ``file:line`` of the first use of a variable, or the template's name if the line is unknown."""
    for file, tree in _trees(package, implementation):
        lines = [each.lineno for each in tree.find_all(nodes.Name) if each.name == variable and each.ctx == "load"]
        if lines:
            return f"{file}:{min(lines)}"
    return str(implementation.file)


def _optional(package: Package, implementation: Implementation) -> frozenset[str]:
    """Return the names that have a default in the template. The family may omit these names."""
    filters = (each for _, tree in _trees(package, implementation) for each in tree.find_all(nodes.Filter))
    return frozenset(each.node.name for each in filters if each.name == "default" and isinstance(each.node, nodes.Name))


def _assigned(package: Package, implementation: Implementation) -> frozenset[str]:
    """Return the names to which the template assigns a value, even if only in branches of a condition."""
    names = (each for _, tree in _trees(package, implementation) for each in tree.find_all(nodes.Name))
    return frozenset(each.name for each in names if each.ctx == "store")


def _trees(package: Package, implementation: Implementation) -> Iterator[tuple[str, nodes.Template]]:
    """Yield the names and syntax trees of a template and of all files that it includes or imports."""
    environment = _environment(package)
    waiting, seen = [implementation.file], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        try:
            tree = environment.parse(_Files(package).get_source(environment, name)[0], filename=name)
        except TemplateSyntaxError as error:
            raise _syntax_error(error, name) from error
        except TemplateNotFound as error:
            raise RenderError(f"template {implementation.file}: {_missing(error)}") from error
        yield name, tree
        waiting += [each for each in _referenced(tree) if each not in seen]


def _referenced(tree: nodes.Template) -> list[str]:
    """Return the names of the files that a template includes or imports in any branch of its conditions."""
    waiting: list[nodes.Node] = [each.template for each in tree.find_all(nodes.Include)]
    waiting += [each.template for each in tree.find_all(nodes.Import)]
    waiting += [each.template for each in tree.find_all(nodes.FromImport)]
    found = []
    while waiting:
        match waiting.pop():
            case nodes.CondExpr(expr1=one, expr2=other):
                waiting += [each for each in (one, other) if each is not None]
            case nodes.Const(value=str(name)):
                found.append(name)
    return found


def _with_macros(source: str, name: str, variables: Mapping[str, Value]) -> str:
    undefined = "".join(f"#undef {variable}\n" for variable in variables if variable in PREDEFINED)
    macros = undefined + "".join(f"#define {variable} {_macro(value)}\n" for variable, value in variables.items())
    return f'{macros}#line 1 "{name}"\n{source}'


def _macro(value: Value) -> str:
    match value:
        case bool():
            return str(int(value))
        case int() | float():
            return str(value) if value >= 0 else f"({value})"
        case str():
            return value
