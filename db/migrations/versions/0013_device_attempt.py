"""Add the lease to which a device's activity belongs."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("attempt_id", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("devices", "attempt_id")
