"""Times a model with Llama's architecture with and without tuned kernels: ``python -m tests.bench.llama``.

The model (transformers, random weights) runs once while its calls are recorded. Each call gets a kernel with the
recommended config or, with ``--seconds``, the best config of a search. The kernels are exported as a package. Kernels
that are slower than PyTorch in calls through the package are removed. Prefill and decode are then timed with and
without the package's `patch`, alternately, without PyTorch's compiler and CUDA graphs.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evo.cli.service.devices import choose, local_devices
from evo.cli.session.watching import watched
from evo.device import Device
from evo.errors import EvoError
from evo.export.bundle import Bundle
from evo.promotion.statistics import ratio_interval
from evo.search.suite import Call, suite_from
from evo.search.suite.recorder import Recorder
from evo.text.document import read_toml
from templates.registry import find
from tests.bench.searching import BenchError
from tests.bench.strategy.tables import table
from tests.bench.zoo.search import Terms, searched
from tests.dropin import bundle, imported, write

TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 1e-4}
"""Largest relative L2 difference of the logits."""

TINY = {"layers": 2, "hidden": 64, "intermediate": 160, "heads": 4, "kv_heads": 2, "vocabulary": 128}
TINY |= {"prefill": 32, "batch": 2, "context": 16}
Run = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Times of one recorded call, made from Python: with the package's kernel and with PyTorch."""

    call: Call
    kernel_us: float
    torch_us: float

    @property
    def ratio(self) -> float:
        return self.torch_us / self.kernel_us


def main(arguments: Sequence[str] | None = None) -> int:
    """Print tables of the calls, and of prefill and decode. Return status 1 if the outputs differ too much."""
    import torch

    options = _options(arguments)
    torch.manual_seed(options.seed)
    with torch.no_grad(), tempfile.TemporaryDirectory(prefix="bench-llama-") as name:
        model = _model(options)
        workloads = {"prefill": _prefill(model, options), "decode": _decode(model, options)}
        calls = {name: recorded(run, options.families) for name, run in workloads.items()}
        device = choose(local_devices(), options.device, find("rmsnorm").family)
        folder = Path(name)
        bundles = dict(_built([each for group in calls.values() for each in group], device, options, folder))
        if not bundles:
            print("there is no kernel for any call of the model", file=sys.stderr)
            return 2
        write(list(bundles.values()), folder / "all_kernels")
        with imported(folder / "all_kernels") as package:
            compared = {name: compare(package, call, options) for name, call in _calls(calls, bundles)}
        print(
            table(
                ("call", "problem", "kernel, µs", "PyTorch, µs", "ratio"), [_cells(each) for each in compared.values()]
            )
        )
        faster = [bundles[name] for name, each in compared.items() if each.ratio > 1.0]
        if not faster:
            print("PyTorch is faster in every call, so no call is patched")
            return 0
        write(faster, folder / "fast_llama")
        with imported(folder / "fast_llama") as package:
            timed = {name: _timed(package, model, run, options) for name, run in workloads.items()}
            print(package.report())
        shares = {name: _patched_us(calls[name], compared) for name in workloads}
        return _report(timed, shares, options)


def recorded(run: Run, families: Sequence[str]) -> list[Call]:
    """Return the distinct calls of a workload. The weight of a call is its number of occurrences."""
    import torch

    recorder = Recorder()
    run()
    with watched(recorder, torch):
        run()
    suite = suite_from(read_toml(recorder.suite()), "recorded")
    return [call for call in suite.calls if not families or call.family in families]


def _calls(calls: Mapping[str, Sequence[Call]], bundles: Mapping[str, Bundle]) -> Iterator[tuple[str, Call]]:
    seen = set[str]()
    for group in calls.values():
        for call in group:
            name = key(call)
            if name in bundles and name not in seen:
                seen.add(name)
                yield name, call


def key(call: Call) -> str:
    return f"{call.family} {call.text}"


def _built(
    calls: Sequence[Call], device: Device, options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, Bundle]]:
    """Yield a name and a bundle for each call with a kernel; print the remaining calls to standard error."""
    terms = Terms(device=options.device, seconds=options.seconds, confirming=0.0)
    for number, call in enumerate({key(each): each for each in calls}.values(), start=1):
        try:
            config = None
            if options.seconds:
                found = searched(call, "hot", terms, folder / f"search{number}")
                config = None if found.best is None else found.best.config
            yield key(call), bundle(number, call.family, call.text, device, config=config, started=True)
        except (EvoError, BenchError, AssertionError) as error:
            print(f"no kernel: {key(call)}: {str(error).splitlines()[0][:160]}", file=sys.stderr)


