"""Imports Triton's unchanged tutorials, searches them, and compares with the choice of ``@triton.autotune``.

    python -m tests.bench.triton_tutorials FOLDER [--seconds 60] [--helion 60] [--compile-only] [NAME …]

FOLDER contains unchanged files of ``python/tutorials`` of Triton's repository: 01-vector-add.py, 02-fused-softmax.py,
03-matrix-multiplication.py, 05-layer-norm.py, 06-fused-attention.py. Each file is imported by ``kernel-evo import``.
This module defines what the import leaves to a person: shapes, dtypes, tolerances and the reference. The tutorial's own
call is a baseline of the search, so it is timed in the same process, interleaved, with the same protocol.
``@triton.autotune`` chooses its config once before the search, in a separate process, because it compiles and times
dozens of configs, which takes longer than a worker waits for a baseline. In tutorials without ``@triton.autotune``, the
baseline is the launch that the tutorial computes itself.

With ``--helion SECONDS``, Helion's autotuner searches the config of a Helion kernel for the same operation
(`helion_kernels.py`) for SECONDS with its effort ``quick``, also in a separate process. This kernel is then another
baseline. With the effort ``full``, compiling the first configs alone takes longer than a minute. If Helion finds no
config, the reason is printed, and the tutorial is compared without Helion.

The benchmark needs a GPU, PyTorch and Triton, and Helion for ``--helion``; with ``--compile-only``, it needs only
Triton.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from db.engine.session import Database
from db.models import AttemptRow, JobRow, TrialRow
from evo.cli.files.imported import write_imported
from evo.device.estimate.target import known
from evo.messages.view import SearchView
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval, rounds_ratio
from evo.text.document import toml_text
from evo.trial.results import ConfirmReport
from templates.registry import find
from tests.bench.searching import BenchError, Effort, Match, database_of, search

CHOOSING_S = 900.0
"""Time limit of ``@triton.autotune`` or of Helion's autotuner in seconds."""

HELION_KERNELS = Path(__file__).with_name("helion_kernels.py")

LOADER = '''
import ast
import json
from pathlib import Path

CHOICES = Path(__file__).with_name("choices.json")
HELION = Path(__file__).with_name("helion.json")


def tutorial():
    """Return the definitions of the file. Autotuners with a stored choice get only the chosen config.

    Statements that are only a call, and statements that fail, are omitted.
    """
    path, names = Path(__file__).with_name(FILE), {"__name__": "tutorial"}
    names["__file__"] = str(path)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Expr) or ast.unparse(node).startswith("@triton.testing"):
            continue
        try:
            exec(compile(ast.Module(body=[node], type_ignores=[]), str(path), "exec"), names)
        except Exception:
            pass
    for name, choice in (json.loads(CHOICES.read_text()) if CHOICES.exists() else {}).items():
        names[name].configs = [each for each in names[name].configs if described(each) == choice]
        if len(names[name].configs) != 1:
            raise ValueError(f"{name} has {len(names[name].configs)} configs like its choice {choice}")
    return names


def described(config):
    """Return a config of @triton.autotune as JSON holds it."""
    return {name: each for name, each in config.all_kwargs().items() if isinstance(each, bool | int | float | str)}


def choose(problem):
    """Let the autotuners of the file choose for a problem, and store their choices."""
    names, given = tutorial(), inputs(problem, "normal", np.random.default_rng(0))
    call(problem, on_gpu(given), names)()
    found = {name: getattr(each, "best_config", None) for name, each in names.items()}
    choices = {name: described(each) for name, each in found.items() if each is not None}
    CHOICES.write_text(json.dumps(choices))


def on_gpu(inputs):
    import torch

    return {name: torch.from_numpy(array).cuda() for name, array in inputs.items()}


def with_helion(problem, tensors):
    """Return a call of Helion's kernel with the config that its autotuner stored."""
    import helion
    import helion_kernels

    arguments = helion_arguments(problem, tensors)
    bound = getattr(helion_kernels, HELION_KERNEL).bind(arguments)
    bound.set_config(helion.Config.load(HELION))
    return lambda: bound(*arguments)


def cuda_baselines(problem):
    offered = {"tutorial": lambda inputs: call(problem, on_gpu(inputs), tutorial())}
    if HELION.exists():
        offered["helion"] = lambda inputs: with_helion(problem, on_gpu(inputs))
    return offered


def normal(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape, np.float32).astype(dtype)

'''


