"""Never reuse ids, number events in commit order, and add the incarnation of a worker."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

NUMBERED = ("searches", "trials", "champions", "jobs", "attempts", "ablations", "deliveries")
"""Tables whose ids occur outside the database: in URLs, messages, reports and workers' files."""


def upgrade() -> None:
    op.drop_index("ix_events_transaction_id", "events")
    op.drop_index("ix_events_search_id_transaction_id", "events")
    op.execute('ALTER TABLE events RENAME COLUMN "transaction" TO mark')
    op.create_index("ix_events_search_id_id", "events", ["search_id", "id"])
    op.add_column("workers", sa.Column("incarnation", sa.String(length=64), nullable=True))
    op.add_column("workers", sa.Column("contested_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("deliveries", sa.Column("message_id", sa.String(length=64), nullable=True))
    op.execute("UPDATE deliveries SET message_id = 'msg_' || id")
    if op.get_bind().dialect.name == "sqlite":
        _number_once()
    else:
        op.alter_column("deliveries", "message_id", nullable=False)
        op.drop_constraint("fk_attempts_worker_id_workers", "attempts", type_="foreignkey")


def _number_once() -> None:
    """Rebuild the tables with AUTOINCREMENT.

    Without this option, SQLite reuses the highest id after its row is deleted.
    """
    for name in NUMBERED:
        with op.batch_alter_table(name, recreate="always", table_kwargs={"sqlite_autoincrement": True}) as table:
            if name == "deliveries":
                table.alter_column("message_id", existing_type=sa.String(length=64), nullable=False)
            if name == "attempts":
                table.drop_constraint("fk_attempts_worker_id_workers", type_="foreignkey")
    for name, reference in (("searches", "search_id"), ("trials", "trial_id")):
        _begin_behind(name, f"SELECT coalesce(max({reference}), 0) FROM events")


def _begin_behind(name: str, known: str) -> None:
    """Make new ids of the table `name` larger than every id of this table that stored events contain.

    Args:
        known: SQL expression for the highest such id. The table may have no row with this id any more.
    """
    op.execute(
        f"INSERT INTO sqlite_sequence (name, seq) SELECT '{name}', 0 "
        f"WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{name}')"
    )
    op.execute(f"UPDATE sqlite_sequence SET seq = max(seq, ({known})) WHERE name = '{name}'")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name in NUMBERED:
            with op.batch_alter_table(name, recreate="always") as table:
                if name == "attempts":
                    table.create_foreign_key("fk_attempts_worker_id_workers", "workers", ["worker_id"], ["id"])
    else:
        op.create_foreign_key("fk_attempts_worker_id_workers", "attempts", "workers", ["worker_id"], ["id"])
    op.drop_column("deliveries", "message_id")
    op.drop_column("workers", "contested_at")
    op.drop_column("workers", "incarnation")
    op.drop_index("ix_events_search_id_id", "events")
    op.execute('ALTER TABLE events RENAME COLUMN mark TO "transaction"')
    op.create_index("ix_events_search_id_transaction_id", "events", ["search_id", "transaction", "id"])
    op.create_index("ix_events_transaction_id", "events", ["transaction", "id"])
