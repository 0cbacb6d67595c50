"""Launch settings of a compiled Triton kernel, stored as a line of its PTX.

Triton chooses the number of threads and the sizes of shared and scratch memory during compilation. A launch needs these
values. They are stored in the PTX, because the PTX is stored and exported with every kernel.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NOTE = "// kernel-evo launch: "
"""Start of the line, which PTX treats as a comment."""

SCRATCH = ("triton_global_scratch", "triton_profile_scratch")
"""Names of the buffers that compiled Triton kernels take after the arguments of the source."""

_LINE = re.compile(rf"^{NOTE}(.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Launch settings of a compiled Triton kernel.

    Attributes:
        threads: number of threads per block.
        shared_memory_bytes: dynamic shared memory of a block.
        cluster: number of blocks per cluster. The blocks of a cluster run one program (kernel instance) together.
        scratch: size in bytes of each scratch buffer per program, in the order of `SCRATCH`. The buffers are passed
            after the arguments.
        maps: each tensor map, as a dict of the attributes of `evo.family.TensorMap`. The maps are passed between the
            arguments and the scratch buffers.
    """

    threads: int
    shared_memory_bytes: int
    cluster: int = 1
    scratch: tuple[int, ...] = ()
    maps: tuple[Mapping[str, Any], ...] = ()


def noted(ptx: str, compiled: Compiled) -> str:
    """Return the PTX with the launch settings added as its last line."""
    return f"{ptx.rstrip()}\n{NOTE}{json.dumps(asdict(compiled))}\n"


def read_note(ptx: str) -> Compiled | None:
    """Return the launch settings stored in a Triton kernel's PTX; None for the PTX of other kernels."""
    found = _LINE.search(ptx)
    if found is None:
        return None
    facts = json.loads(found[1])
    return Compiled(**{**facts, "scratch": tuple(facts["scratch"]), "maps": tuple(facts.get("maps", ()))})
