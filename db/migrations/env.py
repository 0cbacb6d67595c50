"""Entry point of Alembic. Migrations run on the connection and in the transaction of `db.engine.schema.migrate`."""

from alembic import context

from db.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
context.run_migrations()
