"""Names that expressions of a family may use, and their values."""

import keyword
import re
from collections.abc import Collection

from evo.device import Device, DeviceKind, kind_of
from evo.errors import InvalidInput
from evo.space.expression import FUNCTIONS
from evo.space.tunable import NAME, NAME_RULE
from evo.trial import Value
from evo.trial.objective import Objective

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
"""Pattern of family names and of choices."""

WORD_RULE = "at most 100 letters, digits, `_`, `-`, `.` and `+`, a letter or digit first"

TERMS = frozenset({"threads", "programmatic"})
"""Names of properties of the objective that expressions may use: its number of threads, and whether kernels are started
with programmatic dependent launch.
"""

TEMPLATE_FUNCTIONS = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace"})
"""Names of Jinja's functions. They are listed so that runners need not import Jinja."""

TEMPLATE_WORDS = TEMPLATE_FUNCTIONS | {"true", "false", "none", "loop", "self", "super", "caller", "varargs", "kwargs"}
"""Reserved words of Jinja. For example, a tunable named `range` would replace the function `range` in templates."""


def check_new_name(name: str, where: str, taken: Collection[str], kinds: Collection[DeviceKind]) -> None:
    """Check a new name of a field, tunable or derived value.

    Args:
        where: location of the name, as shown in error messages.
        taken: names in use.
        kinds: device kinds; the names of their limits are not accepted.

    Raises:
        InvalidInput: the name is malformed, reserved, or already used.
    """
    if not NAME.fullmatch(name):
        raise InvalidInput(where, NAME_RULE)
    if keyword.iskeyword(name) or name in FUNCTIONS | TERMS | TEMPLATE_WORDS:
        raise InvalidInput(where, f"`{name}` is reserved in expressions or templates; choose another name")
    if name in taken:
        raise InvalidInput(
            where, f"`{name}` is declared twice; fields, tunables and derived values must have different names"
        )
    if any(name in kind_of(kind).limits for kind in kinds):
        raise InvalidInput(where, f"`{name}` is the name of a device limit; choose another, e.g. `{name}_used`")


def device_scope(device: Device, objective: Objective) -> dict[str, Value]:
    """Return the limits of the device and the properties of the objective that expressions may use, by name."""
    return {"threads": objective.threads, "programmatic": objective.launch == "pdl", **device_limits(device)}


def device_limits(device: Device) -> dict[str, Value]:
    """Return the device limits that expressions may use, by name. Whole numbers have the type int."""
    scope: dict[str, Value] = {}
    for name in sorted(kind_of(device.kind).limits.intersection(device.limits)):
        limit = device.limits[name]
        scope[name] = int(limit) if limit == int(limit) else limit
    return scope
