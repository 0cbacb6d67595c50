"""Finds the kernel for a call. Counts the calls of each kernel and, by reason, the calls that PyTorch computes."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .kernels import Kernel, Unfit

FOLDER = Path(__file__).parent
Key = tuple[str, str, frozenset[tuple[str, Any]]]
"""Family, device kind, and the fields of a problem with their values. Fields with default values are left out."""

NO_KERNEL = "no kernel for this problem"
MORE_THREADS = "PyTorch uses "
"""Prefix of the reason for a fallback that depends on PyTorch's number of threads."""


@dataclass
class Entry:
    """A kernel of this package.

    Attributes:
        folder: folder with the kernel's files, relative to the package.
        device: device type in PyTorch, ``cpu`` or ``cuda``.
        threads: on a CPU, the number of threads for which the kernel was tuned. If PyTorch uses more threads, PyTorch
            computes the call.
        champion: number of the champion in the service that exported it.
        model: model of the device that timed the champion.
        time_us: the kernel's confirmed time in µs.
        speedup, baseline: the kernel's speed-up over the fastest baseline, and the name of this baseline. None if no
            baseline was timed.
        calls: number of calls of this kernel.
        copied: number of calls for which keys or values were first copied to the kernel's layout.
        kernel: the loaded kernel; None before its first use.
        trouble: reason why this machine cannot run the kernel; None before the kernel's first use, or if there is none.
    """

    folder: str
    family: str
    problem: Mapping[str, Any]
    device: str
    threads: int
    champion: int
    model: str
    time_us: float
    speedup: float | None
    baseline: str | None
    calls: int = 0
    copied: int = 0
    kernel: Kernel | None = None
    trouble: str | None = None


@dataclass(slots=True)
class Fallback:
    """Calls of one function and problem that PyTorch computed, all for the same reason."""

    function: str
    family: str
    problem: Mapping[str, Any]
    reason: str
    calls: int = 0

    @property
    def text(self) -> str:
        return described(self.family, self.problem)


@dataclass(frozen=True)
class Report:
    """Numbers of calls that kernels and PyTorch have computed so far.

    Attributes:
        served: number of calls that each kernel computed. The keys are family and problem as text.
        copied: number of these calls for which keys or values were first copied to the kernel's layout.
        missed: records of the calls that PyTorch computed.
    """

    served: Mapping[str, int]
    copied: Mapping[str, int]
    missed: Sequence[Fallback]

    @property
    def fallbacks(self) -> Mapping[tuple[str, str, str], int]:
        """Number of calls that PyTorch computed, by function, problem as text, and reason."""
        return {(each.function, each.text, each.reason): each.calls for each in self.missed}

    def __str__(self) -> str:
        lines = [f"{sum(self.served.values())} calls on kernels, {sum(self.fallbacks.values())} on PyTorch"]
        for name, count in self.served.items():
            copied = f" (keys or values copied: {self.copied[name]})" if name in self.copied else ""
            lines.append(f"  {count:>8}  {name}{copied}")
        lines += [
            f"  {each.calls:>8}  {each.function} {each.text}: PyTorch ({each.reason})"
            for each in sorted(self.missed, key=lambda each: -each.calls)
        ]
        return "\n".join(lines)

    def suite(self) -> str:
        """Return a suite file with the problems that had no kernel. Their weights are the numbers of calls."""
        parts = ['goal = "time"\n']
        for each in self.missed:
            if each.reason == NO_KERNEL:
                fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in each.problem.items())
                parts.append(
                    f'[[call]]\nname = "{each.family}-{len(parts)}"\nfamily = "{each.family}"\n'
                    f"problem = {{ {fields} }}\nweight = {each.calls}\n"
                )
        return "\n".join(parts)


