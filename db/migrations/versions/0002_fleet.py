"""Add worker shutdown, slot activity and device quarantine."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    with op.batch_alter_table("workers") as workers:
        workers.add_column(sa.Column("note", sa.String(), nullable=True))
        workers.add_column(sa.Column("left_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("devices") as devices:
        devices.add_column(sa.Column("activity", sa.String(length=16), nullable=True))
        devices.add_column(sa.Column("detail", sa.String(), nullable=True))
        devices.add_column(sa.Column("quarantined_at", sa.DateTime(timezone=True), nullable=True))
        devices.add_column(sa.Column("quarantine_reason", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("devices") as devices:
        for name in ("quarantine_reason", "quarantined_at", "detail", "activity"):
            devices.drop_column(name)
    with op.batch_alter_table("workers") as workers:
        for name in ("left_at", "note"):
            workers.drop_column(name)
