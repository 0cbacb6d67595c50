"""The commands ``families``, ``new`` and ``import`` list families and create new families."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, examples, named_path
from evo.cli.console.output import console, print_json, styled, table, written
from evo.errors import InvalidInput
from evo.text.shell import command
from evo.text.wording import spaced_text, value_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evo.device import DeviceKind
    from evo.family import Family, Implementation
    from evo.family.problem import Field
    from evo.space import Tunable
    from templates.registry import Broken, Package


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo families", "kernel-evo families sdpa", "kernel-evo families ./saxpy"))(
        families
    )
    app.command(epilog=examples("kernel-evo new saxpy && kernel-evo search ./saxpy"))(new)
    app.command(
        "import",
        epilog=examples(
            "kernel-evo import conv.c --reference conv.py:conv",
            "kernel-evo import gemm.cu --entry gemm",
            "kernel-evo import kernelbench 1_Square_matrix_multiplication_.py",
        ),
    )(import_)


def families(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A family, or the path of its folder.")] = None,
    as_json: Json = False,
) -> None:
    """List the kernel families, or describe one family with its problem fields, tunables and constraints."""
    from templates import registry

    packages = registry.builtin() if name is None else [registry.find(name)]
    broken = registry.broken() if name is None else []
    if as_json:
        _print_documents(packages, broken)
    elif name is None:
        _list(packages, broken)
    else:
        _describe(packages[0])


def new(
    folder: Annotated[
        Path,
        typer.Argument(
            parser=named_path, metavar="FOLDER", help="Folder to create; its name becomes the name of the family."
        ),
    ],
) -> None:
    """Create a small family as a starting point. Searches can tune its kernel without changes."""
    from evo.cli.files.new_family import write_scaffold
    from evo.cli.files.writing import shown_path

    out = console()
    for path in write_scaffold(folder):
        out.print(written(path))
    shown = shown_path(folder)
    out.print(
        styled(
            "\nThe new family works without changes:  ",
            (command("search", shown), "bold"),
            "\nThen replace its kernel with yours.",
        )
    )


def import_(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[kernelbench] FILE",
            help="Source to import: a .c, .cpp, .cc, .cxx or .cu file, or a .py file with a Triton kernel. To import a "
            "KernelBench problem, write `kernelbench` before the file.",
        ),
    ],
    entry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Kernel function to call; may be omitted if the source defines only one. If the option is repeated, "
            "a call runs the functions one after another.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="FILE:FUNCTION",
            help="Python function that computes the expected outputs with NumPy, PyTorch or JAX. Its parameters have "
            "the names of the inputs. MODULE:FUNCTION is also accepted.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ROLE", help="Role of an array: input, output, inout or workspace; may be repeated."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(parser=named_path, metavar="FOLDER", help="Folder to create; by default named like the source."),
    ] = None,
) -> None:
    """Create a family from a C, C++, CUDA or Triton source, or from a PyTorch model in KernelBench's format.

    Comments in the new files mark the decisions that you must make. A PyTorch model (class Model, get_inputs,
    get_init_inputs) is run once, in a separate process. Its family has no kernel yet, so submit variants.
    """
    match what:
        case ["kernelbench", file]:
            for name, value in (("--entry", entry), ("--reference", reference), ("--role", role)):
                if value is not None:
                    raise InvalidInput(
                        name, "applies only to sources, because a model computes its own outputs; remove it"
                    )
            _import_kernelbench(Path(file), folder)
        case [file]:
            _import_source(Path(file), folder, entries=entry or [], reference=reference, roles=role or [])
        case _:
            raise InvalidInput("FILE", "must be one source, or `kernelbench` and one Python file")


def _import_kernelbench(file: Path, folder: Path | None) -> None:
    from evo.cli.files.kernelbench import write_kernelbench
    from evo.cli.files.writing import shown_path

    place, found = write_kernelbench(file, folder)
    out, shown = console(), shown_path(place)
    for path in sorted(each for each in place.rglob("*") if each.is_file()):
        out.print(written(path))
    names = [f"{each.name} ({', '.join(each.shape)})" for each in (*found.inputs, *found.outputs)]
    out.print(f"arguments: {', '.join(names)}", markup=False)
    out.print(f"problem: {', '.join(f'{name}={value}' for name, value in found.fields.items()) or 'fixed'}")
    out.print(f"cases: {', '.join(found.distributions)}{', a second shape' if found.tail else ''}")
    out.print(
        styled(
            "\nThe family has no kernel yet. Start a search, then submit variants to the search:\n  ",
            (command("search", shown, "--trials", "1"), "bold"),
            "\n  ",
            (command("variant", "submit", "kernel.cu", "--search", "N", "--wait"), "bold"),
        )
    )


def _import_source(
    file: Path, folder: Path | None, *, entries: list[str], reference: str | None, roles: list[str]
) -> None:
    from evo.cli.files.imported import write_imported
    from evo.cli.files.writing import shown_path
    from evo.family.importing.draft import MOVE
    from evo.family.importing.writing import MARK

    place, draft = write_imported(file, folder, entries=entries, reference=reference, roles=roles)
    out, shown = console(), shown_path(place)
    for path in sorted(each for each in place.rglob("*") if each.is_file()):
        out.print(written(path))
    out.print(f"{draft.entry}: {', '.join(f'{each.name} ({each.role})' for each in draft.arguments)}")
    out.print(f"problem: {', '.join(each.name for each in draft.fields)}")
    out.print(f"tunables: {', '.join(each.name for each in draft.tunables) or 'none found'}\n")
    if macros := [each.name for each in draft.fields if each.decide == MOVE]:
        out.print(
            f"Macros that became problem fields, with the value in the source: {', '.join(macros)}. "
            "Results seem to depend on these macros. If the results do not depend on a macro, move the macro to "
            f"[{draft.kind}.tunables] in {shown}/family.toml.\n",
            soft_wrap=True,
        )
    if not draft.tunables:
        table = f"[{draft.kind}.tunables]"
        out.print(
            f"Add a tunable, such as a macro of the source with its values, under {table} in {shown}/family.toml."
        )
    if reference is None:
        out.print(f"Write reference() in {shown}/reference.py: it returns the expected outputs.")
    out.print(
        styled(f"Check the lines marked `{MARK.strip()}` in {shown}, then:  ", (command("measure", shown), "bold"))
    )


def _print_documents(packages: "Iterable[Package]", broken: "Iterable[Broken]") -> None:
    read = [{"digest": each.digest, "path": each.path, "document": each.family.document} for each in packages]
    print_json([*read, *({"name": each.name, "error": each.reason} for each in broken)])


def _list(packages: "Iterable[Package]", broken: "Iterable[Broken]") -> None:
    rows = table("family", "what it computes", "runs on")
    for package in packages:
        family = package.family
        rows.add_row(_bold(family.name), family.title, ", ".join(family.implementations))
    out = console()
    out.print(rows)
    for each in broken:
        out.print(styled((f"{each.name} cannot be read: {each.reason}", "yellow")))
    out.print(styled(("`kernel-evo families NAME` describes a family; `kernel-evo new NAME` creates a family.", "dim")))


def _describe(package: "Package") -> None:
    out, family = console(), package.family
    out.print(styled((family.name, "bold cyan"), f"  {family.title}"))
    if family.description:
        out.print(family.description)
    out.print(styled((f"{package.path}\n", "dim")))
    if family.fields:
        _print_fields(out, family.fields)
    if family.cases:
        _print_cases(out, family)
    for implementation in family.implementations.values():
        _print_implementation(out, implementation)
        _print_fault(out, package, implementation.kind)


def _print_fields(out: "Console", fields: "Iterable[Field]") -> None:
    rows = table("field", "default", "accepts", "", title="Problem")
    for field in fields:
        default = "required" if field.default is None else value_text(field.default)
        rows.add_row(_bold(field.name), default, field.accepts, field.help)
    out.print(rows, "")


def _print_cases(out: "Console", family: "Family") -> None:
    """Print each case with its inputs and the problem fields that it changes.

    The new values of the fields are those for the default problem. If there is no default problem, the expressions of
    the values are printed.
    """
    changes = family.case_changes()
    of = "" if changes is None else " of the default problem"
    title = (
        f"Correctness cases{of}: a config must pass all of them before it is timed. For other problems, see family.toml"
    )
    rows = table("case", "inputs", "problem", "", title=title)
    for case in family.cases:
        if changes is None:
            changed = "\n".join(f"{name} = {expression.text}" for name, expression in case.changes.items())
        else:
            changed = spaced_text(changes[case.name])
        hidden = "a shape that is never timed" if case.hidden else ""
        rows.add_row(_bold(case.name), case.inputs, changed or "as searched", hidden)
    out.print(rows, "")


def _print_implementation(out: "Console", implementation: "Implementation") -> None:
    from math import prod

    combinations = prod(len(tunable.values) for tunable in implementation.tunables)
    what = implementation.file or "a recorded space"
    rows = table(
        "tunable", "values", "default", "", title=f"{implementation.kind}: {what}, {combinations:,} combinations"
    )
    for tunable in implementation.tunables:
        rows.add_row(_bold(tunable.name), _values(tunable), _default(tunable), tunable.help)
    out.print(rows, "")
    if implementation.requires or implementation.constraints:
        rules = table("must hold", "because")
        for constraint in (*implementation.requires, *implementation.constraints):
            rules.add_row(_bold(constraint.expression.text), constraint.because)
        out.print(rules, "")
    if implementation.derived:
        derived = table("derived", "is")
        for name, expression in implementation.derived.items():
            derived.add_row(_bold(name), expression.text)
        out.print(derived, "")
    if implementation.starts:
        starts = table("where", "a search begins with", "because")
        for start in implementation.starts:
            starts.add_row(_bold(start.expression.text), spaced_text(start.config), start.because)
        out.print(starts, "")
    if implementation.notes:
        notes = table("where", "note that is shown with the times")
        for note in implementation.notes:
            notes.add_row(_bold(note.expression.text), note.text)
        out.print(notes, "")


def _print_fault(out: "Console", package: "Package", kind: "DeviceKind") -> None:
    """Print the fault that prevents every search of the family on this kind of device, if there is one."""
    from evo.errors import RenderError
    from templates.render import check

    try:
        check(package, kind)
    except RenderError as error:
        out.print(styled((f"The family cannot be searched on {kind} yet.", "red"), f" {error}\n"))


def _bold(text: str) -> "Text":
    from rich.text import Text

    return Text(text, "bold")


def _values(tunable: "Tunable") -> str:
    return ", ".join(value_text(value) for value in tunable.values)


def _default(tunable: "Tunable") -> str:
    return "" if tunable.default is None else value_text(tunable.default)
