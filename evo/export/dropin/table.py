"""Which kernel serves a call, and the record of calls: served, or given to PyTorch and why."""

import json
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .kernels import Kernel, Unfit

FOLDER = Path(__file__).parent
Key = tuple[str, str, frozenset[tuple[str, Any]]]
"""Family, kind of device, and the fields of a problem with their values."""

NO_KERNEL = "no kernel for this problem"


@dataclass
class Entry:
    """A kernel of this package.

    Attributes:
        folder: its files, relative to the package.
        device: kind of device, as PyTorch names it: cpu or cuda.
        threads: threads of PyTorch that it was compared with, on a CPU.
        champion, model: number of the promoted champion, and the device that timed it.
        time_us, speedup, baseline: its confirmed time, and how much faster it is than the fastest baseline.
        kernel: loaded on first use.
        trouble: why this machine cannot run it; None as long as nothing speaks against it.
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
    kernel: Kernel | None = None
    trouble: str | None = None


@dataclass(frozen=True)
class Report:
    """Calls so far.

    Attributes:
        served: calls by kernel, with its problem.
        fallbacks: calls that PyTorch answered, by function, problem in words and reason.
    """

    served: Mapping[str, int]
    fallbacks: Mapping[tuple[str, str, str], int]
    problems: Mapping[str, tuple[str, Mapping[str, Any]]] = field(repr=False)

    def __str__(self) -> str:
        lines = [f"{sum(self.served.values())} calls on kernels, {sum(self.fallbacks.values())} on PyTorch"]
        lines += [f"  {count:>8}  {name}" for name, count in self.served.items()]
        lines += [
            f"  {count:>8}  {function} {problem}: PyTorch ({reason})"
            for (function, problem, reason), count in sorted(self.fallbacks.items(), key=lambda item: -item[1])
        ]
        return "\n".join(lines)

    def suite(self) -> str:
        """Return a suite file of the problems that had no kernel, with the number of calls as weights."""
        parts = ['goal = "time"\n']
        for (_, text, reason), count in self.fallbacks.items():
            if reason == NO_KERNEL and text in self.problems:
                family, problem = self.problems[text]
                fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in problem.items())
                name = f"{family}-{len(parts)}"
                parts.append(
                    f'[[call]]\nname = "{name}"\nfamily = "{family}"\nproblem = {{ {fields} }}\nweight = {count}\n'
                )
        return "\n".join(parts)


class Table:
    """All kernels of this package, found by problem."""

    def __init__(self, folder: Path = FOLDER) -> None:
        described = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
        self.folder = folder
        self.entries = [Entry(**each) for each in described["kernels"]]
        self._by_problem: dict[Key, list[int]] = {}
        for place, entry in enumerate(self.entries):
            self._by_problem.setdefault(key_of(entry.family, entry.device, entry.problem), []).append(place)
        self.strict = False
        self.fallbacks: Counter[tuple[str, str, str]] = Counter()
        self.problems: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def find(self, function: str, family: str, device: torch.device, problem: Mapping[str, Any]) -> int | None:
        """Return the place of the kernel for a problem; None, and the call is counted, if PyTorch has to answer it."""
        reason = NO_KERNEL
        for place in self._by_problem.get(key_of(family, device.type, problem), ()):
            entry = self.entries[place]
            if entry.device == "cpu" and torch.get_num_threads() > entry.threads:
                reason = f"searched for {entry.threads} of PyTorch's {torch.get_num_threads()} threads"
                continue
            if entry.trouble is None and self._loaded(entry, device):
                entry.calls += 1
                return place
            reason = entry.trouble or reason
        self.give_up(function, family, problem, reason)
        return None

    def give_up(self, function: str, family: str, problem: Mapping[str, Any], reason: str) -> None:
        """Count a call that PyTorch answers.

        Raises:
            LookupError: `strict` is set.
        """
        text = " ".join([family, *(f"{name}={value}" for name, value in problem.items())])
        if self.strict:
            raise LookupError(f"{function}, {text}: {reason}; strict(False) lets PyTorch answer")
        self.problems.setdefault(text, (family, dict(problem)))
        self.fallbacks[function, text, reason] += 1

    def refuse(self, place: int, function: str, family: str, problem: Mapping[str, Any], reason: str) -> None:
        """Count a call that was found a kernel, and that PyTorch answers all the same."""
        self.entries[place].calls -= 1
        self.give_up(function, family, problem, reason)

    def kernel(self, place: int) -> Kernel:
        kernel = self.entries[place].kernel
        assert kernel is not None
        return kernel

    def offers(self, family: str, kind: str, **fields: Any) -> bool:
        """True if a kernel of the family has these fields, whatever the others are."""
        return any(
            entry.family == family and entry.device == kind and fields.items() <= entry.problem.items()
            for entry in self.entries
        )

    def _loaded(self, entry: Entry, device: torch.device) -> bool:
        """Load a kernel once; one that this machine cannot run is remembered with the reason."""
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


def key_of(family: str, kind: str, problem: Mapping[str, Any]) -> Key:
    return family, kind, frozenset(problem.items())


TABLE = Table()


def report() -> Report:
    """Return the calls since the import, or since `reset`."""
    served = {
        " ".join([entry.family, *(f"{name}={value}" for name, value in entry.problem.items())]): entry.calls
        for entry in TABLE.entries
        if entry.calls
    }
    return Report(served=served, fallbacks=dict(TABLE.fallbacks), problems=dict(TABLE.problems))


def reset() -> None:
    """Forget all counted calls."""
    TABLE.fallbacks.clear()
    TABLE.problems.clear()
    for entry in TABLE.entries:
        entry.calls = 0


def strict(on: bool = True) -> None:
    """Raise LookupError, instead of calling PyTorch, where no kernel serves a call."""
    TABLE.strict = on
