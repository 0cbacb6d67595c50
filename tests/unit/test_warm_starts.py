"""What a new search tries first."""

from types import SimpleNamespace
from typing import Any

from api.submission import warm_starts
from evo.objective import Objective
from evo.space import Space
from evo.space.tunable import Tunable

SPACE = Space([Tunable(name="BLOCK", values=(8, 16, 32, 64), default=8)])
TERMS: dict[str, Any] = {"objective": Objective()}


def champion(number: int, model: str, s: int, block: int) -> Any:
    return SimpleNamespace(id=number, device_model=model, problem={"S": s}, config={"BLOCK": block}, **TERMS)


def test_champions_of_near_problems_on_this_model_come_first_then_the_default() -> None:
    search: Any = SimpleNamespace(device=SimpleNamespace(model="A"), problem={"S": 512}, **TERMS)
    others = [champion(1, "A", 4096, 32), champion(2, "A", 256, 16), champion(3, "B", 512, 64)]
    assert warm_starts(SPACE, search, others) == [{"BLOCK": 16}, {"BLOCK": 32}, {"BLOCK": 8}]
