"""Add priority, notes, archive, warm start and webhook of searches, and stored responses to repeated requests."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    priority = sa.Column("priority", sa.Integer(), nullable=False, server_default=sa.text("0"))
    notes = sa.Column("notes", sa.String(), nullable=False, server_default=sa.text("''"))
    for column in (
        priority,
        notes,
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("warm_start", sa.JSON(), nullable=True),
        sa.Column("webhook", sa.JSON(), nullable=True),
    ):
        op.add_column("searches", column)
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_next_at", "deliveries", ["next_at"])
    op.create_index("uq_deliveries_search_id", "deliveries", ["search_id"], unique=True)
    op.create_table(
        "answers",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.JSON(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_answers"),
    )
    op.create_index("ix_answers_asked_at", "answers", ["asked_at"])


def downgrade() -> None:
    op.drop_table("answers")
    op.drop_table("deliveries")
    for column in ("webhook", "warm_start", "archived_at", "notes", "priority"):
        op.drop_column("searches", column)
