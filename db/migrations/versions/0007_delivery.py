"""Add the network time of a trial's lease and result, stored separately from the search's overhead."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("delivery_ms", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("trials", "delivery_ms")
