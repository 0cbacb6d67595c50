"""Hidden cases have other shapes than the timed case, even if the timed shape is small."""

import pytest

from evo.errors import InvalidInput
from templates.registry import find

SIZES = (1, 2, 7, 8, 13, 14, 16, 24, 31, 32, 48, 63, 64, 96, 128, 272, 1000, 4096)
FAMILIES = (
    ("sdpa", "B=1,H=2,S={}"),
    ("sdpa_ladder", "B=1,H=2,S={}"),
    ("sdpa_fp8", "B=1,H=2,S={},v_layout=rows"),
    ("sdpa_fp8", "B=1,H=2,S={},v_layout=columns"),
    ("sdpa_decode", "B=1,H=2,KV=2,S={}"),
    ("quantize_e4m3", "B=1,H=2,S={},layout=rows"),
    ("quantize_e4m3", "B=1,H=2,S={},layout=columns"),
    ("softmax", "rows=5,cols={}"),
    ("rmsnorm", "rows=5,cols={}"),
    ("layernorm", "rows=5,cols={}"),
    ("transpose", "rows=5,cols={}"),
    ("reduce", "rows=5,cols={}"),
    ("gemm", "M=5,N=8,K={}"),
    ("gemm_fp8", "M=5,N=16,K={}"),
)


@pytest.mark.parametrize(("family", "text"), FAMILIES)
def test_hidden_cases_differ_from_the_searched_problem(family: str, text: str) -> None:
    subject, compared = find(family).family, 0
    for size in SIZES:
        for target in subject.implementations:
            try:
                problem = subject.problem(text.format(size), target)
            except InvalidInput:
                continue
            for each in subject.case_problems(problem, target):
                if each.case.hidden and each.problem is not None:
                    compared += 1
                    its_own = size == 1 and each.case.name == "first"  # a cache of one token leaves no other size
                    assert its_own or each.problem != problem, (size, target, each.case.name)
    assert compared > len(SIZES) // 2
