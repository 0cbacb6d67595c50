"""Add `searches.alive_at`: the last time at which a service recorded that it runs the search.

If the service is killed, the running time counts only up to this time.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("searches", sa.Column("alive_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("searches", "alive_at")
