"""Damaged SQLite files are reported, and one file under two names is served once."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from api.app import open_database
from api.settings import Settings
from db.engine import damage
from db.engine.damage import read_log
from db.engine.key import ensure_key, local_key
from db.engine.location import Location
from db.engine.ownership import Ownership, running_service
from db.engine.session import Database, StoreUnavailable
from evo.errors import Conflict
from tests.integration.stage import Stage
from tests.tiers import one_in


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "SECOND_LOOK_S", 0.0)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Return a database whose service was shut down."""
    stage = Stage(Location.of(tmp_path / "evo.db"))
    stage.submit()
    list(stage.play())
    stage.database.close()
    return tmp_path / "evo.db"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a database whose service was killed: its log contains transactions that are not yet in the file."""
    made, kept = tmp_path / "made" / "evo.db", tmp_path / "evo.db"
    made.parent.mkdir()
    stage = Stage(Location.of(made))
    stage.submit()
    list(stage.play())
    for name in ("evo.db", "evo.db-wal"):
        shutil.copy(made.with_name(name), kept.with_name(name))
    stage.database.close()
    return kept


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def damage_of(path: Path) -> str | None:
    with closing(damage.LockedFiles()) as files:
        return damage.damage(path, files)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("cut", [1, 100, 4095, 4096, 4097, 3 * 4096])
def test_truncated_database_file_is_reported_as_damaged(closed: Path, cut: int) -> None:
    os.truncate(closed, closed.stat().st_size - cut)
    before = closed.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"is damaged: it was cut to \d+ bytes.*restore a backup"):
        Database.open(closed)
    assert closed.read_bytes() == before


def test_intact_database_opens_after_shutdown_or_kill(closed: Path, killed: Path) -> None:
    for path in (closed, killed):
        assert damage_of(path) is None
        Database.open(path).close()


def test_truncated_last_transaction_of_a_write_ahead_log_does_not_count_as_damage(killed: Path) -> None:
    """A crash during a write also leaves a truncated transaction."""
    for cut in (1, 24, 4096, 5000):
        os.truncate(log_of(killed), log_of(killed).stat().st_size - cut)
        log = read_log(log_of(killed).read_bytes())
        assert log is not None
        assert log.lost == 0
    Database.open(killed).close()


def test_damaged_write_ahead_log_error_has_a_command_to_discard_later_transactions(killed: Path) -> None:
    log = log_of(killed)
    flip(log, 32 + 5 * (24 + 4096) + 1000)
    before = log.read_bytes()
    with pytest.raises(
        StoreUnavailable, match=r"damaged at frame 6 of \d+, and \d+ later committed transactions cannot be read"
    ) as error:
        Database.open(killed)
    assert log.read_bytes() == before, "no data is discarded before a person decides"
    command = re.search(r"python3 -c .*", str(error.value))
    assert command is not None
    _, *arguments = shlex.split(command[0])
    subprocess.run([sys.executable, *arguments], check=True, timeout=60)
    Database.open(killed).close()


@pytest.mark.parametrize("at", [0, 5, 10, 17, 21, 30])
def test_damaged_header_of_a_write_ahead_log_is_reported(killed: Path, at: int) -> None:
    flip(log_of(killed), at)
    with pytest.raises(StoreUnavailable, match=r"the header of its write-ahead log evo\.db-wal is damaged"):
        Database.open(killed)


@pytest.mark.parametrize("part", one_in(4, ["sum", "salt", "page", "number"]))
def test_reader_of_the_write_ahead_log_counts_the_same_valid_frames_as_sqlite(tmp_path: Path, part: str) -> None:
    """The reference is SQLite's own frame count at a checkpoint."""
    path = tmp_path / "x.db"
    writer = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0", "CREATE TABLE t (x)"):
        writer.execute(statement)
    for number in range(3000):
        writer.execute("INSERT INTO t VALUES (?)", (f"{number}" * 20,))
    copy = tmp_path / "copy.db"
    for name in ("x.db", "x.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("x.db", "copy.db"))
    writer.close()
    offset = {"page": 2000, "salt": 9, "sum": 17, "number": 2}[part]
    flip(log_of(copy), 32 + 2500 * (24 + 4096) + offset)
    log = read_log(log_of(copy).read_bytes())
    assert log is not None
    assert log.lost > 0
    reader = sqlite3.connect(copy, isolation_level=None)
    _, frames, _ = reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    reader.close()
    assert log.read == frames == 2500


def test_frames_of_an_earlier_write_ahead_log_do_not_count_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t (x)")
    for number in range(100):
        writer.execute("INSERT INTO t VALUES (?)", ("x" * number,))
    writer.execute("PRAGMA wal_checkpoint(RESTART)")
    for number in range(3):
        writer.execute("INSERT INTO t VALUES (?)", (number,))
    log = read_log(log_of(path).read_bytes())
    assert log is not None
    assert (log.lost, log.frames) == (0, log.read)
    assert 0 < log.read < 10
    assert damage_of(path) is None
    writer.close()


# One file under two names


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic link": lambda link, file: link.symlink_to(file),
    "hard link": lambda link, file: os.link(file, link),
    "symbolic link to the folder": lambda link, file: link.parent.symlink_to(file.parent),
}


