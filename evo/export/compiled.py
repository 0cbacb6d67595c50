"""Files of an exported kernel that work without kernel-evo: source, binary, loaders and their configuration."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from evo.export.headers import flags_at, laid_out
from evo.family import Candidate, Family, Launch, Operand
from evo.family.launch.entry import symbol_of
from evo.family.source.flags import c_steps
from evo.family.source.language import Language
from evo.messages.view import SearchView
from evo.reference.encoding import encoded, stored
from evo.trial import Config

LOADER, TORCH_OP, PTX = "kernel.py", "torch_op.py", "kernel.ptx"
TENSOR_MAP = "tensor_map.py"
"""Loader file of exports whose kernel takes tensor maps."""

FLOAT_CONTROL = "float_control.py"
"""Loader file of CPU exports. Their kernels run on the caller's thread, and may change its floating-point state."""


_SOURCES: Mapping[Language, str] = {"c++": "kernel.cpp", "triton": "triton_kernel.py"}
"""Source file names that differ from `Form.source`, by language. A Triton source must not have the loader's name."""

_OF_SEVERAL = ("entry", "arguments", "further")
"""Keys that the description of a launch has only if a call has several launches."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """Names of the files that an export for one device kind contains.

    Attributes:
        source, binary: names of the source file and of the binary. The binary must not have the loader's name, because
            Python would then import it as an extension module.
        loaders: name of a file in `evo/export/loader`, by the name of its copy in the export.
    """

    source: str
    binary: str
    loaders: Mapping[str, str]


FORMS: Mapping[str, Form] = {
    "cpu": Form(
        source="kernel.c",
        binary="libkernel.so",
        loaders={LOADER: "kernel.py", TORCH_OP: "torch_op.py", FLOAT_CONTROL: FLOAT_CONTROL},
    ),
    "cuda": Form(
        source="kernel.cu",
        binary="kernel.cubin",
        loaders={LOADER: "cuda_kernel.py", TORCH_OP: "torch_op.py"},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Compiled kernel of one config of a search.

    Attributes:
        source: source of the kernel.
        library: binary compiled from `source`.
        ptx: PTX of a CUDA kernel; None if it was not stored.
        headers: contents of the headers that `source` includes, by the paths defined in `evo.export.headers`. System
            and CUDA headers are omitted.
    """

    search: SearchView
    family: Family
    source: bytes
    library: bytes
    ptx: bytes | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)

    def working_files(self, config: Config, **facts: Any) -> dict[str, bytes]:
        """Return the files that are needed to call and to rebuild the kernel, by name.

        Args:
            config: config of the kernel.
            facts: more entries for config.json.
        """
        folder = files(__package__) / "loader"
        return {
            self.source_name: self.source,
            self.form.binary: self.library,
            **({PTX: self.ptx} if self.ptx else {}),
            **laid_out(self.headers, self.family.implementation(self.search.device.kind).file),
            **{name: (folder / ours).read_bytes() for name, ours in self._loaders(config).items()},
            "config.json": as_json({**self._description(config), **facts}),
        }

    def _loaders(self, config: Config) -> Mapping[str, str]:
        launch = self.candidate_of(config).launch
        mapped = launch and any(each.tensor_maps for each in (launch, *launch.further))
        return {**self.form.loaders, **({TENSOR_MAP: TENSOR_MAP} if mapped else {})}

    @property
    def form(self) -> Form:
        return FORMS[self.search.device.kind]

    @property
    def source_name(self) -> str:
        """The source's file name. Its suffix depends on the language."""
        return _SOURCES.get(self.language, self.form.source)

    @property
    def language(self) -> Language:
        return self.family.implementation(self.search.device.kind).language

    def candidate_of(self, config: Config) -> Candidate:
        search = self.search
        candidate = self.family.candidate(config, search.problem, search.device, search.objective)
        return candidate.compiled(self._ptx_text)

    def build_command(self, config: Config) -> str:
        """Return the shell command that compiles the exported source again."""
        kind, architecture = self.search.device.kind, self.search.device.architecture
        implementation = self.family.implementation(kind)
        flags = flags_at(self.headers, implementation.flags, implementation.file)
        if kind == "cpu":
            steps = c_steps(architecture, flags, source=self.source_name, library=self.form.binary)
            compiler = "c++" if self.language == "c++" else "cc"
            return " && ".join(shlex.join([compiler, *step]) for step in steps)
        target = self.candidate_of(config).target(architecture)
        if self.language == "triton":
            module = "workers.backends.cuda.compilers.triton_library"
            return shlex.join(["python", "-m", module, self.source_name, target, self.form.binary, PTX])
        command = ["nvcc", "-cubin", f"-arch={target}", "--std=c++17", *flags]
        return shlex.join([*command, self.form.source, "-o", self.form.binary])

    @property
    def _ptx_text(self) -> str:
        return (self.ptx or b"").decode(errors="replace")

    def _description(self, config: Config) -> dict[str, Any]:
        """Return the content of config.json: the settings of the loader, and facts about the kernel for users."""
        search, candidate = self.search, self.candidate_of(config)
        return {
            "family": search.family,
            **({} if search.variant is None else {"variant": search.variant}),
            "problem": search.problem,
            "config": config,
            "entry": symbol_of(self.family.implementation(search.device.kind).entry, self._ptx_text),
            "library" if search.device.kind == "cpu" else "binary": self.form.binary,
            "arguments": [
                {
                    "name": each.name,
                    "role": each.role,
                    **array_facts(each),
                    "value": each.value,
                    "alignment": each.alignment,
                    **_initial(each),
                    **{key: limit for key, limit in (("min", each.min), ("max", each.max)) if limit is not None},
                }
                for each in candidate.operands
            ],
            **({} if candidate.launch is None else {"launch": _launch(candidate.launch, self._ptx_text)}),
            "architecture": candidate.target(search.device.architecture),
            "device": search.device.model,
            "build": self.build_command(config),
        }


def array_facts(operand: Operand) -> dict[str, Any]:
    """Return an argument's description for the loader. `stored` is the dtype of its arrays in NumPy and CuPy."""
    return {"dtype": operand.dtype, "stored": stored(operand.dtype).name, "shape": operand.shape}


def _launch(launch: Launch, ptx: str) -> dict[str, Any]:
    """Return a launch's description for the loader, without the keys `_OF_SEVERAL` if a call has only one launch."""
    described = {key: value for key, value in asdict(launch).items() if key != "programmatic"}
    if not launch.entry:
        return {key: value for key, value in described.items() if key not in _OF_SEVERAL}
    further = [_launch(each, ptx) for each in launch.further]
    return {**described, "entry": symbol_of(launch.entry, ptx), "further": further}


def _initial(operand: Operand) -> dict[str, Any]:
    """Return a buffer's initial value, as stored in memory, under the key ``init``; an empty dict if it has none."""
    if operand.init is None:
        return {}
    code = encoded(np.asarray([operand.init]), operand.dtype).astype(stored(operand.dtype))[0].item()
    return {"init": code, "init_timed": operand.init_timed}


def as_json(value: Any) -> bytes:
    """Return a value as indented JSON."""
    return json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False).encode() + b"\n"
