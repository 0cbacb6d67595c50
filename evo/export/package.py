"""Exports champions of several families as one Python package that replaces functions of PyTorch."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic_core import to_jsonable_python

from evo.errors import Conflict
from evo.export.bundle import Bundle
from evo.export.called import SERVED
from evo.messages.view import ChampionView

TABLE = "kernels.json"
SOURCES: Mapping[str, str] = {
    "__init__.py": "package.py",
    "__main__.py": "command.py",
    "attention.py": "attention.py",
    "functions.py": "functions.py",
    "kernels.py": "kernels.py",
    "measuring.py": "measuring.py",
    "norms.py": "norms.py",
    "operators.py": "operators.py",
    "patching.py": "patching.py",
    "plans.py": "plans.py",
    "product.py": "product.py",
    "rotary.py": "rotary.py",
    "rows.py": "rows.py",
    "serving.py": "serving.py",
    "table.py": "table.py",
}
"""Names of source files in `evo/export/dropin`, by the names of their copies in a package."""


def package_files(bundles: Sequence[Bundle]) -> dict[str, bytes]:
    """Return the content of each file by path: the functions, the table of kernels, and a folder per kernel.

    Champions of families that no function of the package can call are omitted.

    Raises:
        Conflict: no champion belongs to a family that a function of the package can call.
    """
    usable = [bundle for bundle in bundles if bundle.champion.family in SERVED]
    if not usable:
        raise Conflict(f"a package needs a champion of one of these families: {', '.join(SERVED)}")
    made: dict[str, bytes] = {}
    table: list[dict[str, Any]] = []
    for bundle in usable:
        folder = f"kernels/{bundle.champion.family}_{bundle.champion.id}"
        made |= {f"{folder}/{name}": content for name, content in bundle.files().items()}
        table.append(_entry(folder, bundle))
    defaults = {
        bundle.champion.family: {field.name: field.default for field in bundle.family.fields} for bundle in usable
    }
    document = to_jsonable_python({"defaults": defaults, "kernels": table})
    made[TABLE] = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    for name, ours in SOURCES.items():
        made[name] = (files(__package__) / "dropin" / ours).read_bytes()
    return made


def faster(champion: ChampionView) -> bool:
    """Return False if every baseline was faster than the champion, so that the kernel would slow PyTorch down."""
    return champion.verdict is None or not champion.verdict.behind_every_baseline


def _entry(folder: str, bundle: Bundle) -> dict[str, Any]:
    champion, verdict = bundle.champion, bundle.champion.verdict
    speedup = None if verdict is None or verdict.baseline_speedup is None else verdict.baseline_speedup.estimate
    return {
        "folder": folder,
        "family": champion.family,
        "problem": champion.problem,
        "device": bundle.search.device.kind,
        "threads": champion.objective.threads,
        "champion": champion.id,
        "model": champion.device_model,
        "time_us": champion.time_us,
        "speedup": speedup,
        "baseline": None if verdict is None else verdict.baseline,
    }
