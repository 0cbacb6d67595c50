"""Compiles units through a cache, so that a machine compiles each unit only once.

The files that a compilation reads are known only after the compilation. The cache therefore has two entries per unit,
like ccache's direct mode (https://ccache.dev/manual/latest.html#_the_direct_mode). The key of the first entry depends
on the unit. The entry lists the files that the compiler read, and the paths at which it found no file. The key of the
second entry, the artefact, also depends on the contents of these files.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evo.family.source.flags import header_folders
from evo.trial.outcome import CompileFailed
from workers.build import Artefact, Compiler, Unit
from workers.build.cache import Cache, cache_key
from workers.build.contents import (
    all_vacant,
    asked_headers,
    assembler_reads,
    digest_of_names,
    digests_of_files,
    is_library,
    new_since,
    vacancies,
)
from workers.build.own_headers import everywhere
from workers.system.exhaustion import refuse_exhaustion


def compile_cached(compiler: Compiler, cache: Cache, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
    """Return the artefact of a unit from the cache, or compile the unit.

    Failures are not cached, because a busy machine can cause a timeout. An artefact is not cached in five cases:

    - The compiler does not report the files that it read.
    - One of these files changed during the compilation.
    - The header folders contain too many files.
    - The source or a file that was read may make the compiler read other files, e.g. by assembler code.
    - The source tests for headers whose names only a preprocessor can determine.

    Raises:
        MachineExhausted: the compiler failed because the disk is full, over a quota, or read-only.
    """
    question = _question(compiler, unit)
    found = None if question is None else cache.get(question)
    if question is not None and found is not None and all_vacant((names := json.loads(found))["vacant"]):
        key = _key(question, names["reads"], unit)
        kept = None if key is None else cache.get(key)
        if kept is not None:
            return replace(_unpack(kept), reads=tuple(_places(names["reads"], unit)))
    begun, steady_s = time.time(), time.monotonic()
    result = compiler.compile(unit, timeout_s=timeout_s)
    begun = min(begun, time.time() - (time.monotonic() - steady_s))  # the clock may have been set back
    if isinstance(result, CompileFailed):
        refuse_exhaustion(result.log)
    if (
        question is None
        or not isinstance(result, Artefact)
        or result.reads is None
        or assembler_reads(unit.source.encode())
        or (vacant := _vacancies(result.reads, result.searched, unit)) is None
    ):
        return result
    portable = _portable(result.reads, unit)
    if new_since(begun, [name for folder_index, name in portable if not folder_index]):
        return result
    key = _key(question, portable, unit)
    if key is not None:
        cache.put(question, json.dumps({"reads": portable, "vacant": vacant}).encode())
        cache.put(key, _pack(result))
    return result


def _question(compiler: Compiler, unit: Unit) -> str | None:
    """Return the key of the cache entry with a unit's files, or None if the header folders contain too many files.

    The key depends on the unit, and on the names of all files in the header folders.
    """
    offered = [digest_of_names(str(folder), lasting=True) for folder in unit.folders]
    offered += [digest_of_names(folder) for folder in header_folders(unit.placed_flags)]
    if None in offered:
        return None
    parts = (
        compiler.version,
        unit.architecture,
        unit.language,
        unit.entry,
        *unit.flags,
        "",
        *map(str, offered),
        *unit.further,
        *filter(None, [unit.compiler]),
    )
    return cache_key("unit and places", *parts, unit.source)


def _vacancies(reads: Sequence[str], searched: Sequence[str], unit: Unit) -> list[str] | None:
    """Return the paths at which a new file would change the build, or None if the paths are unknown."""
    default = tuple(f"{folder}{os.sep}" for folder in searched)
    read = [*_read_outside_systems(reads)]
    tested = {path: asked_headers(Path(path).read_text(encoding="utf-8", errors="replace")) for path in read}
    asked = [asked_headers(unit.source), *(names for path, names in tested.items() if not path.startswith(default))]
    if None in asked:
        return None
    names = [name for each in (*asked, *tested.values()) for name in each or ()]
    copied = tuple(f"{folder}{os.sep}" for folder in unit.folders)
    beside = (str(Path(path).parent) for path in read if not path.startswith(copied))
    return vacancies(reads, names, list(dict.fromkeys((*header_folders(unit.placed_flags), *searched, *beside))))


def _read_outside_systems(reads: Sequence[str]) -> Iterator[str]:
    """Yield the existing headers among the read files, except headers of the system and of CUDA."""
    known: dict[Path, bool] = {}
    for path in reads:
        folder = Path(path).parent
        if folder not in known:
            known[folder] = any(everywhere(str(each)) for each in (folder, *folder.parents))
        if not known[folder] and not is_library(path) and Path(path).is_file():
            yield path


def _key(question: str, portable: Sequence[Sequence[str]], unit: Unit) -> str | None:
    """Return the key of a unit's artefact, or None if it must not be cached.

    Args:
        question: key that `_question` returned for the unit.
        portable: files that the compiler read, as returned by `_portable`.
    """
    digests = digests_of_files(_places(portable, unit))
    return None if digests is None else cache_key("binary", question, *digests)


def _places(portable: Sequence[Sequence[str]], unit: Unit) -> list[str]:
    """Return the absolute path of each file that is given as (index of a folder, relative path) or ("", path)."""
    return [f"{unit.folders[int(folder_index)]}/{name}" if folder_index else name for folder_index, name in portable]


def _portable(names: Sequence[str], unit: Unit) -> list[tuple[str, str]]:
    """Return files in `Unit.folders` as (index of the folder, relative path), and others as ("", absolute path)."""
    roots = [
        (str(index), f"{root}{os.sep}")
        for index, folder in enumerate(unit.folders)
        for root in sorted({str(folder), os.path.realpath(folder)})
    ]
    return sorted({_within(_plain(name), roots) for name in names})


def _plain(name: str) -> str:
    """Return a path with ``..`` resolved, or unchanged if the result is a different file because of a symbolic link."""
    plain = os.path.normpath(name)
    return plain if os.path.realpath(plain) == os.path.realpath(name) else name


def _within(path: str, roots: Sequence[tuple[str, str]]) -> tuple[str, str]:
    return next(((index, path[len(root) :]) for index, root in roots if path.startswith(root)), ("", path))


def _pack(artefact: Artefact) -> bytes:
    head = {"log": artefact.log, "figures": dict(artefact.figures), "ptx_bytes": len(artefact.ptx)}
    return json.dumps(head).encode() + b"\n" + artefact.ptx + artefact.binary


def _unpack(packed: bytes) -> Artefact:
    first, _, rest = packed.partition(b"\n")
    head = json.loads(first)
    ptx_bytes = head.pop("ptx_bytes", 0)
    return Artefact(binary=rest[ptx_bytes:], ptx=rest[:ptx_bytes], **head)


_OF_C = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LD_RUN_PATH", "SOURCE_DATE_EPOCH", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "CCC_OVERRIDE_OPTIONS"),
)
_OF_NVCC = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def surroundings(*, nvcc: bool = False) -> str:
    """Return the environment variables that affect compilers, as text: ``NAME=value`` for each variable that is set.

    Args:
        nvcc: True to include the variables that only affect nvcc.
    """
    names = (*_OF_C, *_OF_NVCC) if nvcc else _OF_C
    return "".join(f" {name}={os.environ[name]}" for name in names if name in os.environ)
