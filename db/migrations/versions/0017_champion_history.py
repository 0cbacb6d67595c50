"""Add the history of decisions about a champion: when it was replaced, rolled back or restored, and why."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("champions", sa.Column("decisions", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("champions", "decisions")
