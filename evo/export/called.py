"""Times of champions called from PyTorch: reads the file that an exported package writes, and describes the times."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evo.errors import Conflict, InvalidInput
from evo.family.problem import problem_key
from evo.messages.view import ChampionView
from evo.text.wording import factor_text, time_text
from evo.trial import Value

SERVED = ("cross_entropy", "gemm", "layernorm", "rmsnorm", "rope", "sdpa", "sdpa_decode", "softmax", "swiglu")
"""Families whose kernels the functions of an exported package can call."""

KINDS = ("cpu", "cuda")
"""Kinds of devices that an exported package supports."""

HOW = (
    "not measured: `kernel-evo export --suite SUITE --to ./fast` writes a package, "
    "`python -m fast --json > called.json` measures it, and `kernel-evo champion called called.json` stores it"
)


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of one kernel, as written by an exported package.

    Attributes:
        champion: number of the champion in the service that exported it.
        machine: name of the device that ran the kernel.
        kernel_us: confirmed time of the champion in µs, as measured by its search.
        called_us: time of a call of the package's function, in µs.
        torch_us: time of a call of PyTorch's own function, in µs.
    """

    champion: int
    family: str
    problem: dict[str, Value]
    machine: str
    kernel_us: float
    called_us: float
    torch_us: float


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Content of the file that ``python -m fast --json`` writes, where ``fast`` is an exported package."""

    software: str
    times: tuple[Times, ...]


def read_measurements(path: Path) -> Measurements:
    """Read the times that an exported package has written.

    Raises:
        InvalidInput: the file cannot be read, or is not in the format of ``python -m fast --json``.
    """
    try:
        return TypeAdapter(Measurements).validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput("FILE", f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        remedy = "write it with `python -m fast --json > called.json`, where fast is an exported package"
        raise InvalidInput("FILE", f"{path} has no times of an exported package; {remedy}") from error


def check_same(times: Times, champion: ChampionView) -> None:
    """Check that the times belong to this champion, and not to a champion with the same number in a different database.

    Raises:
        Conflict: the family, the problem or the confirmed time differs.
    """
    ours = (champion.family, dict(champion.problem), champion.time_us)
    if ours != (times.family, times.problem, times.kernel_us):
        raise Conflict(
            f"champion {champion.id} of this service is for {champion.family} {champion.problem_key} and was "
            f"confirmed at {time_text(champion.time_us)}, but the file has times of champion {champion.id} for "
            f"{times.family} {problem_key(times.problem)}, confirmed at {time_text(times.kernel_us)}; use the service "
            "or the database from which the package was exported"
        )


def called_text(champion: ChampionView, kind: str) -> str | None:
    """Describe how long PyTorch programs take to call a champion's kernel. If this is unknown, state how to measure it.

    The result is None if the time is unknown, and no exported package can contain the kernel.

    Args:
        kind: kind of the champion's device.
    """
    found = champion.called
    if found is None:
        return HOW if champion.family in SERVED and kind in KINDS else None
    where = "" if found.model == champion.device_model else f" on {found.model}"
    faster, theirs = factor_text(found.torch_us / found.called_us), time_text(found.torch_us)
    return (
        f"{time_text(found.called_us)}, {faster} as fast as PyTorch's own function, {theirs} "
        f"({found.software}{where}, {found.at:%Y-%m-%d})"
    )
