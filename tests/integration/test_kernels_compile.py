"""The CUDA kernels of `tests/data/kernels` compile for each architecture, within its launch limits."""

import re
import shutil
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, LaunchFailed, OverResources
from templates.registry import Package, find
from tests.tiers import one_in
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.families import Assignment, Families

KERNELS = Path(__file__).parent.parent / "data" / "kernels"
NAMES = sorted(each.parent.name for each in KERNELS.glob("*/family.toml") if "[cuda]" in each.read_text())
ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
COMPILED = [(name, ARCHITECTURES[(at + place) % 3]) for place, name in enumerate(NAMES) for at in range(3)]
"""Pairs of kernel and architecture. The first architectures of consecutive kernels differ."""


@pytest.fixture(scope="module")
def compiler() -> NvrtcCompiler:
    try:
        return NvrtcCompiler()
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


def skip_without_headers(outcome: object) -> None:
    """Skip a kernel whose headers are in an optional package that is not installed."""
    if isinstance(outcome, CompileFailed) and (match := re.search(r"<[^>]+> is not installed", outcome.log)):
        pytest.skip(match[0])


class Workshop:
    """Builds configs of a package, or of a copy of it with a changed family.toml."""

    def __init__(self, compiler: NvrtcCompiler, folder: Path) -> None:
        self._compiler, self._folder = compiler, folder

    def built(self, package: Package, device: Device, config: Config | None = None, policy: Policy = Policy()) -> Built:
        """Return the build of a config, by default the family's default config."""
        family = package.family
        problem = family.problem("", "cuda")
        terms = SearchTerms(
            search_id=1,
            family=FamilyRef(name=family.name, digest=package.digest, location=package.location),
            problem=problem,
            device=device,
            objective=Objective(),
            policy=policy,
            seed=1,
        )
        work = Assignment(terms=terms, copy=Families(self._folder / "families").add(package))
        chosen = config or family.space(problem, device, Objective()).default()
        return Builder(self._compiler, Cache(self._folder / "cache"), self._folder).build(work, chosen)

    def changed(self, name: str, old: str, new: str) -> Package:
        place = self._folder / name
        shutil.copytree(KERNELS / name, place)
        text = (place / "family.toml").read_text()
        assert old in text
        (place / "family.toml").write_text(text.replace(old, new))
        return find(str(place))


@pytest.fixture
def workshop(compiler: NvrtcCompiler, tmp_path: Path) -> Workshop:
    return Workshop(compiler, tmp_path)


@pytest.mark.parametrize(("name", "architecture"), one_in(3, COMPILED, of=itemgetter(0)))
def test_default_config_of_every_cuda_kernel_compiles(workshop: Workshop, name: str, architecture: str) -> None:
    made = workshop.built(find(str(KERNELS / name)), known(architecture))
    skip_without_headers(made.refusal)
    assert made.refusal is None, made.refusal
    text = (made.ptx or b"").decode()
    assert all(f".entry {step.entry}(" in text for kernel in made.kernels.values() for step in kernel.steps)


SCAN: Config = {"THREADS": 256, "ITEMS": 2}


@pytest.mark.slow
def test_every_launch_of_a_kernel_gets_its_own_arguments_in_order(workshop: Workshop) -> None:
    steps = workshop.built(find(str(KERNELS / "prefix_sum")), known("sm_89"), SCAN).kernels["nominal"].steps
    assert [(step.entry, [each.name for each in step.arguments], step.launch.grid[0]) for step in steps] == [
        ("scan_blocks", ["x", "totals", "out"], 128),
        ("scan_totals", ["totals"], 1),
        ("add_totals", ["totals", "out"], 128),
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('entry = "add_totals"', 'entry = "add_total"', "which is not a kernel of the source; its kernels:"),
        ('arguments = ["totals", "out"]', 'arguments = ["out"]', "`add_totals` has 2 parameters"),
    ],
)
def test_launch_that_does_not_match_the_source_is_refused(workshop: Workshop, old: str, new: str, reason: str) -> None:
    refusal = workshop.built(workshop.changed("prefix_sum", old, new), known("sm_89"), SCAN).refusal
    assert isinstance(refusal, LaunchFailed)
    assert reason in refusal.reason


def test_block_size_limit_applies_to_every_launch(workshop: Workshop) -> None:
    package = workshop.changed("prefix_sum", "block = [1024]", "block = [1025]")
    assert isinstance(workshop.built(package, known("sm_89"), SCAN).refusal, OverResources)


def test_reported_shared_memory_is_the_largest_of_all_launches(workshop: Workshop) -> None:
    made = workshop.built(find(str(KERNELS / "prefix_sum")), known("sm_89"), {"THREADS": 128, "ITEMS": 1})
    assert made.resources["shared_memory_bytes"] == 4096  # the kernel scan_totals needs 4,096 bytes, scan_blocks 512


def test_instantiation_of_an_undefined_template_is_refused(workshop: Workshop) -> None:
    with pytest.raises(InvalidInput, match=r"scale.cu defines no template `scales`; write entry = \"scales\""):
        workshop.changed("template_scale", "own::scale<float, ITEMS>", "own::scales<float, ITEMS>")


def test_shared_memory_limit_of_the_policy_applies_to_every_launch(workshop: Workshop) -> None:
    policy = replace(Policy(), max_shared_memory_bytes=2048)
    made = workshop.built(find(str(KERNELS / "prefix_sum")), known("sm_89"), {"THREADS": 128, "ITEMS": 1}, policy)
    assert isinstance(made.refusal, OverResources)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('entry = "add_totals", ', "", "cuda.launch[2].entry"),
        ('arguments = ["totals"]', 'arguments = ["total"]', "cuda.launch[1].arguments[0]"),
        ("block = [1024]", "block = []", "cuda.launch[1].block"),
    ],
)
def test_error_names_the_invalid_field_of_a_launch(workshop: Workshop, old: str, new: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        workshop.changed("prefix_sum", old, new)
    assert refused.value.field == f"family.toml: {field}"
