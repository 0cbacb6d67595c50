"""Reads results of a family's earlier searches for other problems on the same device model.

The results are used to predict good configs.
"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import FamilyRow, SearchRow, TrialRow
from db.queries.landscape import QUICK_COST
from evo.family.problem import distance
from evo.strategy.parts.transfer import NEAREST, Earlier
from evo.trial import Config

LATEST = 200
"""Maximum number of searches of the family that are considered, latest first."""

SEARCHES = 3
"""Maximum number of searches per problem whose results are used, latest first."""

RESULTS = 300
"""Maximum number of results per problem, fastest first."""


def earlier_results(session: Session, search: SearchRow, family: str) -> list[Earlier]:
    """Return results for the `NEAREST` problems that are most similar to the problem of a search, nearest first.

    The results come from searches with the same device model and the same first objective. The problem of the search
    itself is not included, because its champion is already a warm start. Problems without results are skipped.
    """
    query = select(SearchRow.id, SearchRow.problem, SearchRow.problem_key, SearchRow.device, SearchRow.objective)
    query = query.join(FamilyRow, FamilyRow.digest == SearchRow.family_digest).where(FamilyRow.name == family)
    rows = session.execute(
        query.where(SearchRow.problem_key != search.problem_key).order_by(SearchRow.id.desc()).limit(LATEST)
    )
    ids: dict[str, list[int]] = {}
    problems = {}
    for number, problem, key, device, objective in rows:
        if device.model == search.device.model and objective.first == search.objective.first:
            problems[key] = problem
            ids.setdefault(key, []).append(number)
    found = []
    for key in sorted(problems, key=lambda key: (distance(search.problem, problems[key]), key)):
        if results := _results(session, ids[key][:SEARCHES]):
            found.append(Earlier(problem=problems[key], results=results))
        if len(found) == NEAREST:
            break
    return found


def _results(session: Session, searches: Sequence[int]) -> list[tuple[Config, float]]:
    """Return (config, quick cost) of each of the best `RESULTS` trials of searches for one problem.

    Confirmed costs are not used, because confirmations are separate runs. Suspect trials (`TrialRow.suspect`) are left
    out.
    """
    query = select(TrialRow.proposal, QUICK_COST)
    query = query.where(TrialRow.search_id.in_(searches), TrialRow.outcome_kind == "measured")
    query = query.where(TrialRow.cost.is_not(None), TrialRow.suspect.is_(False))
    ranked = session.execute(query.order_by(TrialRow.cost, TrialRow.search_id, TrialRow.number).limit(RESULTS))
    return [(proposal.config, cost) for proposal, cost in ranked if cost is not None]
