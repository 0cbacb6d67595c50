"""The files of a champion that works without kernel-evo."""

import json
import shlex
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic_core import to_jsonable_python

from evo.cflags import c_flags
from evo.errors import EvoError
from evo.export.report import evidence_markdown
from evo.family import Candidate, Family
from evo.view import ChampionView, SearchView

LOADER = "kernel.py"
SOURCE, LIBRARY = "kernel.c", "libkernel.so"
"""The library must not bear the loader's name: Python would take it for an extension module."""


class NotExportable(EvoError, ValueError):
    """This champion has no form that works outside."""


def refuse_unexportable(champion: ChampionView, search: SearchView) -> None:
    """Raises:
    NotExportable: not a CPU champion.
    """
    if search.device.kind != "cpu":
        raise NotExportable(f"champion {champion.id} is of a {search.device.kind} device: only CPU kernels export yet")


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """All that an export is made from."""

    champion: ChampionView
    search: SearchView
    family: Family
    source: bytes
    library: bytes

    def files(self) -> dict[str, bytes]:
        """Content by file name."""
        return {
            SOURCE: self.source,
            LIBRARY: self.library,
            LOADER: (files(__package__) / "loader" / LOADER).read_bytes(),
            "config.json": _json(self.description()),
            "evidence.json": evidence_json(self.champion, self.search),
            "report.md": self.report().encode(),
        }

    @property
    def candidate(self) -> Candidate:
        search = self.search
        return self.family.candidate(self.champion.config, search.problem, search.device, search.objective)

    def description(self) -> dict[str, Any]:
        """What the loader needs, and what a person asks first."""
        return {
            "family": self.champion.family,
            "family_digest": self.champion.family_digest,
            "problem": self.champion.problem,
            "config": self.champion.config,
            "entry": self.family.implementation("cpu").entry,
            "library": LIBRARY,
            "arguments": [
                {"name": each.name, "role": each.role, "dtype": each.dtype, "shape": each.shape, "value": each.value}
                for each in self.candidate.operands
            ],
            "architecture": self.search.device.architecture,
            "device": self.champion.device_model,
            "build": self.build_command(),
        }

    def report(self) -> str:
        return evidence_markdown(self.champion, self.search, self.build_command())

    def build_command(self) -> str:
        """How the library was compiled from the source, with this machine's C compiler in the place of its own."""
        flags = (*c_flags(self.search.device.architecture), *self.family.implementation("cpu").flags)
        return shlex.join(["cc", *flags, SOURCE, "-o", LIBRARY, "-lm"])


def evidence_json(champion: ChampionView, search: SearchView) -> bytes:
    """All the promotion rests on, samples included."""
    evidence = {
        "champion": champion.id,
        "search": champion.search_id,
        "trial": champion.trial_number,
        "promoted_at": champion.promoted_at,
        "device": search.device,
        "objective": champion.objective,
        "policy": search.policy,
        "roofline": search.roofline,
        "verdict": champion.verdict,
        "report": champion.report,
    }
    return _json(evidence)


def _json(value: Any) -> bytes:
    return json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False).encode() + b"\n"
