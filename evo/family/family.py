"""A kernel family as declared by its document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from evo.device import Device, DeviceKind, kind_of
from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.family.argument import JUDGED, Argument, Operand, read_arguments
from evo.family.case import Case, CaseProblem, read_cases
from evo.family.description import describe_argument, describe_field, describe_implementation
from evo.family.implementation import Implementation, read_implementation, read_recording
from evo.family.launch.geometry import Launch
from evo.family.launch.tensor_map import TensorMap
from evo.family.problem import Field, Problem, in_problem_terms, parse_problem, problem_key, read_fields
from evo.family.scope import WORD, WORD_RULE, device_scope
from evo.family.source.flags import check_optimised
from evo.family.source.triton.compiled import SCRATCH, read_note
from evo.family.table import Table
from evo.family.work import Work, WorkFormula, check_memory, read_work
from evo.space import Constraint, EmptySpace, Space, Tunable
from evo.text.suggestion import unknown
from evo.trial import Config, Value
from evo.trial.objective import Objective

VARIANT_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
LONGEST_IDEA = 4000
LONGEST_AUTHOR = 200


@dataclass(frozen=True, kw_only=True)
class VariantNote:
    """Name and origin of the variant that a family document implements.

    Attributes:
        name: name of the variant, unique in its search.
        author: name of the person, agent or model that wrote it.
        idea: text that explains how the variant differs from other variants.
        parents: names of the variants from which it is derived.
    """

    name: str
    author: str = ""
    idea: str = ""
    parents: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return the ``variant`` table of a family document."""
        return {"name": self.name, "author": self.author, "idea": self.idea, "parents": list(self.parents)}


def read_variant(table: Table) -> VariantNote:
    """Read the ``variant`` table of a family document."""
    note = VariantNote(
        name=table.line("name"),
        author=table.line("author", ""),
        idea=table.text("idea", ""),
        parents=tuple(table.texts("parents")) if "parents" in table else (),
    )
    table.done()
    return note


