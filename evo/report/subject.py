"""What was searched, on what, and how to do it again."""

import json
import shlex
from collections.abc import Iterator

from evo.errors import InvalidInput
from evo.messages.view import BestView
from evo.promotion.policy import Policy, policy_from
from evo.report.document import Block, Code, Listed, Text
from evo.report.material import Material
from evo.text.wording import count_text, duration_text, settings_text, spaced_text, time_text, value_text

LEFT_OUT = (
    "Left out here is what needs measured times: samples, verdicts, what decides the time, the ablation, and valid "
    "negatives. An estimate does not see bank conflicts, caches or what instructions are made of: values that it tells "
    "no difference between may differ on the GPU, so none of them is known to have bought nothing."
)
"""Of an estimate's report; its reader would else look for these sections."""


def subject_blocks(material: Material) -> Iterator[Block]:
    """The terms of the search, and what became of it."""
    search, space = material.search, material.search.space
    size = f"{space.product_size:,} combinations, too many to count the valid ones"
    if space.valid_count is not None:
        size = f"{space.valid_count:,} valid configs of {space.product_size:,} combinations"
    reason = f" ({search.reason})" if search.reason else ""
    rows = {
        "family": search.family,
        "problem": spaced_text(search.problem),
        "device": f"{search.place} ({search.device.kind}, {search.device.architecture})",
        "objective": search.objective.key,
        "space": f"{size}; {search.asked:,} tried",
        "strategy": f"{search.strategy}, seed {search.seed}",
        "policy": search.policy.name,
        "state": f"{search.state}{reason} after {duration_text(search.elapsed_s)}",
        "begun": f"{search.created_at:%Y-%m-%d %H:%M} UTC",
        "lowest estimate" if search.estimated else "winner": _winner(material),
    }
    if search.best is not None and not search.estimated:
        rows["its time"] = _time(search.best)
    if search.warm_start is not None:
        rows["begun with"] = f"{search.warm_start.used} recorded configs of {search.warm_start.source}"
    if search.notes:
        rows["notes"] = search.notes
    if search.estimated:
        yield Text("Estimates: nothing was run, no answer was checked, and nothing is promoted.", strong=True)
        yield Text(LEFT_OUT)
    for warning in search.quick_gaps:
        yield Text(f"Warning. {warning}", strong=True)
    yield Listed(("", ""), tuple(rows.items()))


def _winner(material: Material) -> str:
    """Of estimates with how many others are level, as they often are: the first of them is no winner."""
    best = material.search.best
    if material.winner is None or best is None:
        return "none" if material.winner is None else spaced_text(material.winner)
    others = sum(each.time_us == best.time_us for each in material.found) - 1
    level = f"; {count_text(others, 'other')} level with it" if material.search.estimated and others > 0 else ""
    return f"{spaced_text(material.winner)}{level}"


def _time(best: BestView) -> str:
    """The leading time with its source: ``10.48 ms (10.4 ms to 10.6 ms), confirmed; quick samples: 282.6 µs``."""
    span = "" if best.interval is None else f" ({time_text(best.interval.low)} to {time_text(best.interval.high)})"
    quick = "" if best.quick_us is None else f"; quick samples: {time_text(best.quick_us)}"
    return f"{time_text(best.time_us)}{span}, {best.time.words}{quick}"


def environment_blocks(material: Material) -> Iterator[Block]:
    """Where it was measured, as the workers told it then."""
    search, champion = material.search, material.champion
    told = {"device": search.device.model, "unit": search.device.uuid, **search.device.software}
    told |= {} if material.best is None else material.best.environment
    if champion is not None and champion.report is not None:
        told |= champion.report.environment
    yield Listed(("", ""), tuple((name, str(value)) for name, value in told.items()))


def command_blocks(material: Material) -> Iterator[Block]:
    """The command that starts the same search, and the files it needs."""
    policy = material.search.policy
    yield Code(command_text(material))
    if not _named(policy):
        changed = {name: value for name, value in vars(policy).items() if value != vars(Policy())[name]}
        yield Text("with this policy.json:")
        yield Code(json.dumps(changed, indent=2))
    if material.search.warm_start is not None:
        yield Text("It began with recorded results, which the database keeps but this command does not name.")
    same = "equal times are measured: on a recorded space the same trials"
    if material.search.estimated:
        same = "equal estimates come in the same order"
    yield Text(f"Equal seeds make equal choices where {same}.")


def command_text(material: Material) -> str:
    """One line for a shell."""
    search = material.search
    words = ["kernel-evo", "search", search.source or search.family]
    if search.problem:
        words += ["--problem", settings_text(search.problem)]
    if search.device.runs == "nothing":
        words.append("--compile-only")
    elif search.device.runs != "recordings":
        words += ["--device", search.device.kind]
    words += ["--strategy", search.strategy, "--seed", str(search.seed)]
    for option in ("trials", "minutes", "stagnation"):
        if (limit := getattr(search.budget, option)) is not None:
            words += [f"--{option}", value_text(limit)]
    if search.budget.cost is not None:
        words += ["--max-cost", value_text(search.budget.cost)]
    if search.budget.cost_per_hour is not None:
        words += ["--cost-per-hour", value_text(search.budget.cost_per_hour)]
    words += ["--cache", search.objective.cache]
    words += [] if search.estimated else ["--threads", str(search.objective.threads)]
    words += [] if search.objective.target is None else ["--target", search.objective.target]
    words += ["--policy", search.policy.name if _named(search.policy) else "policy.json"]
    return shlex.join(words)


def _named(policy: Policy) -> bool:
    """Whether its name says all of it."""
    try:
        return policy_from(policy.name) == policy
    except InvalidInput:
        return False
