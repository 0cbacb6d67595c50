"""Whether a confirmed challenger becomes champion, by rules each of which tells its figure and its threshold."""

from evo.promotion.comparison import TRIM
from evo.promotion.evidence import REQUIRED, RequiredEvidence, decide
from evo.promotion.judgement import judge, promising, undecided
from evo.promotion.sequential import Standing, looks, standing
from evo.promotion.verdict import Rule, Verdict
from evo.promotion.work import straddles

__all__ = [
    "REQUIRED",
    "TRIM",
    "RequiredEvidence",
    "Rule",
    "Standing",
    "Verdict",
    "decide",
    "judge",
    "looks",
    "promising",
    "standing",
    "straddles",
    "undecided",
]
