"""Builds the responses of the service (`evo.messages.view`) from database rows."""

from api.views.brief import brief_view
from api.views.champion import ablation_views, champion_view
from api.views.fleet import family_view, worker_view
from api.views.search import challenge_views, listed_views, search_view, search_views
from api.views.tally import Tally, elapsed_s
from api.views.trial import source_of, trial_view, trial_views
from api.views.variant import proposal_view, variant_view, variant_views

__all__ = [
    "Tally",
    "ablation_views",
    "brief_view",
    "challenge_views",
    "champion_view",
    "elapsed_s",
    "family_view",
    "listed_views",
    "proposal_view",
    "search_view",
    "search_views",
    "source_of",
    "trial_view",
    "trial_views",
    "variant_view",
    "variant_views",
    "worker_view",
]
