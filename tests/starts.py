"""Builds the starting configs of families for a list of problems."""

from pathlib import Path

from evo.device import Device
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from templates.registry import find
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.families import Assignment, Families

PROBLEMS = {
    "sdpa": (
        "B=2,H=8,S=256,D=64",
        "B=2,H=8,S=512,D=64",
        "B=4,H=16,S=2048,D=64,causal=true",
        "B=4,H=16,S=4096,D=128",
        "B=4,H=16,S=4096,D=128,causal=true",
        "B=2,H=16,S=1024,D=192",
        "B=1,H=16,KV=8,S=2048,D=256,causal=true,dtype=bfloat16",
        "B=1,H=32,S=2048,D=96,causal=true,dtype=bfloat16",
        "B=1,H=28,KV=4,S=1000,D=128,causal=true,layout=bshd,dtype=bfloat16",
        "B=32,H=12,S=128,D=64,lengths=ragged",
        "B=32,H=16,S=197,D=64",
        "B=8,H=16,S=257,D=80,dtype=bfloat16",
        "B=2,H=10,S=4096,S_KV=77,D=64",
    ),
    "sdpa_fp8": ("B=2,H=8,S=512,D=64", "B=4,H=16,S=4096,D=128,v_layout=columns"),
    "sdpa_decode": ("B=8,H=32,KV=8,S=8192,D=128", "B=8,H=28,KV=4,S=4096,D=128", "B=64,H=32,KV=8,S=1024,D=128,page=16"),
    "gemm": (
        "M=4096,N=4096,K=4096",
        "M=16,N=4096,K=4096",
        "M=64,N=14336,K=4096",
        "M=8,N=28672,K=4096,b_layout=nk,dtype=bfloat16",
        "M=32,N=4096,K=14336,b_layout=nk,dtype=bfloat16",
    ),
    "gemm_fp8": ("M=4096,N=4096,K=4096",),
}
"""Problems by family; each has starting configs on sm_90."""

SEARCHED = [(family, problem) for family, problems in PROBLEMS.items() for problem in problems]


def built_starts(family: str, problem: str, device: Device, folder: Path) -> list[Built]:
    """Build every starting config of a problem on a device, for all cases, with this machine's NVRTC.

    Raises:
        NoNvrtcError: NVRTC is not installed.
    """
    package = find(family)
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name=family, digest=package.digest),
        problem=package.family.problem(problem, "cuda"),
        device=device,
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    work = Assignment(terms=terms, copy=Families(folder / "families").add(package))
    implementation = package.family.implementation("cuda")
    default = {each.name: each.values[each.default_index] for each in implementation.tunables}
    builder = Builder(NvrtcCompiler(), Cache(folder / "cache"), folder)
    return [builder.build(work, {**default, **start}) for start in implementation.begin(terms.problem, device)]
