"""Empty databases for tests. The migrations run once per process."""

import tempfile
from functools import cache
from pathlib import Path

from db.engine.location import Location
from db.engine.session import Database


def prepared(given: Location | Path) -> Location:
    """Return the location of a database. Create a missing SQLite file with the current schema."""
    location = Location.of(given)
    if location.file is not None and not location.file.exists() and location.file.parent.is_dir():
        location.file.write_bytes(_blank())
    return location


@cache
def _blank() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blank.db"
        Database.open(path).close()
        return path.read_bytes()
