"""Add the user who retired a champion."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("champions", sa.Column("retired_by", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("champions", "retired_by")
