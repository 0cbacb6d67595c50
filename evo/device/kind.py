"""Device kinds: their properties that the search, the service and the pages need. No device library is required.

An external package adds a kind with two entry points, both named like the kind: a `Kind` in the group
``kernel_evo.kinds``, and a `workers.backends.Driver` in the group ``kernel_evo.backends``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from evo.errors import EvoError, NotFound
from evo.plugins import KINDS, offered
from evo.text.suggestion import unknown

DeviceKind: TypeAlias = str
"""Name of a kind, e.g. ``cpu``; see `kinds`."""

Runs: TypeAlias = Literal["kernels", "recordings", "nothing"]
Sources: TypeAlias = Literal["c", "cuda", "own"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of device.

    Attributes:
        name: name of the kind on the command line, and of the table in family.toml that declares its kernels.
        runs: ``kernels`` if kernels run, ``recordings`` if results are looked up, ``nothing`` if kernels are only
            compiled.
        compiles: name of another kind, e.g. ``cuda`` for the kind ``estimate``. Families declare no kernels for this
            kind; the kernels of the other kind are compiled. Empty if families declare kernels for this kind.
        rank: the kind with the lowest rank is the default.
        limits: names of `Device.limits` that expressions of a family may use.
        sources: ``c`` for C or C++ (depending on the file's suffix), with flags of a C compiler; ``cuda`` for CUDA C++
            that is launched on a grid (``[launch]``); ``own`` for files and flags that only the compiler of this kind
            understands.
        on_host: True if kernels run on the CPU cores of the machine. The objective's ``threads`` then apply, and
            compilers do not use the core on which kernels are measured.
        last_cache: name of the limit that holds the size of the last-level cache.
        separation: True if runners report how the candidate is isolated from the process that verifies it. A policy can
            then require a level of isolation.
        suffixes: file suffixes of a stored source and of a stored binary.
    """

    name: DeviceKind
    runs: Runs = "kernels"
    compiles: DeviceKind = ""
    rank: int = 100
    limits: frozenset[str] = frozenset()
    sources: Sources = "own"
    on_host: bool = False
    last_cache: str = "l2_bytes"
    separation: bool = False
    suffixes: tuple[str, str] = ("txt", "bin")

    @property
    def implementation(self) -> DeviceKind:
        """Name of the table in family.toml that declares kernels of this kind."""
        return self.compiles or self.name


_CUDA_LIMITS = frozenset(
    {
        "compute_capability",
        "l2_bytes",
        "max_blocks_per_sm",
        "max_threads",
        "max_threads_per_sm",
        "registers",
        "shared_memory_bytes",
        "shared_memory_per_sm_bytes",
        "sm_count",
        "warp_size",
    }
)

BUILTIN = (
    Kind(name="cuda", rank=10, limits=_CUDA_LIMITS, sources="cuda", suffixes=("cu", "cubin")),
    Kind(
        name="cpu",
        rank=20,
        limits=frozenset({"cores", "simd_bytes", "l1_bytes", "l2_bytes", "l3_bytes"}),
        sources="c",
        on_host=True,
        last_cache="l3_bytes",
        separation=True,
        suffixes=("c", "so"),
    ),
    Kind(name="replay", rank=30, runs="recordings"),
    Kind(name="estimate", rank=1000, runs="nothing", compiles="cuda", sources="cuda", suffixes=("cu", "cubin")),
)


@lru_cache(maxsize=1)
def kinds() -> Mapping[DeviceKind, Kind]:
    """Return the built-in kinds and the kinds of installed packages by name, in the order of their ranks.

    Raises:
        EvoError: an installed package cannot be imported, or its entry point is not a `Kind` with the entry point's
            name.
    """
    found = {kind.name: kind for kind in BUILTIN}
    for entry, kind in offered(KINDS, taken=found):
        if not isinstance(kind, Kind) or kind.name != entry.name:
            raise EvoError(
                f"the entry point {entry.name} of {KINDS.name} ({entry.value}) must be a Kind with this name"
            )
        found[kind.name] = kind
    return dict(sorted(found.items(), key=lambda each: each[1].rank))


def kind_of(name: DeviceKind) -> Kind:
    """Return the kind with this name.

    Raises:
        NotFound: no kind has this name. The message lists all kinds.
    """
    known = kinds()
    if name not in known:
        raise NotFound(f"{unknown(name, known, 'device kinds')}; install the package that adds it")
    return known[name]


def implemented_kinds() -> tuple[DeviceKind, ...]:
    """Return the device kinds that run kernels. A family can declare kernels for each of them."""
    return tuple(name for name, kind in kinds().items() if kind.runs == "kernels")
