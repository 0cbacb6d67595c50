"""Maps fields of requests to the options, arguments and environment variables that users type."""

import re
from collections.abc import Mapping, Sequence

VARIABLES: Mapping[str, str] = {
    "--db": "KERNEL_EVO_DB",
    "--token": "KERNEL_EVO_TOKEN",
    "--token-file": "KERNEL_EVO_TOKEN_FILE",
    "--url": "KERNEL_EVO_URL",
    "--webhook-secret": "KERNEL_EVO_WEBHOOK_SECRET",
}
"""Environment variable of each option that can be set in the environment."""

_TYPED: Mapping[str, str] = {
    "artefact_limit_gb": "--artefacts-gb",
    "budget.cost": "--max-cost",
    "champion_id": "CHAMPION",
    "config": "--config",
    "device": "--device",
    "device_uuid": "--device-uuid",
    "expires_in_s": "--days or --hours",
    "family": "FAMILY",
    "from_default": "--from-default",
    "grace_s": "--grace",
    "name": "NAME",
    "objective.direction": "--objective",
    "objective.metric": "--objective",
    "objective.second_direction": "--objective (second)",
    "objective.second_metric": "--objective (second)",
    "policy": "--policy",
    "problem": "--problem",
    "requirements.memory_gb": "--device-memory",
    "requirements.toolkit": "--toolkit",
    "roles": "--role",
    "search_id": "SEARCH",
    "token": "--token",
    "token_id": "ID",
    "warm_start": "--warm-start",
    "webhook.secret": "--webhook-secret",
    "webhook.url": "--webhook",
}
"""Option or argument by request field, for fields that contain other fields, or whose option has a different name."""

_SAME = {
    "budget": ("cost_per_hour", "minutes", "stagnation", "trials"),
    "objective": ("cache", "launch", "target", "threads"),
    "": ("calls_per_second", "cost_per_hour", "db", "keep_days", "limit", "notes", "outcome", "priority", "reason",
         "seed", "sort", "strategy", "targets", "url"),
}  # fmt: skip
"""Fields whose option has the same name, grouped by the field that contains them: ``""`` is the request itself."""

_SPEC = ("family.toml", "document")
"""Prefixes of the fields of family.toml: in messages to users, and in messages of the service."""


def typed_name(field: str) -> str:
    """Return what a user types for a field: ``--webhook`` for ``webhook.url``, ``--problem S`` for ``problem.S``.

    A field without an option is returned unchanged.
    """
    file, found, key = field.partition(": ")
    if found and file in _SPEC:
        return f"{_SPEC[0]}: {key}"
    field = re.sub(r"\.\d+$", "", field)  # without the index of a list entry
    group, _, last = field.rpartition(".")
    if last in _SAME.get(group, ()):
        return f"--{last.replace('_', '-')}"
    names = field.split(".")
    for count in range(len(names), 0, -1):
        if (option := _TYPED.get(".".join(names[:count]))) is not None:
            return " ".join(filter(None, (option, ".".join(names[count:]))))
    return field


def variable_of(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the environment variable from which an option was read; None if the option was typed or has its default.

    Args:
        name: name of an option, e.g. ``--db``.
        arguments: the command line without the program's name.
    """
    variable = VARIABLES.get(name)
    typed = any(argument == name or argument.startswith(f"{name}=") for argument in arguments)
    return variable if variable is not None and not typed and environment.get(variable) else None
