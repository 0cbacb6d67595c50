"""Inputs and expected outputs of a problem, computed before or after the device is opened."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from evo.reference.library import GpuNeededError, without_gpu
from workers.build.cache import Cache
from workers.measure.family.expected_output import Arrays, ExpectedOutput
from workers.measure.family.reference import Reference
from workers.runner.protocol import Open, Prepare


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Inputs and expected outputs for an `Open` request.

    Attributes:
        drawn: inputs of each case and seed.
        golden: expected outputs by case name. None if the reference needs the GPU and was not computed yet.
    """

    terms: Open
    reference: Reference
    drawn: Sequence[Arrays]
    golden: Mapping[str, tuple[ExpectedOutput, ...]] | None

    @classmethod
    def ahead(cls, request: Prepare) -> "Prepared | None":
        """Compute inputs and, if possible, expected outputs, without using the GPU.

        Another process may be measuring on the GPU. Return None if the inputs themselves need the GPU.

        Raises:
            FamilyError: reference.py violates its contract.
        """
        with without_gpu(), suppress(GpuNeededError), _importing(request.terms.modules):
            prepared = cls._begun(request.terms)
            try:
                return prepared.complete()
            except GpuNeededError:
                return prepared
        return None

    @classmethod
    def of(cls, terms: Open) -> "Prepared":
        """Compute inputs and expected outputs. Functions of reference.py may use the GPU.

        Raises:
            FamilyError: reference.py violates its contract.
        """
        with _importing(terms.modules):
            return cls._begun(terms).complete()

    @classmethod
    def _begun(cls, terms: Open) -> "Prepared":
        reference = Reference(Path(terms.reference), terms.family_digest, Cache(Path(terms.folder)))
        return cls(terms=terms, reference=reference, drawn=reference.drawn(terms.cases), golden=None)

    def complete(self) -> "Prepared":
        """Return a copy with all expected outputs.

        Raises:
            FamilyError: reference.py violates its contract.
            GpuNeededError: a reference needs a GPU, but this function was called inside `without_gpu`.
        """
        if self.golden is not None:
            return self
        return replace(self, golden=self.reference.goldens(self.terms.cases, self.drawn))


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in another thread for the duration of the block."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(import_all, modules)
        yield


def import_all(modules: Sequence[str]) -> None:
    """Import modules. Errors are ignored here, because the code that uses a module reports them."""
    for name in modules:
        with suppress(Exception):
            import_module(name)
