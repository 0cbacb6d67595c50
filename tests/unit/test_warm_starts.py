"""A new search first tries champions of similar problems, then starting configs of the family, then the default."""

from types import SimpleNamespace
from typing import Any

import pytest

from api.scheduler.submission import completed, warm_starts
from evo.family import Family
from evo.space import Space
from evo.space.expression import Expression
from evo.space.tunable import Constraint, Tunable
from evo.trial import Config
from evo.trial.objective import Objective
from tests.unit.family_document import CPU, edited

SPACE = Space([Tunable(name="BLOCK", values=(8, 16, 32, 64), default=8)])
STARTS = [
    {"expression": "ROWS >= 64 and cores > 1", "config": {"TILE": 8, "ORDER": "rows"}, "because": "many rows"},
    {"expression": "ROWS >= 64", "config": {"TILE": 4}, "because": "many rows"},
    {"expression": "ROWS < 64", "config": {"TILE": 2}, "because": "few rows"},
]
TERMS: dict[str, Any] = {"objective": Objective()}


def champion(number: int, model: str, s: int, block: int) -> Any:
    return SimpleNamespace(id=number, device_model=model, problem={"S": s}, config={"BLOCK": block}, **TERMS)


@pytest.fixture
def family() -> Any:
    """Return a fake family with two starting configs, one of which is outside the space."""
    return SimpleNamespace(begin=lambda problem, device: [{"BLOCK": 128}, {"BLOCK": 64}])


def test_warm_starts_are_similar_champions_then_starting_configs_then_the_default(
    family: Any,
) -> None:
    search: Any = SimpleNamespace(device=SimpleNamespace(model="A"), problem={"S": 512}, **TERMS)
    others = [champion(1, "A", 4096, 32), champion(2, "A", 256, 16), champion(3, "B", 512, 64)]
    expected = [{"BLOCK": 16}, {"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 8}]
    assert warm_starts(SPACE, search, family, others) == expected


def test_incomplete_starting_config_gets_the_declared_defaults() -> None:
    """A constraint requires BLOCKS = 2 if rows are kept in registers, but not in shared memory."""
    text = "KEEP == 'shared' or BLOCKS == 2"
    together = Constraint(expression=Expression.parse(text, "here"), because="a row must fit")
    space = Space(
        [
            Tunable(name="BLOCKS", values=(1, 2, 4), default=1),
            Tunable(name="KEEP", values=("registers", "shared"), default="registers"),
        ],
        constraints=[together],
    )
    assert space.default() == {"BLOCKS": 2, "KEEP": "registers"}
    parts: list[Config] = [{"KEEP": "shared"}, {"KEEP": "registers"}, {"BLOCKS": 4}, {"BLOCKS": 4, "KEEP": "shared"}]
    assert completed(space, parts) == [
        {"BLOCKS": 1, "KEEP": "shared"},
        {"BLOCKS": 2, "KEEP": "registers"},
        {"BLOCKS": 4, "KEEP": "shared"},
    ]


def test_starting_configs_depend_on_problem_and_device() -> None:
    family = Family.from_document(edited("cpu.starts", STARTS))
    assert family.begin({"ROWS": 64, "COLS": 8, "squared": False, "dtype": "float32"}, CPU) == [
        {"TILE": 8, "ORDER": "rows"},
        {"TILE": 4},
    ]
