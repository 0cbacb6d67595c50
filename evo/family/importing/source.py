"""Reads a C, C++ or CUDA source: functions that can be called, their parameters, and macros with their values."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from evo.family.importing.host.functions import device_includes, host_functions
from evo.family.importing.syntax import (
    Code,
    arguments,
    called,
    declared,
    descendants,
    last_name,
    parameter_list,
    part,
    written,
)
from evo.family.importing.types import plain_type
from evo.family.source.language import Language

_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+(?:(-?\w+)|\(\s*(-?\w+)\s*\))\s*$")
_CONSTANT = re.compile(
    r"(?:(?:static|inline|__device__)\s+)*const(?:expr)?\s+(?:static\s+)?(?:unsigned|(?:unsigned\s+)?int|auto|"
    r"(?:std::)?(?:size_t|u?int(?:32|64)_t))\s+(?=\w*[A-Z_])([A-Za-z]\w+)\s*(?:=\s*(\d\w*)|\{\s*(\d\w*)\s*\})\s*;\s*$"
)
"""Matches the definition of a constant at the beginning of a line, i.e. at file scope. Names such as ``n`` and ``L`` do
not match: headers may contain them, so a macro cannot replace such a constant."""
_WHOLE = re.compile(r"(-?)(0[xX][0-9a-fA-F]{1,15}|\d{1,18})[uUlL]{0,3}")
_GUARD = re.compile(r"\s*#\s*ifndef\s+([A-Za-z_]\w*)\s*$")
_QUALIFIERS = frozenset({"type_qualifier", "attribute_declaration", "attribute_specifier", "ms_declspec_modifier"})
_NOT_EXPORTED = frozenset({"static", "inline", "constexpr"})
_DECLARATIONS = (
    *("declaration", "parameter_declaration", "optional_parameter_declaration", "enumerator"),
    *("alias_declaration", "type_definition", "type_parameter_declaration", "optional_type_parameter_declaration"),
)
_DIRECTIVES = frozenset({"preproc_def", "preproc_function_def", "preproc_params", "preproc_ifdef", "preproc_call"})
_TYPE = re.compile(r"[A-Za-z_][\w\s:<>]{0,80}")
_OUTER = frozenset({"translation_unit", "linkage_specification", "ERROR"})
_OWN = ("launch_bounds", "compound_statement")
_EFFECTS = ("assignment_expression", "update_expression", "declaration", "comma_expression")
_WORDS = re.compile(r"\w+")
_MOST_ROUNDS = 3
"""Maximum depth of nested calls that are inlined."""
_MOST_WRITTEN_OUT = 10_000
"""Inlining may extend a function body to twice its length plus this number of characters."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function.

    Attributes:
        c_type: type without qualifiers and pointers.
        extents: text in each pair of brackets of an array parameter; empty for an extent that is not stated, e.g. of a
            pointer.
    """

    name: str
    c_type: str
    pointer: bool
    constant: bool
    reference: bool = False
    extents: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function that can be the kernel's entry.

    Attributes:
        node: definition in the syntax tree of `code`.
        code: the whole source that contains the function.
        body: statements of the function.
        template: template parameters of the function, e.g. ``typename T``; empty for a plain function.
        bounds: expression in ``__launch_bounds__``; empty if there is none.
    """

    name: str
    parameters: tuple[Parameter, ...]
    node: Node
    code: Code
    body: Code
    template: tuple[str, ...] = ()
    bounds: str = ""


