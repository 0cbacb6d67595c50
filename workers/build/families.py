"""Provides the families of leases, from this machine or from the service, and checks their digests."""

import codecs
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evo.client import ServiceError, ServiceUnreachable
from evo.device import DeviceKind
from evo.errors import EvoError, NotFound
from evo.family import CaseProblem, Family
from evo.lru_cache import LruCache
from evo.messages.job import FamilyRef, SearchTerms
from templates.bundle import SCHEME, digest_of, family_of, unpack
from templates.registry import INCLUDE, REFERENCE, Package, find, is_path
from workers.build import Unit

Fetch = Callable[[str], bytes]
"""Function that returns the ZIP file of the family with the given digest."""


def is_bundle(ref: FamilyRef) -> bool:
    return ref.location is not None and ref.location.startswith(SCHEME)


def lay_out(ref: FamilyRef, fetch: Fetch, folder: Path) -> Path:
    """Fetch a family, write its files below `folder`, and return the folder of the family.

    Raises:
        EvoError: the service does not have the family, or the fetched files do not match the digest.
    """
    files = unpack(fetch(ref.digest))
    if (digest := digest_of(files)) != ref.digest:
        text = f"the fetched family has digest {digest[:12]} instead of {ref.digest[:12]}"
        raise EvoError(f"{text}; install the same version of kernel-evo on the worker and the service")
    family = folder / ref.digest / family_of(files).name
    shutil.rmtree(family, ignore_errors=True)
    for name, content in files.items():
        path = family / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return family


class FamilyMismatch(EvoError, LookupError):
    """This machine has no family with the digest in a lease, so it cannot execute the job."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A family and a copy of its files, which later edits of the family do not change.

    Attributes:
        folder: folder of the copy, with reference.py and all files that sources include.
    """

    package: Package
    folder: Path

    @property
    def family(self) -> Family:
        return self.package.family

    @property
    def reference(self) -> Path:
        return self.folder / REFERENCE

    def unit(self, kind: DeviceKind, source: str, architecture: str) -> Unit:
        """Return the compilation unit of a source for a device kind and architecture."""
        implementation = self.family.implementation(kind)
        beside = (self.folder / implementation.file).parent
        return Unit(
            source=source,
            architecture=architecture,
            entry=implementation.entry,
            flags=implementation.flags,
            language=implementation.language,
            folders=tuple(dict.fromkeys((beside, self.folder, self.folder / INCLUDE.name))),
            root=self.folder,
            further=implementation.entries[1:],
            compiler=implementation.compiler,
            untrusted=self.family.variant is not None,
        )


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Search to which a job belongs: its family (`copy`), and its problem, device, objective and policy (`terms`).

    Attributes:
        timed_only: True to use only the case that is timed.
        incumbent: family of a confirmation's incumbent if it is a different variant than the challenger, else None.
    """

    terms: SearchTerms
    copy: Copy
    timed_only: bool = False
    incumbent: Copy | None = None

    def built_as(self, role: str) -> "Assignment":
        """Return the assignment for building the kernel with a role, e.g. ``challenger`` or ``incumbent``."""
        return self if role != "incumbent" or self.incumbent is None else replace(self, copy=self.incumbent)

    @cached_property
    def cases(self) -> tuple[CaseProblem, ...]:
        """All correctness cases, the searched problem first; only the searched problem if `timed_only` is True."""
        return self._all_cases[:1] if self.timed_only else self._all_cases

    @property
    def distributions(self) -> tuple[str, ...]:
        """Distributions of all cases whose inputs may be mixed with those of other cases."""
        return tuple(dict.fromkeys(each.case.inputs for each in self._all_cases if each.case.mixed))

    @cached_property
    def _all_cases(self) -> tuple[CaseProblem, ...]:
        return self.copy.family.case_problems(self.terms.problem, self.terms.device.kind)


KEPT = 256
"""Maximum number of family copies that are kept. This is far more than the concurrent jobs of a worker need."""


class Families:
    """Finds families, and keeps copies of their files in a folder of this process.

    Args:
        fetch: function that fetches families from the service. If None, only families on this machine are found.
    """

    def __init__(self, folder: Path, fetch: Fetch | None = None) -> None:
        self._folder = folder
        self._fetch = fetch
        self._finding = threading.Lock()
        self._copies: LruCache[str, Copy] = LruCache(KEPT, self._remove)

    def get(self, ref: FamilyRef) -> Copy:
        """Return a copy of the family with exactly this digest.

        Raises:
            FamilyMismatch: the family is missing, or has a different digest, or the copy cannot be written.
            ServiceUnreachable: the service cannot be reached.
            ServiceError: the service replied with an error.
        """
        with self._finding:
            try:
                return self._copies.get(ref.digest, lambda: self._copy(self._find(ref)))
            except EvoError:  # checked first, because some of these errors are subclasses of OSError
                raise
            except OSError as error:
                reason = f"family {ref.name} cannot be copied to {self._folder}: {error.strerror or error}"
                raise FamilyMismatch(reason) from error

    def add(self, package: Package) -> Copy:
        """Copy the files of a family that is already loaded, and return the copy."""
        with self._finding:
            return self._copies.get(package.digest, lambda: self._copy(package))

    def _remove(self, copy: Copy) -> None:
        for folder in (copy.folder, self._folder / "bundles" / copy.package.digest):
            shutil.rmtree(folder, ignore_errors=True)

    def _find(self, ref: FamilyRef) -> Package:
        try:
            where = self._where(ref)
            package = find(where)
        except (ServiceUnreachable, ServiceError):  # the family could not be fetched, and is not at fault
            raise
        except EvoError as error:
            raise FamilyMismatch(f"family {ref.name} is not usable on this machine: {error}") from error
        if package.digest != ref.digest:
            raise FamilyMismatch(
                f"family {ref.name} differs from the one that was submitted ({where} has digest "
                f"{package.digest[:12]}, not {ref.digest[:12]}); undo the changes, or start a new search"
            )
        return package

    def _where(self, ref: FamilyRef) -> str:
        """Return the name or path of the family on this machine. Fetch the family if necessary."""
        if is_bundle(ref):
            if self._fetch is None:
                raise NotFound("it was uploaded to a service, and this process cannot fetch it")
            return str(lay_out(ref, self._fetch, self._folder / "bundles"))
        if ref.location is None and is_path(ref.name):
            raise NotFound("its name is a path; set `location` of the family to this path")
        return ref.location or ref.name

    def _copy(self, package: Package) -> Copy:
        folder = self._folder / package.digest[:16]
        for name, content in package.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.removeprefix(codecs.BOM_UTF8))  # NVRTC rejects headers with a byte order mark
        return Copy(package=package, folder=folder)