@dataclass(frozen=True, kw_only=True)
class Tutorial:
    """A tutorial, with the values that a person adds after the import.

    Attributes:
        fields: default values by problem field.
        arguments: shape, dtype and tolerance ``(rel_l2, max_abs)`` by argument.
        table: keys of ``[triton]`` to change.
        python: source text of ``inputs``, of ``reference``, of ``call``, which is the tutorial's own launch, and of
            ``helion_arguments``, which returns the arguments of the Helion kernel.
        helion: function of `helion_kernels.py`.
    """

    file: str
    entry: str
    fields: Mapping[str, Any]
    arguments: Mapping[str, tuple[list[str], str, tuple[float, float] | None]]
    table: Mapping[str, Any] = field(default_factory=dict)
    python: str
    helion: str = ""


ROWS = {"type": "int", "default": 4096, "min": 1}
FITS = "the stages of all tiles must fit into the shared memory of a block"

TUTORIALS: Mapping[str, Tutorial] = {
    "vector-add": Tutorial(
        file="01-vector-add.py",
        entry="add_kernel",
        helion="add",
        fields={"n_elements": 1 << 24},
        arguments={
            **{name: (["n_elements"], "float32", None) for name in "xy"},
            "output": (["n_elements"], "float32", (1e-6, 1e-5)),
        },
        python="""
def inputs(problem, distribution, rng):
    return {name: normal(rng, problem["n_elements"], dtype=np.float32) for name in ("x", "y")}


def reference(problem, inputs):
    return {"output": inputs["x"].astype(np.float64) + inputs["y"]}


def call(problem, tensors, names):
    return lambda: names["add"](tensors["x"], tensors["y"])


def helion_arguments(problem, tensors):
    return tensors["x"], tensors["y"]
""",
    ),
    "fused-softmax": Tutorial(
        file="02-fused-softmax.py",
        entry="softmax_kernel",
        helion="softmax",
        fields={"n_rows": 4096, "n_cols": 4096},
        arguments={
            "input": (["n_rows", "n_cols"], "float32", None),
            "output": (["n_rows", "n_cols"], "float32", (1e-5, 1e-5)),
        },
        table={
            "tunables": {
                "BLOCK_SIZE": [1 << power for power in range(6, 15)],
                "num_stages": [1, 2, 3, 4],
                "num_warps": [1, 2, 4, 8, 16],
                "PROGRAMS": [1, 2, 3, 4, 6, 8, 16, 32],
            },
            "constraints": [
                {
                    "expression": "n_cols <= BLOCK_SIZE < 2 * n_cols",
                    "because": "a block is one row with the least padding",
                }
            ],
            "derived": {"input_row_stride": "n_cols", "output_row_stride": "n_cols"},
            "launch": {"grid": ["min(n_rows, sm_count * PROGRAMS)"]},
        },
        python="""
def inputs(problem, distribution, rng):
    return {"input": normal(rng, problem["n_rows"], problem["n_cols"], dtype=np.float32)}


def reference(problem, inputs):
    x = inputs["input"].astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"output": powers / powers.sum(axis=1, keepdims=True)}


def call(problem, tensors, names):
    return lambda: names["softmax"](tensors["input"])


def helion_arguments(problem, tensors):
    return (tensors["input"],)
""",
    ),
    "matmul": Tutorial(
        file="03-matrix-multiplication.py",
        entry="matmul_kernel",
        helion="matmul",
        fields={"M": 2048, "N": 2048, "K": 2048},
        arguments={
            "a": (["M", "K"], "float16", None),
            "b": (["K", "N"], "float16", None),
            "c": (["M", "N"], "float16", (1e-3, 0.25)),
        },
        table={
            "tunables": {
                "BLOCK_SIZE_M": [32, 64, 128, 256],
                "BLOCK_SIZE_N": [32, 64, 128, 256],
                "BLOCK_SIZE_K": [32, 64, 128],
                "GROUP_SIZE_M": [1, 4, 8, 16],
                "num_stages": [2, 3, 4, 5],
                "num_warps": [4, 8],
            },
            "constraints": [
                {
                    "expression": "2 * num_stages * BLOCK_SIZE_K * (BLOCK_SIZE_M + BLOCK_SIZE_N)"
                    " <= shared_memory_bytes",
                    "because": FITS,
                }
            ],
        },
        python="""
def inputs(problem, distribution, rng):
    return {"a": normal(rng, problem["M"], problem["K"]), "b": normal(rng, problem["K"], problem["N"])}


def reference(problem, inputs):
    return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}


def call(problem, tensors, names):
    return lambda: names["matmul"](tensors["a"], tensors["b"])


def helion_arguments(problem, tensors):
    return tensors["a"], tensors["b"]
""",
    ),
    "layer-norm": Tutorial(
        file="05-layer-norm.py",
        entry="_layer_norm_fwd_fused",
        helion="layer_norm",
        fields={"N": 8192, "eps": 1e-5, "ROWS": ROWS},
        arguments={
            "X": (["ROWS", "N"], "float16", None),
            "Y": (["ROWS", "N"], "float16", (1e-3, 3e-2)),
            "W": (["N"], "float16", None),
            "B": (["N"], "float16", None),
            "Mean": (["ROWS"], "float32", (1e-3, 1e-5)),
            "Rstd": (["ROWS"], "float32", (1e-5, 1e-4)),
        },
        table={
            "tunables": {"BLOCK_SIZE": [512, 1024, 2048, 4096, 8192, 16384], "num_warps": [1, 2, 4, 8, 16]},
            "derived": {"stride": "N"},
            "launch": {"grid": ["ROWS"]},
        },
        python="""
def inputs(problem, distribution, rng):
    rows, n = problem["ROWS"], problem["N"]
    return {"X": normal(rng, rows, n), "W": normal(rng, n), "B": normal(rng, n)}


def reference(problem, inputs):
    x, w, b = (inputs[name].astype(np.float64) for name in "XWB")
    mean = x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + problem["eps"])
    return {"Y": (x - mean) * scale * w + b, "Mean": mean[:, 0], "Rstd": scale[:, 0]}


def call(problem, tensors, names):
    layer_norm, n = names["LayerNorm"].apply, problem["N"]
    return lambda: layer_norm(tensors["X"], (n,), tensors["W"], tensors["B"], problem["eps"])


def helion_arguments(problem, tensors):
    return tensors["X"], tensors["W"], tensors["B"], problem["eps"]
""",
    ),
    "fused-attention": Tutorial(
        file="06-fused-attention.py",
        entry="_attn_fwd",
        helion="attention",
        fields={
            "sm_scale": 0.5,
            "Z": 2,
            "H": 16,
            "N_CTX": 2048,
            "HEAD_DIM": 64,
            "STAGE": 1,
            "IS_HOPPER": True,
        },
        arguments={
            **{name: (["Z", "H", "N_CTX", "HEAD_DIM"], "float16", None) for name in "qkv"},
            "o": (["Z", "H", "N_CTX", "HEAD_DIM"], "float16", (3e-3, 3e-2)),
            "M": (["Z", "H", "N_CTX"], "float32", (1e-3, 1e-1)),
        },
        table={
            "tunables": {
                "BLOCK_M": [64, 128, 256],
                "BLOCK_N": [32, 64],
                "num_stages": [1, 2, 3, 4, 5],
                "num_warps": [4, 8],
            },
            "constraints": [
                {
                    "expression": "2 * HEAD_DIM * (BLOCK_M + 2 * num_stages * BLOCK_N) <= shared_memory_bytes",
                    "because": FITS,
                },
                {"expression": "N_CTX % BLOCK_M == 0", "because": "the kernel has no mask"},
            ],
            "launch": {
                "grid": ["ceil_div(N_CTX, BLOCK_M)", "Z * H"],
                "descriptors": [
                    {"of": name, "shape": ["Z * H * N_CTX", "HEAD_DIM"], "block": [rows, "HEAD_DIM"]}
                    for name, rows in (("q", "BLOCK_M"), ("k", "BLOCK_N"), ("v", "BLOCK_N"), ("o", "BLOCK_M"))
                ],
            },
        },
        python="""
def inputs(problem, distribution, rng):
    shape = [problem[name] for name in ("Z", "H", "N_CTX", "HEAD_DIM")]
    return {name: normal(rng, *shape) for name in "qkv"}


def reference(problem, inputs):
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) * problem["sm_scale"]
    peak = scores.max(axis=3, keepdims=True)
    powers = np.exp(scores - peak)
    total = powers.sum(axis=3, keepdims=True)
    return {"o": powers / total @ v, "M": (peak / np.log(2) + np.log2(total))[..., 0]}


def call(problem, tensors, names):
    import torch
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    q, k, v = (tensors[name] for name in "qkv")
    z, h, n, d = q.shape
    o, m = torch.empty_like(q), torch.empty((z, h, n), device=q.device, dtype=torch.float32)
    described = [TensorDescriptor(each, [z * h * n, d], [d, 1], [1, 1]) for each in (q, k, v, o)]
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), z * h, 1)
    given = {"N_CTX": n, "HEAD_DIM": d, "FP8_OUTPUT": False, "STAGE": 1, "warp_specialize": False, "IS_HOPPER": True}
    return lambda: names["_attn_fwd"][grid](problem["sm_scale"], m, z, h, *described, **given)


def helion_arguments(problem, tensors):
    q, k, v = (tensors[name].flatten(0, 1) for name in "qkv")
    return q, k, v, problem["sm_scale"]
""",
    ),
}


