"""Initial tables."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "artefacts",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_artefacts"),
    )
    op.create_table(
        "families",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("location", sa.String(), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_families"),
    )
    op.create_index("ix_families_name", "families", ["name"])
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("drain", sa.Boolean(), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "devices",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("device", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name="fk_devices_worker_id_workers"),
        sa.PrimaryKeyConstraint("worker_id", "uuid", name="pk_devices"),
    )
    op.create_table(
        "searches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("family_digest", sa.String(length=64), nullable=False),
        sa.Column("problem", sa.JSON(), nullable=False),
        sa.Column("problem_key", sa.String(), nullable=False),
        sa.Column("device", sa.JSON(), nullable=False),
        sa.Column("device_uuid", sa.String(), nullable=True),
        sa.Column("objective", sa.JSON(), nullable=False),
        sa.Column("strategy", sa.String(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("warm_starts", sa.JSON(), nullable=False),
        sa.Column("space", sa.JSON(), nullable=False),
        sa.Column("roofline", sa.JSON(), nullable=True),
        sa.Column("baselines", sa.JSON(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("active_s", sa.Double(), nullable=False),
        sa.Column("active_since", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["family_digest"], ["families.digest"], name="fk_searches_family_digest_families"),
        sa.PrimaryKeyConstraint("id", name="pk_searches"),
    )
    op.create_index("ix_searches_state_id", "searches", ["state", "id"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("config_key", sa.String(), nullable=False),
        sa.Column("proposal", sa.JSON(), nullable=False),
        sa.Column("told_before", sa.Integer(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.Column("outcome_kind", sa.String(length=16), nullable=True),
        sa.Column("time_us", sa.Double(), nullable=True),
        sa.Column("finished_seq", sa.Integer(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("binary_digest", sa.String(length=64), nullable=True),
        sa.Column("suspect", sa.Boolean(), nullable=False),
        sa.Column("overhead_ms", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_trials_search_id_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("search_id", "config_key", name="uq_trials_search_id_config_key"),
        sa.UniqueConstraint("search_id", "finished_seq", name="uq_trials_search_id_finished_seq"),
        sa.UniqueConstraint("search_id", "number", name="uq_trials_search_id_number"),
    )
    op.create_index("ix_trials_search_id_binary_digest", "trials", ["search_id", "binary_digest"])
    op.create_index("ix_trials_search_id_outcome_kind", "trials", ["search_id", "outcome_kind"])
    op.create_index("ix_trials_search_id_time_us_number", "trials", ["search_id", "time_us", "number"])
    op.create_table(
        "champions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("family_digest", sa.String(length=64), nullable=False),
        sa.Column("problem", sa.JSON(), nullable=False),
        sa.Column("problem_key", sa.String(), nullable=False),
        sa.Column("device", sa.JSON(), nullable=False),
        sa.Column("device_model", sa.String(), nullable=False),
        sa.Column("objective", sa.JSON(), nullable=False),
        sa.Column("objective_key", sa.String(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("trial_number", sa.Integer(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("time_us", sa.Double(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("replaces", sa.Integer(), nullable=True),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("promoted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retired_reason", sa.String(), nullable=True),
        sa.Column("rolled_back", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["family_digest"], ["families.digest"], name="fk_champions_family_digest_families"),
        sa.ForeignKeyConstraint(["replaces"], ["champions.id"], name="fk_champions_replaces_champions"),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_champions_search_id_searches"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_champions_trial_id_trials"),
        sa.PrimaryKeyConstraint("id", name="pk_champions"),
    )
    op.create_index(
        "uq_champions_current",
        "champions",
        ["family", "problem_key", "device_model", "objective_key"],
        unique=True,
        sqlite_where=sa.text("current"),
        postgresql_where=sa.text("current"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("incumbent_id", sa.Integer(), nullable=True),
        sa.Column("seen", sa.Integer(), nullable=True),
        sa.Column("verdict", sa.JSON(), nullable=True),
        sa.Column("candidate_faults", sa.Integer(), nullable=False),
        sa.Column("worker_losses", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["incumbent_id"], ["champions.id"], name="fk_jobs_incumbent_id_champions"),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_jobs_search_id_searches"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_jobs_trial_id_trials"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_search_id_state", "jobs", ["search_id", "state"])
    op.create_index("ix_jobs_trial_id", "jobs", ["trial_id"])
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("device_uuid", sa.String(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id_jobs"),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name="fk_attempts_worker_id_workers"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_job_id", "attempts", ["job_id"])
    op.create_index("ix_attempts_state_expires_at", "attempts", ["state", "expires_at"])
    op.create_index("ix_attempts_worker_id_state", "attempts", ["worker_id", "state"])
    op.create_index(
        "uq_attempts_live_job",
        "attempts",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )


def downgrade() -> None:
    op.drop_table("attempts")
    op.drop_table("jobs")
    op.drop_table("champions")
    op.drop_table("trials")
    op.drop_table("searches")
    op.drop_table("devices")
    op.drop_table("workers")
    op.drop_table("families")
    op.drop_table("artefacts")
