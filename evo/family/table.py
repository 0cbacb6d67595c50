"""Strict reader for the tables of a document: unknown keys are errors."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from evo.errors import InvalidInput
from evo.space.expression import Expression, Scope
from evo.text.document import literal_text
from evo.text.limits import refuse_invisible
from evo.text.suggestion import unknown
from evo.text.toml_values import MAX_SHOWN, as_flag, as_list, as_number, as_text, split_outside_brackets

MAX_ENTRIES = 200
MAX_TEXT = 10_000


class Table:
    """One table of a document. The object records the keys that were read, so that `done` can refuse unknown keys.

    Args:
        content: the parsed table.
        where: name of the document, e.g. ``family.toml``.
        path: dotted path of this table; empty for the whole document.

    Raises:
        InvalidInput: (every method) a value is missing or not accepted. The error's field is the dotted path of the
            value; the message states what is accepted.
    """

    def __init__(self, content: object, where: str, path: str = "") -> None:
        self.where = where
        self.path = path
        if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
            raise InvalidInput(
                self.field(), f"must be a table (KEY = VALUE pairs), not {literal_text(content)}{_as_table(content)}"
            )
        if len(content) > MAX_ENTRIES:
            raise InvalidInput(self.field(), f"has {len(content)} entries; at most {MAX_ENTRIES} are accepted")
        self._content = content
        self._asked: dict[str, None] = {}

    def field(self, key: str = "") -> str:
        """Return the location of a key, or of this table, as shown in errors, e.g. ``family.toml: cpu.flags``."""
        path = ".".join(part for part in (self.path, key) if part)
        return f"{self.where}: {path}" if path else self.where

    def __contains__(self, key: str) -> bool:
        self._asked[key] = None
        return key in self._content

    def names(self) -> list[str]:
        """Return all keys. Use this for a table whose keys the author chooses."""
        self._asked.update(dict.fromkeys(self._content))
        return list(self._content)

    def done(self) -> None:
        """Raise `InvalidInput` for the first key that was not read, if there is one."""
        for key in self.unread():
            raise InvalidInput(self.field(key), unknown(key, self._asked, "keys of this table"))

    def unread(self) -> list[str]:
        """Return the keys that were not read."""
        return [key for key in self._content if key not in self._asked]

    def raw(self, key: str, what: str = "a value") -> Any:
        """Return the value of a required key without checking its type. If it is missing, the error asks for `what`."""
        if key not in self:
            like = difflib.get_close_matches(key.lower(), map(str.lower, self.unread()), n=1, cutoff=0.8)
            meant = next((f" (found `{each}` instead)" for each in self.unread() if each.lower() in like), "")
            raise InvalidInput(self.field(key), f"is missing{meant}; set it to {what}")
        return self._content[key]

    def text(
        self, key: str, default: str | None = None, *, pattern: re.Pattern[str] | None = None, what: str = ""
    ) -> str:
        """Return the value of a key, which must be a string that is not blank.

        Args:
            default: value if the key is absent; None if the key is required. With a default, blank strings
                are accepted.
            pattern: pattern that the whole string must match; None if there is none.
            what: noun phrase for the accepted strings, used in error messages.
        """
        if default is not None and key not in self:
            return default
        value = self.raw(key, what or "a string")
        self._check_length(key, value)
        if not isinstance(value, str) or not (value.strip() or default is not None):
            fits = not what or (pattern is not None and pattern.fullmatch(str(value)))
            written = as_text(key, value) if fits else ""
            raise InvalidInput(self.field(key), f"must be {what or 'a string'}, not {literal_text(value)}{written}")
        if pattern and not pattern.fullmatch(value):
            word = re.sub(r"\W+", "_", value, flags=re.ASCII).strip("_")
            meant = next((each for each in (word, f"x{word}") if pattern.fullmatch(each)), "")
            written = f"; write {json.dumps(meant)}" if meant else ""
            raise InvalidInput(self.field(key), f"{literal_text(value)} is not {what}{written}")
        return value

    def line(self, key: str, default: str | None = None, *, what: str = "") -> str:
        """Return the value of a key, which must be a string without line breaks or invisible characters.

        Args:
            default: value if the key is absent; None if the key is required. With a default, blank strings
                are accepted.
            what: noun phrase for the accepted strings, used in error messages.
        """
        return refuse_invisible(self.field(key), self.text(key, default, what=what))

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.raw(key, f"one of {', '.join(choices)}")
        if not isinstance(value, str) or value not in choices:
            name = value if isinstance(value, str) else literal_text(value)
            raise InvalidInput(self.field(key), unknown(name, choices, "choices"))
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._content[key] if key in self else default
        if not isinstance(value, bool):
            raise InvalidInput(
                self.field(key), f"must be true or false, not {literal_text(value)}{as_flag(key, value)}"
            )
        return value

    def whole(self, key: str, default: int) -> int:
        value = self._content[key] if key in self else default
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(
                self.field(key), f"must be a whole number, not {literal_text(value)}{as_number(key, value, whole=True)}"
            )
        return value

    def decimal(self, key: str, default: float) -> float:
        """Return the value of a key, which must be a number, as float; the default if the key is absent."""
        value = self._content[key] if key in self else default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(
                self.field(key), f"must be a number, not {literal_text(value)}{as_number(key, value, whole=False)}"
            )
        try:
            return float(value)
        except OverflowError:
            raise InvalidInput(self.field(key), "must be a number of at most 308 digits") from None

    def texts(self, key: str) -> list[str]:
        values = self.sequence(key, of_strings=True)
        for index, value in enumerate(values):
            where = f"{key}[{index}]"
            if not isinstance(value, str):
                raise InvalidInput(
                    self.field(where), f"must be a string, not {literal_text(value)}{as_text(where, value)}"
                )
            if not value.strip():
                raise InvalidInput(self.field(where), "is empty; remove it")
            self._check_length(where, value)
        return values

    def _check_length(self, key: str, value: object) -> None:
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise InvalidInput(self.field(key), f"is {len(value):,} characters long; the limit is {MAX_TEXT:,}")

    def sequence(self, key: str, *, of_strings: bool = False) -> list[Any]:
        """Return the value of a key, which must be a list; an empty list if the key is absent.

        Args:
            of_strings: True if the entries must be strings. Error messages then do not suggest numbers.
        """
        value = self._content[key] if key in self else []
        if not isinstance(value, list | tuple):
            raise InvalidInput(
                self.field(key),
                f"must be a list, not {literal_text(value)}{as_list(key, value, of_strings=of_strings)}",
            )
        return list(value)

    def table(self, key: str) -> "Table":
        """Return the value of a key, which must be a table; an empty table if the key is absent."""
        return Table(self._content[key] if key in self else {}, self.where, self._below(key))

    def tables(self, key: str, *, example: str = "") -> list["Table"]:
        """Return the value of a key, which must be a list of tables; an empty list if the key is absent.

        Args:
            example: content of a table with a placeholder, e.g. ``expression = {}``. If an entry is a string instead of
                a table, the error suggests this table, with the string in place of the placeholder.
        """
        if example and isinstance(text := self._content.get(key), str) and len(text) <= MAX_SHOWN:
            written = f"{key} = [{{ {example.format(json.dumps(text, ensure_ascii=False))} }}]"
            raise InvalidInput(self.field(key), f"must be a list of tables; write {written}")
        entries = self.sequence(key)
        for index, entry in enumerate(entries):
            if example and isinstance(entry, str):
                text = entry if len(entry) <= MAX_SHOWN else "…"
                written = example.format(json.dumps(text, ensure_ascii=False))
                raise InvalidInput(self.field(f"{key}[{index}]"), f"must be a table; write {{ {written} }}")
        if len(entries) > MAX_ENTRIES:
            raise InvalidInput(self.field(key), f"has {len(entries)} entries; at most {MAX_ENTRIES} are accepted")
        return [Table(entry, self.where, self._below(f"{key}[{index}]")) for index, entry in enumerate(entries)]

    def named_tables(self) -> Iterator[tuple[str, "Table"]]:
        """Yield each key of this table with its value, which must be a table."""
        for key in self.names():
            yield key, self.table(key)

    def expression(self, key: str, default: str | None = None) -> Expression:
        """Return the value of a key as an expression. The value may be a string, a number or a bool.

        Args:
            default: text of the expression if the key is absent; None if the key is required.
        """
        value = default if default is not None and key not in self else self.raw(key, "an expression in quotes")
        return self._expression(value, key)

    def expression_over(self, key: str, scope: Scope) -> Expression:
        """Return the value of a required key as an expression. All its names must be in `scope`."""
        return self._expression(self.raw(key, "an expression in quotes"), key, scope).check_names(scope)

    def expressions(self, key: str) -> list[Expression]:
        found = []
        for index, value in enumerate(self.sequence(key)):
            parts = split_outside_brackets(value) if isinstance(value, str) else []
            if len(parts) > 1 and all(map(str.strip, parts)):
                several = ", ".join(json.dumps(part.strip(), ensure_ascii=False) for part in parts)
                raise InvalidInput(
                    self.field(f"{key}[{index}]"), f"{literal_text(value)} has several expressions; write {several}"
                )
            found.append(self._expression(value, f"{key}[{index}]"))
        return found

    def _expression(self, value: object, key: str, scope: Scope = ()) -> Expression:
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
            written = f"; write {json.dumps(value[0], ensure_ascii=False)}"
            raise InvalidInput(self.field(key), f"must be an expression in quotes, not {literal_text(value)}{written}")
        if isinstance(value, float) and not isfinite(value):
            raise InvalidInput(self.field(key), f"must be a finite number or an expression in quotes, not {value}")
        text = value if isinstance(value, str) else repr(value) if isinstance(value, bool | int | float) else ""
        if not text.strip():
            raise InvalidInput(self.field(key), f"must be an expression in quotes, not {literal_text(value)}")
        return Expression.parse(text, self.field(key), scope).check_meaning()

    def _below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def _as_table(value: object) -> str:
    """Return the suggestion to write a string such as ``A=1, B=x`` as a table; empty for other values."""
    pairs = [part.partition("=") for part in value.split(",")] if isinstance(value, str) else []
    if (
        not pairs
        or len(pairs) > MAX_ENTRIES
        or not all(name.strip().isidentifier() and text for name, _, text in pairs)
    ):
        return ""
    values = {name.strip(): text.strip() for name, _, text in pairs}
    written = (
        f"{name} = {text if re.fullmatch(r'-?[1-9][0-9]*|0|true|false', text) else json.dumps(text)}"
        for name, text in values.items()
    )
    return f"; write {{ {', '.join(written)} }}"
