"""Empty databases for tests that are not about how one comes to be: the migrations run once for each process."""

import tempfile
from functools import cache
from pathlib import Path

from db.engine.location import Location
from db.engine.session import Database


def prepared(given: Location | Path) -> Location:
    """The location; if a file of SQLite belongs there and is not, it is there now, with the present schema."""
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
