"""Generates the reference of the command line as Markdown. ``python -m evo.cli.reference`` writes
docs/reference/cli.md.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from evo.cli.exits import MEANING
from evo.cli.main import app
from evo.promotion.policy import POLICIES, PURPOSES
from evo.strategy import STRATEGIES
from evo.strategy.base import MARKED
from evo.variants.proposers import PROPOSERS
from evo.variants.proposers.base import MARKED as MARKED_PROPOSERS

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"

_HEAD = """# Command line

This page lists every command with its options, and the exit codes. `python -m evo.cli.reference` writes the page from
the code, and a test compares the page with the code.

With `--url` (and `--token`), a command uses a remote service. Without `--url`, it uses the local database `--db`. If no
service runs on this database, the command starts one, which ends with the command. With `--json`, a command prints its
result as JSON, and an error as `{"error": …, "code": …}` on standard error. `--debug`, at any position, shows the
traceback of an error.
"""


def reference() -> str:
    """Return the reference of the command line as Markdown."""
    strategies = {name: each for name, each in STRATEGIES.items() if name in MARKED}
    proposers = {kind: each for kind, each in PROPOSERS.items() if kind in MARKED_PROPOSERS}
    parts = [_HEAD, "## Exit codes\n", _exit_codes()]
    parts += ["## Strategies\n", _discovered("--strategy", strategies)]
    parts += ["## Proposers\n", _discovered("--proposer", proposers)]
    parts += ["## Policies\n", _policies()]
    for name, command in _commands("kernel-evo", get_command(app)):
        parts.append(_command(name, command))
    return "\n".join(parts)


def _exit_codes() -> str:
    rows = [f"| {int(code)} | {_cell(meaning)} |" for code, meaning in MEANING.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows]) + "\n"


def _policies() -> str:
    """Return a table of the policies with their purposes, and the fields in which they differ from the default."""
    default = vars(POLICIES["default"])
    rows = []
    for name, policy in POLICIES.items():
        changed = [f"`{key}` {value}" for key, value in vars(policy).items() if key != "name" and value != default[key]]
        rows.append(f"| `{name}` | {_cell(PURPOSES[name])} | {_cell(', '.join(changed) or '–')} |")
    head = ["| `--policy` | purpose | fields that differ from `default` |", "|---|---|---|"]
    end = (
        "A policy file states `base`, the name of one of these, and the fields to change. The fields and their "
        "defaults are described in `evo/promotion/policy.py`; [measuring](measuring.md) states which rule uses them.\n"
    )
    return "\n".join([*head, *rows, "", end])


def _discovered(option: str, found: Mapping[str, object]) -> str:
    """Return a table of the built-in names for an option, with the first line of each module's docstring."""
    rows = [f"| `{name}` | {_prose(_first_line(each)).strip()} |" for name, each in found.items()]
    return "\n".join([f"| `{option}` | |", "|---|---|", *rows]) + "\n"


def _first_line(marked: object) -> str:
    return str(sys.modules[marked.__module__].__doc__).splitlines()[0]


def _commands(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _command(name: str, command: Any) -> str:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [_argument(each) for each in shown if each.param_type_name == "argument"]
    rows = [_row(each) for each in shown]
    parts = [f"## {name}\n", _prose(command.help), f"```text\n{' '.join([name, *arguments])} [OPTIONS]\n```\n"]
    if rows:
        parts.append("\n".join(["| | meaning | default |", "|---|---|---|", *rows]) + "\n")
    if command.epilog:
        parts.append(f"```\n{_examples(command.epilog)}\n```\n")
    return "\n".join(parts)


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"| `{_cell(_argument(parameter))}` | {_cell(parameter.help)} | |"
    flag = bool(getattr(parameter, "is_flag", False))
    value = "" if flag else f" {parameter.metavar or parameter.name.upper()}"
    variable = f" Or set `{parameter.envvar}`." if parameter.envvar else ""
    default = "" if flag or parameter.default in (None, "") else f"`{parameter.default}`"
    return f"| `{', '.join(parameter.opts)}{_cell(value)}` | {_cell(parameter.help)}{variable} | {default} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _prose(text: str) -> str:
    return text.replace("``", "`") + "\n"


def _examples(epilog: str) -> str:
    return "\n".join(line.strip() for line in epilog.splitlines()[1:])


def main() -> None:
    """Write the reference to docs/reference/cli.md."""
    DOCUMENT.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
