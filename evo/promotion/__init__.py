"""Decides whether a challenger becomes the champion. Every rule reports its measured value and its threshold."""

from evo.promotion.evidence import RequiredEvidence, decide, required, void_reason
from evo.promotion.judgement import judge, promising, so_far, undecided
from evo.promotion.rules.base import Known, Quick
from evo.promotion.rules.sequential import SequentialState, looks, sequential_state
from evo.promotion.rules.work import repeat_limit, straddles
from evo.promotion.verdict import Rule, Verdict

__all__ = [
    "Known",
    "Quick",
    "RequiredEvidence",
    "Rule",
    "SequentialState",
    "Verdict",
    "decide",
    "judge",
    "looks",
    "promising",
    "repeat_limit",
    "required",
    "sequential_state",
    "so_far",
    "straddles",
    "undecided",
    "void_reason",
]
