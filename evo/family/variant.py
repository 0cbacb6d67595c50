"""Name, author and idea of a variant: a proposed implementation of a family that exists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.family.table import Table

WORD = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
LONGEST_IDEA = 4000
LONGEST_AUTHOR = 200


@dataclass(frozen=True, kw_only=True)
class VariantNote:
    """The variant that a family document implements.

    Attributes:
        name: distinguishes it from the other variants of its search.
        author: a person, an agent or a model.
        idea: its difference from other variants, in words.
        parents: names of the variants from which it is derived.
    """

    name: str
    author: str = ""
    idea: str = ""
    parents: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return the ``variant`` table of a family document."""
        return {"name": self.name, "author": self.author, "idea": self.idea, "parents": list(self.parents)}


def read_variant(table: Table) -> VariantNote:
    """Read the ``variant`` table of a family document."""
    note = VariantNote(
        name=table.line("name"),
        author=table.line("author", ""),
        idea=table.text("idea", ""),
        parents=tuple(table.texts("parents")) if "parents" in table else (),
    )
    table.done()
    return note
