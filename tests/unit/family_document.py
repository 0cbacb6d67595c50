"""A small family that scales rows, for tests. It has a C function for the CPU and a CUDA kernel."""

import copy
import tomllib
from pathlib import Path
from typing import Any

from evo.device import Device

SPEC = """
name = "scale"
title = "out = factor * x, row by row"

[problem.ROWS]
type = "int"
default = 128
min = 1
max = 65536
help = "rows"

[problem.COLS]
type = "int"
default = 1024
min = 1
max = 65536

[problem.squared]
type = "bool"
default = false

[problem.dtype]
type = "choice"
choices = ["float32", "float16"]
default = "float16"

[[arguments]]
name = "x"
role = "input"
shape = ["ROWS", "COLS"]
dtype = "dtype"

[[arguments]]
name = "factor"
role = "scalar"
value = "0.5 if squared else 2"
dtype = "float32"

[[arguments]]
name = "partial"
role = "workspace"
shape = ["ROWS", "parts"]
dtype = "float32"

[[arguments]]
name = "out"
role = "output"
shape = ["ROWS", "COLS"]
dtype = "dtype"
rel_l2 = "1e-6 if dtype == 'float32' else 1e-3"
max_abs_ratio = 2

[work]
flops = "ROWS * COLS"
bytes = "2 * ROWS * COLS * (4 if dtype == 'float32' else 2)"
dtype = "float32"

[[cases]]
name = "nominal"
inputs = "normal"

[[cases]]
name = "tail"
inputs = "normal"
problem = { ROWS = "max(1, ROWS // 4 + 3)", COLS = 17 }
hidden = true

[cpu]
template = "kernel.c.j2"
entry = "scale"
requires = [{ expression = "dtype == 'float32'", because = "the C kernel is float32 only" }]
defaults = { dtype = "float32" }

[cpu.tunables.TILE]
values = [1, 2, 4, 8]
default = 4
help = "rows at once"

[cpu.tunables.UNROLL]
values = [1, 2, 4]

[cpu.tunables.ORDER]
values = ["rows", "cols"]

[cpu.derived]
parts = "ceil_div(COLS, TILE)"
step = "TILE * UNROLL"

[[cpu.constraints]]
expression = "step * 4 <= l1_bytes"
because = "a step must fit the first cache"

[[cpu.constraints]]
expression = "step <= COLS"
because = "a step is no longer than a row"

[cuda]
template = "kernel.cu.j2"
entry = "scale"
arguments = ["out", "x", "factor"]
flags = ["--use_fast_math"]

[cuda.tunables]
BLOCK = [64, 128, 256]
ITEMS = [1, 2, 4]

[cuda.derived]
tile = "BLOCK * ITEMS"

[[cuda.constraints]]
expression = "tile <= 4 * max_threads"
because = "a block is limited"

[cuda.launch]
grid = ["ceil_div(COLS, tile)", "ROWS"]
block = ["BLOCK"]
shared_memory = "tile * 4"
"""

TEMPLATES = {
    "kernel.c.j2": "{{ ROWS }} {{ COLS }} {{ TILE }} {{ step }} {{ ORDER }} {{ 'squared' if squared }}\n",
    "kernel.cu.j2": "{{ ITEMS }}\n",
    "reference.py": "",
}

CPU = Device(
    kind="cpu",
    model="a CPU",
    architecture="x86_64",
    uuid="cpu-0",
    limits={"cores": 2.0, "l1_bytes": 32768.0, "unheard_of": 1.0},
)
CUDA = Device(kind="cuda", model="a GPU", architecture="sm_89", uuid="gpu-0", limits={"max_threads": 1024.0})


def document() -> dict[str, Any]:
    return copy.deepcopy(tomllib.loads(SPEC))


def edited(path: str, value: Any) -> dict[str, Any]:
    """Return the document with the value at `path`, e.g. ``arguments.0.name``, replaced. None removes the value."""
    whole = document()
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    table: Any = whole
    for part in parents:
        table = table[part]
    if value is None:
        del table[last]
    else:
        table[last] = value
    return whole


def write_family(folder: Path, spec: str = SPEC, files: dict[str, str] | None = None) -> Path:
    """Write the family to a folder, and return the folder. `files` replaces templates or adds files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ({"family.toml": spec} | TEMPLATES | (files or {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder
