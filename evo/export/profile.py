"""Profiler counters of a champion and of the kernel it replaced, as Markdown."""

from evo.export.table import table
from evo.messages.view import ChampionView
from evo.promotion.rules.profile import profile_rows


def profile_markdown(champion: ChampionView) -> str | None:
    """Return ``profile_summary.md``; None if no profile was requested."""
    section = profile_section(champion)
    if section is None:
        return None
    head = (
        f"# {champion.family}: profile of champion {champion.id}\n\n`{champion.problem_key}` on {champion.device_model}"
    )
    return f"{head}\n\n{section}\n"


def profile_section(champion: ChampionView) -> str | None:
    """Return the table of both kernels with the gates of the policy, or the reason why there is none."""
    profiles = champion.report.profiles if champion.report is not None else {}
    if not profiles:
        return None
    skipped = [
        f"Of the {side} no profile was taken: {each.skipped}." for side, each in profiles.items() if each.skipped
    ]
    rows = profile_rows(profiles)
    tool = next(iter(profiles.values())).tool
    parts = [
        f"Counted by {tool}, one launch each, at the current clocks. Its times are not measurements; the samples are.",
        table(("", "champion", "incumbent before", "change"), rows) if rows else "",
        " ".join(skipped),
        *(
            f"Gates: {rule.text}"
            for rule in (champion.verdict.rules if champion.verdict else ())
            if rule.name == "profile"
        ),
    ]
    return "\n\n".join(part for part in parts if part)
