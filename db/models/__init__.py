"""Database tables as SQLAlchemy models, without logic. Related rows are loaded only where a query requests them."""

from db.models.champion import AblationRow, ChampionRow, Evidence
from db.models.columns import Base, table
from db.models.search import FamilyRow, ProposalRow, SearchRow, SpaceSize, VariantRow, Webhook
from db.models.service import AnswerRow, ArtefactRow, DeliveryRow, EventRow, SessionRow, TokenRow
from db.models.work import AttemptRow, AttemptState, DeviceRow, JobRow, JobState, TrialRow, WorkerRow

__all__ = [
    "AblationRow",
    "AnswerRow",
    "ArtefactRow",
    "AttemptRow",
    "AttemptState",
    "Base",
    "ChampionRow",
    "DeliveryRow",
    "DeviceRow",
    "EventRow",
    "Evidence",
    "FamilyRow",
    "JobRow",
    "JobState",
    "ProposalRow",
    "SearchRow",
    "SessionRow",
    "SpaceSize",
    "TokenRow",
    "TrialRow",
    "VariantRow",
    "Webhook",
    "WorkerRow",
    "table",
]
