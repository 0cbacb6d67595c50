"""Add the reason why a worker could not execute the jobs of a search."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("searches", sa.Column("obstacle", sa.String(), nullable=True))
    op.add_column("searches", sa.Column("obstacle_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("searches", "obstacle_at")
    op.drop_column("searches", "obstacle")
