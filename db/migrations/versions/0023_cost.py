"""Add the cost that ranks a trial: its time or, if the search has a metric, the cost by this metric."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

CONFIRMED = sa.text("quick_us IS NOT NULL")


def upgrade() -> None:
    op.add_column("trials", sa.Column("cost", sa.Double(), nullable=True))
    op.execute(sa.text("UPDATE trials SET cost = time_us"))
    op.create_index("ix_trials_search_id_cost_number", "trials", ["search_id", "cost", "number"])
    _index_confirmed("cost")
    if op.get_bind().dialect.name == "postgresql":  # for `invalid_measurement`; SQLite does not enforce lengths
        op.alter_column("trials", "outcome_kind", type_=sa.String(32), existing_type=sa.String(16))


def downgrade() -> None:
    _index_confirmed("time_us")
    op.drop_index("ix_trials_search_id_cost_number", "trials")
    op.drop_column("trials", "cost")


def _index_confirmed(key: str) -> None:
    op.drop_index("ix_trials_confirmed", "trials")
    op.create_index(
        "ix_trials_confirmed", "trials", ["search_id", key], sqlite_where=CONFIRMED, postgresql_where=CONFIRMED
    )