def compare(package: Any, call: Call, options: argparse.Namespace) -> Comparison:
    """Return the median times of one call through the package and through PyTorch, timed alternately."""
    problem = find(call.family).family.problem(call.text, options.device)
    measuring = package.measuring
    ours, theirs = measuring.example(package, call.family, problem, options.device)
    kernel_us, torch_us = measuring.in_turns(ours, theirs, options.device)
    return Comparison(call=call, kernel_us=kernel_us, torch_us=torch_us)


def _patched_us(calls: Sequence[Call], compared: Mapping[str, Comparison]) -> float:
    """Return the total PyTorch time of the calls that the package replaces."""
    patched = ((each, compared[key(each)]) for each in calls if key(each) in compared)
    return sum(call.weight * each.torch_us for call, each in patched if each.ratio > 1.0)


def _report(timed: Mapping[str, "Timed"], patched_us: Mapping[str, float], options: argparse.Namespace) -> int:
    rows = list[list[str]]()
    for name, each in timed.items():
        interval = ratio_interval(each.off_ms, each.on_ms, 0.95, np.random.default_rng(0))
        off_ms = statistics.median(each.off_ms)
        rows.append([
            name,
            f"{off_ms:.3f}",
            f"{statistics.median(each.on_ms):.3f}",
            f"{interval.estimate:.3f} ({interval.low:.3f}–{interval.high:.3f})",
            f"{patched_us[name] / (1e3 * off_ms):.0%}",
            f"{each.difference:.1e}",
        ])  # fmt: skip
    print(table(("", "off, ms", "on, ms", "speed-up", "share of the patched calls", "difference"), rows))
    if all(each.difference <= TOLERANCE[options.dtype] for each in timed.values()):
        return 0
    print(f"the logits differ by more than {TOLERANCE[options.dtype]:g}", file=sys.stderr)
    return 1


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Times of a workload by round, and the relative L2 difference of its logits."""

    off_ms: list[float]
    on_ms: list[float]
    difference: float


def _timed(package: Any, model: Any, run: Run, options: argparse.Namespace) -> Timed:
    """Time a workload without and with the package, alternately."""
    off_ms, on_ms = list[float](), list[float]()
    expected = run().float()
    package.patch(model)
    found = run().float()
    package.unpatch(model)
    difference = float((found - expected).norm() / expected.norm())
    for _ in range(options.rounds):
        run()
        off_ms.append(1e3 * package.measuring.seconds(run, 1, options.device))
        package.patch(model)
        run()
        on_ms.append(1e3 * package.measuring.seconds(run, 1, options.device))
        package.unpatch(model)
    return Timed(off_ms=off_ms, on_ms=on_ms, difference=difference)


def _model(options: argparse.Namespace) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found]

    config = LlamaConfig(
        hidden_size=options.hidden,
        intermediate_size=options.intermediate,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        vocab_size=options.vocabulary,
        max_position_embeddings=max(options.prefill, options.context + 1),
        attn_implementation="sdpa",
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.device(options.device):
        model = LlamaForCausalLM(config)
    return model.to(getattr(torch, options.dtype)).eval()


def _prefill(model: Any, options: argparse.Namespace) -> Run:
    import torch

    tokens = torch.randint(options.vocabulary, (1, options.prefill), device=options.device)
    return lambda: (
        model(tokens, use_cache=True, logits_to_keep=1).logits
    )  # without a cache, the model creates the causal mask itself


def _decode(model: Any, options: argparse.Namespace) -> Run:
    """Return a function that decodes one token after `context` tokens and then restores the cache."""
    import torch

    context = torch.randint(options.vocabulary, (options.batch, options.context), device=options.device)
    cache = model(context, use_cache=True, logits_to_keep=1).past_key_values
    tokens = torch.randint(options.vocabulary, (options.batch, 1), device=options.device)

    def step() -> Any:
        logits = model(tokens, past_key_values=cache, use_cache=True).logits
        cache.crop(options.context)
        return logits

    return step


def _cells(each: Comparison) -> tuple[str, ...]:
    return each.call.family, each.call.text, f"{each.kernel_us:.2f}", f"{each.torch_us:.2f}", f"{each.ratio:.2f}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.llama", description=__doc__)
    sizes = {"layers": 8, "hidden": 4096, "intermediate": 14336, "heads": 32, "kv_heads": 8, "vocabulary": 128256}
    sizes |= {"prefill": 2048, "batch": 16, "context": 2047}
    for name, value in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--tiny", action="store_true", help="use a smaller model for a CPU")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=tuple(TOLERANCE), default="bfloat16")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="duration of a search per call in seconds (default: no search)"
    )
    parser.add_argument("--families", nargs="*", default=(), help="use only kernels of these families")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.tiny:
        vars(options).update(TINY)
    return options


if __name__ == "__main__":
    sys.exit(main())
