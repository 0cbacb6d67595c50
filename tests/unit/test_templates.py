"""The document and the templates of each built-in family use the same names."""

import numpy as np
import pytest

from evo.device import Device, DeviceKind, kind_of
from evo.trial.objective import Objective
from templates.registry import Package, builtin
from templates.render import check, render, used_names

CASES = [(package, kind) for package in builtin() for kind in package.family.implementations]
LIMIT = {
    "compute_capability": 90,
    "cores": 8,
    "simd_bytes": 32,
    "max_threads": 1024,
    "warp_size": 32,
    "max_blocks_per_sm": 32,
    "max_threads_per_sm": 2048,
    "sm_count": 100,
}
"""Limits of the fake device that differ from the default of 65,536."""

every_implementation = pytest.mark.parametrize(
    ("package", "kind"), CASES, ids=[f"{package.family.name}-{kind}" for package, kind in CASES]
)


def device(kind: DeviceKind) -> Device:
    limits = {name: float(LIMIT.get(name, 65536)) for name in kind_of(kind).limits}
    return Device(kind=kind, model="any", architecture="any", uuid="any", limits=limits)


@every_implementation
def test_builtin_template_uses_all_tunables_and_only_declared_names(package: Package, kind: DeviceKind) -> None:
    check(package, kind)
    fields = {field.name for field in package.family.fields}
    assert used_names(package, kind) & fields, "a kernel must depend on its problem"


@every_implementation
def test_configs_of_builtin_families_can_be_rendered_for_every_case(package: Package, kind: DeviceKind) -> None:
    family = package.family
    problem = family.problem("", kind)
    space = family.space(problem, device(kind), Objective())
    configs = [space.default(), *space.sample(np.random.default_rng(0), 40)]
    for case in family.case_problems(problem, kind):
        assert case.problem is not None, f"{case.case.name}: {case.refusal}"
        broken = [family.violations(config, case.problem, device(kind), Objective()) for config in configs]
        covered = [config for config, reasons in zip(configs, broken, strict=True) if not reasons]
        assert covered, f"{case.case.name} has no config with a kernel"
        for config in covered[:5]:
            candidate = family.candidate(config, case.problem, device(kind), Objective())
            source = render(package, kind, config, case.problem, candidate.derived)
            assert family.implementations[kind].entry in source


@every_implementation
def test_different_configs_of_a_builtin_family_render_differently(package: Package, kind: DeviceKind) -> None:
    family = package.family
    problem = family.problem("", kind)
    space = family.space(problem, device(kind), Objective())
    sources: dict[str, str] = {}
    for config in space.sample(np.random.default_rng(1), 20):
        candidate = family.candidate(config, problem, device(kind), Objective())
        text = f"{candidate.launch}\n{render(package, kind, config, problem, candidate.derived)}"
        assert sources.setdefault(text, space.key(config)) == space.key(config)
