"""A kernel family, as its document declares it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.device import Device, DeviceKind, kind_of
from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.family.argument import Argument, Operand, read_arguments
from evo.family.case import Case, CaseProblem, read_cases
from evo.family.description import describe_argument, describe_field, describe_implementation
from evo.family.emptiness import told_of
from evo.family.fields import read_fields
from evo.family.geometry import Launch
from evo.family.implementation import Implementation, read_implementation, read_recording
from evo.family.memory import check_memory
from evo.family.problem import Field, Problem, parse_problem
from evo.family.scope import WORD, device_scope
from evo.family.table import Table
from evo.family.work import Work, WorkFormula, read_work
from evo.space import Constraint, EmptySpace, Space, Tunable
from evo.text.suggestion import unknown
from evo.trial import Config, Value
from evo.trial.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A config with all that follows from it: what rendering, compiling and launching need.

    Attributes:
        derived: the implementation's derived values.
        operands: the call's arguments, in order.
        launch: None for a plain function call.
        items: pieces of work that the blocks share out among themselves; None where each block is one.
        effort: how many times the arithmetic that [work] states this config takes, at the rate of its dtype.
        computing: threads of a block that compute, where others only copy; None where all do.
        specific: the kernel is for one architecture alone.
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
        """What the compiler is told for a device's architecture: ``sm_90a`` in place of ``sm_90`` where need be."""
        return f"{architecture}a" if self.specific else architecture


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A validated family document.

    Attributes:
        fields: of its problems, in order.
        arguments: of the kernel; an implementation may take some of them in another order.
        cases: the first is the searched problem itself, the one that is timed.
        implementations: by device kind.
        document: what it was read from.
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

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str = "family.toml") -> "Family":
        """Read and check a whole document.

        Args:
            where: its name in errors.

        Raises:
            InvalidInput: names the dotted path of the first thing wrong, and what belongs there.
        """
        table = Table(document, where)
        name = table.text("name", pattern=WORD, what="a name: letters, digits, `_`, `-`, `.`, `+`")
        if table.flag("recording"):
            return _recording(name, table, document)
        fields = read_fields(table.table("problem"))
        arguments = read_arguments(table.tables("arguments"), fields)
        if not any(argument.role == "output" for argument in arguments):
            raise InvalidInput(table.field("arguments"), 'none is an output: give one with role = "output"')
        implementations = {
            kind: read_implementation(kind, table.table(kind), fields, arguments)
            for kind in sorted(implemented_kinds())
            if kind in table
        }
        family = cls(
            name=name,
            title=table.text("title", name),
            description=table.text("description", ""),
            fields=fields,
            arguments=arguments,
            cases=read_cases(table, fields),
            implementations=implementations,
            document=document,
            work_formula=read_work(table.table("work"), fields) if "work" in table else None,
        )
        table.done()
        if not implementations:
            raise InvalidInput(
                table.field("cpu"), "is missing: give an implementation for a device kind, e.g. [cpu] or [cuda]"
            )
        return family

    def implementation(self, kind: DeviceKind) -> Implementation:
        """How it runs on that kind of device.

        Raises:
            InvalidInput: it does not; lists the kinds it runs on.
        """
        if kind not in self.implementations:
            hint = (
                "; give a recording's path in place of a family to replay it"
                if kind_of(kind).runs == "recordings"
                else ""
            )
            raise InvalidInput(
                "device", f"{self.name} does not run on {kind}, only on {', '.join(self.implementations)}{hint}"
            )
        return self.implementations[kind]

    def problem(self, given: str | Mapping[str, object] = "", kind: DeviceKind | None = None) -> dict[str, Value]:
        """A complete problem, with the defaults and requirements of a device kind if one is named.

        Raises:
            InvalidInput: names ``problem.<field>``, or the requirement the problem breaks.
        """
        if kind is None:
            return parse_problem(self.fields, given)
        implementation = self.implementation(kind)
        problem = parse_problem(self.fields, given, implementation.defaults)
        implementation.check_problem(problem)
        return problem

    def check_device(self, problem: Problem, device: Device) -> None:
        """Nothing, for a device that can compute this problem; kinds that run nothing can compute any.

        Raises:
            InvalidInput: names the requirement the device does not meet, and its reason; or says what memory it takes.
        """
        if device.runs == "kernels":
            check_memory(self.operands(problem), device)
            self._check_cases(problem, device.kind)
            self._known_limits(device)
            self.implementation(device.kind).check_problem(problem, device)

    def note(self, problem: Problem, device: Device) -> str:
        """What goes with every time of this problem taken on this device; empty where there is nothing to tell."""
        return self.implementation(device.kind).note(problem, device) if device.runs == "kernels" else ""

    def begin(self, problem: Problem, device: Device) -> list[Config]:
        """What its author would try first for this problem on this device: parts of configs, the best guess first."""
        return self.implementation(device.kind).begin(problem, device)

    def space(
        self,
        problem: Problem,
        device: Device,
        objective: Objective,
        *,
        kept: Mapping[str, Sequence[Value]] | None = None,
    ) -> Space:
        """What can be searched for this problem on this device.

        Args:
            kept: values by tunable, to search a part of the space; tunables that are not named keep all values.

        Raises:
            EmptySpace: nothing; names the constraint that removed the last points, and the problem's part in it.
            InvalidInput: `kept` names an unknown tunable or value.
        """
        implementation = self.implementation(device.kind)
        tunables, constraints = implementation.tunables, implementation.constraints
        if kept is not None:
            tunables = _keeping(tunables, kept)
        constants = self._constants(problem, device, objective)
        try:
            return Space(tunables, constraints, constants, valid_keys=implementation.valid_keys)
        except EmptySpace as error:
            raise told_of(problem, constraints, error) from None

    def violations(self, config: Config, problem: Problem, device: Device, objective: Objective) -> list[Constraint]:
        """The constraints a config breaks on a problem, without building the space."""
        scope = self._constants(problem, device, objective) | dict(config)
        constraints = self.implementation(device.kind).constraints
        return [constraint for constraint in constraints if not constraint.expression.truth(scope)]

    def unfit(self, config: Config, problem: Problem, device: Device, objective: Objective) -> str | None:
        """Why a config does not suit a problem: the constraints it breaks there; None if it does."""
        return "; ".join(map(str, self.violations(config, problem, device, objective))) or None

    def candidate(self, config: Config, problem: Problem, device: Device, objective: Objective) -> Candidate:
        """Everything a config means on a problem and device; the config is taken to be valid.

        Raises:
            InvalidInput: an expression has no value here; names it.
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

    def operands(self, problem: Problem) -> tuple[Operand, ...]:
        """Inputs and outputs: the arguments that depend on the problem alone."""
        return tuple(argument.resolve(problem) for argument in self.arguments if not argument.local)

    def work(self, problem: Problem) -> Work | None:
        """What the problem needs at least; None when the family does not say (no ``[work]``)."""
        return None if self.work_formula is None else self.work_formula.of(problem)

    def case_problems(self, problem: Problem, kind: DeviceKind) -> tuple[CaseProblem, ...]:
        """Every case for a searched problem, the searched problem itself first."""
        return tuple(self._case_problem(case, problem, kind) for case in self.cases)

    def describe(self) -> dict[str, Any]:
        """Everything a user may want to know before searching, as plain data: fields, cases, tunables, constraints …"""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
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
        """Raises InvalidInput where a shape or a tolerance has no valid value on the problem of a case."""
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
            raise InvalidInput("device", f"{device.model} does not tell its `{name}`, which {self.name} needs")


def _keeping(tunables: Sequence[Tunable], kept: Mapping[str, Sequence[Value]]) -> tuple[Tunable, ...]:
    names = [tunable.name for tunable in tunables]
    for name in kept:
        if name not in names:
            raise InvalidInput(f"kept.{name}", unknown(name, names, "tunables"))
    return tuple(each.keeping(kept[each.name], f"kept.{each.name}") if each.name in kept else each for each in tunables)


def _recording(name: str, table: Table, document: Mapping[str, Any]) -> Family:
    implementation = read_recording(table.table("replay"))
    title, description = table.text("title", f"recorded space {name}"), table.text("description", "")
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
