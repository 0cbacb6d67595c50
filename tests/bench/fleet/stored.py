"""Compares the cost of a claim and a report with a thousand and with a million stored trials."""

import statistics
import time

from sqlalchemy import text

from api.schemas import SearchRequest
from db.engine.location import Location
from db.engine.session import Database
from evo.messages.job import Delivery
from tests.bench.fleet.searches import DIGEST, FAMILY
from tests.integration.stage import Stage, answer, policy
from tests.postgresql import Server

STORED = (10**3, 10**6)
WARM_UP, ROUNDS = 30, 300
SEARCHES = 100
"""Number of finished searches to which the stored trials belong."""

_SEARCHES = """
INSERT INTO searches (family_digest, problem, problem_key, device, objective, strategy, seed, budget, policy,
                      warm_starts, space, state, created_at, active_s)
SELECT family_digest, problem, problem_key, device, objective, strategy, seed, budget, policy, warm_starts,
       space, 'finished', created_at, 1.0
FROM searches, generate_series(1, :searches) WHERE id = :pattern"""
_TRIALS = """
INSERT INTO trials (search_id, number, config_key, proposal, told_before, asked_at, outcome, outcome_kind, time_us,
                    finished_seq, finished_at, suspect)
SELECT s.id, n, n::text, p.proposal, n, p.asked_at, p.outcome, p.outcome_kind, p.time_us + n, n, p.finished_at, false
FROM searches s, generate_series(0, :each - 1) n, trials p
WHERE s.state = 'finished' AND p.search_id = :pattern AND p.number = 0
  AND NOT EXISTS (SELECT 1 FROM trials t WHERE t.search_id = s.id AND t.number = n)"""
_JOBS = """
INSERT INTO jobs (search_id, trial_id, kind, state, payload, candidate_faults, worker_losses, created_at, ended_at)
SELECT t.search_id, t.id, 'evaluate', 'done', p.payload, 0, 0, t.asked_at, t.finished_at
FROM trials t, (SELECT payload FROM jobs WHERE kind = 'evaluate' ORDER BY id LIMIT 1) p
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.trial_id = t.id)"""
_ATTEMPTS = """
INSERT INTO attempts (job_id, token, worker_id, device_uuid, state, granted_at, expires_at, ended_at, result)
SELECT j.id, p.token, p.worker_id, p.device_uuid, 'done', p.granted_at, p.expires_at, p.ended_at, p.result
FROM jobs j, (SELECT a.* FROM attempts a JOIN jobs USING (job_id) WHERE a.state = 'done' LIMIT 1) p
WHERE j.state = 'done' AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = j.id)""".replace(
    "JOIN jobs USING (job_id)", "JOIN jobs e ON e.id = a.job_id AND e.kind = 'evaluate'"
)


def cost_by_stored(server: Server) -> float:
    """Measure claims and reports on both databases alternately, so that other load on the machine affects both equally.

    Returns:
        The larger of two ratios, for claims and for reports: the cost with a million stored trials divided by the cost
            with a thousand.
    """
    stages = [_filled(server.lend(), stored) for stored in STORED]
    searches = [_begun(stage) for stage in stages]
    steps = [[_step(stage) for stage in stages] for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
    for stage, search in zip(stages, searches, strict=True):
        stage.conductor.orders.command(search, "cancel")
        stage.database.close()
    ratios = []
    for index, name in enumerate(("claim", "report")):
        few, many = ([step[size][index] for step in steps] for size in (0, 1))
        ratios.append(statistics.median(b / a for a, b in zip(few, many, strict=True)))
        medians = f"{statistics.median(few):.2f} ms with {STORED[0]:,} stored trials, {statistics.median(many):.2f} ms"
        print(f"stored: {name} {medians} with {STORED[1]:,}; median ratio of {len(few)} pairs: {ratios[-1]:.2f}")
    return max(ratios)


def _filled(location: Location, trials: int) -> Stage:
    _store(location, trials)
    stage = Stage(location)
    stage.register_worker()
    return stage


def _begun(stage: Stage) -> int:
    terms = {"family_digest": DIGEST, "strategy": "random", "policy": policy(challenge_every=10**6)}
    return stage.conductor.orders.submit(SearchRequest.model_validate(terms))


def _step(stage: Stage) -> tuple[float, float]:
    """Claim and report a job. Return the milliseconds of the claim and of the report."""
    began = time.perf_counter()
    (lease,) = stage.claim()
    claimed = time.perf_counter()
    stage.conductor.report_many([Delivery(attempt_id=lease.attempt_id, token=lease.token, report=answer(lease))])
    return 1e3 * (claimed - began), 1e3 * (time.perf_counter() - claimed)


def _store(location: Location, trials: int) -> None:
    """Store finished searches with `trials` trials in total."""
    stage = Stage(location)
    stage.register_family(FAMILY, DIGEST)
    stage.register_worker()
    terms = {"family_digest": DIGEST, "strategy": "random", "budget": {"trials": 1}}
    pattern = stage.conductor.orders.submit(SearchRequest.model_validate(terms))
    list(stage.play(2))
    stage.conductor.orders.command(pattern, "cancel") if stage.view(pattern).state != "finished" else None
    _copy(stage.database, pattern, trials)
    stage.database.close()


def _copy(database: Database, pattern: int, trials: int) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("SET statement_timeout = 0"))
        stored = connection.execute(text("SELECT count(*) FROM searches WHERE state = 'finished'")).scalar_one()
        if stored < SEARCHES:
            connection.execute(text(_SEARCHES), {"searches": SEARCHES - stored, "pattern": pattern})
        connection.execute(text(_TRIALS), {"each": trials // SEARCHES, "pattern": pattern})
        connection.execute(text(_JOBS))
        connection.execute(text(_ATTEMPTS))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
