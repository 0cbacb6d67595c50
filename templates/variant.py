"""Composes the files of a variant: another implementation of a family with the same contract.

A variant changes only the table of one device kind in family.toml. Problem fields, arguments, cases, tolerances,
baselines and reference.py are those of the family. Submitted files are stored in a subfolder, so that they cannot
replace files of the family.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from evo.device import DeviceKind
from evo.errors import InvalidInput
from evo.family.family import LONGEST_AUTHOR, LONGEST_IDEA, VARIANT_NAME, VariantNote
from evo.text.document import toml_text
from evo.text.limits import refuse_invisible
from evo.text.suggestion import unknown
from templates.outside import outside, outside_flag
from templates.registry import SPEC

FOLDER = "variant"
"""Folder of a variant's files in the family's folder."""

MAX_FILES = 32
MAX_BYTES = 1 << 20
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu")
TRITON = "kernel.py"
"""Required name of a Triton source. Under another name, it could replace a Python module."""

HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inc", ".inl")
TEMPLATE = ".j2"

ABOUT = ("name", "author", "idea")
CONTRACT = ("requires", "defaults", "notes", "reentrant")
"""Keys of an implementation's table that belong to the contract. A variant takes their values from the family."""

DEPENDENT = ("constraints", "derived", "starts", "macros")
"""Keys that refer to tunables. A variant that declares tunables does not inherit these keys."""

_NAME = re.compile(VARIANT_NAME)
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+-]*(?:\.[A-Za-z0-9_+-]+)*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_NAMES = "use a relative path of letters, digits and _ + - . (at most 100 characters), e.g. include/tile.cuh"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A submitted variant.

    Attributes:
        note: name, author and idea of the variant.
        table: keys of the implementation's table, e.g. ``[cpu]``, whose values differ from the parent's table.
        files: texts of the submitted files by name.
    """

    note: VariantNote
    table: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str]


def read_proposal(document: Mapping[str, Any], files: Mapping[str, str], default_name: str) -> Proposal:
    """Return the variant that a submitted document and its files describe, after checking them.

    Args:
        document: name, author and idea of the variant, and the keys of the implementation's table, e.g. ``[cpu]``,
            whose values differ from the parent.
        files: texts of the submitted files by name.
        default_name: name of the variant if the document contains none.

    Raises:
        InvalidInput: a key or a file is invalid.
    """
    for key in (*CONTRACT, "parents", "problem", "arguments", "cases", "case_problem", "work", "baselines"):
        if key in document:
            raise InvalidInput(f"document.{key}", "belongs to the family, which a variant cannot change; remove it")
    about = {key: document.get(key, "") for key in ABOUT}
    for key, value in about.items():
        if not isinstance(value, str):
            raise InvalidInput(f"document.{key}", "must be a string")
    name = about["name"] or default_name
    if not _NAME.fullmatch(name):
        accepted = "use up to 64 letters, digits, `_`, `-`, `.`, `+`, a letter or digit first"
        raise InvalidInput("document.name", f"{name!r:.80} is not a valid name; {accepted}")
    for key, most in (("idea", LONGEST_IDEA), ("author", LONGEST_AUTHOR)):
        if len(about[key]) > most:
            raise InvalidInput(f"document.{key}", f"has {len(about[key]):,} characters; at most {most:,} are accepted")
    note = VariantNote(name=name, author=refuse_invisible("document.author", about["author"]), idea=about["idea"])
    table = {key: value for key, value in document.items() if key not in ABOUT}
    _check_files(files)
    for name, text in files.items():
        if name != TRITON and (fault := outside(text)) is not None:
            raise InvalidInput("files", f"{name}: {fault}")
    _check_flags(table.get("flags", ()))
    return Proposal(note=note, table=table, files=files)


def composed(
    *,
    base: Mapping[str, bytes],
    base_document: Mapping[str, Any],
    parent: Mapping[str, bytes],
    parent_document: Mapping[str, Any],
    proposal: Proposal,
    kind: DeviceKind,
) -> dict[str, bytes]:
    """Return the files of a family that has the contract of the base family and the proposed implementation.

    Args:
        base, base_document: files and document of the family that defines the contract.
        parent, parent_document: files and document of the variant (or base family) from which the new variant is
            derived. Keys and files that the proposal lacks are taken from the parent.
        proposal: the submitted variant.
        kind: device kind of the implementation.

    Raises:
        InvalidInput: the parent has no implementation for the device kind, or the proposal has no main source.
    """
    own_table = table_of(base_document, kind)
    parent_table = table_of(parent_document, kind)
    if parent_table not in parent_document:
        raise InvalidInput("parent", f"has no implementation for {kind}; choose another variant")
    mode, main = _main(proposal)
    location = _place(kind, main)
    inherited = {
        key: value for key, value in parent_document[parent_table].items() if key not in ("template", "source")
    }
    if location != parent_table:  # parameters, launches and options differ between languages
        inherited = {}
    if "tunables" in proposal.table:
        inherited = {key: value for key, value in inherited.items() if key not in DEPENDENT}
    if isinstance(proposal.table.get("launch"), list | tuple):
        inherited.pop("entry", None)  # each of several launches has its own entry
    if mode == "template":
        inherited.pop("macros", None)
    table = inherited | {key: value for key, value in proposal.table.items() if key not in ("template", "source")}
    contract = {key: base_document[own_table][key] for key in CONTRACT if key in base_document.get(own_table, {})}
    table |= contract | {mode: f"{FOLDER}/{main}"}
    kinds = {key for key, value in base_document.items() if isinstance(value, Mapping) and _implements(value)}
    document = {key: value for key, value in base_document.items() if key not in kinds}
    document |= {location: table, "variant": proposal.note.document()}
    own = {name: content for name, content in parent.items() if name.startswith(f"{FOLDER}/")}
    own |= {f"{FOLDER}/{name}": text.encode() for name, text in proposal.files.items()}
    kept = {name: content for name, content in base.items() if not name.startswith(f"{FOLDER}/")}
    return {**kept, **own, SPEC: toml_text(document).encode()}


def table_of(document: Mapping[str, Any], kind: DeviceKind) -> str:
    """Return the name of the table with the implementation for a device kind: ``triton``, or the kind itself."""
    return "triton" if kind == "cuda" and "cuda" not in document and "triton" in document else kind


def _place(kind: DeviceKind, main: str) -> str:
    """Return the name of the table for a variant with this main file: ``triton`` for kernel.py, else the kind."""
    if main != TRITON:
        return kind
    if kind != "cuda":
        raise InvalidInput(
            "files", f"{main} is a Triton source, which needs device kind cuda, but the search has {kind}"
        )
    return "triton"


def _implements(table: Mapping[str, Any]) -> bool:
    return "template" in table or "source" in table


def _main(proposal: Proposal) -> tuple[str, str]:
    """Return the key ``template`` or ``source``, and the name of the proposal's main file."""
    keys = [key for key in ("template", "source") if key in proposal.table]
    if len(keys) == 2:
        raise InvalidInput("document.template", "cannot be combined with `source`; remove one of them")
    if keys:
        file = proposal.table[keys[0]]
        if not isinstance(file, str) or file not in proposal.files:
            raise InvalidInput(f"document.{keys[0]}", unknown(str(file)[:80], list(proposal.files), "submitted files"))
        return keys[0], file
    candidates = [name for name in proposal.files if name.removesuffix(TEMPLATE).endswith((*SOURCES, TRITON))]
    if len(candidates) != 1:
        several = f"the main source may be any of {', '.join(candidates)}"
        found = several if candidates else "no submitted file is a kernel source"
        raise InvalidInput("document.source", f'is missing, and {found}; write source = "FILE"')
    return ("template" if candidates[0].endswith(TEMPLATE) else "source"), candidates[0]


