"""Uploaded families: fetched by digest, checked, and written to a folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

from evo.errors import EvoError
from evo.messages.job import FamilyRef
from templates.bundle import SCHEME, digest_of, family_of, unpack

Fetch = Callable[[str], bytes]
"""The bundle of the family with this digest."""


def is_bundle(ref: FamilyRef) -> bool:
    return ref.location is not None and ref.location.startswith(SCHEME)


def lay_out(ref: FamilyRef, fetch: Fetch, folder: Path) -> Path:
    """Write the family's files below `folder` and return its folder.

    Raises:
        EvoError: the service does not have it, or it is not what the digest says.
    """
    files = unpack(fetch(ref.digest))
    if (digest := digest_of(files)) != ref.digest:
        raise EvoError(f"what was fetched has digest {digest[:12]}: are worker and service of the same version?")
    family = folder / ref.digest / family_of(files).name
    shutil.rmtree(family, ignore_errors=True)
    for name, content in files.items():
        path = family / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return family
