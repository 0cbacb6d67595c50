"""Caches binaries between test runs in this clone, for tests that need a binary but do not test its compilation."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from evo.trial.outcome import CompileFailed
from workers.build import Artefact, Compiler, Unit
from workers.build.cache import Cache, cache_key
from workers.build.cached import compile_cached

ROOT = Path(__file__).parents[1]
LIMIT_BYTES = 256 << 20
KERNELS = Cache(ROOT / "build" / "tests" / "kernels", limit_bytes=LIMIT_BYTES)


def compiled(compiler: Compiler, unit: Unit) -> Artefact | CompileFailed:
    """Return the compiled binary of a unit. The cache key covers source, headers, flags, compiler and worker code."""
    here = SimpleNamespace(version=f"{compiler.version}; {_workers()}", compile=compiler.compile)
    return compile_cached(cast(Compiler, here), KERNELS, unit, timeout_s=60)


@cache
def _workers() -> str:
    """Return a digest of the worker code, which calls the compilers and parses their output."""
    return cache_key(*(path.read_text(encoding="utf-8") for path in sorted((ROOT / "workers").rglob("*.py"))))