def family_of(tutorial: Tutorial, files: Path, folder: Path) -> Path:
    """Import a tutorial, add the values that a person would add, and return the family's folder."""
    place, _ = write_imported(files / tutorial.file, folder, entries=[tutorial.entry], reference=None)
    document = tomllib.loads((place / "family.toml").read_text(encoding="utf-8"))
    del document["cases"][1:]  # the attention kernel requires multiples of its blocks
    for name, default in tutorial.fields.items():
        document["problem"][name] = (
            default if isinstance(default, dict) else document["problem"][name] | {"default": default}
        )
    for argument in document["arguments"]:
        shape, dtype, tolerance = tutorial.arguments[argument["name"]]
        argument |= {"shape": shape, "dtype": dtype}
        if tolerance is not None:
            argument |= {"role": "output", "rel_l2": tolerance[0], "max_abs": tolerance[1]}
    table = document["triton"]
    if "tunables" in tutorial.table:
        table["starts"] = [
            each for each in table.get("starts", []) if _fits(each["config"], tutorial.table["tunables"])
        ]
    table |= dict(tutorial.table)
    (place / "family.toml").write_text(toml_text(document), encoding="utf-8")
    names = f"FILE, HELION_KERNEL = {tutorial.file!r}, {tutorial.helion!r}"
    text = f"import numpy as np\n\n{names}\n{LOADER}{tutorial.python}"
    (place / "reference.py").write_text(text, encoding="utf-8")
    return place


