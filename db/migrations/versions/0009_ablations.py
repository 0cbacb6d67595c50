"""Add ablations of champions."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "ablations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("champion_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("place", sa.Integer(), nullable=True),
        sa.Column("change", sa.JSON(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ablated", sa.JSON(), nullable=True),
        sa.Column("effect", sa.JSON(), nullable=True),
        sa.Column("environment", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_ablations_search_id_searches"),
        sa.ForeignKeyConstraint(["champion_id"], ["champions.id"], name="fk_ablations_champion_id_champions"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_ablations_job_id_jobs"),
        sa.PrimaryKeyConstraint("id", name="pk_ablations"),
    )
    op.create_index("ix_ablations_search_id", "ablations", ["search_id"])
    op.create_index("ix_ablations_job_id", "ablations", ["job_id"])


def downgrade() -> None:
    op.drop_table("ablations")
