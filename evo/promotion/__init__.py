"""Whether a confirmed challenger becomes champion, by rules each of which tells its figure and its threshold."""

from evo.promotion.comparison import TRIM
from evo.promotion.evidence import REQUIRED, RequiredEvidence, decide
from evo.promotion.judgement import judge, promising
from evo.promotion.verdict import Rule, Verdict
from evo.promotion.work import straddles

__all__ = ["REQUIRED", "TRIM", "RequiredEvidence", "Rule", "Verdict", "decide", "judge", "promising", "straddles"]