@dataclass(frozen=True, kw_only=True)
class Helper:
    """A function or macro that other functions can call."""

    parameters: tuple[Parameter, ...]
    body: Code


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A macro or file-scope constant with an integer value.

    Attributes:
        guarded: True if the definition applies only if the macro is not yet defined.
        line: line number of the definition, from 0.
        alias: macro that the definition names, e.g. ``BOX`` in ``#define FILTER BOX``; empty for a number.
    """

    name: str
    value: int
    guarded: bool
    line: int
    alias: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A C, C++ or CUDA source with its functions and macros. `code` is the source without comments."""

    text: str
    code: Code
    language: Language
    functions: tuple[Function, ...]
    macros: tuple[Macro, ...]

    def with_headers(self, headers: Iterable["Source"]) -> "Source":
        """Return the source with the code and the macros of its headers. Functions of headers are not added."""
        every = (self, *headers)
        if len(every) == 1:
            return self
        code, end = Code("\n".join(each.code.text for each in every)), len(self.code.content)
        functions = tuple(_function(each, code) for each in entries(code, self.language) if each.start_byte < end)
        return replace(self, code=code, functions=functions, macros=tuple(m for each in every for m in each.macros))

    def namespace(self, function: Function) -> str:
        """Return the namespaces around a function as the prefix of its name, e.g. ``own::``."""
        around = [each for each in self.code.ancestors(function.node) if each.type == "namespace_definition"]
        return "".join(f"{written(part(each, 'name'))}::" for each in reversed(around) if part(each, "name"))

    def instance(self, function: Function) -> tuple[str, ...]:
        """Return the template arguments of an explicit instantiation or launch in the source; empty if none exists."""
        for node in self.code.nodes("template_function"):
            if written(part(node, "name")) == function.name and _is_instance(node, self.code):
                given = part(node, "arguments")
                return tuple(map(written, given.named_children)) if given is not None else ()
        return ()

    def only(self, function: Function, replaced: Mapping[str, str]) -> Function:
        """Return the function in a copy of the source in which the bodies of other entry functions are empty.

        Calls of functions that only compute a value are inlined in the function's body.

        Args:
            replaced: values by the names that they replace, e.g. template parameters.
        """
        values, kept, end = _values(self.code), list[bytes](), 0
        for each in self.functions:  # in the order of the code
            for node in (inside for inside in each.node.named_children if inside.type in _OWN):
                text, is_body = "", node.type == "compound_statement"
                if each is function:
                    text = with_values(written(node), replaced)
                    text = _written_out(text, values) if is_body else text
                elif is_body:
                    text = "{}"
                kept += [self.code.content[end : node.start_byte], text.encode("utf-8", "surrogateescape")]
                end = node.end_byte
        content = b"".join([*kept, self.code.content[end:]])
        if content == self.code.content:
            return function
        code = Code(content.decode("utf-8", "surrogateescape"))
        return _function(list(entries(code, self.language))[self.functions.index(function)], code)

    def followed_by(self, definition: str) -> Function:
        """Append a function definition to the source, and return the function. Other entries get empty bodies."""
        kept, end = list[bytes](), 0
        for body in (part(each.node, "body") for each in self.functions):  # in the order of the code
            if body is not None:
                kept += [self.code.content[end : body.start_byte], b"{}"]
                end = body.end_byte
        before = b"".join([*kept, self.code.content[end:]]).decode("utf-8", "surrogateescape")
        code = Code(f"{before}\n{definition}")
        return _function(list(entries(code, self.language))[-1], code)

    def compilable(self, names: set[str], declared: Collection[str] = ()) -> str:
        """Return the text with ``#ifndef`` around the definitions of some macros, so that ``-D`` can set the macros.

        In a CUDA source, host functions are guarded so that NVRTC skips them, and headers that NVRTC lacks are
        replaced.

        Args:
            names: names of the macros.
            declared: names of functions to declare ``extern "C"``.
        """
        lines = self.text.split("\n")
        for name, node in ((each, _declaration(each, self)) for each in declared):
            if node is None:
                continue
            line = self.code.line(node.start_byte)
            if self.language == "cuda":
                lines[line] = re.sub(r"^(\s*)(?:static\s+|inline\s+)*(?=__global__)", r'\1extern "C" ', lines[line])
            else:
                lines[line] = f'extern "C" void {name}({_without_defaults(node, self.code)});\n{lines[line]}'
        for macro in self.macros:
            if macro.name in names and not macro.guarded:
                lines[macro.line] = f"#ifndef {macro.name}\n{lines[macro.line]}\n#endif"
        if self.language == "cuda":
            self._guard_host_code(lines)
        return "\n".join(lines)

    def _guard_host_code(self, lines: list[str]) -> None:
        for first, last in host_functions(self.code, self.text):
            lines[first] = f"#ifndef __CUDACC_RTC__  // host code, which NVRTC cannot compile\n{lines[first]}"
            lines[last] += "\n#endif"
        for line, replacement in device_includes(self.code.text).items():
            lines[line] = replacement


def _is_instance(name: Node, code: Code) -> bool:
    """Return True if a name with template arguments is launched or explicitly instantiated."""
    for each in code.ancestors(name):
        if each.type == "call_expression":
            return any(child.type == "kernel_call_syntax" for child in each.children)
        if each.type not in ("qualified_identifier", "function_declarator"):
            return each.type == "template_instantiation"
    return False


def lacks_c_linkage(name: str, sources: Sequence[Source]) -> bool:
    """Return True if no declaration of a function is ``extern "C"``, so that C++ exports it under a mangled name."""
    found = [(each.code, node) for each in sources if (node := _declaration(name, each)) is not None]
    around = [each.type for code, node in found for each in code.ancestors(node)]
    return "linkage_specification" not in around


def _declaration(name: str, source: Source) -> Node | None:
    """Return the first declaration or definition of a function that can be the entry; None if there is none."""
    found = _kernels(source.code) if source.language == "cuda" else _outer(source.code)
    return next((each for each in found if _name(each) == name), None)


