"""The text that identifies a problem stays the same when a family gets additional fields."""

import pytest

from evo.errors import InvalidInput
from evo.family import Family
from templates.registry import find
from tests.unit.family_document import document


@pytest.mark.parametrize(
    ("name", "given", "key"),
    [
        ("sdpa", "B=1,H=2,S=64,D=64", "B=1,H=2,S=64,D=64,causal=false,dtype=float32"),
        ("sdpa", "B=1,H=2,S=64,D=64,window=16,causal=true", "B=1,H=2,S=64,D=64,causal=true,window=16,dtype=float32"),
        ("rmsnorm", "rows=8,cols=64", "rows=8,cols=64,dtype=float32"),
        ("layernorm", "rows=8,cols=64", "rows=8,cols=64,dtype=float32"),
        ("layernorm", "rows=8,cols=64,residual=false", "rows=8,cols=64,residual=false,dtype=float32"),
    ],
)
def test_problem_key_omits_later_fields_at_their_default(name: str, given: str, key: str) -> None:
    family = find(name).family
    problem = family.problem(given, "cpu")
    assert sorted(family.problem_key(problem).split(",")) == sorted(key.split(","))
    assert family.problem(family.problem_key(problem), "cpu") == problem


def test_omit_default_key_requires_a_default_value() -> None:
    made = document()
    made["problem"]["extra"] = {"type": "int", "omit_default": True}
    with pytest.raises(InvalidInput, match=r"problem\.extra\.omit_default: applies only to fields with a default"):
        Family.from_document(made)
