"""Queues ablations, which measure the effect of each switch of a champion and promote no trial.

A switch is a tunable with booleans or strings as values, or with only two values.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from sqlalchemy.orm import Session

from api.families import Catalogue
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.models import AttemptRow, ChampionRow, SearchRow
from db.repositories.ablations import Ablations
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.coordination import Coordination
from db.repositories.leases import Leases
from evo.errors import Conflict, InvalidInput
from evo.messages.job import Ablate
from evo.promotion.ablation import Change, Effect, changes, weigh
from evo.search.lifecycle import transition
from evo.trial.results import AblateReport

CHANGES_AT_ONCE = 4
"""Maximum number of changes per job. They share one process start. Each takes as many rounds as a confirmation."""


def begin(session: Session, catalogue: Catalogue, search_id: int, *, values: bool, now: datetime) -> None:
    """Queue an ablation of a finished search's champion. Do nothing if an ablation is already running.

    Args:
        values: True to also change the tunables that are not switches, to the values next to the champion's value.

    Raises:
        NotFound: the search does not exist.
        Conflict: the search has not finished, there is no champion, a different search found the champion, or the
            champion has no value to change.
    """
    Coordination(session).lock(search_id)
    search = Archive(session).search(search_id)
    state = transition(search.state, "ablate")
    if search.state == state:
        return
    champion = _champion(session, search)
    found = changes(catalogue.space(search), champion.config, values=values)
    if not found:
        remedy = "" if values else ": include the neighbouring values of its other tunables (--values)"
        raise Conflict(f"champion {champion.id} has no switch to ablate{remedy}")
    _queue(session, search, champion, found, now)
    search.state = state
    Coordination(session).mark(search_id)
    Events(session).search_changed(search_id)
    announce(session, WORK)


def _champion(session: Session, search: SearchRow) -> ChampionRow:
    champions = Champions(session)
    champion = champions.incumbent(search)
    if champion is None:
        rolled_back = (
            f"champion {each.id} was {each.reason}" for each in champions.retired_of(search.id) if each.rolled_back
        )
        why = next(rolled_back, "nothing was promoted")
        raise Conflict(f"search {search.id} has no champion: {why}, so there is nothing to ablate")
    if champion.search_id != search.id:
        raise Conflict(f"champion {champion.id} was found by search {champion.search_id}; ablate that search")
    return champion


def _queue(session: Session, search: SearchRow, champion: ChampionRow, found: Sequence[Change], now: datetime) -> None:
    possible = [change for change in found if change.config is not None]
    ablations = Ablations(session)
    ablations.refuse(search.id, champion.id, [change for change in found if change.config is None], now)
    for first in range(0, len(possible), CHANGES_AT_ONCE):
        some = possible[first : first + CHANGES_AT_ONCE]
        payload = Ablate(
            champion=champion.config,
            changed=tuple(change.config for change in some if change.config is not None),
            seed=_seed(search.seed, champion.id, first),
        )
        job = Leases(session).queue(search.id, payload, now=now)
        ablations.request(search.id, champion.id, job.id, some, now)


def weighed(database: Database, search_id: int, report: AblateReport) -> tuple[Effect | None, ...]:
    """Return the effect of each change in a report. The effect is None for a change without samples.

    The seed of the bootstrap is fixed, so equal samples give equal effects.
    """
    with database.read() as session:
        policy = Archive(session).search(search_id).policy
    return tuple(weigh(each, policy, np.random.default_rng(0)) for each in report.changes)


def settle(session: Session, attempt: AttemptRow, report: AblateReport, effects: tuple[Effect | None, ...]) -> None:
    """Store the effects that were computed from an accepted report."""
    job, now = attempt.job, attempt.ended_at
    assert isinstance(job.payload, Ablate) and now is not None, "an ended attempt at an ablation"
    if report.failure is None:
        Ablations(session).end(job.id, list(zip(report.changes, effects, strict=True)), report.environment, now)
    job.state, job.ended_at = "done", now
    Events(session).search_changed(job.search_id)


def check_answers(job: Ablate, report: AblateReport) -> None:
    """Check that a report contains one result for each change of its job, unless the champion could not be measured.

    Raises:
        InvalidInput: the number of results differs from the number of changes.
    """
    if report.failure is None and len(report.changes) != len(job.changed):
        raise InvalidInput("report.changes", f"must have {len(job.changed)} items, one for each change of the job")


def _seed(seed: int, champion_id: int, index: int) -> int:
    """Return the seed of the inputs of a job. Each job of a champion has a different seed."""
    return int(np.random.SeedSequence((seed, champion_id, index), spawn_key=(2,)).generate_state(1)[0])
