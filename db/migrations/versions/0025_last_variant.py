"""Add the number of the last variant of a search, so that numbers of deleted variants are not reused."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

LAST = "SELECT max(number) FROM variants WHERE variants.search_id = searches.id"


def upgrade() -> None:
    op.add_column("searches", sa.Column("last_variant", sa.Integer(), nullable=True))
    op.execute(sa.text(f"UPDATE searches SET last_variant = ({LAST})"))


def downgrade() -> None:
    op.drop_column("searches", "last_variant")
