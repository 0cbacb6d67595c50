"""Compiling each unit once on this machine: the artefact cache in front of a compiler."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evo.outcome import CompileFailed
from workers.cache import Cache, cache_key
from workers.compile import Artefact, Compiler, Unit


def compile_cached(
    compiler: Compiler, cache: Cache, unit: Unit, *, timeout_s: float, includes: Sequence[Path], includes_digest: str
) -> Artefact | CompileFailed:
    """The artefact of a unit, from the cache or fresh; failures are not kept, since a time-out may be the machine's.

    Args:
        includes: folders with what the source includes.
        includes_digest: of their content; it counts only for a source that includes something of its own.
    """
    own = '#include "' in unit.source
    digest = includes_digest if own else ""
    key = cache_key("binary", compiler.version, unit.architecture, unit.entry, *unit.flags, digest, unit.source)
    kept = cache.get(key)
    if kept is not None:
        return _unpack(kept)
    if own:  # after the key is made: the folders' names say nothing
        unit = replace(unit, flags=(*unit.flags, *(f"-I{folder}" for folder in includes)))
    result = compiler.compile(unit, timeout_s=timeout_s)
    if isinstance(result, Artefact):
        cache.put(key, _pack(result))
    return result


def _pack(artefact: Artefact) -> bytes:
    head = json.dumps({"log": artefact.log, "figures": dict(artefact.figures)}).encode()
    return head + b"\n" + artefact.binary


def _unpack(packed: bytes) -> Artefact:
    head, _, binary = packed.partition(b"\n")
    return Artefact(binary=binary, **json.loads(head))
