"""Checks whether a CUDA kernel can be launched as its family declares, without launching it.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Kernel parameters"; PTX ISA,
"Performance-Tuning Directives" and "Cluster Dimension Directives".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from evo.device import Device
from evo.family import Launch, TensorMap
from evo.family.launch.entry import entries_in
from evo.trial.outcome import LaunchFailed, OverResources
from workers.build.kernel import Argument, Step

_TENSOR_MAP_BYTES = 128
_CLUSTERS_SINCE = 90
_TENSOR_MAPS_SINCE = 90
_LONG_PARAMETERS_SINCE = 70
_PORTABLE_CLUSTER = 8
"""Maximum number of blocks in a cluster. Larger clusters need an attribute that kernel-evo does not set."""

_SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}
_SCALARS = {
    "int32": ("integer", 4),
    "uint32": ("integer", 4),
    "int64": ("integer", 8),
    "uint64": ("integer", 8),
    "float32": ("float", 4),
    "float64": ("float", 8),
}
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\b[^,)]*?\s)?[\w$]+(?:\[(\d+)\])?\s*(?:,|$)"
)
_DYNAMIC_SHARED = re.compile(r"^\s*\.extern\s+\.shared\b[^;]*?([\w$]+)\[\]\s*;", re.MULTILINE)
_DIRECTIVE = re.compile(r"\.(maxntid|reqntid|reqnctapercluster)\s+([\d,\s]+)")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter that a kernel declares, or an argument that is passed to it.

    Attributes:
        kind: ``integer``, ``float`` or ``bytes``, for an argument also ``pointer``.
        size: size in bytes.
        alignment: alignment in bytes.
    """

    kind: str
    size: int
    alignment: int


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Launch requirements that a kernel's code declares. An attribute is None if there is no requirement.

    Attributes:
        parameters: parameters of the kernel, in order.
        most_threads: maximum number of threads per block (``__launch_bounds__``).
        block: the only block size that the kernel accepts, (x, y, z).
        cluster: number of blocks per cluster, (x, y, z).
        counts_clusters: True if the grid consists of clusters instead of blocks.
        dynamic_shared: name of an ``extern __shared__`` array that the kernel uses, or an empty string.
    """

    parameters: tuple[Parameter, ...]
    most_threads: int | None = None
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    counts_clusters: bool = False
    dynamic_shared: str = ""


def launch_refusal(ptx: bytes, step: Step, device: Device) -> OverResources | LaunchFailed | None:
    """Return the outcome if a launch would fail or its arguments do not match the kernel, else None.

    Args:
        ptx: PTX of the binary, or empty if it is unknown.
    """
    entry, launch, arguments = step.entry, step.launch, step.arguments
    declared = read_declared(ptx.decode(errors="replace"), entry)
    for resource, used, limit in _limits(launch, arguments, declared, device):
        if used > limit:
            return OverResources(resource=resource, used=used, limit=limit)
    if declared is None:
        return _absence(ptx, step)
    reason = next(_contradictions(entry, launch, arguments, declared, device), None)
    return None if reason is None else LaunchFailed(reason=reason)


def _absence(ptx: bytes, step: Step) -> LaunchFailed | None:
    """Return the outcome if a launch names a function that the source does not define, else None."""
    if not (ptx and step.launch.entry):
        return None
    found = ", ".join(f"`{name}`" for name in entries_in(ptx.decode(errors="replace"))) or "none"
    reason = f"[[cuda.launch]] starts `{step.entry}`, which is not a kernel of the source; its kernels: {found}"
    return LaunchFailed(reason=f'{reason}; use one of these, or write `extern "C" __global__ void {step.entry}(…)`')


def read_declared(ptx: str, entry: str) -> Declared | None:
    """Return the declarations of a kernel in PTX, or None if the PTX does not contain the kernel."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)(.*?)\{{", ptx, re.DOTALL)
    if found is None:
        return None
    directives = {name: _three(values) for name, values in _DIRECTIVE.findall(found[2])}
    most = directives.get("maxntid")
    return Declared(
        parameters=tuple(_parameters(found[1])),
        most_threads=prod(most) if most else None,
        block=directives.get("reqntid"),
        cluster=directives.get("reqnctapercluster"),
        counts_clusters=".blocksareclusters" in found[2],
        dynamic_shared=next(iter(_dynamic_shared(ptx, found.end())), ""),
    )


def _dynamic_shared(ptx: str, begin: int) -> Iterator[str]:
    """Yield the names of the dynamic shared arrays that a function uses. `begin` is the start of its body in `ptx`."""
    body = ptx[begin:].partition("\n}")[0]
    names = (name for name in _DYNAMIC_SHARED.findall(ptx) if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body))
    return (f"{name}" for name in names)


def _three(text: str) -> tuple[int, int, int]:
    x, y, z = [*map(int, text.replace(" ", "").split(",")), 1, 1][:3]
    return x, y, z


def _parameters(text: str) -> Iterator[Parameter]:
    for line in text.split("\n"):
        if (match := _PARAMETER.search(line.strip())) is not None:
            alignment, kind, count = match.groups()
            size = _SIZES.get(kind, 8)
            what = "bytes" if count else "float" if kind.startswith("f") else "integer"
            yield Parameter(kind=what, size=size * int(count or 1), alignment=int(alignment or size))


