"""Add the cost of a trial by the second objective of its search."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

JOINT = sa.text("second_cost IS NOT NULL")


def upgrade() -> None:
    op.add_column("trials", sa.Column("second_cost", sa.Double(), nullable=True))
    columns = ["search_id", "second_cost"]
    op.create_index("ix_trials_joint", "trials", columns, sqlite_where=JOINT, postgresql_where=JOINT)


def downgrade() -> None:
    op.drop_index("ix_trials_joint", "trials")
    op.drop_column("trials", "second_cost")
