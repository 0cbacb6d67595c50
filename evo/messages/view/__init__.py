"""State of the service as clients see it. The service serialises these classes, and clients parse them."""

from evo.messages.view.champion import AblationView, ChampionView, Decision, RetiredView
from evo.messages.view.fleet import FamilyView, SlotView, WorkerView
from evo.messages.view.page import Collected, Item, Page
from evo.messages.view.search import (
    BestView,
    ChallengeView,
    ProvingView,
    RooflineView,
    SearchView,
    SpaceView,
    WarmStartView,
    WebhookView,
    WorkingView,
)
from evo.messages.view.trial import AttemptView, TrialView
from evo.messages.view.variant import (
    BriefView,
    FailureView,
    ProposalView,
    TriedView,
    VariantSource,
    VariantView,
    elites,
)

__all__ = [
    "AblationView",
    "AttemptView",
    "BestView",
    "BriefView",
    "ChallengeView",
    "ChampionView",
    "Collected",
    "Decision",
    "FailureView",
    "FamilyView",
    "Item",
    "Page",
    "ProposalView",
    "ProvingView",
    "RetiredView",
    "RooflineView",
    "SearchView",
    "SlotView",
    "SpaceView",
    "TrialView",
    "TriedView",
    "VariantSource",
    "VariantView",
    "WarmStartView",
    "WebhookView",
    "WorkerView",
    "WorkingView",
    "elites",
]