def _tensor_map(described: Mapping[str, Any]) -> TensorMap:
    return TensorMap(**{**described, "shape": tuple(described["shape"]), "box": tuple(described["box"])})


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A config for one problem and device, with the values that are needed to render, compile and launch its kernel.

    Attributes:
        derived: derived values by name.
        operands: arguments, in the order of the call.
        launch: launch on a grid; None for a plain function call.
        items: number of work items that are distributed over the blocks; None if each block processes one item.
        effort: number of arithmetic operations of this config, divided by the number that ``[work]`` states.
        computing: number of threads per block that compute; None if all do. The remaining threads only copy data.
        specific: True if the kernel is compiled for one architecture only (``sm_90a`` instead of ``sm_90``).
    """

    config: Config
    problem: Problem
    derived: Mapping[str, Value]
    operands: tuple[Operand, ...]
    launch: Launch | None
    items: int | None = None
    effort: float = 1.0
    computing: int | None = None
    specific: bool = False

    def target(self, architecture: str) -> str:
        """Return the architecture to compile for: ``sm_90a`` instead of ``sm_90`` if the candidate is `specific`."""
        return f"{architecture}a" if self.specific else architecture

    def compiled(self, ptx: str) -> "Candidate":
        """Return the candidate with the launch settings that Triton chose during compilation.

        These are the numbers of blocks and threads, the shared memory and the tensor maps. The scratch buffers of the
        compiled kernel are added to the operands. A candidate that is not a Triton kernel is returned unchanged.

        Args:
            ptx: PTX of the compiled kernel; empty if there is none.
        """
        note = read_note(ptx)
        if note is None or self.launch is None:
            return self
        x, y, z = self.launch.grid
        launch = replace(
            self.launch,
            grid=(x * note.cluster, y, z),
            block=(note.threads, 1, 1),
            shared_memory_bytes=note.shared_memory_bytes,
            tensor_maps=tuple(_tensor_map(each) for each in note.maps),
            maps_at=len(self.operands) if note.maps else None,
        )
        scratch = (
            Operand(name=name, role="workspace", dtype="uint8", shape=(max(size * prod(launch.grid), 1),))
            for name, size in zip(SCRATCH, note.scratch, strict=True)
        )
        return replace(self, launch=launch, operands=(*self.operands, *scratch))


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A validated family document.

    Attributes:
        fields: fields of a problem, in declared order.
        arguments: arguments of the kernel. An implementation may omit arguments and change their order.
        cases: correctness cases. The first is the searched problem itself, which is timed.
        implementations: implementations by device kind.
        document: the document from which the family was read.
        work_formula: operation and byte counts of a problem; None if the document has no ``[work]`` table.
        deterministic: False if results may differ between runs on the same inputs, within their tolerances.
        variant: the variant that the document implements; None for the family's own implementations.
    """

    name: str
    title: str
    description: str
    fields: tuple[Field, ...]
    arguments: tuple[Argument, ...]
    cases: tuple[Case, ...]
    implementations: Mapping[DeviceKind, Implementation]
    document: Mapping[str, Any]
    work_formula: WorkFormula | None = None
    deterministic: bool = True
    variant: VariantNote | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str = "family.toml") -> "Family":
        """Check a whole document, and return the family that it describes.

        Args:
            where: name of the document in error messages.

        Raises:
            InvalidInput: the document has an error. The field is the dotted path of the first wrong key; the message
                states what is accepted.
        """
        table = Table(document, where)
        name = table.text("name", pattern=WORD, what=f"a name: {WORD_RULE}")
        if table.flag("recording"):
            return _recording(name, table, document)
        fields = read_fields(table.table("problem"))
        arguments = read_arguments(table.tables("arguments"), fields)
        if not any(argument.role in JUDGED for argument in arguments):
            reason = (
                'no argument is an output; set role = "output" for one, or "inout" if the kernel changes it in place'
            )
            raise InvalidInput(table.field("arguments"), reason)
        written_in_triton = {"cuda": _read_triton(table, fields, arguments)} if "triton" in table else {}
        implementations = written_in_triton | {
            kind: read_implementation(kind, table.table(kind), fields, arguments)
            for kind in sorted(implemented_kinds())
            if kind in table
        }
        family = cls(
            name=name,
            title=table.line("title", name),
            description=table.text("description", ""),
            fields=fields,
            arguments=arguments,
            cases=read_cases(table, fields),
            implementations=implementations,
            document=document,
            work_formula=read_work(table.table("work"), fields) if "work" in table else None,
            deterministic=table.flag("deterministic", default=True),
            variant=read_variant(table.table("variant")) if "variant" in table else None,
        )
        _refuse_unknown_kinds(table, document)
        table.done()
        if not implementations:
            raise InvalidInput(
                table.field("cpu"), "is missing; add an implementation for a device kind, e.g. [cpu] or [cuda]"
            )
        return family

    def implementation(self, kind: DeviceKind) -> Implementation:
        """Return the implementation for a device kind.

        Raises:
            InvalidInput: the family has no implementation for this kind.
        """
        if kind not in self.implementations:
            hint = (
                "; to replay a recording, pass its path in place of the family"
                if kind_of(kind).runs == "recordings"
                else ""
            )
            raise InvalidInput(
                "device", f"{self.name} does not run on {kind}, only on {', '.join(self.implementations)}{hint}"
            )
        return self.implementations[kind]

    def problem(self, given: str | Mapping[str, object] = "", kind: DeviceKind | None = None) -> dict[str, Value]:
        """Parse a problem, and fill omitted fields with their defaults.

        Args:
            given: text such as ``B=1,H=8``, or values by field name.
            kind: device kind whose defaults and requirements apply. If None, only the fields' own defaults apply, and
                neither requirements nor operation counts are checked.

        Raises:
            InvalidInput: a field is wrong (the error's field is ``problem.<field>``), the family has no implementation
                for `kind`, the problem violates a requirement that uses no device limits, or an operation or byte count
                is negative.
        """
        if kind is None:
            return parse_problem(self.fields, given)
        implementation = self.implementation(kind)
        problem = parse_problem(self.fields, given, implementation.defaults)
        implementation.check_problem(problem)
        if self.work_formula is not None:
            self.work_formula.check(problem)
        return problem

    def problem_key(self, problem: Problem) -> str:
        """Return the text that identifies a complete problem; see `evo.family.problem.problem_key`."""
        return problem_key(problem, self.fields)

    def check_device(self, problem: Problem, device: Device) -> None:
        """Check that a device can compute this problem. Device kinds that run no kernels accept every problem.

        Raises:
            InvalidInput: the device does not meet a requirement, does not report a limit that the family uses, or lacks
                the memory that the problem needs; or a shape or tolerance of a case is invalid.
        """
        if device.runs == "kernels":
            check_memory(self.operands(problem), device)
            self._check_cases(problem, device.kind)
            self._known_limits(device)
            self.implementation(device.kind).check_problem(problem, device)

    def terms(self, objective: Objective) -> Objective:
        """Return the objective, without the requirement of determinism if the family is not deterministic."""
        return objective if self.deterministic else replace(objective, deterministic=False)

    def note(self, problem: Problem, device: Device) -> str:
        """Return the author's notes on times of this problem on this device, as one text; empty if there are none."""
        return self.implementation(device.kind).note(problem, device) if device.runs == "kernels" else ""

    def begin(self, problem: Problem, device: Device) -> list[Config]:
        """Return the configs that the author recommends as first trials, best first.

        Tunables that a config omits have their defaults.
        """
        return self.implementation(device.kind).begin(problem, device)

    def check_new(self, where: str = "family.toml") -> None:
        """Check rules that apply only to new families, because families of stored searches may violate them.

        Args:
            where: name of the document in error messages.

        Raises:
            InvalidInput: a compiler flag turns off optimisations.
        """
        for kind, implementation in self.implementations.items():
            check_optimised(implementation.flags, kind, f"{where}: {kind}.flags")

    def space(
        self,
        problem: Problem,
        device: Device,
        objective: Objective,
        *,
        kept: Mapping[str, Sequence[Value]] | None = None,
    ) -> Space:
        """Return the space of configs for this problem on this device.

        Args:
            kept: values to search, by tunable. Other tunables keep all their values. If None, all do.

        Raises:
            EmptySpace: no config is valid. The message names the constraint that excluded the last configs.
            InvalidInput: `kept` contains an unknown tunable or value, or the device does not report a limit that the
                family uses.
        """
        implementation = self.implementation(device.kind)
        tunables, constraints = implementation.tunables, implementation.constraints
        if kept is not None:
            tunables = _keeping(tunables, kept)
        constants = self._constants(problem, device, objective)
        try:
            return Space(tunables, constraints, constants, valid_keys=implementation.valid_keys)
        except EmptySpace as error:
            raise in_problem_terms(problem, constraints, error) from None

    def violations(self, config: Config, problem: Problem, device: Device, objective: Objective) -> list[Constraint]:
        """Return the constraints that a config violates for a problem, without building the space."""
        scope = self._constants(problem, device, objective) | dict(config)
        constraints = self.implementation(device.kind).constraints
        return [constraint for constraint in constraints if not constraint.expression.truth(scope)]

    def unfit(self, config: Config, problem: Problem, device: Device, objective: Objective) -> str | None:
        """Return the constraints that a config violates for a problem, as text; None if it violates none."""
        return "; ".join(map(str, self.violations(config, problem, device, objective))) or None

    def candidate(self, config: Config, problem: Problem, device: Device, objective: Objective) -> Candidate:
        """Return the candidate for a valid config, problem and device.

        Raises:
            InvalidInput: an expression cannot be evaluated for this config (e.g. because of a division by 0) or has an
                invalid value (e.g. 0 blocks), or the device does not report a limit that the family uses.
        """
        implementation = self.implementation(device.kind)
        scope = self._constants(problem, device, objective) | dict(config)
        return Candidate(
            config=config,
            problem=problem,
            derived=implementation.derive(scope),
            operands=implementation.operands(scope),
            launch=implementation.launch(scope),
            items=implementation.items(scope),
            effort=implementation.effort(scope),
            computing=implementation.computing(scope),
            specific=implementation.is_specific(scope),
        )

    def distributed_over(
        self, config: Config, problem: Problem, device: Device, objective: Objective
    ) -> tuple[str, ...] | None:
        """Return the problem fields over which the blocks of a kernel are distributed.

        These are the integer fields whose doubling changes the number of blocks of a launch. A field is left out if the
        number of blocks cannot be computed for the doubled value. The result is None for a plain function, or if the
        number of blocks cannot be computed for the problem itself.
        """
        blocks = self._blocks(config, problem, device, objective)
        if blocks is None:
            return None
        doubled = {
            name: self._blocks(config, {**problem, name: 2 * value}, device, objective)
            for name, value in problem.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        return tuple(name for name, found in doubled.items() if found is not None and found != blocks)

    def _blocks(self, config: Config, problem: Problem, device: Device, objective: Objective) -> tuple[int, ...] | None:
        """Return the number of blocks of each launch; None for a plain function, or if an evaluation fails."""
        try:
            launch = self.candidate(config, problem, device, objective).launch
        except InvalidInput:
            return None
        return None if launch is None else tuple(prod(each.grid) for each in launch.each)

    def operands(self, problem: Problem) -> tuple[Operand, ...]:
        """Evaluate the arguments that depend only on the problem: inputs, outputs and inouts.

        Arguments that the kernel does not have for this problem (`Argument.when`) are left out.
        """
        return tuple(
            argument.resolve(problem) for argument in self.arguments if not argument.local and argument.present(problem)
        )

    def work(self, problem: Problem) -> Work | None:
        """Return the operation and byte counts of a problem; None if the family has no ``[work]`` table."""
        return None if self.work_formula is None else self.work_formula.of(problem)

    def case_problems(self, problem: Problem, kind: DeviceKind) -> tuple[CaseProblem, ...]:
        """Return each case with its problem, which is derived from the searched problem."""
        return tuple(self._case_problem(case, problem, kind) for case in self.cases)

    def case_changes(self) -> dict[str, dict[str, Value]] | None:
        """Return the changes of each case to the default problem, as new values by case and field.

        Fields that keep their default value are left out. The result is None if there is no default problem, because a
        field has no default.
        """
        try:
            problem = self.problem()
        except InvalidInput:
            return None
        changes: dict[str, dict[str, Value]] = {}
        for case in self.cases:
            values = {name: expression.evaluate(problem) for name, expression in case.changes.items()}
            changes[case.name] = {name: value for name, value in values.items() if value != problem[name]}
        return changes

    def describe(self) -> dict[str, Any]:
        """Return the family as plain data for users: fields, arguments, cases, tunables, constraints, …"""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "deterministic": self.deterministic,
            "fields": [describe_field(field) for field in self.fields],
            "arguments": [describe_argument(argument) for argument in self.arguments],
            "cases": [
                {
                    "name": case.name,
                    "inputs": case.inputs,
                    "problem": {name: change.text for name, change in case.changes.items()},
                    "hidden": case.hidden,
                    "instead_of": case.instead_of,
                    "mixed": case.mixed,
                }
                for case in self.cases
            ],
            "implementations": {kind: describe_implementation(each) for kind, each in self.implementations.items()},
        }

    def _case_problem(self, case: Case, problem: Problem, kind: DeviceKind) -> CaseProblem:
        try:
            changes = {name: expression.evaluate(problem) for name, expression in case.changes.items()}
            return CaseProblem(case=case, problem=self.problem({**problem, **changes}, kind))
        except InvalidInput as error:
            return CaseProblem(case=case, problem=None, refusal=str(error))

    def _check_cases(self, problem: Problem, kind: DeviceKind) -> None:
        """Check the shapes and tolerances of all cases.

        Raises:
            InvalidInput: a shape or a tolerance is not valid for the problem of a case.
        """
        for each in self.case_problems(problem, kind):
            if each.problem is not None:
                self.operands(each.problem)

    def _constants(self, problem: Problem, device: Device, objective: Objective) -> dict[str, Value]:
        if device.runs == "recordings":
            return {}
        self._known_limits(device)
        return device_scope(device, objective) | dict(problem)

    def _known_limits(self, device: Device) -> None:
        for name in sorted(self.implementation(device.kind).limits.difference(device.limits)):
            reason = f"{device.model} does not report its `{name}`, which {self.name} needs"
            raise InvalidInput("device", f"{reason}; choose another device")


