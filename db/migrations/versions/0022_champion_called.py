"""Add `champions.called`: the time of a call of the exported kernel from PyTorch."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("champions", sa.Column("called", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("champions", "called")
