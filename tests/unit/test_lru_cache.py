"""The cache keeps the most recently used keys."""

from functools import partial

from evo.lru_cache import LruCache


def test_least_recently_used_value_is_dropped_first() -> None:
    dropped: list[str] = []
    latest: LruCache[int, str] = LruCache(2, dropped.append)
    assert [latest.get(key, partial("v{}".format, key)) for key in (1, 2, 1, 3)] == ["v1", "v2", "v1", "v3"]
    assert (dropped, len(latest)) == (["v2"], 2)
    assert latest.get(1, lambda: "new") == "v1"
    assert latest.get(2, lambda: "new") == "new"
    assert dropped == ["v2", "v3"]


def test_lru_cache_drops_no_value_if_computing_a_new_value_fails() -> None:
    latest: LruCache[int, int] = LruCache(1, lambda _: 1 // 0)
    latest.get(1, lambda: 1)
    try:
        latest.get(2, lambda: 1 // 0)
    except ZeroDivisionError:
        assert latest.get(1, lambda: 7) == 1
    else:
        raise AssertionError
