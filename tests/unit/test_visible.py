"""Control characters of untrusted text are escaped in terminals and logs."""

import io
import json
import sys
import unicodedata

import pytest
import structlog
from rich.text import Text as RichText

from api.operations.logs import configure
from evo.cli.console.output import console, facts, print_json, table
from evo.cli.main import complain
from evo.report.document import Code, Document, Listed, Section, Text, to_markdown
from evo.text.visible import on_one_line, visible, visible_json

ACTIVE = [
    "\x1b]0;title\x07",
    "\x1b[31m",
    "\x9b31m",
    "\r",
    "\x08",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\U000e0041",
    "\xad",
    "\u034f",
    "\u115f",
    "\u180e",
    "\u180b",
    "\u2065",
    "\u2800",
    "\ufe00",
    "\ufff0",
    "\u2063",
    "\u206e",
    "\u3164",
    "\ufff9",
    "\U0001d173",
    "\U000e0101",
]
SAFE = "tab\tline\nµs × ü 日本語 👩‍💻 ⚠\ufe0f [bold] \\x1b"


def _acts(text: str) -> list[str]:
    return [f"{letter!r}" for letter in text if letter not in "\n\t" and visible(letter) != letter]


@pytest.mark.parametrize("text", ACTIVE)
def test_control_characters_become_escapes(text: str) -> None:
    shown = visible(f"a{text}b")
    assert shown.startswith("a\\") and shown.endswith("b")
    assert not _acts(shown)
    assert visible(shown) == shown


def test_text_without_control_characters_is_unchanged() -> None:
    assert visible(SAFE) == SAFE


def test_every_invisible_character_is_escaped() -> None:
    """Format characters (category Cf) are escaped. Exceptions are joiners, which emoji need, and number signs."""
    kept = {"\u200c", "\u200d", *map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD])}
    every = map(chr, range(0x110000))
    active = {each for each in every if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n", "\t"}
    assert {each for each in active if visible(each) == each} <= kept


@pytest.mark.parametrize("text", ACTIVE)
def test_escaped_json_keeps_its_meaning(text: str) -> None:
    written = visible_json(json.dumps({"a": text}, ensure_ascii=False))
    assert not _acts(written)
    assert json.loads(written) == {"a": text}


@pytest.mark.parametrize("text", [each for each in ACTIVE if each != "\ud800"])
def test_console_output_escapes_control_characters(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows, grid = table("name", title=f"title {text}"), facts()
    rows.add_row(f"cell {text}")
    rows.add_row(RichText(f"rich {text}", "bold"))
    grid.add_row(f"fact {text}", RichText(f"value {text}"))
    out = console()
    out.print(rows, grid)
    out.print(f"line {text}")
    console(stderr=True).print(f"line {text}")
    complain(f"error {text}")
    print_json({"name": text})
    said = capsys.readouterr()
    assert not _acts(said.out + said.err)
    assert "cell \\" in said.out and "fact \\" in said.out and "error \\" in said.err


def test_console_keeps_its_own_colours_and_escapes_colour_codes_in_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    console().print(RichText("name \x1b[32m", "red"))
    assert "\x1b[31m" in terminal.getvalue()
    assert "\x1b[32m" not in terminal.getvalue()


def test_square_brackets_in_table_cells_are_printed_literally(capsys: pytest.CaptureFixture[str]) -> None:
    rows, grid = table("name"), facts()
    rows.add_row("[/red] [link=http://example.org]x[/link]")
    grid.add_row("name", "[/red]")
    console().print(rows, grid)
    assert "[/red] [link=http://example.org]x[/link]" in capsys.readouterr().out


@pytest.mark.parametrize("text", ACTIVE)
def test_markdown_reports_escape_control_characters(text: str) -> None:
    blocks = (Text(text), Listed(head=("a", text), rows=((text, "b"),)), Code(text))
    assert not _acts(to_markdown(Document(title=text, sections=(Section(title=text, blocks=blocks),))))


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("text", [each for each in ACTIVE if each != "\ud800"])
def test_logs_escape_control_characters(form: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    try:
        configure(form, "info")  # type: ignore[arg-type]
        try:
            raise ValueError(f"error {text}")
        except ValueError:
            structlog.get_logger().exception(f"event {text}", name=text, several=[text])
    finally:
        structlog.configure(**before)
    assert not _acts(capsys.readouterr().err)


def test_error_message_escapes_line_breaks_of_the_arguments() -> None:
    words = ["search", "--db=a\nb.db", "x\ty=3"]
    message = "no database at /tmp/a\nb.db; there is no `x\ty`\n  details: here"
    assert on_one_line(message, words) == "no database at /tmp/a\\nb.db; there is no `x\\ty`\n  details: here"