def _limits(
    launch: Launch, arguments: Sequence[Argument], declared: Declared | None, device: Device
) -> Iterator[tuple[str, float, float]]:
    """Yield (resource, used amount, limit) for each limit that the GPU or the kernel sets."""
    capability = device.limits.get("compute_capability", _LONG_PARAMETERS_SINCE)
    threads = device.limits.get("max_threads", 1024)
    for axis, used, limit in zip("xyz", launch.block, (threads, threads, 64), strict=True):
        yield f"threads along {axis}", used, limit
    for axis, used, limit in zip("xyz", launch.grid, (2**31 - 1, 65535, 65535), strict=True):
        yield f"blocks along {axis}", used, limit
    yield (
        "parameter bytes",
        _parameter_bytes(launch, arguments),
        32764 if capability >= _LONG_PARAMETERS_SINCE else 4096,
    )
    if declared is None:
        return
    if declared.most_threads is not None:
        yield "threads of a block that the kernel's __launch_bounds__ allow", prod(launch.block), declared.most_threads
    if declared.cluster is not None:
        allowed = _PORTABLE_CLUSTER if capability >= _CLUSTERS_SINCE else 1
        yield "blocks of a cluster", prod(declared.cluster), allowed


def _parameter_bytes(launch: Launch, arguments: Sequence[Argument]) -> int:
    """Return the size of the kernel's parameters in bytes, including padding."""
    used = 0
    for _, each in _parameters_passed(launch, arguments):
        used = -(-used // each.alignment) * each.alignment + each.size
    return used


def _parameters_passed(launch: Launch, arguments: Sequence[Argument]) -> list[tuple[str, Parameter]]:
    """Return the name and the type of each parameter that the launch passes, in order."""
    passed = [(each.name, _passed(each)) for each in arguments]
    at = len(passed) if launch.maps_at is None else launch.maps_at
    passed[at:at] = [parameter for each in launch.tensor_maps for parameter in _mapped(each)]
    return passed


def _mapped(tensor_map: TensorMap) -> Iterator[tuple[str, Parameter]]:
    """Yield the name and the type of each parameter that a tensor map adds."""
    name = f"the tensor map of {tensor_map.of}"
    yield name, Parameter(kind="bytes", size=_TENSOR_MAP_BYTES, alignment=64)
    if tensor_map.passes_shape:
        for size in (4, 8):
            yield from [(name, Parameter(kind="integer", size=size, alignment=size))] * len(tensor_map.shape)


def _passed(argument: Argument) -> Parameter:
    kind, size = _SCALARS.get(argument.dtype, ("bytes", argument.stored.itemsize))
    if argument.role != "scalar":
        kind, size = "pointer", 8
    return Parameter(kind=kind, size=size, alignment=size)


def _contradictions(
    entry: str, launch: Launch, arguments: Sequence[Argument], declared: Declared, device: Device
) -> Iterator[str]:
    """Yield a sentence for each contradiction between family.toml and the code of the kernel."""
    if launch.tensor_maps and device.limits.get("compute_capability", _TENSOR_MAPS_SINCE) < _TENSOR_MAPS_SINCE:
        yield (
            f"{device.architecture} has no tensor maps, which sm_{_TENSOR_MAPS_SINCE} introduced. Add "
            f'`when = "compute_capability >= {_TENSOR_MAPS_SINCE}"` to the entries of [[cuda.launch.tensor_maps]], and '
            "let the kernel copy without tensor maps on older GPUs"
        )
    if declared.dynamic_shared and not launch.shared_memory_bytes:
        yield (
            f"`{entry}` uses the `extern __shared__` array `{declared.dynamic_shared}`, but [cuda.launch] declares no "
            'memory for it; declare its size in bytes, e.g. shared_memory = "4 * THREADS"'
        )
    expected = _parameters_passed(launch, arguments)
    names = [name for name, _ in expected]
    if len(names) != len(declared.parameters):
        yield (
            f"`{entry}` has {len(declared.parameters)} parameters, but family.toml passes {len(names)} "
            f"({', '.join(names) or 'none'}); declare the parameters in order, or list them in `arguments`"
        )
        return
    for (name, passed), taken in zip(expected, declared.parameters, strict=True):
        if _garbled(passed, taken):
            yield (
                f"`{entry}` takes {_words(taken)}, but family.toml passes `{name}`, {_words(passed)}; "
                "correct the dtype or the order of the arguments"
            )
    if declared.block is not None and tuple(launch.block) != declared.block:
        only = f"`{entry}` takes only blocks of {declared.block} threads (__block_size__)"
        yield f"{only}, but [cuda.launch] declares {launch.block}; correct `block`"
    if declared.cluster is not None and not declared.counts_clusters:
        for axis, blocks, size in zip("xyz", launch.grid, declared.cluster, strict=True):
            if blocks % size:
                yield (
                    f"{blocks} blocks along {axis} are not a multiple of the cluster size {size} (__cluster_dims__); "
                    "round `grid` up to a multiple, and let blocks without work return"
                )


def _garbled(passed: Parameter, taken: Parameter) -> bool:
    """Return True if an argument does not fit the parameter that receives it: its kind or size is wrong.

    A parameter narrower than an integer argument is accepted (False): the kernel then reads the low bytes.
    """
    if passed.kind == "pointer":
        return taken.size != passed.size or taken.kind == "float"
    mixed = passed.kind != taken.kind and "bytes" not in (passed.kind, taken.kind)
    return passed.size < taken.size or mixed or (passed.kind == "float" and passed.size != taken.size)


def _words(parameter: Parameter) -> str:
    what = {"pointer": "a pointer", "integer": "an integer or pointer", "float": "a float", "bytes": "a value"}[
        parameter.kind
    ]
    return f"{what} of {parameter.size} bytes"
