"""A confirmation refuses cheats that pass evaluation, and promotes the same kernel without the cheat."""

import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evo.device.cores import core_numbers
from evo.messages.job import Confirm, Evaluate
from evo.promotion import judge
from evo.promotion.policy import Policy
from templates.registry import find
from tests.integration.cheats import source
from tests.integration.cheats_of_loop import IN_LATER_PROCESSES, OF_LOOP
from tests.integration.test_variant_cheats import FAMILY, REFERENCE
from tests.integration.workbench import cpu, terms
from tests.measured import measured
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the test needs Linux on x86-64"
)

POLICY = Policy(quick_samples=10, confirm_samples=40, confirm_processes=1)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def evaluator(cache: Path, tmp_path: Path) -> Iterator[Evaluator]:
    evaluator = Evaluator("cpu", cache, tmp_path / "place", raise_trouble=True)
    yield evaluator
    evaluator.close()


def verdict(evaluator: Evaluator, kernel: str, cache: Path, folder: Path, policy: Policy = POLICY) -> tuple[bool, str]:
    """Evaluate and confirm a kernel. Return True if it would be promoted, and the reason of a refusal."""
    place = folder / "line"
    place.mkdir()
    for name, text in {"family.toml": FAMILY, "reference.py": REFERENCE, "kernel.c": kernel}.items():
        (place / name).write_text(text)
    package = find(str(place))
    of_search = terms(cpu(cache), package, problem=package.family.problem("", "cpu"), policy=policy)
    work = Assignment(terms=of_search, copy=Families(folder / "families").add(package))
    config = package.family.space(of_search.problem, of_search.device, of_search.objective).default()
    built = evaluator.build(work, config)
    outcome = evaluator.evaluate(work, Evaluate(number=0, config=config), built).outcome
    if outcome.kind != "measured":
        return False, str(outcome)
    report = evaluator.confirm(work, Confirm(challenger=config, incumbent=None, seed=3), {"challenger": built})
    found = judge(report, policy, 1, np.random.default_rng(0))
    return found.promote, found.summary


@pytest.mark.long
@pytest.mark.parametrize("trick", OF_LOOP)
def test_confirmation_refuses_a_kernel_that_detects_the_timing_loop(
    evaluator: Evaluator, cache: Path, tmp_path: Path, trick: str
) -> None:
    if len(core_numbers()) < 2:
        pytest.skip("one core")
    kernel, words = OF_LOOP[trick]
    promoted, reason = verdict(evaluator, kernel, cache, tmp_path)
    assert not promoted
    assert re.search(words, reason), reason


@pytest.mark.slow
def test_confirmation_refuses_a_kernel_that_reuses_outputs_only_in_later_processes(
    evaluator: Evaluator, cache: Path, tmp_path: Path
) -> None:
    promoted, reason = verdict(evaluator, IN_LATER_PROCESSES, cache, tmp_path, replace(POLICY, confirm_processes=3))
    assert not promoted
    assert re.search("on new inputs", reason), reason


@pytest.mark.slow
def test_correct_kernel_is_promoted(evaluator: Evaluator, cache: Path, tmp_path: Path) -> None:
    assert verdict(evaluator, source("plain", "right(x, y); spend(4000);"), cache, tmp_path) == (
        True,
        "Promoted: the first champion.",
    )
