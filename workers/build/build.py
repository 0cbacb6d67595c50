"""Builds a config: renders and compiles its kernel for every case, and checks resource limits.

A *resource gate* is a limit of the policy on registers, memory or occupancy. Configs beyond a gate are not measured.
"""

import hashlib
import itertools
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from evo.device import Device
from evo.device.estimate.target import aimed_at
from evo.errors import InvalidInput, RenderError
from evo.family import Candidate, CaseProblem, coverage
from evo.family.launch.entry import symbol_of
from evo.family.problem import Problem, problem_key
from evo.messages.job import SearchTerms
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.outcome import CompileFailed, InvalidConfig, Outcome, OverResources
from templates.failing_line import deciding_tunables
from templates.outside import outside
from templates.render import texts_of
from workers.build import Artefact, Compiler, Resources, Unit
from workers.build.advice import Macros, advised, redefinition
from workers.build.cache import Cache
from workers.build.cached import compile_cached
from workers.build.families import Assignment, Copy
from workers.build.kernel import Argument, KernelFile, Step, mechanisms, steps
from workers.build.launch_checks import launch_refusal
from workers.build.other_shape import with_shape_advice
from workers.build.own_headers import own_headers
from workers.build.rendering import RENDERER

NO_SANDBOX = (
    "the policy requires a sandbox for compiling proposed code (untrusted), but this machine has none; `kernel-evo "
    "doctor` explains how to install one"
)


def gate(resources: Resources, policy: Policy) -> OverResources | None:
    """Return an outcome with the first resource gate of the policy that is exceeded, or None if none is exceeded.

    Unknown resources count as within the gates.
    """
    for name, used, limit in _upper_limits(resources, policy):
        if used is not None and limit is not None and used > limit:
            return OverResources(resource=name, used=used, limit=limit)
    used, least = resources.occupancy, policy.min_occupancy
    if used is not None and least is not None and used < least:
        return OverResources(resource="occupancy", used=used, limit=least)
    return None


def _upper_limits(resources: Resources, policy: Policy) -> Iterator[tuple[str, float | None, float | None]]:
    yield "registers", resources.registers, policy.max_registers
    yield "shared_memory_bytes", resources.shared_memory_bytes, policy.max_shared_memory_bytes
    yield "stack_bytes", resources.stack_bytes, policy.max_stack_bytes
    yield "spill_bytes", resources.spill_bytes, policy.max_spill_bytes


