"""All kinds of proposers are discovered, and the folder proposer submits its variants."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.cli.files.variant import read_variant_files
from evo.errors import Conflict, InvalidInput, NotFound
from evo.variants import proposers
from evo.variants.proposers import PROPOSERS, Context, build


def context(said: list[str]) -> Context:
    return Context(argument="", trials=2, say=said.append, read=read_variant_files)


def test_every_proposer_of_the_package_is_discovered() -> None:
    folder = Path(proposers.__file__).parent
    modules = {f"evo.variants.proposers.{path.stem}" for path in folder.glob("*.py")}
    found = {each.__module__ for each in PROPOSERS.values()}
    assert found == {name for name in modules if not name.endswith(("base", "__init__"))}
    assert {"anthropic", "folder", "openai"} <= set(PROPOSERS)


@pytest.mark.parametrize("wrong", ["folder", "folder:", "gpt:5"])
def test_error_for_an_unknown_proposer_lists_the_known_kinds(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=f"--proposer.*{', '.join(sorted(PROPOSERS))}"):
        build(wrong, context([]))


def test_proposer_argument_may_contain_colons(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a:b is not a folder"):
        build(f"folder:{tmp_path}/a:b", context([]))


def test_folder_proposer_without_variants_for_the_problem_is_refused(tmp_path: Path) -> None:
    proposer = build(f"folder:{tmp_path}", context([]))
    with pytest.raises(NotFound, match="no variants for this problem"):
        next(proposer.propose(lambda: pytest.fail("the proposer must not use the service"), 1, "p"))


def test_folder_proposer_continues_after_a_refused_variant(tmp_path: Path) -> None:
    """The proposer submits variants in the order of names, and waits for the outcome of each variant."""
    (tmp_path / "p").mkdir()
    for name in ("b.c", "a.c", ".hidden"):
        (tmp_path / "p" / name).write_text(name)
    best = SimpleNamespace(time_us=1.5)
    pending = SimpleNamespace(ended=False, number=1)
    ended = SimpleNamespace(ended=True, name="b", best=best, tuning_gain=1.25, finished=2)

    def submit(search_id: int, files: Any, **terms: Any) -> Any:
        if "a.c" in files:
            raise Conflict("a variant has that name")
        assert (search_id, terms) == (3, {"document": {"name": "b"}, "parents": (0,), "trials": 2})
        return pending

    client: Any = SimpleNamespace(
        variant_brief=lambda _: SimpleNamespace(tried=()), submit_variant=submit, variant=lambda *_: ended
    )
    said = list[str]()
    assert list(build(f"folder:{tmp_path}", context(said)).propose(lambda: client, 3, "p")) == [None]
    assert [line for line in said if "brief" not in line] == [
        "p: a.c was refused: a variant has that name",
        "p: b: 1.5 µs in 2 trials, tuning gain 1.25×",
    ]
