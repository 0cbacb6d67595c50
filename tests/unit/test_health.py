"""A device is quarantined after several faults, and an idle worker ends after its configured time."""

from workers.daemon.health import Health
from workers.daemon.idle_clock import Ending


def test_device_is_unhealthy_after_faults_on_three_candidates() -> None:
    health = Health()
    for candidate, reason in (("a", "Xid 1"), ("b", "Xid 2"), ("a", "Xid 3")):
        health.failed(candidate, reason)
        health.passed()
        assert health.verdict is None
    health.failed("c", "Xid 4")
    assert health.verdict == "a known-good kernel failed after 3 different candidates; last failure: Xid 4"
    health.forget()
    assert health.verdict is None


def test_device_is_unhealthy_after_three_consecutive_faults_of_one_candidate() -> None:
    health = Health()
    for _ in range(2):
        health.failed("a", "no such GPU")
        assert health.verdict is None
    health.failed("a", "no such GPU")
    assert health.verdict == "a known-good kernel failed 3 times in a row; last failure: no such GPU"


def test_idle_worker_ends_only_if_an_idle_limit_is_configured() -> None:
    assert Ending(begun_s=0.0).due(1e9, busy=False) is None


def test_idle_time_limit_of_a_worker_restarts_with_every_job() -> None:
    ending = Ending(begun_s=0.0, idle_s=60.0)
    assert ending.due(59.0, busy=False) is None
    assert ending.due(100.0, busy=True) is None
    assert ending.due(159.0, busy=False) is None
    assert ending.due(160.0, busy=False) == "there was no work for 60 s"


def test_worker_past_its_time_limit_ends_once_its_jobs_are_done() -> None:
    ending = Ending(begun_s=10.0, drain_after_s=100.0)
    assert not ending.closing(109.0)
    assert ending.closing(110.0)
    assert ending.due(120.0, busy=True) is None
    assert ending.due(121.0, busy=False) == "its running time has reached the limit"
