"""Renders the brief for authors of variants as Markdown, with a maximum number of tokens."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from evo.messages.view import BriefView, FailureView, TriedView
from evo.text.visible import visible
from evo.text.wording import (
    count_text,
    outcome_text,
    over_limit_text,
    percent_text,
    settings_text,
    significant,
    time_text,
)

MOST_TOKENS = 12_000
CHARACTERS_PER_TOKEN = 3
"""Low estimate of the number of characters per token, which is three to four for source code."""

RULES = (
    "Compute exactly what the reference computes: outputs are compared with it in float64 on every case.",
    "Write every element of every output that is not filled before a call.",
    "Read nothing but the arguments. Write nothing but outputs, in-place arguments and workspaces.",
    "Inputs are new in every process, and some change between calls: do not keep results from call to call.",
    "Do not use files, the clock, the environment, the network, or threads that outlive a call.",
    "Declare tunables for choices that you are unsure of (tile sizes, unrolling, vector widths).",
    "A tunable is a macro in a plain source (`.c`, `.cu`) or a Jinja variable in a template (`.c.j2`, `.cu.j2`).",
    "Each tunable must change the code. A constraint states which combinations are valid, and why.",
)

_CUT = "\n… cut here: {} more characters; `kernel-evo variant source {} {}` prints all of it\n"


def brief_markdown(brief: BriefView, *, most_tokens: int = MOST_TOKENS) -> str:
    """Return the brief as Markdown with at most about `most_tokens` tokens.

    The same brief always gives the same text. If the text is too long, the sources of failed and slow variants are
    omitted first; the source of the fastest variant is shortened only if it does not fit alone.
    """
    most = most_tokens * CHARACTERS_PER_TOKEN
    head = "\n".join(_head(brief))
    sections = [*map(_failed, brief.failed), *(_tried(brief, each) for each in brief.tried)]
    summaries = [section for section, _ in sections]
    room = most - _weight(head) - sum(_weight(each) + 1 for each in summaries)
    parts = [head, *_fitting(brief, sections, max(0, room))]
    return visible(_limited("\n".join(parts), most))


def _fitting(brief: BriefView, sections: Sequence[tuple[str, str]], room: int) -> Iterator[str]:
    """Yield the summary of every variant, and the sources that fit into `room` characters, fastest variant first.

    Args:
        sections: summary and source of each variant: first the failed variants, then the others, fastest first.
    """
    failed = len(brief.failed)
    order = [*sections[failed:], *sections[:failed]]
    spent = accumulate((_weight(source) for _, source in order), initial=0)
    variants = [*brief.tried, *brief.failed]
    for index, ((summary, source), before) in enumerate(zip(order, spent, strict=False)):
        yield summary
        if before + _weight(source) <= room:
            yield source
        elif before < room:
            left = max(0, room - before - _weight(_CUT) - 20)
            number = variants[index].view.number
            yield source[:left] + "\n```" + _CUT.format(len(source) - left, brief.search_id, number)


def _limited(text: str, most: int) -> str:
    """Return the beginning of the text whose `_weight` is at most `most`."""
    if _weight(text) <= most:
        return text
    mark = "…\n"
    return text[: bisect_right(list(accumulate(map(_weight, text))), most - _weight(mark))] + mark


def _weight(text: str) -> int:
    """Return the number of characters that a string uses of the limit on tokens.

    Each byte of a non-ASCII character counts as a whole token (`CHARACTERS_PER_TOKEN` characters), because a tokenizer
    may need that many tokens.
    """
    others = len(text.encode()) if not text.isascii() else 0
    plain = sum(each.isascii() for each in text) if others else len(text)
    return plain + CHARACTERS_PER_TOKEN * (max(0, others - plain))


def _head(brief: BriefView) -> Iterator[str]:
    title = brief.title if brief.title == brief.family else f"{brief.title} ({brief.family})"
    yield f"# {title}, search {brief.search_id}\n"
    if brief.description:
        yield f"{brief.description}\n"
    yield f"Problem: {settings_text(brief.problem) or 'without fields'}. Objective: {brief.objective}.\n"
    yield "## Contract\n"
    yield f"```c\n{brief.signature};\n```\n"
    yield from (f"- {each}" for each in brief.arguments)
    hidden = count_text(brief.hidden_cases, "hidden case")
    yield f"\nCases: {'; '.join(brief.cases)}; and {hidden} with other shapes.\n"
    yield from (f"- {rule}" for rule in RULES)
    yield "\n## Device\n"
    yield "; ".join(f"{name} {_value(value)}" for name, value in brief.device.items())
    if brief.floor_us is not None:
        yield f"\nThe problem takes at least {time_text(brief.floor_us)} on this device, bound by {brief.bound}."
    if brief.baselines:
        times = ", ".join(f"{name} {time_text(time)}" for name, time in brief.baselines.items())
        yield f"\nBaselines: {times}."
    if brief.unexplored:
        yield "\n## Mechanisms that no working variant uses\n"
        yield from (f"- {each}" for each in brief.unexplored)
    yield "\n## Variants, fastest first, then failed variants\n"


def _tried(brief: BriefView, tried: TriedView) -> tuple[str, str]:
    view, best = tried.view, tried.view.best
    lines = [_title(tried)]
    if best is not None:
        share = "" if view.share is None else f", {percent_text(view.share)} of the limit"
        speedup = f", {view.speedup_text}" if view.speedup_text else ""
        modelled = "estimated, never run: " if best.estimated else ""
        lines.append(f"{modelled}{view.best_text}{share}{speedup}, with {settings_text(best.config)}.")
        lines += filter(None, [over_limit_text(view.share)])
    if view.mechanisms:
        lines.append(f"Its binary uses: {view.niche}.")
    if view.same_as is not None:
        lines.append(f"Its binary is that of variant {view.same_as}: the change has no effect.")
    for name, figures in (("Resources", tried.resources), ("Profile", tried.profile)):
        if figures:
            lines.append(f"{name}: {', '.join(f'{key} {significant(value)}' for key, value in figures.items())}.")
    lines += [_failure(each) for each in view.failures[:3]]
    return "\n".join(lines), _source(tried)


def _failed(tried: TriedView) -> tuple[str, str]:
    return "\n".join([_title(tried), *map(_failure, tried.view.failures[:3])]), _source(tried)


def _title(tried: TriedView) -> str:
    view = tried.view
    author = f", by {view.author}" if view.author else ""
    parents = f", from {', '.join(map(str, view.parents))}" if view.parents else ""
    idea = f"\n{view.idea}" if view.idea else ""
    return f"### Variant {view.number}: {view.name}{author}{parents}{idea}"


def _failure(failure: FailureView) -> str:
    text = failure.detail if "\n" not in failure.detail else f"\n```\n{failure.detail}\n```"
    return f"{count_text(failure.count, 'trial')} {outcome_text(failure.outcome)}: {text}"


def _source(tried: TriedView) -> str:
    tunables = tried.source.table.get("tunables", {})
    values = {name: each["values"] if isinstance(each, dict) else each for name, each in tunables.items()}
    texts = "\n".join(f"// {name}\n{text}" for name, text in tried.source.files.items())
    listed = "; ".join(f"{name} {values[name]}" for name in values)
    return f"Tunables: {listed}\n```c\n{texts}\n```\n"


def _value(value: object) -> str:
    return significant(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
