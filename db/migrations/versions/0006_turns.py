"""Add the revision of a search, and an index of confirmations, for several service processes on one database."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

CONFIRMS = sa.text("kind = 'confirm'")


def upgrade() -> None:
    op.add_column("searches", sa.Column("revision", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.create_index(
        "ix_jobs_confirmations", "jobs", ["search_id", "id"], sqlite_where=CONFIRMS, postgresql_where=CONFIRMS
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_confirmations", "jobs")
    op.drop_column("searches", "revision")
