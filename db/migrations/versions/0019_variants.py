"""Add variants of searches, and the family whose contract a variant implements."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("families", sa.Column("base_digest", sa.String(64), nullable=True))
    op.create_table(
        "variants",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("search_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tuning_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("idea", sa.String(), nullable=False),
        sa.Column("parents", sa.JSON(), nullable=False),
        sa.Column("most_trials", sa.Integer(), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search_id"], ["searches.id"], name="fk_variants_search_id_searches"),
        sa.ForeignKeyConstraint(["tuning_id"], ["searches.id"], name="fk_variants_tuning_id_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_variants"),
        sa.UniqueConstraint("tuning_id", name="uq_variants_tuning_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_variants_search_id_number", "variants", ["search_id", "number"], unique=True)


def downgrade() -> None:
    op.drop_table("variants")
    op.drop_column("families", "base_digest")
