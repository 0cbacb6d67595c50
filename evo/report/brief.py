"""Renders the brief (information for authors of variants) as Markdown, with a maximum number of tokens."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from evo.messages.view import BriefView, FailureView, TriedView
from evo.text.visible import fenced, one_line, visible
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

LEAST_SOURCE = 200
"""A shortened source is omitted if it has at most this number of characters."""

MOST_MODEL = 9000
"""Maximum number of characters of a PyTorch model."""

MOST_NOTE = 500
"""Maximum number of characters of an idea, or of the list of a variant's tunables."""

MOST_FAILURE = 1200
"""Maximum number of characters of the reason why a variant's trials failed."""

FIRST = 3
"""Number of the fastest variants that take precedence over failed variants if not all variants fit."""

_CUT = "… cut here: {} more characters; `kernel-evo variant source {} {}` prints all of it\n"
_MORE = "Omitted: {}. `kernel-evo variant list {}` lists all variants.\n"


def brief_markdown(brief: BriefView, *, most_tokens: int = MOST_TOKENS) -> str:
    """Return the brief as Markdown with at most about `most_tokens` tokens.

    The same brief always gives the same text. If the text is too long, sources are shortened or omitted, those of
    failed and slow variants first. If the descriptions of the variants need more than half of the space that the other
    sections leave, some variants are omitted (see `_shown`).
    """
    most = most_tokens * CHARACTERS_PER_TOKEN
    head = visible("\n".join(_head(brief)))
    room = most - _weight(head) - 2 * len(_MORE)
    summaries = [
        visible(each) for each in (*(_tried(brief, each) for each in brief.tried), *map(_failed, brief.failed))
    ]
    shown = _shown(summaries, len(brief.tried), room // 2)
    room -= sum(_weight(summaries[index]) + 2 for index in shown)
    parts = [head, *_sections(brief, summaries, shown, room)]
    if omitted := len(summaries) - len(shown):
        parts.append(_MORE.format(count_text(omitted, "variant"), brief.search_id))
    return _limited("\n".join(parts), most)


def _shown(summaries: Sequence[str], timed: int, room: int) -> list[int]:
    """Return the indices of the summaries to show, in ascending order.

    Summaries are selected while they fit: first those of the `FIRST` fastest variants, then those of failed variants,
    then the others. The first summary is always shown.

    Args:
        timed: number of timed variants, whose summaries come before those of failed variants.
        room: number of characters of the token limit that the summaries may use.
    """
    order = [*range(min(FIRST, timed)), *range(timed, len(summaries)), *range(FIRST, timed)]
    shown: list[int] = []
    for index in order:
        weight = _weight(summaries[index]) + 2
        if weight <= room or not shown:
            shown.append(index)
            room -= weight
    return sorted(shown)


def _sections(brief: BriefView, summaries: Sequence[str], shown: Sequence[int], room: int) -> Iterator[str]:
    """Yield the summary of each shown variant with its source.

    A source that would use more than half of the remaining space is cut, except the first source if it fits. If a cut
    source is very short (`LEAST_SOURCE`), it is omitted.
    """
    variants = [*brief.tried, *brief.failed]
    for index in shown:
        source, number = visible(_source(variants[index])), variants[index].view.number
        most = room if index == shown[0] and _weight(source) <= room else room // 2
        if _weight(source) <= most:
            text = fenced(source, "c")
        else:
            kept = _limited(source, most - 2 * len(_CUT))
            cut = _CUT.format(len(source) - len(kept), brief.search_id, number)
            text = fenced(kept, "c") + cut if len(kept) > LEAST_SOURCE else ""
        room -= _weight(text) + 1
        yield f"{summaries[index]}\n{text}"


def _limited(text: str, most: int) -> str:
    """Return the text, cut so that it uses at most `most` characters of the token limit. A cut text ends with ``…``."""
    if _weight(text) <= most:
        return text
    mark = "…\n"
    return text[: bisect_right(list(accumulate(map(_weight, text))), max(0, most - _weight(mark)))] + mark


def _weight(text: str) -> int:
    """Return how many characters of the token limit a string uses.

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
    if brief.model:
        yield "\nThe outputs are those of `Model.forward()` in this file. Its get_inputs() only shows typical inputs:\n"
        yield fenced(_short(brief.model, MOST_MODEL), "python")
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


def _tried(brief: BriefView, tried: TriedView) -> str:
    view, best = tried.view, tried.view.best
    lines = [_title(tried)]
    if best is not None:
        share = "" if view.share is None else f", {percent_text(view.share)} of the limit"
        speedup = f", {view.speedup_text}" if view.speedup_text else ""
        modelled = "estimated, never run: " if best.estimated else ""
        lines.append(f"{modelled}{view.best_text}{share}{speedup}, with {settings_text(best.config)}.")
        lines += filter(None, [over_limit_text(view.share)])
    if view.mechanisms:
        lines.append(f"Its binary uses: {', '.join(view.mechanisms)}.")
    if view.bound is not None:
        lines.append(f"Its time is bound by {view.bound}.")
    if view.same_as is not None:
        lines.append(f"Its binary equals that of variant {view.same_as}: the change has no effect.")
    for name, figures in (("Resources", tried.resources), ("Profile", tried.profile)):
        if figures:
            lines.append(f"{name}: {', '.join(f'{key} {significant(value)}' for key, value in figures.items())}.")
    lines += [_failure(each) for each in view.failures[:3]]
    return "\n".join([*lines, _tunables(tried)])


def _failed(tried: TriedView) -> str:
    return "\n".join([_title(tried), *map(_failure, tried.view.failures[:3]), _tunables(tried)])


def _title(tried: TriedView) -> str:
    view = tried.view
    author = f", by {one_line(view.author)}" if view.author else ""
    parents = f", from {', '.join(map(str, view.parents))}" if view.parents else ""
    idea = f"\nIdea: {_short(' '.join(view.idea.split()))}" if view.idea else ""
    return f"### Variant {view.number}: {view.name}{author}{parents}{idea}"


def _failure(failure: FailureView) -> str:
    detail = _short(failure.detail, MOST_FAILURE)
    text = detail if "\n" not in detail else f"\n{fenced(detail).rstrip()}"
    return f"{count_text(failure.count, 'trial')} {outcome_text(failure.outcome)}: {text}"


def _tunables(tried: TriedView) -> str:
    tunables = tried.source.table.get("tunables", {})
    values = {name: each["values"] if isinstance(each, dict) else each for name, each in tunables.items()}
    return f"Tunables: {_short('; '.join(f'{name} {values[name]}' for name in values))}"


def _source(tried: TriedView) -> str:
    return "\n".join(f"// {name}\n{text}" for name, text in tried.source.files.items())


def _short(text: str, most: int = MOST_NOTE) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _value(value: object) -> str:
    return significant(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
