"""The compile cache writes atomically, checks its entries, limits its size, and never stops a compilation."""

import errno
import os
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import LogCapture

from workers.build.cache import Cache, cache_key


def key(name: str) -> str:
    return cache_key(name)


def age(cache: Cache, name: str, seconds: float) -> None:
    path = cache.folder / key(name)[:2] / key(name)
    os.utime(path, (seconds, seconds))


def test_compile_cache_returns_the_stored_value(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(key("a")) is None
    cache.put(key("a"), b"content")
    assert Cache(tmp_path).get(key("a")) == b"content"
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 32 + b"content"])
def test_corrupt_cache_entry_counts_as_absent_and_can_be_stored_again(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    cache.put(key("a"), b"content")
    (tmp_path / key("a")[:2] / key("a")).write_bytes(damage)
    assert cache.get(key("a")) is None
    cache.put(key("a"), b"content")
    assert cache.get(key("a")) == b"content"


def test_compile_cache_evicts_least_recently_used_entries_beyond_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=500)
    for position, name in enumerate("abc"):
        cache.put(key(name), bytes(100))
        age(cache, name, 1000 + position)
    cache.get(key("a"))  # makes this entry the most recently used
    cache.put(key("d"), bytes(100))
    assert [name for name in "abcd" if cache.get(key(name)) is not None] == ["a", "c", "d"]


def test_unwritable_cache_folder_sets_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    cache.put(key("a"), b"content")
    cache.put(key("b"), b"content")
    assert cache.get(key("a")) is None
    assert cache.warning is not None
    assert str(cache.folder) in cache.warning
    assert "--cache" in cache.warning


def test_unwritable_folder_of_several_caches_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogCapture()  # does not depend on loggers that other tests configured
    logger = structlog.wrap_logger(None, [logs], wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr("workers.build.cache.log", lambda: logger)
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        cache = Cache(tmp_path / "file" / "cache")
        cache.put(key("a"), b"content")
        assert cache.warning is not None
    assert [entry["event"] for entry in logs.entries] == ["the cache cannot be written"]


def test_unrelated_files_in_the_cache_folder_do_not_stop_eviction(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=2_000)
    cache.put(key("0"), b"x" * 100)
    beside = cache._path(key("0")).parent
    (beside / "folder").mkdir()
    (beside / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_text("not ours")
    for number in range(1, 40):
        cache.put(key(str(number)), b"x" * 300)
    assert cache.warning is None
    assert sum(path.stat().st_size for path in tmp_path.glob("??/*") if path.is_file()) <= 2_400
    assert cache.get(key("39")) is not None


def test_cache_on_a_full_disk_warns_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    cache = Cache(tmp_path)
    cache.put(key("a"), b"content")
    assert "No space left" in (cache.warning or "")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_cache_keys_are_equal_only_for_equal_parts(left: list[str], right: list[str]) -> None:
    assert (cache_key(*left) == cache_key(*right)) == (left == right)
