"""What workers found out: the results of the jobs, which the service stores and verdicts rest on."""

from evo.results.confirmation import ConfirmReport, OutputChecks, Profiled, Repeat, Repetition, Sanitized, Witness
from evo.results.report import Ablated, AblateReport, BaselineReport, EvaluateReport, Report
from evo.results.stages import Stages

__all__ = [
    "AblateReport",
    "Ablated",
    "BaselineReport",
    "ConfirmReport",
    "EvaluateReport",
    "OutputChecks",
    "Profiled",
    "Repeat",
    "Repetition",
    "Report",
    "Sanitized",
    "Stages",
    "Witness",
]
