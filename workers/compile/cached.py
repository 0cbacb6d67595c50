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
    head = {"log": artefact.log, "figures": dict(artefact.figures), "ptx_bytes": len(artefact.ptx)}
    return json.dumps(head).encode() + b"\n" + artefact.ptx + artefact.binary


def _unpack(packed: bytes) -> Artefact:
    first, _, rest = packed.partition(b"\n")
    head = json.loads(first)
    ptx_bytes = head.pop("ptx_bytes", 0)
    return Artefact(binary=rest[ptx_bytes:], ptx=rest[:ptx_bytes], **head)
