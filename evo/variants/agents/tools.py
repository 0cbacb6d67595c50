"""Tools for agents that work with variants. The docstring of each method in `Tools.all` is the tool's description."""

import difflib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from evo.client import Client
from evo.errors import InvalidInput
from evo.messages.view import VariantSource, VariantView
from evo.report.brief import MOST_TOKENS, brief_markdown
from evo.text.visible import fenced, visible
from evo.text.wording import count_text, outcome_text, over_limit_text, percent_text, settings_text

LOOK_S = 0.5
LEAST_TOKENS = 500
LONGEST_WAIT_S = 600.0


class Tools:
    """Tools that submit variants to one service, and read their results.

    Args:
        service: returns the current client. It is called for each request, because the service's address may change
            when it restarts.
        author: name that is stored with each variant.
    """

    def __init__(self, service: Callable[[], Client], *, author: str = "agent") -> None:
        self._service = service
        self._author = author

    def searches(self) -> str:
        """List the newest searches: id, family, problem, device and state. Each variant belongs to a search."""
        found = self._service().searches(limit=50).items
        lines = [f"{each.id}: {each.subject} {each.problem_key} on {each.place}, {each.state}" for each in found]
        return visible("\n".join(lines) or "There is no search yet; start one with `kernel-evo search FAMILY`.")

    def brief(self, search: int, most_tokens: int = MOST_TOKENS) -> str:
        """Return the brief for a variant's author: contract, device, best variants with sources, failed variants."""
        if most_tokens < LEAST_TOKENS:
            raise InvalidInput(
                "most_tokens", f"{most_tokens} is too few for the contract; accepted: {LEAST_TOKENS} or more"
            )
        return brief_markdown(self._service().variant_brief(search), most_tokens=most_tokens)

    def submit(
        self,
        search: int,
        files: dict[str, str],
        idea: str,
        *,
        name: str = "",
        table: dict[str, Any] | None = None,
        parents: list[int] | None = None,
        trials: int | None = None,
        wait_s: float = 300.0,
    ) -> str:
        """Submit a variant. The service compiles it, checks it on every case, times it and tunes it.

        `files` contains sources by file name. `table` contains the keys of [cpu] or [cuda] in family.toml that
        differ from the parent's. `parents` contains the numbers of the parent variants; 0 is the family's own
        implementation. `trials` is the maximum number of trials. The tool returns the results, or why the variant
        failed. If it takes longer than `wait_s` seconds, call `result` later.
        """
        document = {**(table or {}), "idea": idea, "author": self._author} | ({"name": name} if name else {})
        view = self._service().submit_variant(search, files, document=document, parents=parents or [0], trials=trials)
        return self.result(view.search_id, view.number, wait_s=wait_s)

    def result(self, search: int, variant: int, wait_s: float = 0.0) -> str:
        """Return the state of a variant, its best config and time, and the reasons why trials failed.

        The tool waits up to `wait_s` seconds, and at most 600, for the variant's trials to end.
        """
        deadline = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        view = self._service().variant(search, variant)
        while not view.ended and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            view = self._service().variant(search, variant)
        return feedback(view)

    def compare(self, search: int, one: int, other: int) -> str:
        """Return the results of two variants, and a diff of their sources."""
        client = self._service()
        views = [client.variant(search, number) for number in (one, other)]
        difference = "".join(differences(*(client.variant_source(search, number) for number in (one, other))))
        figures = "\n\n".join(map(feedback, views))
        return f"{figures}\n\n{fenced(visible(difference), 'diff')}"

    def source(self, search: int, variant: int) -> str:
        """Return the source files of a variant, and its table (the keys of [cpu] or [cuda] in family.toml)."""
        found = self._service().variant_source(search, variant)
        texts = "\n".join(f"### {name}\n{fenced(text)}" for name, text in found.files.items())
        return visible(f"table: {dict(found.table)}\n\n{texts}")

    @property
    def all(self) -> Sequence[Callable[..., str]]:
        return (self.searches, self.brief, self.submit, self.result, self.compare, self.source)


def feedback(view: VariantView) -> str:
    """Return the state and results of a variant, and the reasons why trials failed, as text."""
    return visible("\n".join(_feedback(view)))


def _feedback(view: VariantView) -> Iterator[str]:
    reason = "" if view.reason is None else f" ({view.reason})"
    yield f"Variant {view.number} of search {view.search_id} ({view.name}): {view.state}{reason}."
    yield f"{count_text(view.finished, 'trial')} ended{'' if view.ended else '; more will follow'}."
    if view.best is not None:
        yield f"Best: {view.best_text} with {settings_text(view.best.config)}."
    if view.ratio is not None:
        yield f"That is {view.ratio_text}."
    if view.speedup_text:
        yield f"Speed-up: {view.speedup_text}."
    if view.share is not None:
        yield f"It reaches {percent_text(view.share)} of the limit of the device."
        if reason := over_limit_text(view.share):
            yield reason
    if view.champion:
        yield "Its best config is the champion of the problem."
    for failure in view.failures:
        counted = count_text(failure.count, "trial")
        first = settings_text(failure.config)
        yield f"{counted}: {outcome_text(failure.outcome)}. The first ({first}):\n{failure.detail}"


def differences(one: VariantSource, other: VariantSource) -> Iterator[str]:
    """Yield the lines of a unified diff of two variants' files and tunables."""
    texts = [_texts(each) for each in (one, other)]
    if len(one.files) == len(other.files) == 1:
        pairs = [(next(iter(one.files)), next(iter(other.files)))]
    else:
        pairs = [(name, name) for name in sorted({*one.files, *other.files})]
    for before, after in [*pairs, ("tunables", "tunables")]:
        yield from difflib.unified_diff(
            texts[0].get(before, "").splitlines(keepends=True),
            texts[1].get(after, "").splitlines(keepends=True),
            f"{one.number}/{before}",
            f"{other.number}/{after}",
        )


def _texts(source: VariantSource) -> Mapping[str, str]:
    tunables = source.table.get("tunables", {})
    listed = "".join(f"{name} = {each}\n" for name, each in tunables.items())
    return {name: text if text.endswith("\n") else f"{text}\n" for name, text in source.files.items()} | {
        "tunables": listed
    }
