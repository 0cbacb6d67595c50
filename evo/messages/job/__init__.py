"""Messages between the service and its workers. Both sides import them, and nothing from each other."""

from evo.messages.job.traffic import Activity, Answer, Delivery, HeartbeatReply, SlotReport
from evo.messages.job.work import Ablate, Baseline, Confirm, Evaluate, FamilyRef, Job, Lease, SearchTerms

__all__ = [
    "Ablate",
    "Activity",
    "Answer",
    "Baseline",
    "Confirm",
    "Delivery",
    "Evaluate",
    "FamilyRef",
    "HeartbeatReply",
    "Job",
    "Lease",
    "SearchTerms",
    "SlotReport",
]
