"""Reads measured results of a family from the built-in recordings."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evo.device import Device
from evo.strategy.parts.transfer import Earlier
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find, recordings


def shipped(family: str, device: Device, objective: Objective) -> list[Earlier]:
    """Return a family's results from the built-in recordings of this device model, one entry per problem.

    The recordings were made with the default objective. The result is empty if `objective` differs from the default in
    more than determinism and the version of the timing protocol. The version may differ, because times are compared
    only within one recording. Only recordings with the family in their name are read, e.g. ``h100-sdpa-64``.
    """
    usual = Objective(deterministic=objective.deterministic, protocol=objective.protocol)
    if objective.first != usual:
        return []
    found = [read(path) for name, path in recordings().items() if name.split("-")[1] == family]
    mine = [each for each in found if (each.family, each.model) == (family, device.model)]
    problems = [find(family).family.problem(each.problem, device.kind) for each in mine]
    return [Earlier(problem=problem, results=each.results) for problem, each in zip(problems, mine, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Measured results of one recording: pairs of config and time in µs. Configs also contain fixed tunables."""

    family: str
    model: str
    problem: str
    results: Sequence[tuple[Config, float]]


@lru_cache
def read(path: Path) -> Recorded:
    document = json.loads(gzip.decompress(path.read_bytes()))
    names, fixed = document["tune_params_keys"], document["fixed"]
    timed = [each for each in document["cache"].values() if isinstance(each["time"], int | float)]
    return Recorded(
        family=document["kernel_name"],
        model=document["device_name"],
        problem=document["problem"],
        results=[({**fixed, **{name: each[name] for name in names}}, 1e3 * each["time"]) for each in timed],
    )
