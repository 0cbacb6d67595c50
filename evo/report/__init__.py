"""Report of a search: results, tunable values that gave no gain, time and cost, and a decision."""

from evo.report.assembly import search_report
from evo.report.document import Code, Document, Listed, Picture, Section, Text, to_markdown
from evo.report.material import Example, Found, Front, FrontRow, Goal, Material, Spent, Terms, parse_goals

__all__ = [
    "Code",
    "Document",
    "Example",
    "Found",
    "Front",
    "FrontRow",
    "Goal",
    "Listed",
    "Material",
    "Picture",
    "Section",
    "Spent",
    "Terms",
    "Text",
    "parse_goals",
    "search_report",
    "to_markdown",
]