def linked(kind: str, file: Path, tmp_path: Path) -> Path:
    link = tmp_path / "elsewhere" / ("evo.db" if "folder" in kind else "other.db")
    if "folder" not in kind:
        link.parent.mkdir()
    LINKS[kind](link, file)
    return link


@pytest.mark.parametrize("kind", one_in(2, LINKS))
@pytest.mark.parametrize("new", [True, False], ids=["new file", "existing file"])
def test_second_service_on_a_link_to_the_database_is_refused(tmp_path: Path, kind: str, new: bool) -> None:
    file = tmp_path / "data" / "evo.db"
    file.parent.mkdir()
    if not new:
        Database.open(file).close()
    ownership, database = open_database(Settings(db=Location.of(file)))
    assert ownership is not None
    link = linked(kind, file, tmp_path)
    with pytest.raises(Conflict, match="already runs on"):
        open_database(Settings(db=Location.of(link)))
    database.close()
    ownership.release()
    again, database = open_database(Settings(db=Location.of(link)))
    assert again is not None
    database.close()
    again.release()


def test_service_and_key_of_a_database_are_found_through_a_symbolic_link_to_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "evo.db"
    owner = Ownership.take(file)
    owner.announce("http://127.0.0.1:1234")
    key = ensure_key(file)
    link = tmp_path / "link.db"
    link.symlink_to(file)
    running = running_service(link)
    assert running is not None
    assert (running.url, local_key(link)) == ("http://127.0.0.1:1234", key)
    owner.release()


def test_copied_database_is_served_independently(tmp_path: Path) -> None:
    file = tmp_path / "evo.db"
    Database.open(file).close()
    copy = tmp_path / "copy.db"
    shutil.copy(file, copy)
    opened = [open_database(Settings(db=Location.of(path))) for path in (file, copy)]
    for ownership, database in opened:
        assert ownership is not None
        database.close()
        ownership.release()


# Files that lose their content while they are open


@pytest.fixture
def living(tmp_path: Path) -> Iterator[Database]:
    """Yield an open database whose log contains transactions that are not yet in the file."""
    stage = Stage(Location.of(tmp_path / "evo.db"))
    stage.submit()
    with stage.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    list(stage.play())
    yield stage.database
    stage.database.close()


def file_of(database: Database) -> Path:
    assert database.location.file is not None
    return database.location.file


def write(database: Database) -> None:
    with database.write() as session:
        session.execute(text("CREATE TABLE IF NOT EXISTS written (x)"))


def lost(reason: str) -> Any:
    return pytest.raises(StoreUnavailable, match=f"{reason} while it was in use; end the service")


LOST_LOGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "emptied": (lambda log: os.truncate(log, 0), "its write-ahead log was cut to 0 bytes"),
    "cut": (lambda log: os.truncate(log, 40_000), "its write-ahead log was cut to 40000 bytes"),
    "header overwritten": (lambda log: flip(log, 17), "its write-ahead log was overwritten"),
    "replaced by a copy": (
        lambda log: shutil.copy(shutil.move(log, log.with_name("moved")), log),
        "its write-ahead log was replaced",
    ),
}


@pytest.mark.parametrize("change", LOST_LOGS)
def test_writes_are_refused_after_damage_to_the_write_ahead_log(living: Database, change: str) -> None:
    act, reason = LOST_LOGS[change]
    log = log_of(file_of(living))
    act(log)
    before = log.read_bytes()
    for _ in range(2):
        with lost(reason):
            write(living)
    assert log.read_bytes() == before, "nothing may be written into the log"
    if change != "replaced by a copy":
        with lost(reason):
            living.check()


@pytest.mark.slow
def test_checks_of_an_open_database_keep_the_locks_of_its_connections(living: Database) -> None:
    program = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
    except OSError: raise SystemExit(3)
