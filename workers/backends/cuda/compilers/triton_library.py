"""Compiles Triton kernels. ``python -m`` runs this module as a compile process.

Only this process imports Triton. The process needs no GPU, driver or PyTorch. From a kernel's file, it executes only
the definitions of functions and constants (see `evo.family.source.triton.source`).
"""

import contextlib
import importlib.util
import io
import json
import linecache
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from evo.family.source.triton.compiled import Compiled, noted
from workers.system.scratch import scratch

ENVIRONMENT = {
    "TRITON_DUMP_PTXAS_LOG": "1",
    "TRITON_ALWAYS_COMPILE": "1",
    "TRITON_DISABLE_LINE_INFO": "1",
}
"""Environment variables for Triton: report registers and spills, do not use the cache, and write no paths of this
machine to binaries."""

FILE, CACHE = "kernel.py", "cache"
_BUILD = re.compile(r"^# kernel-evo build: (.*)$", re.MULTILINE)
_DTYPE = re.compile(r"tl\.(\w+)")
_WARP = 32
_MAPS_SINCE = 90
"""Compute capability, times ten, of the first GPUs with a tensor memory accelerator."""

_SWIZZLES = (0, 32, 64, 128)
"""Swizzle width in bytes, by value of ``CUtensorMapSwizzle``."""


def installed_version() -> str | None:
    """Return the version of Triton, or None if it is not installed, without importing Triton."""
    try:
        return version_of("triton")
    except PackageNotFoundError:
        return None


def compile_source(source: str, architecture: str, folder: Path) -> dict[str, object]:
    """Compile a generated source. Return ``{binary, log, ptx}``.

    ``binary`` is encoded in hexadecimal. If the compilation failed, ``binary`` is None, ``ptx`` is empty, and ``log``
    contains the reason.

    Args:
        architecture: target architecture, e.g. ``sm_90a``.
        folder: folder for the source file.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    build = json.loads(_BUILD.findall(source)[-1])
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            function = getattr(_module(source, folder), build["entry"])
            capability = int(re.sub(r"\D", "", architecture))
            maps = build.get("maps", {}) if capability >= _MAPS_SINCE else {}
            asked = _ast_source(ASTSource, function, build, maps)
            target = GPUTarget("cuda", capability, _WARP)
            done = triton.compile(asked, target=target, options=build["options"])
            ptx, binary, facts = done.asm["ptx"], done.asm["cubin"], done.metadata
            shutil.rmtree(
                folder / CACHE, ignore_errors=True
            )  # otherwise, the cache folder would grow with every config
    except Exception as error:  # noqa: BLE001 - any exception that a kernel makes Triton raise is a compile error
        return {"binary": None, "log": _failure(error, printed.getvalue(), source, folder), "ptx": ""}
    log = re.sub(r"^.*Compile time = .*\n?", "", printed.getvalue(), flags=re.MULTILINE).strip()
    return {"binary": binary.hex(), "log": log, "ptx": noted(ptx, _compiled(facts, list(maps.values())))}


def _module(source: str, folder: Path) -> Any:
    """Write a source to a file, and return the imported module. Triton reads functions only from files."""
    import triton

    path = folder / FILE
    path.write_text(source, encoding="utf-8")
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["triton"] = triton
    exec(compile(source, str(path), "exec"), module.__dict__)  # importing is safe: the source contains only definitions
    return module


def _ast_source(make: Any, function: Any, build: dict[str, Any], maps: dict[str, dict[str, Any]]) -> Any:
    names = list(function.arg_names)
    types = build["signature"] | {name: each["type"] for name, each in maps.items()}
    constants = {name: _constant(value) for name, value in build["constants"].items()}
    constants |= dict.fromkeys(build.get("maps", {}).keys() - maps.keys())
    return make(
        fn=function,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in build["divisible"]},
    )


def _constant(value: Any) -> Any:
    """Return the value of a constant. A string such as ``tl.float16`` becomes a dtype."""
    import triton.language as tl

    found = _DTYPE.fullmatch(value) if isinstance(value, str) else None
    return getattr(tl, found[1]) if found else value


def _compiled(facts: Any, maps: list[dict[str, Any]]) -> Compiled:
    """Return the launch settings of a compiled kernel.

    Args:
        facts: Triton's metadata of the kernel.
        maps: tensor maps of the kernel. The result adds the box and the swizzle that Triton chose for each.
    """
    return Compiled(
        threads=_WARP * facts.num_warps,
        shared_memory_bytes=facts.shared,
        cluster=facts.num_ctas,
        scratch=(facts.global_scratch_size, facts.profile_scratch_size),
        maps=tuple(
            {
                **{key: given[key] for key in ("of", "dtype", "shape")},
                "box": chosen["block_size"],
                "swizzle": _SWIZZLES[chosen["swizzle"]],
                "l2_promotion": 128,
                "passes_shape": True,
            }
            for given, chosen in zip(maps, facts.tensordesc_meta if maps else (), strict=True)
        ),
    )


def _failure(error: BaseException | None, printed: str, source: str, folder: Path) -> str:
    """Return the messages of an error and its causes, innermost cause first, without paths of this machine."""
    reasons, reason = list[str](), error
    while reason is not None:
        reasons.append(f"{type(reason).__name__}: {_with_file_lines(reason, source)}")
        reason = reason.__cause__
    text = "\n".join([*reversed(reasons), printed.strip()])
    return text.replace(f"{folder}/", "").strip()


def _with_file_lines(reason: BaseException, source: str) -> str:
    """Return the message of an error with line numbers of the kernel's file.

    Triton's messages count lines from the start of the function, and state the reason last, below an excerpt of the
    source. Reports show the first lines of a log, so the reason comes first.
    """
    function, stated = getattr(reason, "src", None), getattr(reason, "error_message", None)
    if not isinstance(function, str) or function not in source:
        return str(reason)
    before = source[: source.index(function)].count("\n")
    text = re.sub(
        r"^at (\d+):(\d+):",
        lambda found: f"{FILE}:{before + int(found[1])}:{found[2]}:",
        str(reason),
        flags=re.MULTILINE,
    )
    place, _, excerpt = text.partition("\n")
    return f"{place} {stated}\n{excerpt.removesuffix(stated).rstrip()}" if stated else text


def serve() -> None:
    """Compile Triton sources. Read requests as lines of JSON from stdin, and write replies to stdout.

    A request is ``{source, architecture}``, and a reply is ``{binary, log, ptx}``.
    """
    out = sys.stdout
    with _workplace() as folder:
        os.chdir(folder)
        for line in sys.stdin:
            asked = json.loads(line)
            out.write(json.dumps(compile_source(asked["source"], asked["architecture"], folder)) + "\n")
            out.flush()


def compile_file(source: str, architecture: str, binary: str, ptx: str) -> str:
    """Compile an exported source and return the log. On success, write the files `binary` (cubin) and `ptx`."""
    with _workplace() as folder:
        done = compile_source(Path(source).read_text(encoding="utf-8"), architecture, folder)
    if done["binary"] is not None:
        Path(binary).write_bytes(bytes.fromhex(str(done["binary"])))
        Path(ptx).write_text(str(done["ptx"]), encoding="utf-8")
    return str(done["log"])


@contextlib.contextmanager
def _workplace() -> Iterator[Path]:
    with scratch() as folder:
        os.environ.update(ENVIRONMENT, TRITON_CACHE_DIR=str(folder / CACHE))
        yield folder


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(f"{compile_file(*sys.argv[1:])}\n")
    else:
        serve()