@dataclass(frozen=True, kw_only=True)
class Built:
    """Result of building a config.

    Attributes:
        folder: folder with the binaries, until `discard` is called.
        refusal: outcome of a config that cannot be measured, or None if `kernels` are ready.
        kernels: kernels by case name; empty if `refusal` is set.
        uncovered: reason by case name, for the cases whose problem the config does not support.
        digest: digest of all binaries and launches. Configs with equal digests have identical kernels. None if
            `refusal` is set.
        source: source of the kernel for the searched problem; None if it could not be rendered.
        sources: sources by case name; empty if `refusal` is set.
        binary, ptx: binary and PTX of the kernel for the searched problem; None if this kernel could not be compiled,
            or exceeds a limit.
        headers: paths of the kernel's own headers that `source` includes, by their names in an export; empty if
            `binary` is None.
        log: output of the compiler for all cases, without repetitions.
        resources: resources that the kernel for the searched problem uses, by name. Also set if it exceeds a limit.
        mechanisms: hardware features that the kernel for the searched problem uses, and the problem fields over which
            its blocks are distributed; empty if `refusal` is set.
        render_s: duration of rendering in seconds.
        compile_s: duration of compiling in seconds.
    """

    folder: Path
    refusal: Outcome | None = None
    kernels: Mapping[str, KernelFile] = field(default_factory=dict)
    uncovered: Mapping[str, str] = field(default_factory=dict)
    digest: str | None = None
    source: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    binary: bytes | None = None
    ptx: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    resources: Mapping[str, float] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    render_s: float = 0.0
    compile_s: float = 0.0

    def discard(self) -> None:
        """Delete the files of the build. Kernels that are already loaded remain usable."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Builder:
    """Builds candidates for one kind of device. `build` may be called from several threads.

    If a search has a target GPU that differs from the device, a candidate is built for both. The resource gates of the
    policy apply only to the build for the target. The build for the device is timed.

    Args:
        scratch: folder for the binaries that runners load.
    """

    def __init__(self, compiler: Compiler, cache: Cache, scratch: Path) -> None:
        self._compiler = compiler
        self._cache = cache
        self._scratch = scratch
        self._numbers = itertools.count()

    def build(self, work: Assignment, config: Config) -> Built:
        """Build a config for the searched problem, and for each other case whose problem the config supports."""
        terms = work.terms
        target = aimed_at(terms.device, terms.objective)
        if target == terms.device:
            return self._built(work, config, terms.device, gated=True)
        judged = self._built(work, config, target, gated=True)
        if judged.refusal is not None:
            return judged
        judged.discard()
        return _with_timed_binary(judged, self._built(work, config, terms.device, gated=False))

    def _built(self, work: Assignment, config: Config, device: Device, *, gated: bool) -> Built:
        folder = self._scratch / f"build-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return _Build(
            compiler=self._compiler,
            cache=self._cache,
            terms=replace(work.terms, device=device),
            copy=work.copy,
            cases=work.cases,
            config=config,
            folder=folder,
            gated=gated,
        ).run()


def _with_timed_binary(judged: Built, timed: Built) -> Built:
    """Return the build for the device (`timed`), with the resources of the build for the target (`judged`).

    The names of the resources of the build for the device get the prefix ``native_``. The digest depends on both
    builds. The logs are joined, and the durations are added up.
    """
    digests = f"{judged.digest} {timed.digest}".encode()
    return replace(
        timed,
        digest=None if timed.digest is None else hashlib.sha256(digests).hexdigest(),
        log="\n".join(filter(None, (judged.log, timed.log))),
        resources={**judged.resources, **{f"native_{name}": value for name, value in timed.resources.items()}},
        render_s=judged.render_s + timed.render_s,
        compile_s=judged.compile_s + timed.compile_s,
    )


class _Refused(Exception):
    """Raised to end a build with an outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    source: str
    artefact: Artefact
    kernel: KernelFile
    headers: Mapping[str, str]


