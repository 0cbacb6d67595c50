"""The tunables found to enable a failing line agree with those of a real preprocessor."""

import random
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from evo.device import Device, DeviceKind
from evo.device.estimate.target import known
from evo.family import Family
from evo.family.implementation import Implementation
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.space import Tunable
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, Outcome, OverResources
from templates.failing_line import deciding_tunables
from templates.registry import find
from tests.unit.family_document import document
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Compiler
from workers.build.build import Builder
from workers.build.cache import Cache
from workers.build.families import Assignment, Families

VALUES = {"A": [0, 1, 2], "B": [0, 1, 2], "C": [0, 1]}
CONFIGS = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
MACROS = [f"M{number}" for number in range(6)]
CONDITIONS = ["A", "B == 1", "C", "N % 7", "!defined(M0)", "defined(M1)", *MACROS, *(f"{each} == 1" for each in MACROS)]
BODIES = ["0", "1", "1", "B", "(M0 + C)", "N"]


def implementation() -> Implementation:
    found = Family.from_document(document(), "family.toml").implementation("cpu")
    tunables = tuple(Tunable(name=name, values=values) for name, values in VALUES.items())
    return replace(found, mode="source", file="kernel.c", tunables=tunables, derived={}, flags=())


def program(rng: random.Random) -> dict[str, str]:
    """Return a random source with two headers, as text by file name."""
    files = {name: "\n".join(_lines(rng, name, 0)) for name in ("one.h", "two.h")}
    return {
        "kernel.c": "\n".join([*_lines(rng, "kernel.c", 0), f"#if {rng.choice(MACROS)}", "#error last", "#endif"]),
        **files,
    }


def _lines(rng: random.Random, file: str, depth: int) -> Iterator[str]:
    for _ in range(rng.randint(2, 5)):
        match rng.randrange(6 if depth < 3 else 4):
            case 0:
                yield f"#undef {rng.choice(MACROS)}"
            case 1:
                name = rng.choice(MACROS)
                yield from (f"#undef {name}", f"#define {name} {rng.choice(BODIES)}")
            case 2 if depth and rng.random() < 0.6:
                yield f"#error {file}"
            case 3 if file == "kernel.c":
                yield f'#include "{rng.choice(["one.h", "two.h"])}"'
            case 4 | 5:
                yield f"#if {rng.choice(CONDITIONS)}"
                yield from _lines(rng, file, depth + 1)
                if rng.random() < 0.5:
                    yield rng.choice(["#else", f"#elif {rng.choice(CONDITIONS)}"])
                    yield from _lines(rng, file, depth + 1)
                yield "#endif"


def log_of(folder: Path, config: Mapping[str, int]) -> str | None:
    """Return the compiler's errors for a config; None if it compiles."""
    macros = [f"-D{name}={value}" for name, value in {**config, "N": 16}.items()]
    command = [*find_compiler(), "-fsyntax-only", *macros, "kernel.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr if done.returncode else None


@pytest.mark.parametrize("seed", range(12))
def test_configs_with_equal_values_of_the_reported_tunables_all_fail(tmp_path: Path, seed: int) -> None:
    files = program(random.Random(seed))
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    logs = [log_of(tmp_path, config) for config in CONFIGS]
    known = 0
    for config, log in zip(CONFIGS, logs, strict=True):
        names = None if log is None else deciding_tunables(log, files, implementation(), ["N"], [str(tmp_path)])
        if names is not None:
            known += 1
            alike = [all(other[name] == config[name] for name in names) for other in CONFIGS]
            assert all(other is not None for other, same in zip(logs, alike, strict=True) if same), (config, names)
    assert known == sum(log is not None for log in logs)


SPEC = """
name = "checked"
problem.N = { type = "int", default = 256, min = 1 }
arguments = [{ name = "out", role = "output", shape = ["N"], dtype = "float32", rel_l2 = 1e-5, max_abs = 1e-2 }]
work = { flops = "N", bytes = "8 * N", dtype = "float32" }

[[cases]]
name = "nominal"
inputs = "normal"

[KIND]
source = "FILE"
entry = "k"

[KIND.tunables]
A = [1, 2]
B = [1, 2]
"""
HEAD = {"cpu": "void k(float *out)", "cuda": 'extern "C" __global__ void k(float *out)'}
LAUNCH = '[cuda.launch]\ngrid = ["1"]\nblock = ["32"]\n'
CPU = Device(kind="cpu", model="any", architecture="x86_64", uuid="c")


def compiler_for(kind: DeviceKind) -> Compiler:
    try:
        return NvrtcCompiler() if kind == "cuda" else CCompiler(find_compiler())
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


def built(tmp_path: Path, kind: DeviceKind, source: str, launch: str = LAUNCH) -> Outcome | None:
    """Build a config of a family with two tunables A and B, and return why it was refused."""
    folder, file = tmp_path / "checked", "kernel.cu" if kind == "cuda" else "kernel.cpp"
    folder.mkdir()
    (folder / file).write_text(source)
    (folder / "size.h").write_text("#define SIZE (B * 3)\n")
    (folder / "reference.py").write_text("def inputs(*_): ...\ndef reference(*_): ...\n")
    text = SPEC.replace("KIND", kind).replace("FILE", file) + (launch if kind == "cuda" else "")
    (folder / "family.toml").write_text(text)
    package, device = find(str(folder)), known("sm_89") if kind == "cuda" else CPU
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name="checked", digest=package.digest),
        problem=package.family.problem("", kind),
        device=device,
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    work = Assignment(terms=terms, copy=Families(tmp_path / "families").add(package))
    builder = Builder(compiler_for(kind), Cache(tmp_path / "cache"), tmp_path / "built")
    return builder.build(work, {"A": 2, "B": 1}).refusal


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("check", "names"),
    [
        ("#error unsupported", ()),
        ("#if A == 2 || N % 7\n#error unsupported\n#endif", ("A",)),
        ('static_assert(A * 2 > 17 || N == 0, "A");', ("A",)),
        ('#include "size.h"\n#if SIZE\nflaot x;\n#endif', ("B",)),
        ('#include "absent.h"', ()),
    ],
)
def test_failed_build_reports_the_tunables_that_enable_the_failing_line(
    tmp_path: Path, kind: DeviceKind, check: str, names: tuple[str, ...]
) -> None:
    head = f'extern "C" {HEAD[kind]}' if kind == "cpu" else HEAD[kind]
    refusal = built(tmp_path, kind, f"{check}\n{head} {{ out[0] = A + B + N; }}\n")
    assert isinstance(refusal, CompileFailed)
    assert refusal.decided_by == names, refusal.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "static", "names"),
    [
        ("300000 + A", 1, ("A",)),
        ("300000 * A * B", 1, ("A", "B")),
        ("300000", 1, ()),
        ("90000 + A", 5000, None),
    ],
)
def test_launch_with_too_much_shared_memory_reports_the_tunables_in_its_size(
    tmp_path: Path, size: str, static: int, names: tuple[str, ...] | None
) -> None:
    """In the last case, the array in the kernel has a share in the sum, so its tunables are unknown."""
    body = f"__shared__ float s[{static}]; extern __shared__ float d[]; int i = threadIdx.x; s[i] = d[i] = A + B + N;"
    body += "__syncthreads(); out[i] = s[(i * 7) % 31] + d[i ^ 1];"
    launch = f'{LAUNCH}shared_memory = "{size}"\n'
    refusal = built(tmp_path, "cuda", f"{HEAD['cuda']} {{ {body} }}\n", launch)
    assert isinstance(refusal, OverResources) and refusal.resource == "shared_memory_bytes"
    assert refusal.decided_by == names
