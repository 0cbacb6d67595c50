"""Messages for wrong command lines. A message is one line that names the option and a remedy."""

import re
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

import typer
from typer.exceptions import TyperException

from evo.errors import InvalidInput
from evo.text.limits import MOST, NOT_WHOLE, accepted, refused, units
from evo.text.secrets import masked
from evo.text.shell import command as shell
from evo.text.suggestion import closest, numbers_meant

_SERVICE = frozenset({"--resume", "--url", "--token", "--db", "--json"})

SYNONYMS = {"validate": "measure", "verify": "measure", "check": "measure", "test": "measure"}
"""Commands of other tools, with the command that does the same here."""


def complaint(error: TyperException, arguments: Sequence[str] = ()) -> str:
    """Return the message for a Typer error, or an empty string if Typer only printed help.

    Args:
        arguments: the command line without the program's name.
    """
    if (negative := _negative(error, arguments)) is not None:
        return negative
    parameter = getattr(error, "param", None)
    if parameter is not None:
        return f"{_name(parameter)}: {_reason(error, parameter)}"
    hint = getattr(error, "param_hint", None)
    if hint is not None:
        return f"{hint}: {error.message}"
    if (misspelt := _misspelt(error, arguments)) is not None:
        return misspelt
    message = error.format_message().strip().removesuffix(".")
    return f"{message}: see `{help_of(error)}`" if message else ""


def _negative(error: TyperException, arguments: Sequence[str]) -> str | None:
    """Return the message for a negative number that was given as an argument, which Typer reads as an option.

    None if the error has a different cause, or if the command takes no arguments.
    """
    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if context is None or not re.fullmatch(r"-\d", option):
        return None
    word = next((each for each in arguments if each.startswith(option)), option)
    takes = [each for each in context.command.params if each.param_type_name == "argument"]
    if not takes:
        return None
    wanted = (
        "numbers begin at 1"
        if getattr(takes[0], "min", None) is not None
        else f"write a name, or a path such as ./{word}"
    )
    return f"{_name(takes[0]).strip('[].…')}: {word} begins with `-`, as options do; {wanted}; see `{help_of(error)}`"


def _misspelt(error: TyperException, arguments: Sequence[str]) -> str | None:
    """Return the message for an unknown option, command or argument if a correction is known, else None."""
    context: Any = getattr(error, "ctx", None)
    command: Any = getattr(context, "command", None)
    if command is None:
        return None
    options = [each for parameter in command.params for each in parameter.opts if each.startswith("--")]
    if (option := getattr(error, "option_name", None)) is not None:
        remedy = _meant_option(option, options, arguments)
        return remedy and f"No such option: {remedy}, or see `{help_of(error)}`"
    text = error.format_message()
    if (found := re.match(r"No such command '([^']*)'", text)) is not None:
        commands = getattr(command, "commands", ())
        known = SYNONYMS.get(found[1])
        meant = known if known in commands else closest(found[1], [*commands, *options, "--help"])
        return meant and f"No such command '{found[1]}'; write `{context.command_path} {meant}`"
    if (
        found := re.match(r"Got unexpected extra argument\S* \((\w+=\S+)\)", text)
    ) is not None and "--problem" in options:
        return f"Got unexpected extra argument ({found[1]}); {_joined(found[1], arguments)}"
    return None


def _joined(assignment: str, arguments: Sequence[str]) -> str:
    """Return how to write an assignment that follows other arguments, e.g. ``--config WIDTH=16 UNROLL=4``."""
    for option, value, following in zip(arguments, arguments[1:], arguments[2:], strict=False):
        if option == "--config" and following == assignment:
            return f"separate the values by a comma: --config {value},{assignment}"
    return f"write --problem {assignment}"


