"""Workers refuse invalid variants before compiling, and build an incumbent from its own variant's files."""

from pathlib import Path
from typing import Any

from evo.device import Device
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.text.document import toml_text
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed
from templates.bundle import family_of
from templates.registry import SPEC, Package, package_of
from templates.variant import composed, read_proposal
from tests.unit.test_variant_composition import DOCUMENT, FILES
from workers.build.build import Builder
from workers.build.cache import Cache
from workers.build.families import Assignment, Families

DEVICE = Device(kind="cpu", model="Toy", architecture="x86_64", uuid="cpu-0", limits={"cores": 1.0})


class NoCompiler:
    """A compiler that fails the test if it is called."""

    suffix = ".so"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the attribute {name} of the compiler was used")


def family(files: dict[str, str] | None = None) -> Package:
    """Return the toy family, or a variant of the family if `files` are given."""
    if files is None:
        return package_of(family_of(FILES), FILES)
    proposal = read_proposal({}, files, "v")
    made = composed(
        base=FILES, base_document=DOCUMENT, parent=FILES, parent_document=DOCUMENT, proposal=proposal, kind="cpu"
    )
    return package_of(family_of(made), made)


def assignment(package: Package, families: Families) -> Assignment:
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name="toy", digest=package.digest),
        problem={"N": 8},
        device=DEVICE,
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    return Assignment(terms=terms, copy=families.add(package))


def test_variant_template_that_renders_an_outside_include_is_refused(tmp_path: Path) -> None:
    package = family({"kernel.c.j2": '#{{ "inclu" ~ "de" }} "/etc/passwd"\n{{ WIDTH }}'})
    work = assignment(package, Families(tmp_path / "families"))
    built = Builder(NoCompiler(), Cache(tmp_path / "cache"), tmp_path).build(work, {"WIDTH": 1})
    assert isinstance(built.refusal, CompileFailed)
    assert "names a file outside the family" in built.refusal.log


def test_incumbent_of_a_different_variant_is_built_from_its_own_files(tmp_path: Path) -> None:
    families = Families(tmp_path / "families")
    base, variant = family(), family({"kernel.c.j2": "int other = {{ WIDTH }};"})
    work = assignment(variant, families)
    beside = Assignment(terms=work.terms, copy=work.copy, incumbent=families.add(base))

    assert beside.built_as("challenger").copy.package is variant
    assert beside.built_as("incumbent").copy.package is base
    assert work.built_as("incumbent").copy.package is variant
    assert [each.problem for each in beside.cases] == [each.problem for each in beside.built_as("incumbent").cases]


def test_copy_of_a_variant_contains_the_reference_of_the_family(tmp_path: Path) -> None:
    copy = Families(tmp_path / "families").add(family({"kernel.c.j2": "int other = {{ WIDTH }};"}))
    assert copy.reference.read_bytes() == FILES["reference.py"]
    assert toml_text(DOCUMENT).encode() == FILES[SPEC]
    assert (copy.folder / "variant" / "kernel.c.j2").exists()
