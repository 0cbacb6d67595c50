"""Inputs and expected outputs of a problem, which a runner computes before or after it opens the device."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Self

from evo.device import Device, kind_of
from evo.reference.library import GpuNeededError, gpu_if
from workers.backends import ReferenceDriver, driver
from workers.build.cache import Cache
from workers.measure.family.expected_output import Arrays, ExpectedOutput
from workers.measure.family.reference import Reference
from workers.runner.heap import keep_freed_memory
from workers.runner.protocol import Open, Prepare
from workers.system.device_lock import exclusive_if_free


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Inputs and expected outputs that an `Open` request needs.

    Attributes:
        drawn: inputs of each case and seed, in the order of the cases.
        golden: expected outputs by case name, or None if ``reference()`` needs the GPU and was not called yet.
        mixtures: mixed inputs with their expected outputs (see `Reference.mixtures`), or None if they were not
            computed. Only kernels that run on the host are verified on mixed inputs.
    """

    terms: Open
    reference: Reference
    drawn: Sequence[Arrays]
    golden: Mapping[str, tuple[ExpectedOutput, ...]] | None
    mixtures: tuple[ExpectedOutput, ...] | None = None

    @classmethod
    def ahead(cls, request: Prepare) -> "Prepared | None":
        """Compute inputs and, if possible, expected outputs while another process may be measuring on the GPU.

        The GPU is used only if no other process has locked it. Return None if even drawing the inputs needs
        a GPU that another process has locked.

        Raises:
            FamilyError: reference.py violates its contract.
        """
        terms = request.terms
        with Claim(terms.device) as claim, gpu_if(claim.succeeds), suppress(GpuNeededError), _importing(terms.modules):
            prepared = cls._begun(terms)
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
        if terms.keeps_memory:
            keep_freed_memory()
        reference = Reference(Path(terms.reference), terms.family_digest, Cache(Path(terms.folder)))
        return cls(terms=terms, reference=reference, drawn=reference.drawn(terms.cases), golden=None)

    def complete(self) -> "Prepared":
        """Compute the missing expected outputs, and mixed inputs if possible. Return a copy that contains them.

        Raises:
            FamilyError: reference.py violates its contract.
            GpuNeededError: ``reference()`` needs a GPU that this process may not use now.
        """
        if self.golden is not None:
            return self
        golden = self.reference.goldens(self.terms.cases, self.drawn)
        mixtures = None
        if kind_of(self.terms.device.kind).on_host:
            with suppress(GpuNeededError):
                mixtures = self.reference.mixtures(self.terms.cases, golden)
        return replace(self, golden=golden, mixtures=mixtures)


class Claim:
    """Locks a device at the first call of `succeeds`, if the device is free. Later calls return the same result.

    As a context manager, it releases the device at the end of the ``with`` block.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._deciding = threading.Lock()
        self._succeeded: bool | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def succeeds(self) -> bool:
        """Return True if this process may use the device until the ``with`` block ends."""
        with self._deciding:
            if self._succeeded is None:
                self._succeeded = self._is_locked()
            return self._succeeded

    def _is_locked(self) -> bool:
        chosen = driver(self._device.kind)
        if not isinstance(chosen, ReferenceDriver):
            return False
        if not self._held.enter_context(exclusive_if_free(self._device.uuid)):
            return False
        try:
            chosen.choose(self._device)
        except Exception:  # noqa: BLE001 - libraries raise various exceptions; opening the device states the reason
            self._held.close()
            return False
        return True


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in a second thread while the ``with`` block runs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(import_all, modules)
        yield


def import_all(modules: Sequence[str]) -> None:
    """Import modules. Errors are ignored, because the code that uses a module reports them."""
    for name in modules:
        with suppress(Exception):
            import_module(name)
