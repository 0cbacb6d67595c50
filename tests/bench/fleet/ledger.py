"""Audits a database: every trial must have ended exactly once."""

from sqlalchemy import Connection, text

CHECKS = {
    "trials are numbered without gaps": """
        SELECT search_id FROM trials GROUP BY search_id HAVING max(number) + 1 <> count(*)""",
    "ends are numbered without gaps": """
        SELECT search_id FROM trials GROUP BY search_id
        HAVING coalesce(max(finished_seq) + 1, 0) <> count(finished_seq)
            OR count(DISTINCT finished_seq) <> count(finished_seq)""",
    "a trial has an outcome if and only if it has ended": """
        SELECT id FROM trials WHERE (outcome_kind IS NULL) <> (finished_seq IS NULL)""",
    "no config was tried twice": """
        SELECT search_id FROM trials GROUP BY search_id HAVING count(DISTINCT config_key) <> count(*)""",
    "at most one attempt completed a job": """
        SELECT job_id FROM attempts WHERE state = 'done' GROUP BY job_id HAVING count(*) > 1 + (
            SELECT candidate_faults FROM jobs WHERE jobs.id = job_id)""",
    "a job is leased if and only if one attempt is live": """
        SELECT jobs.id FROM jobs LEFT JOIN attempts ON job_id = jobs.id AND attempts.state = 'live'
        GROUP BY jobs.id, jobs.state HAVING (jobs.state = 'leased') <> (count(attempts.id) = 1)""",
    "the job of a trial is queued or leased until the trial ends": """
        SELECT trials.id FROM trials JOIN jobs ON jobs.trial_id = trials.id AND jobs.kind = 'evaluate'
        WHERE (trials.finished_seq IS NULL) <> (jobs.state IN ('queued', 'leased'))""",
    "every trial has one evaluation job": """
        SELECT trials.id FROM trials LEFT JOIN jobs ON jobs.trial_id = trials.id AND jobs.kind = 'evaluate'
        GROUP BY trials.id HAVING count(jobs.id) <> 1""",
    "only trials with a completed attempt have a result": """
        SELECT trials.id FROM trials JOIN jobs ON jobs.trial_id = trials.id AND jobs.kind = 'evaluate'
        WHERE outcome_kind NOT IN ('abandoned', 'cancelled') AND NOT EXISTS (
            SELECT 1 FROM attempts WHERE attempts.job_id = jobs.id AND attempts.state = 'done')""",
}


def wrong(connection: Connection) -> dict[str, int]:
    """Return the number of violations by rule. Rules without violations are omitted."""
    found = {rule: len(connection.execute(text(query)).fetchall()) for rule, query in CHECKS.items()}
    return {rule: count for rule, count in found.items() if count}
