"""Names that expressions of a family may use, and their values."""

import keyword
import re
from collections.abc import Collection

from evo.device import Device, DeviceKind, kind_of
from evo.errors import InvalidInput
from evo.space.expression import FUNCTIONS
from evo.space.tunable import NAME
from evo.trial import Value
from evo.trial.objective import Objective

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
"""Pattern of family names and of choices."""

WORD_RULE = "at most 100 letters, digits, `_`, `-`, `.` and `+`, a letter or digit first"

TERMS = frozenset({"threads", "programmatic"})
"""Names of properties of the objective that expressions may use."""

TEMPLATE_FUNCTIONS = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace"})
"""Functions of Jinja. They are listed here, because every runner would import Jinja only for their names."""

TEMPLATE_WORDS = TEMPLATE_FUNCTIONS | {"true", "false", "none", "loop", "self", "super", "caller", "varargs", "kwargs"}
"""Reserved words of Jinja. For example, a tunable with the name `range` would replace the function in templates."""


def check_new_name(name: str, where: str, taken: Collection[str], kinds: Collection[DeviceKind]) -> None:
    """Check a new name of a field, tunable or derived value.

    Raises:
        InvalidInput: the name is malformed, reserved, or already used.
    """
    if not NAME.fullmatch(name):
        raise InvalidInput(where, "a name must start with a letter and consist of letters, digits and underscores")
    if keyword.iskeyword(name) or name in FUNCTIONS | TERMS | TEMPLATE_WORDS:
        raise InvalidInput(where, f"`{name}` is reserved in expressions or templates; choose another name")
    if name in taken:
        raise InvalidInput(
            where, f"`{name}` is declared twice: names of fields, tunables and derived values must differ"
        )
    if any(name in kind_of(kind).limits for kind in kinds):
        raise InvalidInput(where, f"`{name}` is a limit of the device; choose another name, e.g. `{name}_used`")


def device_scope(device: Device, objective: Objective) -> dict[str, Value]:
    """Return the device's limits and the objective's terms by name. Whole numbers are integers."""
    return {"threads": objective.threads, "programmatic": objective.launch == "pdl", **device_limits(device)}


def device_limits(device: Device) -> dict[str, Value]:
    """Return the device's limits that expressions may use, by name. Whole numbers are integers."""
    scope: dict[str, Value] = {}
    for name in sorted(kind_of(device.kind).limits.intersection(device.limits)):
        limit = device.limits[name]
        scope[name] = int(limit) if limit == int(limit) else limit
    return scope