@dataclass(kw_only=True)
class _Build:
    """One build in progress. `gated` is True if the resource gates of the policy apply."""

    compiler: Compiler
    cache: Cache
    terms: SearchTerms
    copy: Copy
    cases: tuple[CaseProblem, ...]
    config: Config
    folder: Path
    gated: bool
    broken: dict[str, str | None] = field(default_factory=dict)
    compiled: dict[str, _Compiled] = field(default_factory=dict)
    uncovered: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    used: dict[str, float] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    spent_s: dict[str, float] = field(default_factory=lambda: {"render": 0.0, "compile": 0.0})

    def run(self) -> Built:
        refusal, kernels = None, {}
        try:
            kernels = dict(self._kernels())
        except _Refused as refused:
            refusal = refused.outcome
        nominal = next(iter(self.compiled.values()), None)
        return Built(
            folder=self.folder,
            refusal=refusal,
            kernels=kernels,
            uncovered=self.uncovered,
            digest=None if refusal else self._digest(),
            source=self.source,
            sources={} if refusal else self._sources(kernels),
            binary=nominal.artefact.binary if nominal else None,
            ptx=nominal.artefact.ptx if nominal else None,
            headers=nominal.headers if nominal else {},
            log="\n".join(filter(None, dict.fromkeys(self.logs))),
            resources=self.used,
            mechanisms=() if refusal or nominal is None else self._mechanisms(nominal.artefact),
            render_s=self.spent_s["render"],
            compile_s=self.spent_s["compile"],
        )

    def _kernels(self) -> Iterator[tuple[str, KernelFile]]:
        """Yield (case name, kernel) for each case for which the config is valid, the searched problem first."""
        found, searched = coverage(self.cases, self._unfit), self.cases[0].case.name
        if searched in found.uncovered:
            raise _Refused(InvalidConfig(reason=found.uncovered[searched]))
        self.uncovered = found.uncovered
        for case, problem in found.covered:
            try:
                yield case, self._kernel(problem)
            except _Refused as refused:
                if self.copy.family.variant is not None:  # its author does not see the shapes of hidden cases
                    raise
                raise _Refused(with_shape_advice(refused.outcome, self.cases, case)) from None

    def _unfit(self, problem: Problem) -> str | None:
        """Return the constraints of a problem that the config violates, as text, or None if there are none."""
        key, terms = problem_key(problem), self.terms
        if key not in self.broken:
            self.broken[key] = self.copy.family.unfit(self.config, problem, terms.device, terms.objective)
        return self.broken[key]

    def _kernel(self, problem: Problem) -> KernelFile:
        """Return the kernel for a problem. Each problem is compiled only once."""
        key = problem_key(problem)
        if key not in self.compiled:
            self.compiled[key] = self._make(problem)
        return self.compiled[key].kernel

    def _make(self, problem: Problem) -> _Compiled:
        candidate, source = self._render(problem)
        self.source = self.source or source
        device = self.terms.device
        unit = self.copy.unit(device.kind, source, candidate.target(device.architecture))
        artefact = self._compile(unit)
        ptx = artefact.ptx.decode(errors="replace")
        candidate = candidate.compiled(ptx)
        entry = symbol_of(self.copy.family.implementation(device.kind).entry, ptx)
        launch = candidate.launch.named(ptx) if candidate.launch else None
        arguments = call_arguments(candidate)
        launched: Sequence[Step | None] = steps(entry, arguments, launch) or (None,)
        used = [self.compiler.resources(artefact, each.launch if each else None, device) for each in launched]
        self.used = self.used or most_used(used)
        for resources, step in zip(used, launched, strict=True):
            self._require_fit(resources, step, artefact.ptx)
        path = self.folder / f"kernel-{len(self.compiled)}{self.compiler.suffix}"
        path.write_bytes(artefact.binary)
        kernel = KernelFile(path=str(path), entry=entry, arguments=arguments, launch=launch)
        return _Compiled(
            source=source, artefact=artefact, kernel=kernel, headers=own_headers(artefact.reads or (), unit)
        )

    def _mechanisms(self, artefact: Artefact) -> tuple[str, ...]:
        return (*mechanisms(artefact, self.cache), *self._distribution())

    def _distribution(self) -> Iterator[str]:
        """Yield a description of how the blocks are distributed over problem fields. Plain functions yield nothing."""
        problem, terms = self.cases[0].problem, self.terms
        if problem is None:
            return
        fields = self.copy.family.distributed_over(self.config, problem, terms.device, terms.objective)
        if fields is not None:
            yield f"blocks over {', '.join(fields)}" if fields else "as many blocks for every size"

    def _require_fit(self, resources: Resources, step: Step | None, ptx: bytes) -> None:
        """Raise `_Refused` if a launch (None for a plain function call) exceeds a limit of the device or the policy."""
        device = self.terms.device
        refusal: Outcome | None = self.compiler.refusal(resources, step.launch if step else None, device)
        if refusal is None and step is not None:
            refusal = launch_refusal(ptx, step, device)
        if refusal is None and self.gated:
            refusal = gate(resources, self.terms.policy)
        if isinstance(refusal, OverResources) and step is not None:
            refusal = self._with_deciding_tunables(refusal, step)
        if refusal is not None:
            raise _Refused(refusal)

    def _with_deciding_tunables(self, refusal: OverResources, step: Step) -> OverResources:
        """Add the tunables in the expression `shared_memory` to a refusal because of too much shared memory.

        They are added only if the value of this expression alone exceeds the limit. No tunables are added for the
        problems of other cases (see `_decided_by`), or if a call has several launches.
        """
        implementation = self.copy.family.implementation(self.terms.device.kind)
        dynamic_bytes, geometry = step.launch.shared_memory_bytes, implementation.geometry
        if refusal.resource != "shared_memory_bytes" or dynamic_bytes <= refusal.limit:
            return refusal
        if self.compiled or geometry is None or geometry.further:
            return refusal
        names = geometry.shared_memory.names
        return replace(refusal, decided_by=tuple(each.name for each in implementation.tunables if each.name in names))

    def _render(self, problem: Problem) -> tuple[Candidate, str]:
        terms = self.terms
        with self._clock("render"):
            try:
                candidate = self.copy.family.candidate(self.config, problem, terms.device, terms.objective)
                source = RENDERER.render(self.copy.package, terms.device.kind, self.config, problem, candidate.derived)
            except (RenderError, InvalidInput) as error:
                raise _Refused(InvalidConfig(reason=str(error))) from None
        if self.copy.family.variant is not None and (fault := outside(source)) is not None:
            raise _Refused(CompileFailed(log=f"error: {fault}"))
        return candidate, source

    def _compile(self, unit: Unit) -> Artefact:
        if unit.untrusted and self.terms.policy.untrusted == "sandbox" and not self.compiler.sandbox:
            raise _Refused(CompileFailed(log=f"error: {NO_SANDBOX}"))
        with self._clock("compile"):
            result = compile_cached(self.compiler, self.cache, unit, timeout_s=self.terms.policy.compile_timeout_s)
        self.logs.append(result.log)
        if isinstance(result, CompileFailed):
            log = advised(result.log, unit, self._macros())
            raise _Refused(CompileFailed(log=log, decided_by=self._decided_by(result.log, unit)))
        if (fault := redefinition(result.log, unit, self._macros())) is not None:
            raise _Refused(CompileFailed(log=f"{fault}\n\n{result.log}"))
        return result

    def _decided_by(self, log: str, unit: Unit) -> tuple[str, ...] | None:
        """Return the tunables that decide whether the failing line is compiled, or None if they are unknown.

        They are unknown for the problems of other cases, because the config decides which of these cases are compiled.
        """
        if self.compiled:
            return None
        family, folders = self.copy.family, [str(folder) for folder in unit.folders]
        fields = [each.name for each in family.fields]
        implementation = family.implementation(self.terms.device.kind)
        return deciding_tunables(log, texts_of(self.copy.package), implementation, fields, folders)

    def _macros(self) -> Macros | None:
        """Return the macros that are defined at the start of the source, or None for a template or a Triton source."""
        kind, family = self.terms.device.kind, self.copy.family
        implementation = family.implementation(kind)
        if implementation.mode != "source":
            return None
        kinds = {each.name: "problem field" for each in family.fields}
        kinds |= {each.name: "tunable" for each in implementation.tunables}
        kinds |= dict.fromkeys(implementation.derived, "derived value")
        return Macros(
            kinds={
                implementation.macro(name): what for name, what in kinds.items() if implementation.becomes_macro(name)
            },
            table=kind,
            file=implementation.file,
            text=self.copy.package.files[implementation.file].decode("utf-8-sig", errors="replace"),
        )

    def _sources(self, covered: Collection[str]) -> dict[str, str]:
        problems = {each.case.name: each.problem for each in self.cases if each.problem is not None}
        return {case: self.compiled[problem_key(problems[case])].source for case in covered}

    def _digest(self) -> str:
        parts = [
            (each.artefact.digest, repr(each.kernel.launch), repr(each.kernel.arguments))
            for each in self.compiled.values()
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @contextmanager
    def _clock(self, stage: Literal["render", "compile"]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s[stage] += time.perf_counter() - begun


def most_used(used: Sequence[Resources]) -> dict[str, float]:
    """Return the maximum of each resource over the launches of a call, by name. For occupancy, return the minimum."""
    found: dict[str, float] = {}
    for name, value in (item for each in used for item in each.figures().items()):
        found[name] = (min if name == "occupancy" else max)(value, found.get(name, value))
    return found


def call_arguments(candidate: Candidate) -> tuple[Argument, ...]:
    """Convert the operands of a candidate to kernel arguments, in the same order."""
    return tuple(
        Argument(
            name=each.name,
            role=each.role,
            dtype=each.dtype,
            shape=each.shape,
            value=each.value,
            alignment=each.alignment,
            init=each.init,
            init_timed=each.init_timed,
        )
        for each in candidate.operands
    )
