"""Arguments of a call that consists of several launches: their roles, contents and shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evo.family.importing.draft import DraftArgument, DraftLaunch
from evo.family.importing.host.call import Step, scratch
from evo.family.importing.host.launches import HostLaunch, zeroed
from evo.family.importing.source import Source
from evo.family.importing.syntax import part, written
from evo.family.importing.types import Element

_SCRATCH = 'its role: "output" if the caller needs it'


def launched(steps: Sequence[Step]) -> list[tuple[tuple[str, ...], HostLaunch]]:
    """Return the arguments and the launch of each step that the source launches."""
    return [(each.arguments, each.launch) for each in steps if each.launch is not None]


def plain_variables(steps: Sequence[Step]) -> dict[str, str]:
    """Return the argument that receives each host variable, by the name of the variable."""
    pairs = (pair for given, launch in launched(steps) for pair in zip(launch.passed, given, strict=False))
    return {text: name for text, name in pairs if text.isidentifier()}


def of_call(
    arguments: Sequence[DraftArgument],
    steps: Sequence[Step],
    launches: Sequence[DraftLaunch],
    source: Source,
    elements: Mapping[str, Element],
) -> tuple[DraftArgument, ...]:
    """Return the arguments with the roles, initial contents and shapes that follow from all launches of a call.

    An array that only passes results from one launch to the next is a workspace. An array to which each block writes
    one element has as many elements as the grid has blocks.

    Args:
        elements: type of the elements of each array, by argument.
    """
    results = {each.name for each in arguments if each.role in ("output", "inout")}
    passing = scratch(steps, source) & results
    passing = passing if passing < results else set()
    host = {text for _, launch in launched(steps) for text in zeroed(source.code, launch.function)}
    variables = {name: text for text, name in plain_variables(steps).items()}
    found = list[DraftArgument]()
    for given in arguments:
        each = given
        if each.name in results and variables.get(each.name) in host:
            each = replace(each, role="output", init=True, decide="")
        if each.name in passing:
            decide = f"{each.decide}; {_SCRATCH}" if each.decide else _SCRATCH
            each = replace(each, role="workspace", decide=decide)
        blocks = _one_per_block(each.name, steps, launches) if len(steps) > 1 and each.role != "scalar" else ()
        if blocks:
            each = replace(each, shape=(*blocks, *each.shape[len(each.shape) - (elements[each.name].components > 1) :]))
        found.append(each)
    return tuple(found)


def _one_per_block(name: str, steps: Sequence[Step], launches: Sequence[DraftLaunch]) -> tuple[str, ...]:
    """Return the grid of a launch whose blocks each access only one element of an array; empty if there is none."""
    for step, launch in zip(steps, launches, strict=False):  # C functions have no launches
        own = [each.name for each, given in zip(step.kernel.parameters, step.arguments, strict=True) if given == name]
        uses = [use for each in own for use in step.kernel.body.uses.get(each, ())]
        indices = {written(part(step.kernel.body.parent(use), "indices")) for use in uses}
        if indices == {"[blockIdx.x]"} and len(launch.grid) == 1:
            return launch.grid
    return ()
