"""What workers found out: the results of the jobs, which the service stores and verdicts rest on."""

from evo.results.confirmation import Answers, ConfirmReport, Profiled, Repeat, Repetition, Sanitized, Witness
from evo.results.report import Ablated, AblateReport, BaselineReport, EvaluateReport, Report
from evo.results.stages import Stages

__all__ = [
    "AblateReport",
    "Ablated",
    "Answers",
    "BaselineReport",
    "ConfirmReport",
    "EvaluateReport",
    "Profiled",
    "Repeat",
    "Repetition",
    "Report",
    "Sanitized",
    "Stages",
    "Witness",
]
