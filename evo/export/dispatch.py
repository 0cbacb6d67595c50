"""Exports champions of one family for several problems as one folder, with a loader that selects kernels by shape."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic_core import to_jsonable_python

from evo.errors import Conflict
from evo.export.bundle import Bundle
from evo.export.compiled import TORCH_OP, array_facts

DISPATCH, TABLE = "dispatch.py", "dispatch.json"
_ODD = re.compile(r"[^A-Za-z0-9]+")


def dispatch_files(bundles: Sequence[Bundle]) -> dict[str, bytes]:
    """Return the content of each file by path: a folder for each kernel, the table of kernels, and the loaders.

    Raises:
        Conflict: the champions differ in family, device model or objective, or two champions have the same problem.
    """
    _check(bundles)
    folders = _folders(bundles)
    made = {
        f"{folder}/{name}": content for folder, bundle in folders.items() for name, content in bundle.files().items()
    }
    table = {"family": bundles[0].champion.family, "kernels": [_entry(*item) for item in folders.items()]}
    made[TABLE] = json.dumps(to_jsonable_python(table), indent=2, ensure_ascii=False).encode() + b"\n"
    for name, ours in {DISPATCH: "dispatch.py", TORCH_OP: "torch_dispatch.py"}.items():
        made[name] = (files(__package__) / "loader" / ours).read_bytes()
    return made


def _check(bundles: Sequence[Bundle]) -> None:
    first, problems = bundles[0].champion, set()
    for champion in (bundle.champion for bundle in bundles):
        for what, plural in (("family", "families"), ("device_model", "device models"), ("objective", "objectives")):
            if getattr(champion, what) != getattr(first, what):
                raise Conflict(
                    f"champions {first.id} and {champion.id} have different {plural}; select champions with the same "
                    "family, device model and objective"
                )
        if champion.problem_key in problems:
            raise Conflict(f"two of the champions are for {champion.problem_key}; select only one of them")
        problems.add(champion.problem_key)


def _folders(bundles: Sequence[Bundle]) -> Mapping[str, Bundle]:
    """Return the bundles by folder name.

    A name consists of the fields in which the problems differ, e.g. ``S_256``. If two names would be equal, all folders
    are named by the numbers of the champions, e.g. ``champion_7``.
    """
    problems = [bundle.champion.problem for bundle in bundles]
    varying = [name for name in problems[0] if len({str(problem.get(name)) for problem in problems}) > 1]
    named = {
        "_".join(_ODD.sub("_", f"{name}_{bundle.champion.problem[name]}") for name in varying): bundle
        for bundle in bundles
    }
    return named if len(named) == len(bundles) else {f"champion_{each.champion.id}": each for each in bundles}


def _entry(folder: str, bundle: Bundle) -> dict[str, Any]:
    champion = bundle.champion
    passed = [each for each in bundle.candidate.operands if each.role not in ("workspace", "scalar")]
    return {
        "folder": folder,
        "problem": champion.problem,
        "arguments": {each.name: array_facts(each) for each in passed},
        "champion": champion.id,
        "config": champion.config,
        "time_us": champion.time_us,
        "device": champion.device_model,
    }
