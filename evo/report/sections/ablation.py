"""Report section on the ablation of the champion: the effect of each change, largest slowdown first."""

from collections.abc import Iterator, Sequence

from evo.messages.view import AblationView
from evo.promotion.ablation import Change
from evo.report.document import Block, Listed, Picture, Text
from evo.report.material import Material
from evo.text.wording import outcome_text, settings_text, time_text, value_text
from evo.trial.explain import detail_text, headline

HEAD = ("change", "result", "time with it", "relative to the champion", "interval")
FINDINGS = {
    "pays": "the champion's value is faster",
    "hurts": "the champion's value is slower",
    "nothing": "no relevant difference",
    "unclear": "unclear: the rounds vary too much",
}


def ablation_blocks(material: Material) -> Iterator[Block]:
    """Yield a table of all changes with their intervals, or the command that starts an ablation if there was none."""
    search, found = material.search, material.ablations
    if not found:
        if material.champion is None:
            yield Text("This search has no champion, so there is nothing to ablate.")
        else:
            yield Text(
                f"None yet. `kernel-evo ablate {search.id}` changes each switch of champion {material.champion.id}."
            )
        return
    timed = [each for each in by_effect(found) if each.effect is not None]
    if timed:
        yield Picture("ablation", sentence(timed))
    yield Listed(HEAD, tuple(row(each) for each in by_effect(found)), figures=2)
    tied = {each.change.reason for each in found if each.change.also}
    if tied:
        yield Text(f"Some changes require a second change because of {'; '.join(sorted(tied))}.")
    if timed:
        policy = search.policy
        yield Text(
            "Each change was measured alongside the champion in the same rounds of one fresh process, on fresh "
            "inputs. 1.100× means a tenth longer than the champion. The figure is the median of the rounds' ratios, "
            f"with its {policy.confidence:.0%} interval. “No relevant difference” means that the whole interval "
            f"differs from 1 by less than the policy's minimum gain ({policy.minimum_gain:.0%}). Other differences "
            "count if they are larger than the difference of two series of the champion in the same rounds. The result "
            "in another process may lie outside the interval. An ablation promotes nothing. If a value of the champion "
            "is slower, search again: the new search begins with the champion."
        )


def by_effect(found: Sequence[AblationView]) -> list[AblationView]:
    """Return the changes by measured slowdown, largest first. Changes without a measurement come last."""
    return sorted(found, key=lambda each: -each.effect.ratio.estimate if each.effect else 0.0)


def sentence(timed: Sequence[AblationView]) -> str:
    """Return the sentence that formats without charts show in place of the chart."""
    parts = [f"{change_text(each.change)} {_ratio(each.effect.ratio.estimate)}" for each in timed if each.effect]
    return f"Time relative to the champion: {', '.join(parts)}."


def row(view: AblationView) -> tuple[str, str, str, str, str]:
    """Return the cells of a table row, in the order of `HEAD`."""
    name, effect, changed = change_text(view.change), view.effect, view.ablated.changed if view.ablated else None
    if effect is None or changed is None:
        return name, without_figure(view), "–", "–", "–"
    ratio = effect.ratio
    span = f"{_ratio(ratio.low)} to {_ratio(ratio.high)}"
    return name, FINDINGS[effect.finding], time_text(changed.median_us), _ratio(ratio.estimate), span


def change_text(change: Change) -> str:
    """Return a change as text, e.g. ``SOFTMAX exact → lazy (with STAGES=1)``."""
    tied = f" (with {settings_text(change.also)})" if change.also else ""
    return f"{change.tunable} {value_text(change.instead_of)} → {value_text(change.value)}{tied}"


def without_figure(view: AblationView) -> str:
    """Return the reason why a change was not timed."""
    if view.change.config is None:
        return f"not possible: it violates {view.change.reason}"
    if view.ablated is None:
        return "not measured yet" if view.ended_at is None else "not measured: the ablation ended too early"
    if view.ablated.same_binary:
        return "makes no difference: it compiles to the same binary"
    if view.ablated.failure is None:
        return "not measured"
    why = headline(detail_text(view.ablated.failure))
    return f"{outcome_text(view.ablated.failure.kind)}: {why}" if why else outcome_text(view.ablated.failure.kind)


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}×"
