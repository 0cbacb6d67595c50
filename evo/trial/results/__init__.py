"""Reports that workers send about finished jobs. The service stores them and computes verdicts from them."""

from evo.trial.results.confirmation import (
    Changing,
    ConfirmReport,
    OutputChecks,
    OverwriteCheck,
    Profiled,
    Repeat,
    Repetition,
    Sanitized,
    Stages,
    Step,
)
from evo.trial.results.report import Ablated, AblateReport, BaselineReport, EvaluateReport, Report

__all__ = [
    "AblateReport",
    "Ablated",
    "BaselineReport",
    "Changing",
    "ConfirmReport",
    "EvaluateReport",
    "OutputChecks",
    "OverwriteCheck",
    "Profiled",
    "Repeat",
    "Repetition",
    "Report",
    "Sanitized",
    "Stages",
    "Step",
]
