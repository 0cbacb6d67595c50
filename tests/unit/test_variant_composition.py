"""Variants are composed from a family's files: a variant cannot change the family's contract."""

import tomllib
from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.family import Family
from evo.text.document import toml_text
from templates import bundle, registry
from templates.registry import SPEC
from templates.variant import CONTRACT, composed, read_proposal

DOCUMENT: dict[str, Any] = {
    "name": "toy",
    "problem": {"N": {"type": "int", "default": 8}},
    "arguments": [
        {"name": "x", "role": "input", "shape": ["N"], "dtype": "float32"},
        {"name": "y", "role": "output", "shape": ["N"], "dtype": "float32", "rel_l2": 1e-6, "max_abs": 1e-6},
    ],
    "cases": [{"name": "nominal", "inputs": "normal"}],
    "cpu": {
        "template": "kernel.c.j2",
        "entry": "toy",
        "requires": [{"expression": "N > 1", "because": "one is too few"}],
        "tunables": {"WIDTH": [1, 4]},
        "constraints": [{"expression": "N % WIDTH == 0", "because": "vectors are whole"}],
    },
    "cuda": {
        "source": "kernel.cu",
        "entry": "toy",
        "tunables": {"BLOCK": [32]},
        "launch": {"grid": ["1"], "block": ["32"]},
    },
}
FILES = {
    SPEC: toml_text(DOCUMENT).encode(),
    "reference.py": b"CONTRACT = 1\n",
    "kernel.c.j2": b"int width = {{ WIDTH }};\n",
    "kernel.cu": b"",
    "naive.cu": b"// the baseline\n",
}


def variant_files(document: dict[str, Any], files: dict[str, str], **parent: Any) -> dict[str, bytes]:
    """Return the files of a CPU variant of the toy family, by name."""
    proposal = read_proposal(document, files, "variant-1")
    given = {"parent": FILES, "parent_document": DOCUMENT, **parent}
    return composed(base=FILES, base_document=DOCUMENT, proposal=proposal, kind="cpu", **given)


def document_of(files: dict[str, bytes]) -> dict[str, Any]:
    return tomllib.loads(files[SPEC].decode())


@pytest.mark.parametrize("package", registry.builtin(), ids=lambda package: package.family.name)
def test_family_document_written_as_toml_is_parsed_back_unchanged(package: registry.Package) -> None:
    document = dict(package.family.document)
    assert tomllib.loads(toml_text(document)) == document


def test_toml_text_keeps_every_character() -> None:
    document = {"a b": 'quote " back \\ tab \t bell \x07 delete \x7f snow ☃', "x": [1.5, -2, True, {"k": []}]}
    assert tomllib.loads(toml_text(document)) == document


def test_variant_keeps_the_contract_of_the_family() -> None:
    files = variant_files({"idea": "plain", "tunables": {"STEP": [1, 2]}}, {"kernel.c": "int s = STEP + N;"})
    document = document_of(files)

    assert {name: document[name] for name in ("name", "problem", "arguments", "cases")} == {
        name: DOCUMENT[name] for name in ("name", "problem", "arguments", "cases")
    }
    assert document["cpu"]["requires"] == DOCUMENT["cpu"]["requires"]
    assert {name: files[name] for name in FILES if name != SPEC} == {n: c for n, c in FILES.items() if n != SPEC}
    assert "cuda" not in document
    assert document["variant"] == {"name": "variant-1", "author": "", "idea": "plain", "parents": []}


def test_variant_with_different_tunables_drops_the_constraints_of_its_parent() -> None:
    table = document_of(variant_files({"tunables": {"STEP": [1, 2]}}, {"kernel.c": "STEP N"}))["cpu"]
    assert table["tunables"] == {"STEP": [1, 2]}
    assert "constraints" not in table
    assert (table["source"], table["entry"]) == ("variant/kernel.c", "toy")


def test_variant_with_one_source_keeps_the_settings_of_its_parent() -> None:
    table = document_of(variant_files({}, {"kernel.c.j2": "{{ WIDTH }}"}))["cpu"]
    assert table["template"] == "variant/kernel.c.j2"
    assert table["constraints"] == DOCUMENT["cpu"]["constraints"]


def test_composed_variant_is_a_valid_family() -> None:
    family = bundle.family_of(variant_files({"name": "wide", "author": "ana"}, {"kernel.c.j2": "{{ WIDTH }} {{ N }}"}))
    assert isinstance(family, Family)
    assert family.variant is not None
    assert (family.variant.name, family.variant.author) == ("wide", "ana")


def test_variant_keeps_unreplaced_files_of_its_parent() -> None:
    parent = variant_files(
        {"tunables": {"STEP": [1]}}, {"kernel.c": "STEP", "own.h": "// parent", "other.h": "// parent"}
    )
    files = variant_files(
        {}, {"kernel.c": "STEP 2", "own.h": "// child"}, parent=parent, parent_document=document_of(parent)
    )
    assert files["variant/own.h"] == b"// child"
    assert files["variant/other.h"] == b"// parent"
    assert document_of(files)["cpu"]["tunables"] == {"STEP": [1]}


