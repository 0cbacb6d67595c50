"""Entry point of the command line. It registers the commands, and reports every error as one line and an exit code."""

import contextlib
import errno
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from evo.cli.arguments.naming import VARIABLES, typed_name, variable_of
from evo.cli.arguments.usage import complaint, typed, user_text
from evo.cli.commands import (
    ablation,
    doctor,
    families,
    measure,
    mission,
    record,
    search,
    searches,
    suite,
)
from evo.cli.commands.champions import champions, export
from evo.cli.commands.fleet import services, tokens, workers
from evo.cli.commands.variants import bench, evolve, variants
from evo.cli.console.output import console
from evo.cli.exits import Exit, code_of
from evo.errors import EvoError, InvalidInput
from evo.text.secrets import masked
from evo.text.visible import on_one_line, one_line, visible

OUTPUT_LOST = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EPIPE}
"""Error numbers of failed writes to standard output. Such errors contain no file name."""

WRONG_PATH = {errno.ENAMETOOLONG, errno.ELOOP}
"""Error numbers of paths that no file can have. Only a path from the command line can cause such errors."""

KEPT_CRASHES = 10
"""Number of crash logs kept in the temporary folder."""

app = typer.Typer(
    name="kernel-evo",
    help="Tunes GPU and CPU kernels: searches configs, checks each against a reference, times it, and replaces the "
    "current best only if measurements show that it is faster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="All commands accept --debug, which adds the traceback to errors.",
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kernel-evo {version('kernel-evo')}")
        raise typer.Exit


@app.callback()
def _program(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


for group in (
    search,
    searches,
    ablation,
    bench,
    mission,
    variants,
    evolve,
    champions,
    export,
    families,
    measure,
    suite,
    record,
    services,
    workers,
    tokens,
    doctor,
):
    group.register(app)


def run() -> None:
    """Run the ``kernel-evo`` command, and end the process with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    prepare_streams()
    try:
        return _exit_code([argument for argument in arguments if argument != "--debug"])
    except EvoError as error:
        return _report_refusal(message_of(error, arguments), code_of(error), arguments)
    except typer.Abort as error:
        return _report_abort(error)
    except TyperException as error:
        message = _from_environment(complaint(error, arguments), arguments)
        return _report_refusal(message, Exit.WRONG_INPUT, arguments) if message else Exit.WRONG_INPUT
    except Exception as error:  # noqa: BLE001 — the outermost frame: any other error is our bug
        if "--debug" in arguments:
            traceback.print_exc()
        if isinstance(error, OSError) and (refusal := _system_refusal(error)) is not None:
            return refusal
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        reason = f"{type(error).__name__} in {where}: {error}"
        complain(f"this is a bug in kernel-evo ({reason})\n  details: {_write_log(error)}")
        return Exit.BUG


def _report_abort(error: typer.Abort) -> Exit:
    """Return the exit code after the user aborted a Typer prompt.

    Typer also raises `Abort` if a bytecode file is truncated. In this case, an error is printed.
    """
    if "marshal data too short" not in str(error.__context__):
        return Exit.INTERRUPTED
    folder = sys.pycache_prefix or "the folders __pycache__ of kernel-evo and its libraries"
    complain(f"a bytecode file of Python is truncated, e.g. by a full disk; free some space and delete {folder}")
    return Exit.UNAVAILABLE


def _report_refusal(message: str, code: Exit, arguments: list[str]) -> int:
    """Print an error as text or, with --json, as JSON. Return the exit code."""
    if "--debug" in arguments:
        traceback.print_exc()
    if "--json" in arguments:
        sys.stderr.write(json.dumps({"error": user_text(message), "code": int(code)}) + "\n")
    else:
        values = (os.environ.get(variable, "") for variable in VARIABLES.values())
        complain(on_one_line(message, [*arguments, *values]))
    return code


def message_of(error: EvoError, arguments: Sequence[str] = ()) -> str:
    """Return an error's message, with the option or environment variable instead of the field's name."""
    if not isinstance(error, InvalidInput):
        return str(error)
    return _from_environment(f"{typed_name(error.field)}: {error.reason}", arguments)


def _from_environment(message: str, arguments: Sequence[str]) -> str:
    """Replace an option at the start of a message with the environment variable from which its value was read.

    If the value was not read from an environment variable, return the message unchanged.
    """
    name, _, reason = message.partition(": ")
    variable = variable_of(name, arguments, os.environ)
    return message if variable is None else f"{variable}: {reason}; correct it, or `unset {variable}`"


def prepare_streams() -> None:
    """Make output robust. Characters outside the encoding become ``?``, and output to a closed stream is discarded."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 — as long as we run
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _exit_code(arguments: list[str]) -> int:
    """Run a command, flush its output, and return its exit code."""
    try:
        code = app(arguments, prog_name="kernel-evo", standalone_mode=False) or 0
    except SystemExit as ending:
        lost = _output_is_closed() or isinstance(ending.__context__, BrokenPipeError)  # Rich then exits
        code = Exit.UNHEARD if lost else int(ending.code or 0)
    sys.stdout.flush()
    return code


def _output_is_closed() -> bool:
    """Return True if typer found standard output closed, and therefore replaced the stream with a wrapper."""
    return type(sys.stdout).__name__ == "PacifyFlushWrapper"


def _system_refusal(error: OSError) -> int | None:
    """Report a system error about a file, disk or pipe, and return the exit code. Return None for other errors."""
    where = error.filename
    if where is None:
        if error.errno not in OUTPUT_LOST:
            return None
        _drop_output()
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe
            return Exit.UNHEARD
        where = "standard output"
    complain(f"{one_line(str(where))} cannot be read or written: {error.strerror or error}")
    return Exit.WRONG_INPUT if error.errno in WRONG_PATH else Exit.UNAVAILABLE


def _drop_output() -> None:
    """Discard standard output, so that the interpreter's last flush does not fail again."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complain(message: str) -> None:
    """Print an error message on standard error, without wrapping its lines.

    The prefix ``Error:`` is red if colours are enabled.
    """
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), visible(user_text(message))), soft_wrap=True)


def _write_log(error: BaseException) -> Path:
    """Write the traceback to the temporary folder, delete the oldest logs, and return the new log's path."""
    folder = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        earlier = sorted(folder.glob("kernel-evo-crash-*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in earlier[KEPT_CRASHES - 1 :]:
            old.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix="kernel-evo-crash-", suffix=".log", delete=False) as log:
        log.write(typed(sys.argv) + "\n\n" + masked("".join(traceback.format_exception(error))))
    return Path(log.name)