def _read_triton(table: Table, fields: Sequence[Field], arguments: Sequence[Argument]) -> Implementation:
    if "cuda" in table:
        reason = "a family can have only one implementation for GPUs; keep either [cuda] or [triton]"
        remedy = "submit one of them as a variant (kernel-evo variant submit), so that a search compares both"
        raise InvalidInput(table.field("triton"), f"{reason}, or {remedy}")
    return read_implementation("cuda", table.table("triton"), fields, arguments, triton=True)


def _keeping(tunables: Sequence[Tunable], kept: Mapping[str, Sequence[Value]]) -> tuple[Tunable, ...]:
    names = [tunable.name for tunable in tunables]
    for name in kept:
        if name not in names:
            raise InvalidInput(f"kept.{name}", unknown(name, names, "tunables"))
    return tuple(each.keeping(kept[each.name], f"kept.{each.name}") if each.name in kept else each for each in tunables)


def _refuse_unknown_kinds(table: Table, document: Mapping[str, Any]) -> None:
    """Refuse a table that has a ``template``, but is not named after an installed device kind."""
    for key in table.unread():
        if isinstance(document[key], Mapping) and "template" in document[key]:
            known = ("triton", *implemented_kinds())
            remedy = "install its package on this machine, and on the machines of the service and the workers"
            raise InvalidInput(table.field(key), f"{unknown(key, known, 'installed device kinds')}; {remedy}")


def _recording(name: str, table: Table, document: Mapping[str, Any]) -> Family:
    implementation = read_recording(table.table("replay"))
    title, description = table.line("title", f"recorded space {name}"), table.text("description", "")
    table.done()
    return Family(
        name=name,
        title=title,
        description=description,
        fields=(),
        arguments=(),
        cases=(),
        implementations={"replay": implementation},
        document=document,
    )
