"""Messages between the service and its workers; both sides import these and nothing of each other."""

from evo.job.confirmation import Answers, ConfirmReport, Profiled, Repeat, Sanitized, Witness
from evo.job.report import Ablated, AblateReport, BaselineReport, EvaluateReport, Report
from evo.job.stages import Stages
from evo.job.traffic import Activity, Answer, Delivery, HeartbeatReply, SlotReport
from evo.job.work import Ablate, Baseline, Confirm, Evaluate, FamilyRef, Job, Lease, SearchTerms

__all__ = [
    "Ablate",
    "AblateReport",
    "Ablated",
    "Activity",
    "Answer",
    "Answers",
    "Baseline",
    "BaselineReport",
    "Confirm",
    "ConfirmReport",
    "Delivery",
    "Evaluate",
    "EvaluateReport",
    "FamilyRef",
    "HeartbeatReply",
    "Job",
    "Lease",
    "Profiled",
    "Repeat",
    "Report",
    "Sanitized",
    "SearchTerms",
    "SlotReport",
    "Stages",
    "Witness",
]
