"""Add the reason why a search ended without challenging the champion."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("searches", sa.Column("unchallenged", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("searches", "unchallenged")