"""
    path = file_of(living)
    ranges = {f"{path}-shm": ("128", "1"), str(path): ("1073741826", "510")}  # every open connection locks these bytes
    for _ in range(2):
        for name, (start, count) in ranges.items():
            taken = subprocess.run([sys.executable, "-c", program, name, start, count], check=False)
            assert taken.returncode == 3, name
        shorten(living)
        living.check()


def shorten(database: Database) -> None:
    """Let another connection shorten the file, while the database is written."""
    path = file_of(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE large AS SELECT zeroblob(200000)")
        for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "DROP TABLE large", "VACUUM"):
            other.execute(statement)
            write(database)
        before = path.stat().st_size
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < before


def test_writes_continue_after_checkpoints_of_another_program(living: Database) -> None:
    """A checkpoint empties the log, and VACUUM shortens the file."""
    shorten(living)
    write(living)
    living.check()


@pytest.mark.parametrize("kept", [0, 50, 4096, 20_000])
def test_truncation_of_an_open_database_is_reported_immediately_and_on_restart(living: Database, kept: int) -> None:
    path = file_of(living)
    os.truncate(path, kept)
    for use in (write, Database.check, write):
        with lost(f"its file was cut to {kept} bytes"):
            use(living)
    living.close()
    assert path.stat().st_size == kept, "the log must not be written into the file"
    with pytest.raises(StoreUnavailable, match="is damaged: it "):
        Database.open(path)
    assert log_of(path).exists()


def overwrite(path: Path, content: bytes) -> None:
    """Overwrite a file in place, like ``cp backup.db evo.db``."""
    with path.open("r+b") as file:
        file.write(content)


OVERWRITTEN: dict[str, Callable[[Path, bytes], object]] = {
    "by an earlier backup": overwrite,
    "by a shorter backup": lambda path, backup: path.write_bytes(backup[: 8 * 4096]),
    "by random bytes": lambda path, _: overwrite(path, os.urandom(path.stat().st_size)),
    "in one page": lambda path, _: flip(path, 30_000),
}


@pytest.mark.parametrize("change", OVERWRITTEN)
def test_writes_are_refused_after_another_program_overwrote_the_open_database_file(
    living: Database, change: str
) -> None:
    """Without the check, pages of the backup and of the log would form a mixed database."""
    path = file_of(living)
    backup = path.read_bytes()
    write(living)
    log = log_of(path).read_bytes()
    OVERWRITTEN[change](path, backup)
    for use in (write, Database.check, write):
        with pytest.raises(StoreUnavailable, match="while it was in use; end the service, restore a backup"):
            use(living)
    assert log_of(path).read_bytes() == log, "nothing may be written into the log"


def test_checkpoints_during_writes_do_not_count_as_overwriting(living: Database) -> None:
    def checkpoints(_: int) -> None:
        with closing(sqlite3.connect(file_of(living), timeout=30)) as other:
            for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE") * 8:
                other.execute(f"PRAGMA wal_checkpoint({mode})")

    def writes(_: int) -> None:
        for _ in range(60):
            with living.write() as session:
                session.execute(text("INSERT INTO written VALUES (zeroblob(9000))"))
            living.check()

    write(living)

    with ThreadPoolExecutor(4) as pool:
        assert list(chain(pool.map(checkpoints, range(2)), pool.map(writes, range(2)))) == [None] * 4


def test_new_connection_to_an_emptied_database_does_not_remove_the_log(living: Database) -> None:
    path = file_of(living)
    living.engine.dispose()
    write(living)
    with living.read() as session:
        session.execute(text("SELECT 1"))
        os.truncate(path, 0)
        with lost("its file was cut to 0 bytes"), living.read() as other:
            other.execute(text("SELECT 1"))
    assert log_of(path).stat().st_size > 0


@pytest.mark.parametrize("kept", [0, 10, 40_000])
def test_write_ahead_log_without_some_frames_is_reported_with_a_repair_command(
    living: Database, tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy" / "evo.db"
    copy.parent.mkdir()
    for name in ("evo.db", "evo.db-wal", "evo.db-shm"):
        shutil.copy(tmp_path / name, copy.with_name(name))
    assert damage_of(copy) is None
    os.truncate(log_of(copy), kept)
    with pytest.raises(StoreUnavailable, match=rf"its write-ahead log evo\.db-wal was cut to {kept} of \d+") as error:
        Database.open(copy)
    with monkeypatch.context() as patch:
        patch.setattr("psutil.boot_time", lambda: time.time() + 60)
        assert damage_of(copy) is None, "an index from before the start of the machine must be ignored"
    command = re.search(r"python3 -c .*", str(error.value))
    assert command is not None
    _, *arguments = shlex.split(command[0])
    subprocess.run([sys.executable, *arguments], check=True, timeout=60)
    Database.open(copy).close()


def test_emptied_database_is_refused_and_a_new_empty_file_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "evo.db"
    file.touch()
    settings = Settings(db=Location.of(file))
    for _ in range(2):
        ownership, database = open_database(settings)
        assert ownership is not None
        database.close()
        ownership.release()
    os.truncate(file, 0)
    for _ in range(2):
        with pytest.raises(
            StoreUnavailable, match=r"has 0 bytes, but a service has stored data in it.*remove the file"
        ):
            open_database(settings)
    assert file.stat().st_size == 0
    file.unlink()
    ownership, database = open_database(settings)
    assert ownership is not None
    database.close()
    ownership.release()
