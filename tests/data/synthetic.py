"""Writes ``synthetic.json``, a small recorded space in the form of Kernel Tuner's cache files.

Run ``python -m tests.data.synthetic`` after a change of this file. The kernel is imaginary: its time is short where
tile, stages and vector width balance. Some configs do not compile, and others do not run. Configs that violate a
constraint have no key.
"""

import itertools
import json
from pathlib import Path

FILE = Path(__file__).parent / "synthetic.json"

TUNABLES: dict[str, list[object]] = {
    "tile_m": [16, 32, 64, 96, 128],
    "tile_n": [16, 32, 64, 128],
    "stages": [1, 2, 3],
    "vector": [1, 2, 4, 8],
    "layout": ["row", "swizzled"],
    "unroll": [0, 1],
}


def document() -> dict[str, object]:
    cache = {}
    for values in itertools.product(*TUNABLES.values()):
        config = dict(zip(TUNABLES, values, strict=True))
        if config["tile_m"] * config["tile_n"] <= 8192 and config["vector"] <= config["tile_n"] // 8:
            cache[",".join(str(value) for value in values)] = config | recorded(**config)
    return {
        "device_name": "Imaginary 100",
        "kernel_name": "tiles",
        "problem_size": [1024, 1024],
        "tune_params_keys": list(TUNABLES),
        "tune_params": TUNABLES,
        "objective": "time",
        "cache": cache,
    }


def recorded(*, tile_m: int, tile_n: int, stages: int, vector: int, layout: str, unroll: int) -> dict[str, object]:
    costs = {"compile_time": 400.0 + 2 * tile_m, "verification_time": 0, "benchmark_time": 50.0}
    if unroll and tile_m * tile_n * vector > 40_000:
        return {"time": "CompilationFailedConfig"} | costs
    if stages * (tile_m + tile_n) > 560:
        return {"time": "RuntimeFailedConfig"} | costs
    balance = abs(tile_m / 96 - 1) + abs(tile_n / 32 - 1) / 4
    waiting = {1: 0.9, 2: 0.2, 3: 0.0}[stages] + (0.1 * stages * tile_m * tile_n) / 8192
    access = {1: 0.8, 2: 0.4, 4: 0.1, 8: 0.0}[vector] * (0.3 if layout == "swizzled" else 1.0)
    crowding = 0.25 if unroll and vector == 8 else -0.05 * unroll
    time_ms = round(0.5 * (1 + balance + waiting + access + crowding), 6)
    return {"time": time_ms} | costs


if __name__ == "__main__":
    FILE.write_text(json.dumps(document()) + "\n")
