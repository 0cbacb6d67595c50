"""Report sections on the search and its settings, the environment, and the command that repeats the search."""

import json
from collections.abc import Iterator

from evo.errors import InvalidInput
from evo.messages.view import BestView
from evo.promotion.policy import Policy, policy_from
from evo.report.document import Block, Code, Listed, Text
from evo.report.material import Material
from evo.text.shell import joined
from evo.text.wording import count_text, duration_text, settings_text, spaced_text, time_text, value_text

LEFT_OUT = (
    "Sections that need measured times are left out: samples, verdicts, important tunables, the ablation, and values "
    "without gain. An estimate does not model atomics, bank conflicts, caches or instruction mixes: values with equal "
    "estimates may differ on the GPU, so any of them may be the best."
)
"""Text that a report on estimates shows in place of the omitted sections."""


def subject_blocks(material: Material) -> Iterator[Block]:
    """Yield a table with the problem, settings and result of the search."""
    search, space = material.search, material.search.space
    size = f"{space.product_size:,} combinations, too many to count the valid ones"
    if space.valid_count is not None:
        size = f"{space.valid_count:,} valid configs of {space.product_size:,} combinations"
    reason = f" ({search.reason})" if search.reason else ""
    rows = {
        "family": search.subject,
        "problem": spaced_text(search.problem),
        "device": f"{search.place} ({search.device.kind}, {search.device.architecture})",
        "objective": search.objective.key,
        **({} if search.objective.second is None else {"second objective": search.objective.second.goal}),
        "space": f"{size}; {search.asked:,} tried",
        "strategy": f"{search.strategy}, seed {search.seed}",
        "policy": search.policy.name,
        "state": f"{search.state}{reason} after {duration_text(search.elapsed_s)}",
        "started": "not yet" if search.started_at is None else f"{search.started_at:%Y-%m-%d %H:%M} UTC",
        "lowest estimate" if search.estimated else "winner": _winner(material),
    }
    if search.best is not None and not search.estimated:
        rows["time of the winner"] = _time(search.best)
    if search.best is not None and search.objective.metric is not None:
        rows["metric of the winner"] = f"{search.objective.metric_text(search.best.cost)} ({search.objective.goal})"
    if search.warm_start is not None:
        rows["warm start"] = search.warm_start.words
    if search.notes:
        rows["notes"] = search.notes
    if search.estimated:
        yield Text("Estimates: nothing was run, no output was checked, and nothing is promoted.", strong=True)
        yield Text(LEFT_OUT)
    for warning in search.quick_gaps:
        yield Text(f"Warning. {warning}", strong=True)
    yield Listed(("", ""), tuple(rows.items()))


def _winner(material: Material) -> str:
    """Return the best config as text. For estimates, add how many other configs have the same estimate."""
    best = material.search.best
    if material.winner is None or best is None:
        return "none" if material.winner is None else spaced_text(material.winner)
    others = sum(each.time_us == best.time_us for each in material.found) - 1
    level = ""
    if material.search.estimated and others > 0:
        level = f"; {count_text(others, 'other')} with the same estimate"
    return f"{spaced_text(material.winner)}{level}"


def _time(best: BestView) -> str:
    """Return the best trial's time, e.g. ``10.48 ms (10.4 ms to 10.6 ms), confirmed; quick samples: 282.6 µs``."""
    span = "" if best.interval is None else f" ({time_text(best.interval.low)} to {time_text(best.interval.high)})"
    quick = "" if best.quick_us is None else f"; quick samples: {time_text(best.quick_us)}"
    return f"{time_text(best.time_us)}{span}, {best.time.words}{quick}"


def environment_blocks(material: Material) -> Iterator[Block]:
    """Yield a table of the device, its software, and the environment that workers reported."""
    search, champion = material.search, material.champion
    facts = {"device": search.device.model, "unit": search.device.uuid, **search.device.software}
    facts |= {} if material.best is None else material.best.environment
    if champion is not None and champion.report is not None:
        facts |= champion.report.environment
    yield Listed(("", ""), tuple((name, str(value)) for name, value in facts.items()))


def command_blocks(material: Material) -> Iterator[Block]:
    """Yield the command that starts the same search, and the files that it needs."""
    policy = material.search.policy
    yield Code(command_text(material))
    if not _is_named(policy):
        changed = {name: value for name, value in vars(policy).items() if value != vars(Policy())[name]}
        yield Text("with this policy.json:")
        yield Code(json.dumps(changed, indent=2))
    if material.search.warm_start is not None:
        yield Text(
            "The search started with results of other searches or files, which are in the database but not in this "
            "command."
        )
    same = "if it measures the same times, as on a recorded space"
    if material.search.estimated:
        same = "if the estimates are completed in the same order"
    yield Text(f"A search with the same seed makes the same choices {same}.")


def command_text(material: Material) -> str:
    """Return the command that starts the same search, as one line for a shell."""
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
    if search.objective.axes is not None:
        words += [word for goal in search.objective.goals for word in ("--objective", goal)]
    words += [] if search.objective.target is None else ["--target", search.objective.target]
    words += ["--policy", search.policy.name if _is_named(search.policy) else "policy.json"]
    return joined(words)


def _is_named(policy: Policy) -> bool:
    """Return True if the policy equals the built-in policy of the same name."""
    try:
        return policy_from(policy.name) == policy
    except InvalidInput:
        return False
