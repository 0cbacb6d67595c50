"""What the service shows of its state; the service serialises these classes and its clients read them back."""

from evo.view.champion import AblationView, ChampionView, Decision, RetiredView
from evo.view.fleet import FamilyView, SlotView, WorkerView
from evo.view.page import Collected, Item, Page
from evo.view.search import (
    BestView,
    ChallengeView,
    ProvingView,
    RooflineView,
    SearchView,
    SpaceView,
    WarmStartView,
    WebhookView,
)
from evo.view.trial import AttemptView, TrialView

__all__ = [
    "AblationView",
    "AttemptView",
    "BestView",
    "ChallengeView",
    "ChampionView",
    "Collected",
    "Decision",
    "FamilyView",
    "Item",
    "Page",
    "ProvingView",
    "RetiredView",
    "RooflineView",
    "SearchView",
    "SlotView",
    "SpaceView",
    "TrialView",
    "WarmStartView",
    "WebhookView",
    "WorkerView",
]