def _check_flags(flags: object) -> None:
    """Raise an error for compiler flags that variants may not use; see `outside_flag`."""
    if isinstance(flags, list | tuple) and (refused := outside_flag([str(each) for each in flags])) is not None:
        raise InvalidInput(
            "document.flags",
            f"a variant cannot use {refused!r:.80}, only flags that change the generated code (-O, -f, -m, -std, -W, "
            "-D, -l, -I with a folder of the variant); remove the flag",
        )


def _check_files(files: Mapping[str, str]) -> None:
    if not files:
        raise InvalidInput("files", "is empty; add the variant's source")
    if len(files) > MAX_FILES:
        raise InvalidInput("files", f"has {len(files)} files; at most {MAX_FILES} are accepted")
    if sum(len(text.encode()) for text in files.values()) > MAX_BYTES:
        raise InvalidInput("files", f"contain more than {MAX_BYTES >> 20} MiB; submit smaller files")
    for name in files:
        if len(name) > 100 or not _FILE.fullmatch(name):
            raise InvalidInput("files", f"{name!r:.120} is not accepted; {_NAMES}")
        if name != TRITON and not name.removesuffix(TEMPLATE).endswith((*SOURCES, *HEADERS)):
            accepted = ", ".join((*SOURCES, TRITON, *HEADERS))
            raise InvalidInput(
                "files", f"{PurePosixPath(name)!s:.100} is not a source; accepted: {accepted}, also with {TEMPLATE}"
            )
