"""Decide whether a confirmed challenger becomes champion. Every rule reports its figure and its threshold."""

from evo.promotion.evidence import RequiredEvidence, decide, required
from evo.promotion.judgement import judge, promising, undecided
from evo.promotion.quick import Quick
from evo.promotion.sequential import Standing, looks, standing
from evo.promotion.verdict import Rule, Verdict
from evo.promotion.void import void_reason
from evo.promotion.work import straddles

__all__ = [
    "Quick",
    "RequiredEvidence",
    "Rule",
    "Standing",
    "Verdict",
    "decide",
    "judge",
    "looks",
    "promising",
    "required",
    "standing",
    "straddles",
    "undecided",
    "void_reason",
]
