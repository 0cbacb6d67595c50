"""Add the name of the variant of each champion."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("champions", sa.Column("variant", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("champions", "variant")
