"""Source listings and text differences on pages escape untrusted text."""

from hypothesis import given
from hypothesis import strategies as st

from api.web.content.difference import difference
from api.web.content.listing import MOST_CHARACTERS, MOST_LINES, listing
from api.web.content.rule_figures import threshold_text
from api.web.filters import coded
from evo.promotion import Rule

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "<b>"]), max_size=12)


def test_source_listing_is_highlighted_line_by_line() -> None:
    text = "/* two\n   lines */\nint x = 1;\n\n#define Y <script>\n"
    shown = listing(text, "c")
    assert len(shown.lines) == 5
    assert shown.cut == 0
    assert all(line.count("<span") == line.count("</span>") for line in shown.lines)
    assert '<span class="k-kt">int</span>' in shown.lines[2]
    assert "<script>" not in "".join(shown.lines)


def test_log_listing_is_escaped() -> None:
    assert listing("error: <script>alert(1)</script>").lines == ("error: &lt;script&gt;alert(1)&lt;/script&gt;",)


def test_only_the_beginning_of_a_long_listing_is_shown() -> None:
    many = listing("x\n" * (MOST_LINES + 5))
    assert (len(many.lines), many.cut) == (MOST_LINES, 5)
    endless = listing("y" * (MOST_CHARACTERS * 2) + "\nz")
    assert (len(endless.lines), endless.cut) == (1, 1)
    assert len(endless.lines[0]) <= MOST_CHARACTERS + 2
    assert listing("").lines == ()


@given(LINES, LINES)
def test_text_difference_agrees_with_the_lines_of_both_texts(left: list[str], right: list[str]) -> None:
    found = difference(left, right)
    pairs = [(line.left, line.right) for hunk in found.hunks for line in hunk.lines]
    assert all(one is None or left[one.number - 1] == one.text for one, _ in pairs)
    assert all(other is None or right[other.number - 1] == other.text for _, other in pairs)
    shown = [line for hunk in found.hunks for line in hunk.unified]
    assert sum(line.kind == "added" for line in shown) == found.added
    assert sum(line.kind == "removed" for line in shown) == found.removed
    assert len(right) - len(left) == found.added - found.removed
    assert (left == right) == (not found.hunks)


def test_text_difference_omits_unchanged_lines() -> None:
    left = [str(index) for index in range(100)]
    found = difference(left, [*left[:50], "new", *left[51:90], *left[91:]])
    first, second = found.hunks
    assert (first.skipped, second.skipped) == (47, 33)
    assert [line.kind for line in first.unified] == [*["same"] * 3, "removed", "added", *["same"] * 3]
    assert [line.kind for line in first.lines] == [*["same"] * 3, "changed", *["same"] * 3]
    assert [line.kind for line in second.lines].count("removed") == 1


def test_threshold_of_the_agreement_rule_is_shown_as_upper_or_lower_limit() -> None:
    ends = {(2.78, 2.93, True): "≤", (2.5, 2.4, True): "≥", (3.1, 2.93, False): "≤", (2.1, 2.4, False): "≥"}
    for (figure, threshold, passed), side in ends.items():
        rule = Rule(name="agreement", passed=passed, figure=figure, threshold=threshold, text="", required=False)
        assert threshold_text(rule) == f"{side} {threshold:.2f}× as fast"


def test_text_between_backticks_becomes_code_on_pages() -> None:
    assert coded("`a <b>` turns & turns") == "<code>a &lt;b&gt;</code> turns &amp; turns"
    assert coded("one ` alone") == "one ` alone"