def _without_defaults(declaration: Node, code: Code) -> str:
    """Return the parameters of a declaration without their default values."""
    given = []
    for each in _parameter_nodes(declaration):
        default = part(each, "default_value")
        text = code.content[each.start_byte : each.end_byte if default is None else default.start_byte].decode()
        given.append(" ".join(text.split()).removesuffix("=").rstrip())
    return ", ".join(given)


def read_source(text: str, language: Language) -> Source:
    """Read functions and macros of a source. Constructs that need a preprocessor are ignored."""
    code = Code(text)
    found = tuple(_function(each, code) for each in entries(code, language))
    return Source(text=text, code=code, language=language, functions=found, macros=tuple(_macros(code.text)))


def entries(code: Code, language: Language) -> Iterator[Node]:
    """Yield the kernels of a CUDA source, or the exported void functions of a C or C++ source."""
    end = -1
    for node in _kernels(code) if language == "cuda" else _outer(code):
        if part(node, "body") is None or node.start_byte < end or not _name(node):
            continue  # the node is only a declaration, or is inside another function
        end = node.end_byte
        if language == "cuda" or not (_NOT_EXPORTED & set(map(written, node.children)) or _is_template(node, code)):
            yield node


def _function(node: Node, code: Code) -> Function:
    template = part(code.parent(node), "parameters") if _is_template(node, code) else None
    bounds = next((each for each in node.children if each.type == "launch_bounds"), None)
    return Function(
        name=_name(node),
        parameters=_parameters(node),
        node=node,
        code=code,
        body=code.inside(part(node, "body") or node),
        template=() if template is None else tuple(map(written, template.named_children)),
        bounds="" if bounds is None or not bounds.named_children else written(bounds.named_children[0]),
    )


def _is_template(node: Node, code: Code) -> bool:
    return code.parent(node).type == "template_declaration"


def _kernels(code: Code) -> Iterator[Node]:
    for node in code.nodes("function_definition", "declaration"):
        if any(each.type == "__global__" for each in node.children):
            yield node


def _outer(code: Code) -> Iterator[Node]:
    """Yield declarations and definitions of void functions that are not inside a function, class or namespace."""
    for node in code.nodes("function_definition", "declaration"):
        given = [each for each in node.named_children if each.type in ("primitive_type", "ERROR", "type_identifier")]
        function = part(node, "declarator")
        if function is None or function.type != "function_declarator" or "void" not in map(written, given):
            continue
        around = (each for each in code.ancestors(node) if not each.type.startswith("preproc"))
        for each in around:
            if each.type in _OUTER:
                yield node
                break
            if each.type not in ("declaration_list", "template_declaration"):
                break
            if each.type == "declaration_list" and code.parent(each).type not in _OUTER:
                break


def _name(definition: Node) -> str:
    return written(declared(part(definition, "declarator")))


def helpers(code: Code) -> dict[str, tuple[Helper, ...]]:
    """Return the functions and function-like macros of a source, as tuples of overloads by name.

    The parameters of macros are treated as references, because a macro can assign to its arguments.
    """
    found: dict[str, tuple[Helper, ...]] = {}
    for node in code.nodes("function_definition", "preproc_function_def"):
        if node.type == "function_definition":
            name, parameters = last_name(declared(part(node, "declarator"))), _parameters(node)
            body = code.inside(part(node, "body") or node)
        else:
            given = part(node, "parameters")
            name, names = written(part(node, "name")), map(written, given.named_children if given is not None else [])
            parameters = tuple(
                Parameter(name=each, c_type="", pointer=True, constant=False, reference=True) for each in names
            )
            body = Code(f"void _() {{{written(part(node, 'value'))};}}")
        if name:
            found[name] = (*found.get(name, ()), Helper(parameters=parameters, body=body))
    return found


def _values(code: Code) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the parameters and the value of each macro and function that only computes a value, by name."""
    found = dict[str, tuple[tuple[str, ...], str]]()
    for name, (helper, *others) in helpers(code).items():
        statements = helper.body.nodes("return_statement", "expression_statement")
        value = statements[0].named_children if len(statements) == 1 else []
        if len(value) == 1 and not others and not helper.body.nodes(*_EFFECTS):
            found[name] = (tuple(each.name for each in helper.parameters), written(value[0]))
    return found


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Replace names in code with their values."""
    return _WORDS.sub(lambda word: values.get(word[0], word[0]), text)


def _written_out(body: str, values: Mapping[str, tuple[tuple[str, ...], str]]) -> str:
    """Return the text of a function body after inlining calls that only compute a value.

    Args:
        values: parameters and value of each inlined macro or function, by name.
    """
    limit = 2 * len(body) + _MOST_WRITTEN_OUT
    for _ in range(_MOST_ROUNDS if values.keys() & _WORDS.findall(body) else 0):
        code, kept, end, size = Code(f"void _() {body}"), list[bytes](), len("void _() "), 0
        for call in code.nodes("call_expression"):
            names, value = values.get(called(call), ((), ""))
            if value and call.start_byte >= end and len(names) == len(arguments(call)) and size < limit:
                given = {name: f"({written(each)})" for name, each in zip(names, arguments(call), strict=True)}
                text = f"({with_values(value, given)})".encode("utf-8", "surrogateescape")
                kept += [code.content[end : call.start_byte], text]
                end, size = call.end_byte, size + len(text)
        if not kept or size >= limit:
            break
        body = b"".join([*kept, code.content[end:]]).decode("utf-8", "surrogateescape")
    return body


