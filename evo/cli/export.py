"""A champion as a folder that works without kernel-evo."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from evo.cli.evidence import evidence_markdown
from evo.errors import Conflict, EvoError, NotFound
from evo.family import Candidate, Family
from evo.view import ChampionView, SearchView
from workers.client import Client

LOADER = Path(__file__).parent / "exported" / "kernel.py"
SOURCE, LIBRARY = "kernel.c", "libkernel.so"
"""The library must not bear the loader's name: Python would take it for an extension module."""


class NotExportable(EvoError, ValueError):
    """This champion has no form that works outside."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """All that an export is made from, fetched once."""

    champion: ChampionView
    search: SearchView
    family: Family
    source: bytes
    library: bytes

    @classmethod
    def fetch(cls, client: Client, champion: ChampionView) -> "Exported":
        """Get everything from the service.

        Raises:
            NotExportable: not a CPU champion.
            NotFound: its files are not in the service's store.
        """
        search = client.search(champion.search_id)
        if search.device.kind != "cpu":
            raise NotExportable(
                f"champion {champion.id} is of a {search.device.kind} device: only CPU kernels export yet"
            )
        family = Family.from_document(client.family(champion.family_digest or champion.family).document)
        source, library = (_artefact(client, champion, name) for name in ("source", "binary"))
        return cls(champion=champion, search=search, family=family, source=source, library=library)

    def write(self, folder: Path) -> list[Path]:
        """Write the files into a new or empty folder.

        Raises:
            Conflict: the folder holds something already.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Conflict(f"{folder} is not empty: name another folder with --to, or remove it first")
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            SOURCE: self.source,
            LIBRARY: self.library,
            LOADER.name: LOADER.read_bytes(),
            "config.json": _json(self.description()),
            "evidence.json": _json(self.evidence()),
            "report.md": self.report().encode(),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return [folder / name for name in files]

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

    def evidence(self) -> dict[str, Any]:
        """All the promotion rests on, samples included."""
        return {
            "champion": self.champion.id,
            "search": self.champion.search_id,
            "trial": self.champion.trial_number,
            "promoted_at": self.champion.promoted_at,
            "device": self.search.device,
            "objective": self.champion.objective,
            "policy": self.search.policy,
            "roofline": self.search.roofline,
            "verdict": self.champion.verdict,
            "report": self.champion.report,
        }

    def report(self) -> str:
        return evidence_markdown(self.champion, self.search, self.build_command())

    def build_command(self) -> str:
        """How the library was compiled from the source, with this machine's C compiler in the place of its own."""
        from workers.compile.cc import DEFAULT_FLAGS

        flags = (*DEFAULT_FLAGS, *self.family.implementation("cpu").flags)
        return shlex.join(["cc", *flags, SOURCE, "-o", LIBRARY, "-lm"])


def _artefact(client: Client, champion: ChampionView, name: str) -> bytes:
    artefacts: Mapping[str, str] = champion.artefacts
    if name not in artefacts:
        raise NotFound(f"champion {champion.id} has no stored {name}: measure it again to store one")
    return client.artefact(artefacts[name])


def _json(value: Any) -> bytes:
    return json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False).encode() + b"\n"
