"""Add the table of proposals made by language models."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "proposals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("operator", sa.String(), nullable=False),
        sa.Column("information", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("repairs", sa.Integer(), nullable=True),
        sa.Column("prompt", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("tokens_in", sa.Integer(), nullable=True),
        sa.Column("tokens_out", sa.Integer(), nullable=True),
        sa.Column("usd", sa.Double(), nullable=False),
        sa.Column("insight", sa.String(), nullable=False, server_default=sa.text("''")),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("variant", sa.Integer(), nullable=True),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_proposals_search_id_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_proposals"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_proposals_search_id_number", "proposals", ["search_id", "number"], unique=True)


def downgrade() -> None:
    op.drop_table("proposals")