class Table:
    """All kernels of this package, by family, device kind and problem."""

    def __init__(self, folder: Path = FOLDER) -> None:
        document = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
        self.folder = folder
        self.entries = [Entry(**each) for each in document["kernels"]]
        self._defaults: Mapping[str, Mapping[str, Any]] = document["defaults"]
        self._by_problem: dict[Key, list[Entry]] = {}
        for entry in self.entries:
            self._by_problem.setdefault(self._key(entry.family, entry.device, entry.problem), []).append(entry)
        self.strict = False
        self.fallbacks: dict[tuple[str, str, str], Fallback] = {}

    def find(self, function: str, family: str, device: torch.device, problem: Mapping[str, Any]) -> Entry | Fallback:
        """Load the kernel for a problem, and return its entry.

        If no kernel is usable, return the record that counts such calls; see `fallback`.

        Raises:
            LookupError: no kernel is usable, and `strict` is set.
        """
        reason = NO_KERNEL
        for entry in self._by_problem.get(self._key(family, device.type, problem), ()):
            if entry.device == "cpu" and torch.get_num_threads() > entry.threads:
                used = f"{MORE_THREADS}{torch.get_num_threads()} threads"
                reason = f"{used}, but the kernel was tuned for {entry.threads}"
                continue
            if entry.trouble is None and self._loaded(entry, device):
                return entry
            reason = entry.trouble or reason
        return self.fallback(function, family, problem, reason)

    def fallback(self, function: str, family: str, problem: Mapping[str, Any], reason: str) -> Fallback:
        """Return the record that counts the calls that PyTorch computes, for this function, problem and reason.

        Raises:
            LookupError: `strict` is set.
        """
        new = Fallback(function, family, dict(problem), reason)
        if self.strict:
            raise LookupError(f"{function}, {new.text}: {reason}; strict(False) lets PyTorch compute the call")
        return self.fallbacks.setdefault((function, new.text, reason), new)

    def offers(self, family: str, kind: str, **fields: Any) -> bool:
        """Return True if the family has a kernel for a kind of device whose problem has the given field values.

        The problem's other fields may have any values.

        Args:
            kind: kind of device: ``cpu`` or ``cuda``.
        """
        return any(
            entry.family == family and entry.device == kind and fields.items() <= entry.problem.items()
            for entry in self.entries
        )

    def has(self, family: str, device: torch.device, problem: Mapping[str, Any]) -> bool:
        """Return True if there is a kernel for a problem, even if this machine cannot run it."""
        return self._key(family, device.type, problem) in self._by_problem

    def _key(self, family: str, kind: str, problem: Mapping[str, Any]) -> Key:
        """Return the key under which kernels for a problem are stored. Fields with default values do not affect it."""
        defaults = self._defaults.get(family, {})
        given = ((name, value) for name, value in problem.items() if defaults.get(name) != value)
        return family, kind, frozenset(given)

    def _loaded(self, entry: Entry, device: torch.device) -> bool:
        """Load a kernel once. If this machine cannot run it, store the reason and return False."""
        if entry.kernel is None:
            try:
                entry.kernel = Kernel(self.folder / entry.folder)
            except (Unfit, OSError) as error:
                entry.trouble = str(error)
                warnings.warn(f"{entry.family} {entry.folder} is not used: {error}", RuntimeWarning, stacklevel=4)
                return False
        try:
            entry.kernel.check(device)
        except Unfit as error:
            entry.trouble = str(error)
            return False
        return True


def described(family: str, problem: Mapping[str, Any]) -> str:
    """Return family and problem as text."""
    return " ".join([family, *(f"{name}={value}" for name, value in problem.items())])


TABLE = Table()


def report() -> Report:
    """Return the numbers of calls since the import, or since `reset`."""
    return Report(
        served={described(entry.family, entry.problem): entry.calls for entry in TABLE.entries if entry.calls},
        copied={described(entry.family, entry.problem): entry.copied for entry in TABLE.entries if entry.copied},
        missed=tuple(replace(each) for each in TABLE.fallbacks.values() if each.calls),
    )


def counted() -> list[Entry | Fallback]:
    """Return all objects that count calls."""
    return [*TABLE.entries, *TABLE.fallbacks.values()]


def reset() -> None:
    """Set all counts to zero."""
    for each in counted():
        each.calls = 0
    for entry in TABLE.entries:
        entry.copied = 0
