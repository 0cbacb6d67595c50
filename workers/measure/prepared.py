"""Inputs and expected outputs of a problem, which a runner computes before or after it opens the device."""

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
    """Inputs and expected outputs that an `Open` request needs.

    Attributes:
        drawn: inputs of each case and seed.
        golden: expected outputs by case name, or None if ``reference()`` needs the GPU and was not called yet.
    """

    terms: Open
    reference: Reference
    drawn: Sequence[Arrays]
    golden: Mapping[str, tuple[ExpectedOutput, ...]] | None

    @classmethod
    def ahead(cls, request: Prepare) -> "Prepared | None":
        """Compute inputs and, if possible, expected outputs while another process may be measuring on the GPU.

        Return None if even the inputs need the GPU.

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
        """Compute inputs and expected outputs. The functions of reference.py may use the GPU.

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
        """Return a copy in which no expected outputs are missing.

        Raises:
            FamilyError: reference.py violates its contract.
            GpuNeededError: ``reference()`` needs a GPU, but this method was called inside `without_gpu`.
        """
        if self.golden is not None:
            return self
        return replace(self, golden=self.reference.goldens(self.terms.cases, self.drawn))


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in a second thread while the block runs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(import_all, modules)
        yield


def import_all(modules: Sequence[str]) -> None:
    """Import modules. Errors are ignored, because the code that uses a module reports them."""
    for name in modules:
        with suppress(Exception):
            import_module(name)
