"""The device lock lets only one process measure on a device, and is released if its holder is killed."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.serving import wait_until
from workers.system.descendants import descends_from_here
from workers.system.device_lock import GaveUp, exclusive, exclusive_if_free

HOLDER = """
import sys, time
from workers.system.descendants import descends_from_here
from workers.system.device_lock import GaveUp, exclusive
with exclusive("test-device/1"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_device_lock_of_a_killed_holder_is_acquired_and_wait_time_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.system.device_lock.BUSY_S", 0.25)
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with exclusive("test-device/1", on_busy=lambda _: holder.kill()) as waited_s:
            assert waited_s >= 0.25


def test_on_busy_callback_gets_the_process_id_of_the_lock_holder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.system.device_lock.BUSY_S", 0.05)
    holders: list[int | None] = []
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        def kill(pid: int | None) -> None:
            holders.append(pid)
            holder.kill()

        with exclusive("test-device/1", on_busy=kill):
            assert holders == [holder.pid]


def test_on_busy_callback_gets_none_if_the_lock_holder_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.system.device_lock.BUSY_S", 0.0)
    holders: list[int | None] = []
    with exclusive("one"):
        (tmp_path / "kernel-evo-one.lock").write_text("")
        with pytest.raises(GaveUp), exclusive("one", unwanted=lambda: bool(holders), on_busy=holders.append):
            pytest.fail("both hold it")
    assert holders == [None]


def test_read_only_lock_file_can_be_locked(tmp_path: Path) -> None:
    for name in ("kernel-evo-one.lock", "kernel-evo-one.queue.lock"):
        (tmp_path / name).touch(mode=0o444)
    with exclusive("one"), pytest.raises(GaveUp), exclusive("one", unwanted=lambda: True):
        pytest.fail("both hold it")


def test_wait_for_the_device_lock_ends_once_the_measurement_is_no_longer_needed() -> None:
    with exclusive("one"), pytest.raises(GaveUp), exclusive("one", unwanted=lambda: True):
        pytest.fail("both hold it")


def test_two_threads_alternate_on_the_device_lock() -> None:
    turns, ended = list[str](), set[str]()
    attempts: dict[str, list[bool]] = {"a": [], "b": []}

    def measure(name: str, other: str) -> None:
        for _ in range(5):
            with exclusive("one", unwanted=lambda: attempts[name].append(False) or False):
                turns.append(name)
                attempts[other].clear()
                # after a second failed attempt during this time, the other thread is the first in the queue
                wait_until(lambda: len(attempts[other]) > 1 or other in ended)
        ended.add(name)

    threads = [threading.Thread(target=measure, args=names) for names in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "".join(turns) in ("ab" * 5, "ba" * 5)


def test_lock_of_one_device_does_not_delay_measurements_on_a_second_device() -> None:
    with exclusive("one"), exclusive("two", unwanted=lambda: True):  # raises `GaveUp` if the device is in use
        pass


def test_device_lock_works_without_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "nowhere"))
    with exclusive("one") as waited_s:
        assert waited_s == 0.0


def test_exclusive_if_free_locks_only_a_free_device() -> None:
    with exclusive_if_free("one") as free:
        assert free
        with exclusive_if_free("one") as again:
            assert not again
        with pytest.raises(GaveUp), exclusive("one", unwanted=lambda: True):
            pass
    with exclusive("one"):
        with exclusive_if_free("one") as free:
            assert not free
        with exclusive_if_free("two") as free:
            assert free
    with exclusive("one", unwanted=lambda: True):  # raises `GaveUp` if the queue is not free
        pass


def test_ended_child_and_own_parent_do_not_count_as_descendants_of_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert descends_from_here(holder.pid)
        holder.kill()
    assert not descends_from_here(holder.pid)
    assert not descends_from_here(os.getppid())


def test_device_without_a_lock_file_counts_as_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with exclusive_if_free("one") as free:
        assert not free
