"""Insights: lessons that language models drew from results. Prompts contain those that measurements support."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.messages.view import ProposalView, VariantView
from evo.text.wording import count_text
from evo.variants.evolve.answer import read_idea


@dataclass(frozen=True, kw_only=True)
class Log:
    """One search: its requests to language models, and its variants.

    Attributes:
        place: name of an earlier search in prompts, e.g. ``search 7, softmax``; empty for the current search.
    """

    search_id: int
    place: str = ""
    proposals: Sequence[ProposalView]
    variants: Sequence[VariantView]

    def tested(self) -> Iterator[tuple[ProposalView, VariantView]]:
        """Yield each proposal with its variant, latest first, if all trials of the variant have ended."""
        by_number = {each.number: each for each in self.variants}
        for proposal in reversed(self.proposals):
            variant = None if proposal.variant is None else by_number.get(proposal.variant)
            if variant is not None and variant.ended:
                yield proposal, variant

    def key(self, proposal: ProposalView) -> str:
        """Return the name of a proposal's insight in prompts, e.g. ``7.2`` for the second proposal of search 7."""
        return f"{self.search_id}.{proposal.number}"


@dataclass(frozen=True, kw_only=True)
class Insight:
    """A lesson that a language model drew from results, with the measurements that support it.

    Attributes:
        key: name of the insight in prompts (`Log.key`).
        measured: the measurements, as text.
    """

    key: str
    text: str
    measured: str

    def __str__(self) -> str:
        return f"[{self.key}] {self.text} ({self.measured})"


def insights(logs: Sequence[Log]) -> list[Insight]:
    """Return the insights that measurements support, latest first.

    An insight is tested by the variant that was proposed in the same answer, and by the variants that apply the
    insight. A variant supports the insight if the variant is at least as fast as the family's own implementation, and
    contradicts it otherwise. Variants without a measured time are ignored. An insight is returned if the variant from
    the same answer supports it, and more variants support than contradict it.

    Args:
        logs: searches, latest first.
    """
    texts = {log.key(each): each.insight for log in logs for each in log.proposals if each.insight}
    faster, slower = _votes(logs, texts)
    found: dict[str, Insight] = {}
    for log in logs:
        for proposal, variant in log.tested():
            text = proposal.insight
            if not text or variant.best is None or _is_slower(variant) or faster[text] <= slower[text]:
                continue
            measured = _measured(log, variant, faster[text], slower[text])
            found.setdefault(text, Insight(key=log.key(proposal), text=text, measured=measured))
    return list(found.values())


def _votes(logs: Sequence[Log], texts: dict[str, str]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of variants that support each insight, and of those that contradict it, by the insight's text.

    Args:
        texts: texts of all insights, by key.
    """
    faster: Counter[str] = Counter()
    slower: Counter[str] = Counter()
    for log in logs:
        for proposal, variant in log.tested():
            if variant.best is not None:
                applied = {texts[key] for key in _uses(proposal) if key in texts} | {proposal.insight}
                (slower if _is_slower(variant) else faster).update(applied)
    return faster, slower


def _uses(proposal: ProposalView) -> tuple[str, ...]:
    """Return the keys of the insights that a proposal's variant applies, as stated in the answer."""
    try:
        return read_idea(proposal.answer or "").uses
    except InvalidInput:
        return ()


def _is_slower(variant: VariantView) -> bool:
    return (variant.ratio or 0.0) > 1.0


def _measured(log: Log, variant: VariantView, faster: int, slower: int) -> str:
    place = f"{log.place}, " if log.place else ""
    ratio = f", {variant.ratio_text}" if variant.ratio_text else ""
    votes = f"; of {count_text(faster + slower, 'variant')} with it, {slower} slower" if faster + slower > 1 else ""
    return f"{place}variant {variant.number}: {variant.best_text}{ratio}{votes}"