def aliases(code: Code) -> dict[str, str]:
    """Return the types of the aliases that ``typedef``, ``using`` or a macro defines, by alias."""
    found = dict[str, str]()
    for node in code.nodes("alias_declaration", "type_definition", "preproc_def"):
        name, given = part(node, "name") or part(node, "declarator"), part(node, "type") or part(node, "value")
        if name is not None and not name.type.endswith("_declarator") and _TYPE.fullmatch(written(given)):
            found[written(name)] = plain_type(written(given))
    return found


def own_names(code: Code) -> set[str]:
    """Return the names that a source declares or defines (variables, parameters, types, macros).

    The types in its declarations are included, even if a header defines them.
    """
    found = {written(part(node, "name")) for node in code.nodes("preproc_def", "preproc_function_def")}
    for node in code.nodes(*_DECLARATIONS):
        named = node.children_by_field_name("declarator") or node.children_by_field_name("name") or node.named_children
        found.update(written(declared(each)) for each in named)
    for node in code.nodes("declaration", "type_descriptor"):
        if node.type == "declaration" or part(node, "declarator") is not None:
            found.add(written(part(node, "type")))
    return found


def used_names(code: Code) -> set[str]:
    """Return the names that code uses outside macro definitions, including names in pragmas."""
    found = set[str]()
    for node in code.nodes("identifier", "type_identifier", "preproc_arg"):
        around = code.parent(node)
        if around.type == "init_declarator" and part(around, "declarator") == node:
            continue  # the definition of a constant
        if around.type not in _DIRECTIVES or written(part(around, "directive")) == "#pragma":
            found.update(re.findall(r"\w+", written(node)))
    return found


def _parameter_nodes(definition: Node) -> list[Node]:
    given = parameter_list(definition)
    return [] if given is None else given.named_children


def _parameters(definition: Node) -> tuple[Parameter, ...]:
    found = [_parameter(each) for each in _parameter_nodes(definition) if "parameter_declaration" in each.type]
    return tuple(each for each in found if each.name or each.c_type != "void")


def _parameter(node: Node) -> Parameter:
    name = part(node, "declarator")
    around = [] if name is None else _declarators(name)
    kinds = [each.type for each in around]
    own = [each for each in node.children if name is None or each.end_byte <= name.start_byte]
    words = [word for each in own if each.type not in _QUALIFIERS for word in re.findall(r"[\w:]+", written(each))]
    arrays = [_extent(each) for each in around if each.type == "array_declarator"]
    return Parameter(
        name=written(declared(name)),
        c_type=" ".join(word for word in words if word != "struct"),
        pointer="pointer_declarator" in kinds or bool(arrays),
        constant=any(written(each) == "const" for each in own),
        reference="reference_declarator" in kinds,
        extents=("",) * bool(arrays and "pointer_declarator" in kinds) + tuple(reversed(arrays)),
    )


def _declarators(node: Node) -> list[Node]:
    """Return the nested declarators of a parameter, the outermost first."""
    return [each for each in descendants(node) if each.type.endswith("_declarator")]


def _extent(array: Node) -> str:
    return written(part(array, "size"))


def _macros(text: str) -> Iterator[Macro]:
    guards, guarded, values = list[str](), Counter[str](), dict[str, int]()
    for number, line in enumerate(text.split("\n")):
        if (guard := _GUARD.match(line)) is not None:
            guards.append(guard[1])
            guarded[guard[1]] += 1
        elif re.match(r"\s*#\s*if", line):
            guards.append("")
        elif re.match(r"\s*#\s*endif", line):
            guarded.subtract(guards[-1:])
            del guards[-1:]
        elif (match := _DEFINE.match(line) or _CONSTANT.match(line)) is not None:
            name, text = match[1], match[2] or match[3]
            value = whole_number(text)
            alias = text if value is None and text in values else ""
            value = values[text] if alias else value
            if value is not None:
                values[name] = value
                yield Macro(name=name, value=value, guarded=guarded[name] > 0, line=number, alias=alias)


def whole_number(text: str) -> int | None:
    """Return the value of a C integer literal; None for other strings."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    octal = found[2].startswith("0") and found[2].isdigit()
    try:
        return int(found[1] + found[2], 8 if octal else 0)
    except ValueError:  # e.g. 08, which is not octal
        return None
