"""Warnings name every tunable without an effect, with a remedy, and never name a tunable with an effect."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.family import Launch
from evo.messages.job import Baseline, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed
from evo.trial.results import BaselineReport
from templates.registry import find
from tests.unit.family_document import write_family
from workers.build import Artefact, Resources, Unit, effects
from workers.build.cache import Cache
from workers.build.effects import Effects, Idle, OutOfTime, idle_tunables
from workers.build.families import Assignment, Families
from workers.jobs.estimated import Estimator
from workers.system import private_folders

CPU = Device(kind="cpu", model="Toy CPU", architecture="x86_64", uuid="cpu-0", limits={"cores": 2.0})


def space(constraint: str | None = None, **tunables: list[int]) -> Space:
    declared = [Tunable(name=name, values=tuple(values)) for name, values in tunables.items()]
    because = [] if constraint is None else [Constraint(expression=Expression.parse(constraint, "here"), because="so")]
    return Space(declared, because)


def by(kernel: Callable[[Config], object]) -> Callable[[Config, Config], bool]:
    return lambda one, other: kernel(one) != kernel(other)


@pytest.mark.parametrize(
    ("kernel", "blamed"),
    [
        (lambda c: (c["A"], c["B"], c["C"]), []),
        (lambda c: (c["A"], c["C"]), ["B"]),
        (lambda c: c["A"], ["B", "C"]),
        (lambda c: (c["A"], c["C"], c["B"] if c["A"] == 4 else 0), []),
        (lambda c: (c["A"], c["C"], c["B"] if c["A"] == 2 else 0), []),
        (lambda c: (c["A"], c["C"] == 3, c["B"] if c["C"] == 2 else 0), []),
        (lambda c: (c["A"], c["B"], c["C"] == 3), []),
    ],
    ids=[
        *(
            "all have an effect",
            "one without effect",
            "two without effect",
            "effect only with the last value of another",
        ),
        *("effect only with a middle value", "effect of a third tunable", "effect of one value"),
    ],
)
def test_exactly_the_tunables_without_effect_are_found(kernel: Callable[[Config], object], blamed: list[str]) -> None:
    found = idle_tunables(space(A=[1, 2, 3, 4], B=[0, 1], C=[1, 2, 3]), by(kernel))
    assert [each.tunable for each in found] == blamed
    assert all(each.contexts for each in found)


def test_effect_check_ignores_tunables_that_cannot_change_alone() -> None:
    tied = space("A == B", A=[1, 2, 4], B=[1, 2, 4], ONE=[3])
    assert idle_tunables(tied, by(lambda config: 0)) == ()


def test_effect_check_of_a_large_space_compares_few_configs() -> None:
    asked = []

    def differ(one: Config, other: Config) -> bool:
        asked.append((one, other))
        return False

    large = space(None, **{f"T{index}": list(range(1, 33)) for index in range(8)})
    assert len(idle_tunables(large, differ)) == 8
    assert len(asked) <= 8 * (effects.VALUES + effects.CONTEXTS)


def test_effect_check_at_its_time_limit_uses_the_configs_compared_so_far() -> None:
    left = iter([False] * 4)

    def differ(one: Config, other: Config) -> bool:
        for each in left:
            return each
        raise OutOfTime

    found = idle_tunables(space(A=[1, 2, 3], B=[1, 2, 3], C=[1, 2, 3]), differ)
    assert found == (Idle(tunable="A", values=2, contexts=0), Idle(tunable="B", values=2, contexts=0))


SPEC = """
name = "toy"
[problem.N]
type = "int"
default = 64
[[arguments]]
name = "x"
role = "input"
shape = ["N"]
dtype = "float32"
[[arguments]]
name = "out"
role = "output"
shape = ["N"]
dtype = "float32"
rel_l2 = 1e-6
max_abs = 1e-6
[work]
flops = "N"
bytes = "8 * N"
dtype = "float32"
[[cases]]
name = "nominal"
inputs = "normal"
[cpu]
source = "toy.c"
entry = "toy"
flags = ["-Iinclude", "-g"]
tunables = { TILE = [1, 2, 4], UNROLL = [1, 2], SWITCH = [0, 1] }
[cuda]
template = "toy.cu.j2"
entry = "toy"
tunables = { THREADS = [32, 64], TILE = [1, 2, 4], DEPTH = [1, 2] }
launch = { grid = ["ceil_div(N, THREADS)"], block = ["THREADS"] }
"""


class Preprocessor:
    """A fake compiler whose binary is the preprocessed source without comments and lines that begin with `unused`."""

    version, suffix, sandbox = "pretended", ".so", ""

    def __init__(self, log: str = "", fails: str | None = None) -> None:
        self.units: list[Unit] = []
        self._log, self._fails = log, fails

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        self.units.append(unit)
        macros = dict(re.findall(r"^#define (\w+) (\S+)$", unit.source, re.MULTILINE))
        lines = [line for line in unit.source.splitlines() if not line.startswith(("#", "//", "unused"))]
        text = re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), "\n".join(lines))
        if self._fails is not None and self._fails in text:
            return CompileFailed(log="no")
        return Artefact(binary=text.encode(), log=self._log)

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        return Resources()

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> None:
        return None


def work(folder: Path, files: dict[str, str], device: Device = CPU) -> Assignment:
    package = find(str(write_family(folder / "toy", SPEC, {"toy.c": "", "toy.cu.j2": "", **files})))
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name="toy", digest=package.digest),
        problem=package.family.problem("", "cuda" if device.kind == "cuda" else "cpu"),
        device=device,
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    return Assignment(terms=terms, copy=Families(folder / "families").add(package))


def warnings(folder: Path, compiler: Preprocessor, source: str, device: Device = CPU) -> tuple[str, ...]:
    file = "toy.c" if device.kind == "cpu" else "toy.cu.j2"
    return Effects(lambda: compiler, Cache(folder / "cache")).warnings(work(folder, {file: source}, device))


@pytest.mark.parametrize(("separation", "warned"), [("another user, Landlock, seccomp", False), ("another user", True)])
def test_file_in_a_private_folder_causes_a_warning_if_kernels_cannot_enter_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separation: str, warned: bool
) -> None:
    (folder := tmp_path / "private").mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(private_folders, "_bounding", lambda: 0x104)
    device = replace(CPU, software={"separation": separation})
    source = f'f(TILE, UNROLL, SWITCH); access("{folder}/table.bin", 0);'
    found = warnings(tmp_path, Preprocessor(), source, device)
    assert [f"The kernel cannot access {folder}/table.bin" in each for each in found] == [True] * warned


@pytest.mark.parametrize(
    ("source", "log", "says"),
    [
        ("f(TILE, UNROLL, SWITCH)", "", None),
        ("f(TILE, UNROLL, SWITCH)\nunused TILE", "", None),
        ("f(TILE, UNROLL)\nunused SWITCH", "", r"SWITCH has no effect .* 2 values .* Make toy\.c depend on its value"),
        (
            "f(TILE, UNROL, SWITCH)",
            "",
            r"UNROLL has no effect .* toy\.c does not contain `UNROLL`; did you mean `UNROL`\?",
        ),
        ("f(TILE, UNROLL)", "", r"SWITCH .* toy\.c does not contain `SWITCH`; use `SWITCH` there, or remove the"),
        (
            "f(UNROLL, SWITCH)\nunused TILE",
            'include/a.h:3:9: warning: "TILE" redefined\n',
            r"TILE .* 3 values .* include/a\.h:3 redefines `TILE`; write `#ifndef TILE` on the line before and",
        ),
        ("f(UNROLL, SWITCH)\nunused TILE", "a.h:7:9: warning: 'TILE' macro redefined\n", r"a\.h:7 redefines `TILE`"),
        (
            "f(UNROLL, SWITCH)\nunused TILE",
            'a.h(7): warning #47-D: incompatible redefinition of macro "TILE" (declared at line 1)\n',
            r"a\.h:7 redefines `TILE`",
        ),
    ],
)
def test_warning_names_a_tunable_without_effect_in_the_source(
    tmp_path: Path, source: str, log: str, says: str | None
) -> None:
    found = warnings(tmp_path, Preprocessor(log), source)
    assert [bool(re.search(says or "", each)) for each in found] == [True] * (says is not None), found


def test_tunable_used_only_in_a_comment_has_no_effect(tmp_path: Path) -> None:
    template = "f({{ TILE }})\n// depth {{ DEPTH }}"
    (found,) = warnings(tmp_path, Preprocessor(), template, known("sm_89"))
    assert found.startswith("The tunable DEPTH has no effect")
    assert "[cuda.tunables]" in found


def test_effect_check_omits_debug_flags_and_is_skipped_if_the_default_fails(tmp_path: Path) -> None:
    compiler = Preprocessor()
    assert len(warnings(tmp_path / "a", compiler, "f(TILE, UNROLL)")) == 1
    assert {unit.flags for unit in compiler.units} == {("-Iinclude",)}
    assert warnings(tmp_path / "b", Preprocessor(fails="f"), "f(TILE)") == ()


def test_tunable_value_that_does_not_compile_counts_as_an_effect(tmp_path: Path) -> None:
    (found,) = warnings(tmp_path, Preprocessor(fails="f(1,2"), "f(TILE,UNROLL)\nunused SWITCH")
    assert "SWITCH" in found
    assert warnings(tmp_path / "b", Preprocessor(fails="g(1"), "f(TILE,UNROLL)\ng(SWITCH)") == ()


def test_timed_out_compilation_is_not_evidence_of_a_missing_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Preprocessor):
        """A fake compiler that needs a second, and times out if less time is left."""

        now_s = 0.0

        def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
            self.now_s += min(1.0, timeout_s)
            if timeout_s < 1.0:
                return CompileFailed(log="stopped")
            return super().compile(unit, timeout_s=timeout_s)

    compiler = Stopped()
    monkeypatch.setattr(effects, "_now_s", lambda: compiler.now_s)
    monkeypatch.setattr(effects, "MOST_S", 6.5)
    (found,) = warnings(tmp_path, compiler, "f(UNROLL, SWITCH)\nunused TILE")
    assert "TILE" in found
    assert compiler.now_s == 6.5


def test_warning_names_headers_relative_to_the_family(tmp_path: Path) -> None:
    assignment = work(tmp_path, {"toy.c": "f(UNROLL, SWITCH)\nunused TILE"})
    log = f'{assignment.copy.folder}/include/a.h:3:9: warning: "TILE" redefined\n'
    (found,) = Effects(lambda: Preprocessor(log), Cache(tmp_path / "cache")).warnings(assignment)
    assert " include/a.h:3 redefines `TILE`" in found


def test_effect_check_runs_once_and_is_reported_with_the_baselines(tmp_path: Path) -> None:
    compiler, assignment = Preprocessor(), work(tmp_path, {"toy.cu.j2": "f({{ TILE }})\n// {{ DEPTH }}"})
    stand_in = Device(kind="estimate", model="compiler alone", architecture="any target", uuid="e")
    terms = SearchTerms(**{**vars(assignment.terms), "device": stand_in, "objective": Objective(target="NVIDIA L4")})
    aimed = Assignment(terms=terms, copy=assignment.copy)
    estimator = Estimator(lambda: compiler, tmp_path / "cache", tmp_path)
    estimator.prepare(aimed, Baseline())
    compiled = len(compiler.units)
    report = estimator.perform(aimed, Baseline(), {})
    assert isinstance(report, BaselineReport)
    assert ["DEPTH" in each for each in report.warnings] == [True]
    assert len(compiler.units) == compiled > 0


def test_warning_names_a_file_that_the_kernel_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "closed").mkdir(mode=0o700)
    found = warnings(tmp_path, Preprocessor(), f'int a = UNROLL + TILE; int b = access("{tmp_path}/closed/x", 0);')
    assert any(f"The kernel cannot access {tmp_path}/closed/x: " in each for each in found)