def _fits(config: Mapping[str, Any], tunables: Mapping[str, list[Any]]) -> bool:
    return all(name in tunables and value in tunables[name] for name, value in config.items())


def compare(name: str, files: Path, folder: Path, seconds: float, helion_s: float) -> tuple[str, float | None]:
    """Run a search for a tutorial's kernel.

    Returns:
        The line of the result table, and the speed-up over the config that the tutorial chose; None if it is unknown.
    """
    place = family_of(TUTORIALS[name], files, folder / name)
    choose(place)
    if helion_s:
        try:
            choose_with_helion(place, TUTORIALS[name].helion, helion_s)
        except BenchError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    effort = Effort(trials=100_000, minutes=seconds / 60, sample=0, rounds=0, seed=0, device="cuda")
    match = Match(family=str(place), problem="", minutes=seconds / 60)
    found = search(match, effort, folder / "searches")
    return _line(name, found, confirmation_of(database_of(match, folder / "searches"), found))


def confirmation_of(database: Path, found: SearchView) -> ConfirmReport | None:
    """Return the report of the last confirmation of the best trial; None if it was not confirmed."""
    if found.best is None:
        return None
    store = Database.open(database)
    try:
        with store.read() as session:
            query = session.query(AttemptRow).join(JobRow).join(TrialRow, TrialRow.id == JobRow.trial_id)
            chosen = query.where(JobRow.kind == "confirm", TrialRow.number == found.best.number)
            reports = [each.result for each in chosen.order_by(AttemptRow.ended_at)]
    finally:
        store.close()
    return next((each for each in reversed(reports) if isinstance(each, ConfirmReport) and each.challenger), None)


def choose(place: Path) -> None:
    """Let the tutorial choose its config for the family's problem, and store the config next to the reference.

    Raises:
        BenchError: the tutorial fails or takes too long. The message contains its last line of output.
    """
    code = "import json, sys; import reference; reference.choose(json.loads(sys.argv[1]))"
    _run(place, ["-c", code], "the tutorial's choice", {})


