"""Add the requirements that a device must meet to work on a search."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("searches", sa.Column("requirements", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("searches", "requirements")
