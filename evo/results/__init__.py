"""Reports of workers on finished jobs. The service stores them, and verdicts rest on them."""

from evo.results.confirmation import (
    Changing,
    ConfirmReport,
    OutputChecks,
    Profiled,
    Repeat,
    Repetition,
    Sanitized,
    Witness,
)
from evo.results.report import Ablated, AblateReport, BaselineReport, EvaluateReport, Report
from evo.results.stages import Stages

__all__ = [
    "AblateReport",
    "Ablated",
    "BaselineReport",
    "Changing",
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
