"""Add confirmed times to trials, and rank trials by these times."""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
import structlog
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

log = structlog.get_logger("migrations")

INVALIDATING = ("correct", "answers", "work", "sanitizers")
CONFIRMED = sa.text("quick_us IS NOT NULL")


def upgrade() -> None:
    op.add_column("trials", sa.Column("quick_us", sa.Double(), nullable=True))
    op.add_column("trials", sa.Column("confirmed", sa.JSON(none_as_null=True), nullable=True))
    _take_over()
    op.create_index(
        "ix_trials_confirmed",
        "trials",
        ["search_id", "time_us"],
        sqlite_where=CONFIRMED,
        postgresql_where=CONFIRMED,
    )


def downgrade() -> None:
    op.drop_index("ix_trials_confirmed", "trials")
    op.execute(sa.text("UPDATE trials SET time_us = quick_us WHERE quick_us IS NOT NULL"))
    op.drop_column("trials", "confirmed")
    op.drop_column("trials", "quick_us")


def _take_over() -> None:
    """Copy the times of the last confirmation to each confirmed trial, and to the trials with the same binary.

    If the verdict of a trial cannot be read, the trial keeps its quick time, and the upgrade continues.
    """
    jobs = sa.table("jobs", *map(sa.column, ("id", "kind", "trial_id", "verdict")))
    columns = ("id", "search_id", "binary_digest", "time_us", "quick_us")
    trials = sa.table("trials", *map(sa.column, columns), sa.column("confirmed", sa.JSON()))
    connection = op.get_bind()
    confirmations = sa.select(jobs.c.trial_id, jobs.c.verdict).where(jobs.c.kind == "confirm")
    for trial_id, verdict in connection.execute(confirmations.order_by(jobs.c.id)).all():
        try:
            found = _confirmation(json.loads(verdict) if isinstance(verdict, str) else verdict)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            log.warning(
                "a verdict cannot be read, so its trial keeps the quick time", trial=trial_id, reason=str(error)
            )
            continue
        row = connection.execute(sa.select(trials).where(trials.c.id == trial_id)).first()
        if found is None or row is None:
            continue
        same: Any = trials.c.id == trial_id
        if row.binary_digest is not None:
            same = (trials.c.search_id == row.search_id) & (trials.c.binary_digest == row.binary_digest)
        quick_us = sa.func.coalesce(trials.c.quick_us, trials.c.time_us)
        values = {"quick_us": quick_us, "time_us": found["time"]["estimate"], "confirmed": found}
        connection.execute(sa.update(trials).where(same, trials.c.time_us.is_not(None)).values(values))


def _confirmation(verdict: dict[str, Any] | None) -> dict[str, Any] | None:
    if verdict is None or verdict.get("challenger") is None:
        return None
    unmet = [rule for rule in verdict["rules"] if rule.get("required", True) and not rule["passed"]]
    prediction, baseline = verdict.get("prediction"), verdict.get("baseline")
    several = prediction is not None and prediction.get("overall") and prediction["against"] == baseline
    return {
        "time": verdict["challenger"],
        "speedup": verdict.get("baseline_speedup"),
        "baseline": baseline,
        "processes": len(prediction["found"]) if several and prediction is not None else 1,
        "refuted": next((rule["text"] for rule in unmet if rule["name"] in INVALIDATING), None),
    }
