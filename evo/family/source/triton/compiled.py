"""What the launch of a compiled Triton kernel needs, as a line of its PTX.

Triton decides threads, shared memory and scratch memory while it compiles. The PTX is stored with a kernel and is
exported with it, so a note in it reaches everything that launches the kernel.
"""

import json
import re
from dataclasses import asdict, dataclass

NOTE = "// kernel-evo launch: "
"""Begins the line; PTX takes it as a comment."""

_LINE = re.compile(rf"^{NOTE}(.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Launch facts of a compiled Triton kernel.

    Attributes:
        threads: of a block.
        shared_memory_bytes: dynamic shared memory of a block.
        cluster: blocks of a cluster; each program is run by so many blocks.
        scratch: bytes of each scratch buffer that every program needs, in the order of the parameters behind the
            arguments.
    """

    threads: int
    shared_memory_bytes: int
    cluster: int = 1
    scratch: tuple[int, ...] = ()


def noted(ptx: str, compiled: Compiled) -> str:
    """Return the PTX with the note as its last line."""
    return f"{ptx.rstrip()}\n{NOTE}{json.dumps(asdict(compiled))}\n"


def read_note(ptx: str) -> Compiled | None:
    """Return the note of a Triton kernel's PTX; None for the PTX of other kernels."""
    found = _LINE.search(ptx)
    if found is None:
        return None
    facts = json.loads(found[1])
    return Compiled(**{**facts, "scratch": tuple(facts["scratch"])})
