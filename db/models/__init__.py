"""Database tables as SQLAlchemy models, without logic. Related rows are loaded only where a query requests them."""

from db.models.access import SessionRow, TokenRow
from db.models.base import Base, table
from db.models.champion import AblationRow, ChampionRow, Evidence
from db.models.fleet import DeviceRow, WorkerRow
from db.models.search import FamilyRow, SearchRow, SpaceSize, Webhook
from db.models.service import AnswerRow, ArtefactRow, DeliveryRow, EventRow
from db.models.variant import ProposalRow, VariantRow
from db.models.work import AttemptRow, AttemptState, JobRow, JobState, TrialRow

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
