"""The files of a champion that works without kernel-evo."""

import csv
import io
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from pydantic_core import to_jsonable_python

from evo.cflags import c_flags
from evo.errors import EvoError
from evo.export.evidence import evidence_json, evidence_schema, series
from evo.export.profile import profile_markdown
from evo.export.report import evidence_markdown
from evo.family import Candidate, Family
from evo.view import ChampionView, SearchView

LOADER = "kernel.py"


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a kernel of one kind of device is taken away as.

    Attributes:
        source, binary: names of its files. A binary must not bear the loader's name: Python would take it for an
            extension module.
        loaders: our file by the name it gets.
    """

    source: str
    binary: str
    loaders: Mapping[str, str]


FORMS: Mapping[str, Form] = {
    "cpu": Form(source="kernel.c", binary="libkernel.so", loaders={LOADER: "kernel.py"}),
    "cuda": Form(
        source="kernel.cu",
        binary="kernel.cubin",
        loaders={LOADER: "cuda_kernel.py", "torch_op.py": "torch_op.py"},
    ),
}
PTX = "kernel.ptx"


class NotExportable(EvoError, ValueError):
    """This champion has no form that works outside."""


def refuse_unexportable(champion: ChampionView, search: SearchView) -> None:
    """Raises:
    NotExportable: nothing was compiled for its device.
    """
    if search.device.kind not in FORMS:
        raise NotExportable(
            f"champion {champion.id} is of a {search.device.kind} device: only {' and '.join(FORMS)} kernels export"
        )


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """All that an export is made from.

    Attributes:
        library: what `source` was compiled to.
        ptx: of a CUDA kernel, where it was kept.
    """

    champion: ChampionView
    search: SearchView
    family: Family
    source: bytes
    library: bytes
    ptx: bytes | None = None

    def files(self) -> dict[str, bytes]:
        """Content by file name."""
        folder = files(__package__) / "loader"
        told = {
            "config.json": _json(self.description()),
            "evidence.json": evidence_json(self.champion, self.search),
            "evidence.schema.json": _json(evidence_schema()),
            "samples.csv": samples_csv(self.champion),
            "report.md": self.report().encode(),
        }
        if (profile := profile_markdown(self.champion)) is not None:
            told["profile_summary.md"] = profile.encode()
        return {
            self.form.source: self.source,
            self.form.binary: self.library,
            **({PTX: self.ptx} if self.ptx else {}),
            **{name: (folder / ours).read_bytes() for name, ours in self.form.loaders.items()},
            **told,
        }

    @property
    def form(self) -> Form:
        return FORMS[self.search.device.kind]

    @property
    def candidate(self) -> Candidate:
        search = self.search
        return self.family.candidate(self.champion.config, search.problem, search.device, search.objective)

    def description(self) -> dict[str, Any]:
        """What the loader needs, and what a person asks first."""
        candidate = self.candidate
        return {
            "family": self.champion.family,
            "family_digest": self.champion.family_digest,
            "problem": self.champion.problem,
            "config": self.champion.config,
            "entry": self.family.implementation(self.search.device.kind).entry,
            self._binary_key: self.form.binary,
            "arguments": [
                {"name": each.name, "role": each.role, "dtype": each.dtype, "shape": each.shape, "value": each.value}
                for each in candidate.operands
            ],
            **({} if candidate.launch is None else {"launch": asdict(candidate.launch)}),
            "architecture": self.search.device.architecture,
            "device": self.champion.device_model,
            "build": self.build_command(),
        }

    @property
    def _binary_key(self) -> str:
        return "library" if self.search.device.kind == "cpu" else "binary"

    def report(self) -> str:
        return evidence_markdown(self.champion, self.search, self.build_command())

    def build_command(self) -> str:
        """How the binary was compiled from the source, with this machine's compiler in the place of its own."""
        kind, architecture = self.search.device.kind, self.search.device.architecture
        flags = self.family.implementation(kind).flags
        if kind == "cpu":
            return shlex.join(["cc", *c_flags(architecture), *flags, self.form.source, "-o", self.form.binary, "-lm"])
        command = ["nvcc", "-cubin", f"-arch={architecture}", "--std=c++17", *flags]
        return shlex.join([*command, self.form.source, "-o", self.form.binary])


def samples_csv(champion: ChampionView) -> bytes:
    """One line for each sample of the confirmation, those of one round having the same number."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(("series", "process", "round", "time_us"))
    for name, process, timing in series(champion):
        table.writerows((name, process, place, repr(sample)) for place, sample in enumerate(timing.samples_us, 1))
    return written.getvalue().encode()


def _json(value: Any) -> bytes:
    return json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False).encode() + b"\n"
