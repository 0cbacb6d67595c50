"""Assembles the sections of a search's report, in reading order."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from evo.report.document import Block, Document, Section
from evo.report.material import Material, Terms
from evo.report.sections.ablation import ablation_blocks
from evo.report.sections.effort import effort_blocks
from evo.report.sections.findings import importance_blocks, negative_blocks, never_blocks, outcome_blocks
from evo.report.sections.goals import goal_blocks
from evo.report.sections.subject import command_blocks, environment_blocks, subject_blocks
from evo.report.sections.times import front_blocks, limit_blocks, progress_blocks, sample_blocks, verdict_blocks

Sections: TypeAlias = Mapping[str, Iterable[Block]]
"""Blocks of each section, by the section's title."""


def search_report(material: Material, terms: Terms) -> Document:
    """Return the whole report of a search.

    Args:
        material: the data to report.
        terms: targets and rates given by the user.
    """
    sections: Sections = {
        "Search": subject_blocks(material),
        "Targets and decision": goal_blocks(material, terms),
        **({} if material.front is None else {"Pareto front": front_blocks(material.front, material.search.objective)}),
        **(_estimates(material) if material.search.estimated else _times(material)),
        "Outcomes": outcome_blocks(material),
        "Time and cost": effort_blocks(material, terms),
        "Environment": environment_blocks(material),
        "Repeat the search": command_blocks(material),
    }
    title = f"{material.search.subject}: search {material.search.id}"
    return Document(title, tuple(Section(name, tuple(blocks)) for name, blocks in sections.items()))


def _times(material: Material) -> Sections:
    return {
        "Best so far": progress_blocks(material),
        "Samples": sample_blocks(material),
        "Verdicts": verdict_blocks(material),
        "Share of the limit": limit_blocks(material),
        "Important tunables": importance_blocks(material),
        "Ablation of the champion": ablation_blocks(material),
        "Values without gain": negative_blocks(material),
    }


def _estimates(material: Material) -> Sections:
    """Return the sections that replace the sections on measured times in a report on estimates."""
    return {
        "Best estimate so far": progress_blocks(material),
        "Share of the limit": limit_blocks(material),
        "Values without an estimate": never_blocks(material),
    }