@pytest.mark.parametrize("key", [*CONTRACT, "problem", "arguments", "cases", "work", "parents", "baselines"])
def test_variant_with_keys_of_the_contract_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="belongs to the family"):
        read_proposal({key: []}, {"kernel.c": ""}, "v")


@pytest.mark.parametrize(
    "name",
    [
        *("reference.py", "numpy.py", "family.toml", "../reference.py", "/etc/x.h", "a/../b.c", ".hidden.c", "x.so"),
        *("data.bin", "x.c\n", "a//b.c", "x" * 120 + ".c", "sitecustomize.py", "x.pyc", "é.c", "a\\b.c"),
    ],
)
def test_variant_files_that_are_not_sources_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="files"):
        read_proposal({}, {"kernel.c": "", name: ""}, "v")


@pytest.mark.parametrize(
    ("document", "files", "message"),
    [
        ({"source": "no.c"}, {"kernel.c": ""}, "no.c"),
        ({"source": "/etc/passwd"}, {"kernel.c": ""}, "Submitted files"),
        ({"source": ["kernel.c"]}, {"kernel.c": ""}, "Submitted files"),
        ({"source": "kernel.c", "template": "kernel.c"}, {"kernel.c": ""}, "remove one of them"),
        ({}, {"a.c": "", "b.c": ""}, "may be any of a.c, b.c"),
        ({}, {"own.h": ""}, "is missing, and no submitted file is a kernel source"),
    ],
)
def test_variant_without_a_single_main_source_is_refused(
    document: dict[str, Any], files: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        variant_files(document, files)


@pytest.mark.parametrize(
    ("document", "message"),
    [({"name": "a b"}, "name"), ({"idea": 3}, "idea"), ({"idea": "x" * 5000}, "idea"), ({"author": ["a"]}, "author")],
)
def test_invalid_name_idea_or_author_of_a_variant_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_proposal(document, {"kernel.c": ""}, "v")


def test_unknown_key_of_a_variant_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        bundle.family_of(variant_files({"tolerance": 1.0}, {"kernel.c.j2": "{{ WIDTH }}"}))


TRITON = {
    "entry": "toy",
    "tunables": {"BLOCK": [64], "num_warps": [4]},
    "launch": {"grid": ["ceil_div(N, BLOCK)"]},
}
KERNEL = """import triton
import triton.language as tl


@triton.jit
def toy(x, y, N, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + here, tl.load(x + here, mask=here < N), mask=here < N)
"""


def test_triton_kernel_may_be_a_variant_of_a_cuda_kernel() -> None:
    files = composed(
        base=FILES,
        base_document=DOCUMENT,
        parent=FILES,
        parent_document=DOCUMENT,
        proposal=read_proposal(TRITON, {"kernel.py": KERNEL}, "variant-1"),
        kind="cuda",
    )
    document = document_of(files)
    assert "cuda" not in document
    assert document["triton"] == TRITON | {"source": "variant/kernel.py"}
    package = registry.package_of(bundle.family_of(files), files)
    assert package.family.implementation("cuda").language == "triton"
    child = composed(
        base=FILES,
        base_document=DOCUMENT,
        parent=files,
        parent_document=document,
        proposal=read_proposal({}, {"kernel.py": KERNEL}, "variant-2"),
        kind="cuda",
    )
    assert document_of(child)["triton"] == document["triton"]


@pytest.mark.parametrize("text", ["x = " + "-" * 200_000 + "1\n", "x = " + "+1" * 200_000 + "\n"])
def test_too_deeply_nested_triton_source_is_refused(text: str) -> None:
    proposal = read_proposal(TRITON, {"kernel.py": KERNEL + text}, "variant-1")
    files = composed(
        base=FILES, base_document=DOCUMENT, parent=FILES, parent_document=DOCUMENT, proposal=proposal, kind="cuda"
    )
    with pytest.raises(InvalidInput, match="nested too deeply"):
        bundle.check_sources(bundle.family_of(files), files)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"tunables": {"N": [4]}}, "declared twice"),
        ({"tunables": {"STEP": [1]}, "derived": {"N": "4"}}, "declared twice"),
        ({"flags": ["-DN=4"]}, "problem field"),
        ({"flags": ["-UN"]}, "problem field"),
        ({"entry": "/etc/passwd"}, "entry"),
    ],
)
def test_variant_that_redefines_names_of_the_family_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bundle.family_of(variant_files(document, {"kernel.c": "int step = WIDTH + STEP + N;"}))


def test_variant_source_that_redefines_a_macro_of_the_family_is_refused() -> None:
    files = variant_files({}, {"kernel.c": "#undef N\n#define N 1\nint n = N * WIDTH;"})
    with pytest.raises(InvalidInput, match="overrides the problem field N"):
        bundle.check_sources(bundle.family_of(files), files)


def test_triton_variant_of_a_cpu_kernel_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is a Triton source, which needs device kind cuda"):
        variant_files(TRITON, {"kernel.py": KERNEL})
