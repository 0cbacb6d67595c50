"""Messages for wrong command lines: one line that names the option and how to correct it."""

from collections.abc import Mapping
from typing import Any

from typer.exceptions import TyperException

from evo.text.limits import accepted, refused


def complaint(error: TyperException) -> str:
    """Return the message for an error of typer; empty if typer only printed help."""
    parameter = getattr(error, "param", None)
    if parameter is not None:
        return f"{_name(parameter)}: {_reason(error, parameter)}"
    hint = getattr(error, "param_hint", None)
    if hint is not None:
        return f"{hint}: {error.message}"
    message = error.format_message().strip().removesuffix(".")
    return f"{message}: see `{help_of(error)}`" if message else ""


def help_of(error: TyperException) -> str:
    """Return the command whose help lists the options."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context is not None else 'kernel-evo'} --help"


def _name(parameter: Any) -> str:
    """``--minutes`` or ``SEARCH``."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else str(parameter.metavar)


def _reason(error: TyperException, parameter: Any) -> str:
    if not error.message:
        meaning = f": {parameter.help.rstrip('.')}" if parameter.help else ""
        return f"is missing{meaning}; see `{help_of(error)}`"
    told_by: Any = error.__cause__
    if not hasattr(told_by, "errors"):
        return error.message.rstrip(".")
    first: Mapping[str, Any] = told_by.errors()[0]
    limits = accepted(getattr(parameter, "min", None), getattr(parameter, "max", None))
    return refused(first, limits) or str(first.get("ctx", {}).get("error", first["msg"])).rstrip(".")
