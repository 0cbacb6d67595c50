"""Remove the cost of trials whose kernel a confirmation found invalid, so that they are not ranked."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    connection = op.get_bind()
    trials = sa.Table(
        "trials",
        sa.MetaData(),
        sa.Column("id", sa.Integer),
        sa.Column("confirmed", sa.JSON),
        sa.Column("cost", sa.Double),
        sa.Column("second_cost", sa.Double),
    )
    ranked = sa.select(trials.c.id, trials.c.confirmed).where(
        trials.c.confirmed.is_not(None), trials.c.cost.is_not(None)
    )
    refuted = [each.id for each in connection.execute(ranked) if (each.confirmed or {}).get("refuted") is not None]
    for trial_id in refuted:
        unranked = sa.update(trials).where(trials.c.id == trial_id).values(cost=None, second_cost=None)
        connection.execute(unranked)


def downgrade() -> None:
    """Change nothing. Earlier releases also ignore trials without a cost."""