def choose_with_helion(place: Path, kernel: str, seconds: float) -> None:
    """Let Helion's autotuner choose the config of its kernel, and store the config next to the reference.

    Raises:
        BenchError: see `choose`.
    """
    shutil.copy(HELION_KERNELS, place)
    effort = {"HELION_AUTOTUNE_BUDGET_SECONDS": f"{seconds:g}", "HELION_AUTOTUNE_EFFORT": "quick"}
    _run(place, [HELION_KERNELS.name, kernel], "Helion's choice", effort)


def _run(place: Path, program: list[str], what: str, environment: Mapping[str, str]) -> None:
    """Run a Python program in the family's folder. Its last argument is the family's problem as JSON."""
    problem = json.dumps(dict(find(str(place)).family.problem("", "cuda")))
    try:
        done = subprocess.run(
            [sys.executable, *program, problem],
            cwd=place,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=CHOOSING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{what} took longer than {CHOOSING_S:g} s") from None
    if done.returncode:
        raise BenchError(f"{what} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


BASELINES = ("tutorial", "helion")


def _line(name: str, found: SearchView, report: ConfirmReport | None) -> tuple[str, float | None]:
    """Return the line of a tutorial, and the speed-up over the tutorial's config.

    All figures come from the first process of the best trial's confirmation, which times the baselines in the same
    rounds. Without a confirmation, they come from quick samples.
    """
    best, own = found.best, found.baselines.get("tutorial")
    if best is None or own is None:
        return f"{name:<16} no {'baseline' if best else 'valid config'}. {found.not_compared or ''}", None
    if report is not None and report.challenger is not None and "tutorial" in report.baselines:
        timings, best_us = report.baselines, report.challenger.median_us
        samples_us = report.challenger.samples_us
        over = {
            each: order_interval(rounds_ratio(timings[each].samples_us, samples_us), CONFIDENCE)
            for each in BASELINES
            if each in timings
        }
    else:
        timings, best_us = found.baselines, best.time_us
        over = {
            each: Interval(low=ratio, estimate=ratio, high=ratio)
            for each in BASELINES
            if each in timings
            for ratio in [timings[each].median_us / best_us]
        }
    times = "".join(f"{timings[each].median_us:>12.2f}" if each in over else f"{'–':>12}" for each in BASELINES)
    ratios = "".join(f"{_shown(over.get(each)):>24}" for each in BASELINES)
    config = ", ".join(f"{key}={value}" for key, value in best.config.items())
    source = "confirmed" if timings is not found.baselines else "quick"
    line = f"{name:<16}{found.finished:>7}{best_us:>12.2f}{times}{ratios}  {source:<9}  {config}"
    return line, over["tutorial"].estimate


def _shown(ratio: Interval | None) -> str:
    return "–" if ratio is None else f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def compiled(name: str, files: Path, folder: Path) -> str:
    """Compile the default config of a tutorial for three architectures, and return a line of the table."""
    from tests.integration.test_kernels_compile import Workshop
    from workers.backends.cuda.compilers.compiler import CudaCompiler

    place, compiler = family_of(TUTORIALS[name], files, folder / name), CudaCompiler()
    shown = []
    for architecture in ("sm_80", "sm_89", "sm_90"):
        built = Workshop(compiler, folder / f"{name}-{architecture}").built(find(str(place)), known(architecture))
        shown.append(f"{architecture}: {built.refusal or 'compiled'}")
    return f"{name:<16} {'; '.join(shown)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--helion", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TUTORIALS))
    asked = parser.parse_intermixed_args()
    lines, ratios = list[str](), list[float]()
    for name in asked.names or TUTORIALS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "searches").mkdir()
            try:
                if asked.compile_only:
                    lines.append(compiled(name, asked.files, folder))
                    continue
                line, ratio = compare(name, asked.files, folder, asked.seconds, asked.helion)
            except BenchError as error:
                line, ratio = f"{name:<16} {error}", None
            lines.append(line)
            ratios += [ratio] if ratio else []
            print(line, flush=True)
    times = f"{'found µs':>10}{'tutorial µs':>12}{'Helion µs':>10}"
    print(f"\n{'tutorial':<16}{'trials':>7}{times}{'ratio':>9}  confirmed  config")
    print("\n".join(lines))
    if ratios:
        print(f"geometric mean {math.prod(ratios) ** (1 / len(ratios)):.3f} of {len(ratios)}")
    return 0 if asked.compile_only or len(ratios) == len(asked.names or TUTORIALS) else 1


if __name__ == "__main__":
    sys.exit(main())
