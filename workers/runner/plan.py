"""Creates `Open` requests to runners, with the correctness cases of a problem and the seeds of their inputs."""

import ast
import zlib
from pathlib import Path

from workers.backends import driver
from workers.build.families import Assignment
from workers.runner.protocol import CasePlan, Open

_FEWEST_CONTENTS = 2
"""Minimum number of different inputs on which a candidate is timed, so that inputs can change between samples."""


def open_request(
    work: Assignment,
    folder: Path,
    *fresh: int,
    process: int = 0,
    modules: tuple[str, ...] = (),
    keeps_memory: bool = False,
) -> Open:
    """Return the `Open` request to a runner of a search.

    Args:
        folder: cache folder of the worker.
        fresh: numbers that are appended to each seed, so that a confirmation draws different inputs than the search.
        process: number of the process within a job, if several processes use the same inputs.
        modules: Python modules that the runner imports in advance.
        keeps_memory: True to reuse the memory of freed arrays, which is faster; False if the runner times baselines.
    """
    terms, family = work.terms, work.copy.family
    return Open(
        device=terms.device,
        objective=terms.objective,
        family_digest=terms.family.digest,
        reference=str(work.copy.reference),
        folder=str(folder),
        memory_limit_bytes=terms.policy.memory_limit_bytes,
        cases=case_plans(work, *fresh),
        reentrant=family.implementation(terms.device.kind).reentrant,
        fixed=family.variant is not None,
        process=process,
        modules=modules,
        keeps_memory=keeps_memory,
    )


def imports(work: Assignment, *, baselines: bool) -> tuple[str, ...]:
    """Return the names of the Python modules that a runner should import in advance, because importing takes seconds.

    Args:
        baselines: True if the runner will time baselines. The result then contains the modules that the device needs,
            and all modules that reference.py imports, also inside functions. If False, it contains only the modules
            that the device needs.
    """
    needed = set(driver(work.terms.device.kind).modules)
    if baselines:
        for node in ast.walk(ast.parse(work.copy.reference.read_bytes())):
            if isinstance(node, ast.Import):
                needed.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                needed.add(node.module)
    return tuple(sorted(needed))


def case_plans(work: Assignment, *fresh: int) -> tuple[CasePlan, ...]:
    """Return the plans of the cases in `work.cases` that have a problem.

    The first case is also timed, and has several seeds. Candidates receive the inputs of the last seed only after all
    timed calls.

    Args:
        fresh: numbers that are appended to each seed, so that a confirmation draws different inputs than the search.
    """
    terms, family = work.terms, work.copy.family
    plans: list[CasePlan] = []
    for each in work.cases:
        if each.problem is None:
            continue
        name = each.case.name
        timed = not plans
        repetitions = 1 if not timed else 1 + (_FEWEST_CONTENTS if work.timed_only else max(terms.policy.seeds, 2))
        plans.append(
            CasePlan(
                name=name,
                distribution=each.case.inputs,
                problem=each.problem,
                seeds=tuple(
                    (terms.seed, terms.search_id, zlib.crc32(name.encode()), repetition, *fresh)
                    for repetition in range(repetitions)
                ),
                operands=family.operands(each.problem),
                mixed=each.case.mixed,
                others=work.distributions if timed else (),
            )
        )
    return tuple(plans)