def _meant_option(option: str, options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Return an unknown option with its correction, e.g. ``--problm; write --problem``; None if none is known."""
    written = next((each for each in arguments if each.startswith(option)), option)
    word, _, value = written.partition("=")
    names = [f"--{word.lstrip('-')}", *([] if len(word) > len(option) else [option])]
    meant = next(filter(None, (closest(each, [*options, "--help"], cutoff=0.75) for each in names)), None)
    if meant is not None:
        return f"{word}; write {meant}"
    following = dict(pairwise(arguments))
    value = value or following.get(written, "-")
    if not re.fullmatch(r"--\w+", word) or "--problem" not in options or value.startswith("-"):
        return None
    return f"{word}; for a field of the problem, write --problem {word.lstrip('-')}={value}"


def help_of(error: TyperException) -> str:
    """Return the command that prints help on the failed command, e.g. ``kernel-evo search --help``."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context is not None else 'kernel-evo'} --help"


def typed_options(context: typer.Context) -> tuple[str, ...]:
    """Return the options of the running command that were typed, without defaults and environment variables."""
    return tuple(
        _name(parameter)
        for parameter in context.command.params
        if parameter.param_type_name == "option" and _is_typed(context, parameter.name)
    )


def refuse_with_resume(context: typer.Context, kept: Set[str]) -> None:
    """Refuse options that only apply to a new search, because a resumed search keeps its settings.

    Args:
        kept: options that also take effect with ``--resume``. The options that choose the service are always accepted.

    Raises:
        InvalidInput: an option was typed that has no effect with ``--resume``.
    """
    for option in typed_options(context):
        if option not in kept | _SERVICE:
            remedy = "omit it, or start a new search"
            raise InvalidInput(option, f"has no effect with --resume, which keeps the search's settings; {remedy}")


def refuse_family_with_resume(family: str | None, resume: int, *, command: str, options: str) -> None:
    """Refuse a family next to ``--resume``, because a resumed search keeps its own family.

    Args:
        command: name of the command, ``search`` or ``record``.
        options: options that make another command use the same service, with a leading space.

    Raises:
        InvalidInput: a family was typed.
    """
    if family is not None:
        alone, new = shell(command, "--resume", resume), shell(command, family)
        raise InvalidInput(
            "FAMILY",
            f"{family} has no effect with --resume, because search {resume} keeps its own family; write "
            f"`{alone}{options}`, or `{new}{options}` for a new search",
        )


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _name(parameter: Any) -> str:
    """Return the name of a parameter: ``--minutes`` or ``SEARCH``."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else str(parameter.metavar)


def _reason(error: TyperException, parameter: Any) -> str:
    if not error.message:
        meaning = f": {parameter.help.rstrip('.')}" if parameter.help else ""
        return f"is missing{meaning}; see `{help_of(error)}`"
    cause: Any = error.__cause__
    if not hasattr(cause, "errors"):
        return error.message.rstrip(".")
    first: Mapping[str, Any] = cause.errors()[0]
    limits = accepted(*_bounds(parameter))
    reason = refused(first, limits) or str(first.get("ctx", {}).get("error", first["msg"])).rstrip(".")
    if parameter.param_type_name == "argument":
        return f"{reason}; {parameter.help[0].lower()}{parameter.help[1:].rstrip('.')}" if parameter.help else reason
    option = f"{_name(parameter)} "
    if meant := _meant(first, parameter):
        return f"{reason}; write {' or '.join(option + each for each in meant)}"
    example = _example(first, parameter)
    return f"{reason}, e.g. {option}{example}" if example else reason


def _bounds(parameter: Any) -> tuple[float | None, float | None]:
    return getattr(parameter, "min", None), getattr(parameter, "max", None)


def _choices(error: Mapping[str, Any]) -> list[str]:
    """Return the accepted words that an error lists; empty for other errors."""
    return re.findall(r"'([^']*)'", str(error["msg"]).partition(" is not one of ")[2])


_UNLIMITED = {"all", "any", "inf", "infinite", "infinity", "unlimited", "forever", "max", "none", "never", "∞"}


def _meant(error: Mapping[str, Any], parameter: Any) -> list[str]:
    """Return the valid values, as text, that the user may have meant by an invalid value; empty if none is known."""
    given, (least, most) = str(error["input"]), _bounds(parameter)
    if choices := _choices(error):
        meant = closest(given, choices)
        return [] if meant is None else [meant]
    if most == MOST and given.strip().lower() in _UNLIMITED:
        return [str(MOST)]
    fitting = [
        value
        for value in numbers_meant(given, units([str(parameter.name)]))
        if (least is None or value >= least)
        and (most is None or value <= most)
        and (isinstance(value, int) or error["type"] not in NOT_WHOLE)
    ]
    written = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in fitting]
    return [each for each in written if each != given]


def _example(error: Mapping[str, Any], parameter: Any) -> str:
    """Return an example of a valid value; empty if the parameter has neither limits nor a list of accepted words."""
    if choices := _choices(error):
        return choices[0]
    least, most = _bounds(parameter)
    if least is None and most is None:
        return ""
    if isinstance(parameter.default, int | float):
        return f"{parameter.default:.6g}"
    given = next(iter(numbers_meant(str(error["input"]), units([str(parameter.name)]))), 1)
    nearest = most if most is not None and given > most else 1 if least is None else max(1, least)
    return f"{nearest if most is None else min(nearest, most):.12g}"


_COMMANDS = (
    (r"GET /searches/(\w+)/trials", r"`kernel-evo trials \1`"),
    (r"GET /searches", "`kernel-evo searches`"),
    (r"GET /champions", "`kernel-evo champion show`"),
    (r"GET /workers", "`kernel-evo workers`"),
)
"""Patterns of REST requests in the service's messages, and the commands that replace these requests."""


def user_text(message: str) -> str:
    """Return a service's message with commands in place of REST requests, and with passwords in URLs masked."""
    for request, command in _COMMANDS:
        message = re.sub(request, command, message)
    return masked(message)


def typed(arguments: list[str]) -> str:
    """Return a command line in which ``***`` replaces tokens and passwords."""
    secret = re.sub(r"(--token[= ])\S+", r"\1***", " ".join(arguments))
    return masked(secret)
