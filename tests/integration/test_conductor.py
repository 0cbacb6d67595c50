"""Searches run from the first job to a champion, without HTTP and without a device."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import event

from api.families import Catalogue
from api.scheduler.leasing.claims import FIRST_RESULTS_S
from api.schemas import SearchRequest
from db.engine.signals import WORK
from db.repositories.champions import Champions
from db.repositories.leases import StaleLease
from evo.errors import Conflict, InvalidInput
from evo.messages.job import Baseline, Confirm, Evaluate, Lease
from evo.search.lifecycle import ALIKE, RUN_ALIKE
from evo.strategy.parts import initial_design
from evo.trial import Config
from evo.trial.outcome import Abandoned, CompileFailed, Crashed, Impossible, Measured, ReferenceFailed, TimedOut
from evo.trial.results import BaselineReport, ConfirmReport, EvaluateReport, Stages
from tests.integration.stage import DIGEST, OTHER_DIGEST, TOY, VALID, Stage, answer, policy, timing, toy_time_us


def test_search_runs_baselines_trials_and_a_confirmation_and_promotes_a_champion(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 6})
    jobs = [lease.job for lease in stage.play()]

    assert isinstance(jobs[0], Baseline)
    assert [job.number for job in jobs[1:7] if isinstance(job, Evaluate)] == list(range(6))
    assert isinstance(jobs[7], Confirm)
    assert len(jobs) == 8
    view = stage.view(search)
    assert (view.state, view.reason, view.finished) == ("finished", "trials", 6)
    assert view.best is not None
    assert view.champion is not None
    assert view.champion.config == view.best.config == jobs[7].challenger
    assert view.fastest_baseline == "library"
    assert view.speedup == pytest.approx(20.0 / view.best.time_us)
    assert view.roofline is not None
    assert view.challenges[0].verdict.promote
    assert stage.claim() == []


def test_search_ends_when_every_valid_config_has_been_tried(stage: Stage) -> None:
    search = stage.submit()
    trials = [lease.job for lease in stage.play() if isinstance(lease.job, Evaluate)]
    assert len({tuple(job.config.items()) for job in trials}) == VALID
    view = stage.view(search)
    assert (view.state, view.reason) == ("finished", "exhausted")
    assert view.champion is not None
    assert view.champion.config == {"BLOCK": 8, "UNROLL": 2}


def test_search_time_limit_excludes_pauses(stage: Stage) -> None:
    search = stage.submit(budget={"minutes": 1})
    list(stage.play(3))
    stage.wait(30)
    stage.conductor.orders.command(search, "pause")
    assert stage.claim() == []
    stage.wait(1000)
    stage.conductor.orders.command(search, "resume")
    assert stage.view(search).elapsed_s == pytest.approx(30)
    lease = stage.one()
    stage.wait(31)
    stage.conductor.sweep()
    assert stage.view(search).state == "stopping"
    stage.hand_in(lease)
    list(stage.play())
    assert (stage.view(search).state, stage.view(search).reason) == ("finished", "minutes")


def test_policy_sets_the_number_of_trials_between_confirmations(stage: Stage) -> None:
    stage.submit(policy=policy(challenge_every=3))
    kinds = [lease.job.kind for lease in stage.play(6)]
    assert kinds == ["baseline", "evaluate", "evaluate", "evaluate", "confirm", "evaluate"]


@pytest.mark.parametrize(("minutes", "first"), [(0.4, "evaluate"), (1.0, "baseline")])
def test_short_search_measures_its_baselines_after_its_trials(stage: Stage, minutes: float, first: str) -> None:
    search = stage.submit(budget={"minutes": minutes})
    leases = [stage.one() for _ in range(3)]
    kinds = [lease.job.kind for lease in leases]
    assert (kinds[0], "baseline" in kinds) == (first, first == "baseline")
    stage.wait(60 * minutes + 1)
    for lease in leases:
        stage.hand_in(lease)
    stage.conductor.sweep()
    later = [lease.job.kind for lease in stage.play()]
    assert [*kinds, *later].count("baseline") == 1
    assert later[0] == ("baseline" if first == "evaluate" else "confirm")
    view = stage.view(search)
    assert (view.state, view.reason) == ("finished", "minutes")
    assert view.baselines


def test_short_search_confirms_trials_only_at_its_end(stage: Stage) -> None:
    search = stage.submit(budget={"minutes": 0.4}, policy=policy(challenge_every=1))
    assert [lease.job.kind for lease in stage.play(8)] == ["evaluate"] * 8
    stage.wait(25)
    stage.conductor.sweep()
    assert [lease.job.kind for lease in stage.play()][:2] == ["baseline", "confirm"]
    assert stage.view(search).champion is not None


def test_first_confirmation_waits_until_its_expected_time_fits_the_time_share(
    stage: Stage,
) -> None:
    """Baselines of 0.5 s take 1 s in the two processes of a confirmation, which is a tenth of 10 s."""
    stage.submit(policy=policy(challenge_every=1, confirm_processes=2, confirming_share=0.1))
    lease = stage.one()
    report = BaselineReport(timings={"library": timing(20.0)}, stages=Stages(measure_s=0.5))
    stage.conductor.report(lease.attempt_id, lease.token, report)
    assert {lease.job.kind for lease in stage.play(4)} == {"evaluate"}
    stage.wait(9)
    assert {lease.job.kind for lease in stage.play(2)} == {"evaluate"}
    stage.wait(2)
    assert "confirm" in {lease.job.kind for lease in stage.play(2)}


@pytest.mark.slow
def test_claims_do_not_query_for_challengers_during_a_confirmation(stage: Stage) -> None:
    stage.submit(policy=policy(challenge_every=1))
    stage.hand_in(stage.one())
    first, second = stage.one(), stage.one()

    def statements_of_a_claim() -> list[str]:
        asked: list[str] = []
        event.listen(stage.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
        assert isinstance(stage.one().job, Evaluate)
        return asked.copy()

    before = statements_of_a_claim()
    stage.hand_in(first)
    confirmation = stage.one()
    assert isinstance(confirmation.job, Confirm)
    stage.hand_in(second)  # this result adds another possible challenger
    stage.one()
    assert statements_of_a_claim() == before
    stage.hand_in(confirmation)
    assert [lease.job.kind for lease in stage.play()].count("confirm") > 0


def test_idle_workers_wait_for_the_first_results_of_a_search_and_are_then_notified(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_design, "FIRST", 3)
    monkeypatch.setattr(initial_design, "SHARE", 1.0)
    stage.submit(strategy="portfolio")
    leases = stage.claim(count=9)
    assert [lease.job.kind for lease in leases] == ["baseline", "evaluate", "evaluate", "evaluate"]
    assert stage.claim("w1", count=9) == []
    heard: list[str] = []
    stage.database.signals.subscribe(heard.append)
    under_way = leases[1:]
    for _ in range(3):
        stage.hand_in(under_way.pop())
        assert WORK not in heard
        under_way += stage.claim(count=9)
        assert len(under_way) == 3  # one new lease replaces the ended lease
    stage.hand_in(under_way.pop())
    assert WORK in heard
    assert len(stage.claim(count=9)) == 2  # two more leases are active, and four leases have ended


def test_idle_workers_wait_a_limited_time_for_the_first_results_of_a_search(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_design, "FIRST", 3)
    stage.submit(strategy="portfolio")
    assert len(stage.claim(count=9)) == 4
    stage.wait(FIRST_RESULTS_S - 1)
    assert stage.claim(count=9) == []
    stage.wait(1)
    assert len(stage.claim(count=9)) == 9


def test_confirmations_during_a_search_use_about_a_tenth_of_its_time(stage: Stage) -> None:
    search = stage.submit(policy=policy(challenge_every=1), strategy="random")
    kinds, passing_s = [], {"baseline": 3.0, "evaluate": 1.0, "confirm": 7.0}
    while leases := stage.claim():
        kinds.append(leases[0].job.kind)
        stage.wait(passing_s[leases[0].job.kind])
        report = answer(leases[0])
        if isinstance(report, BaselineReport):
            report = replace(report, stages=Stages(measure_s=1.0))
        stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    early = kinds.index("confirm")
    assert early == 8  # the confirmation runs after ten seconds, ten times the duration of the baselines
    assert kinds[early + 1 :].count("evaluate") == VALID - 7
    # the confirmation took seven seconds of the search, so the next confirmation comes later
    assert "confirm" not in kinds[early + 1 : VALID + 2]
    assert stage.view(search).state == "finished"


def test_second_search_challenges_the_champion_of_the_first_search(stage: Stage) -> None:
    stage.submit(budget={"trials": 1})
    list(stage.play())
    (first,) = stage.champions()
    stage.submit(seed=1)
    confirmations = [lease.job for lease in stage.play() if isinstance(lease.job, Confirm)]
    assert confirmations[-1].incumbent == first.config
    newest, oldest = stage.champions()
    assert newest.config == {"BLOCK": 8, "UNROLL": 2}
    assert (newest.replaces, newest.current) == (first.id, True)
    assert not oldest.current
    assert oldest.retired_reason == f"replaced by trial {newest.trial_number} of search 2"


def test_confirmation_report_without_the_incumbent_is_refused_and_can_be_repeated(stage: Stage) -> None:
    """Without this check, a challenger would replace a champion without a comparison."""
    stage.submit(budget={"trials": 3}, seed=5)
    list(stage.play())
    stage.submit(seed=1)
    lease = next(lease for lease in iter(stage.one, None) if not _settled_unless_it_challenges(stage, lease))
    report = answer(lease)
    assert isinstance(report, ConfirmReport)
    for left_out, field in (
        (replace(report, incumbent=None), "report.incumbent"),
        (replace(report, challenger=replace(timing(5.0), protocol=1)), "report.challenger.protocol"),
    ):
        with pytest.raises(InvalidInput) as refused:
            stage.conductor.report(lease.attempt_id, lease.token, left_out)
        assert refused.value.field == field
        assert len(stage.champions()) == 1
    stage.conductor.report(lease.attempt_id, lease.token, report)
    assert len(stage.champions()) == 2


def _settled_unless_it_challenges(stage: Stage, lease: Lease) -> bool:
    if isinstance(lease.job, Confirm) and lease.job.incumbent is not None:
        return False
    stage.hand_in(lease)
    return True


def test_confirmation_without_evidence_promotes_nothing(stage: Stage) -> None:
    search = stage.submit()
    while leases := stage.claim():
        report = answer(leases[0])
        if isinstance(report, ConfirmReport):
            report = ConfirmReport(challenger=report.challenger, challenger_again=report.challenger_again)
        stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    assert stage.champions() == []
    verdicts = [each.verdict for each in stage.view(search).challenges]
    assert verdicts
    assert all("lacks evidence" in verdict.summary for verdict in verdicts)


def test_search_without_a_faster_trial_does_not_challenge_the_champion(stage: Stage) -> None:
    stage.submit()
    list(stage.play())
    again = stage.submit(seed=5)
    kinds = {lease.job.kind for lease in stage.play()}
    assert kinds == {"baseline", "evaluate"}
    view = stage.view(again)
    assert (view.state, view.challenges) == ("finished", ())
    assert view.unchallenged is not None
    assert "did not challenge: champion 1 took" in view.unchallenged


def test_worker_warnings_survive_a_service_restart(stage: Stage) -> None:
    search = stage.submit()
    (lease,) = [each for each in stage.claim(count=1) if isinstance(each.job, Baseline)]
    assert stage.view(search).warnings == ()
    stage.conductor.report(lease.attempt_id, lease.token, BaselineReport(timings={}, warnings=("A does nothing.",)))
    stage.restart()
    assert stage.view(search).warnings == ("A does nothing.",)


def test_rolled_back_kernel_is_not_promoted_again_and_the_verdict_states_the_reason(stage: Stage) -> None:
    search = stage.submit()
    list(stage.play())
    with stage.database.write() as session:
        Champions(session).roll_back(1, reason="wrong for NaN", now=stage.now)
    assert stage.view(search).rolled_back == "champion 1 was rolled back: wrong for NaN"
    with pytest.raises(Conflict, match="champion 1 was rolled back: wrong for NaN, so there is nothing"):
        stage.conductor.orders.ablate(search, values=False)
    again = stage.submit(seed=5)
    list(stage.play())
    first, second, *_ = stage.view(again).challenges
    assert first.verdict.summary.startswith("Not promoted. This kernel was champion 1, which was rolled back: wrong")
    assert second.verdict.promote
    champion = stage.view(again).champion
    assert champion is not None
    assert champion.config != stage.champions()[-1].config


def test_next_fastest_trial_challenges_when_a_confirmation_fails(stage: Stage) -> None:
    search = stage.submit()
    refused: list[Config] = []
    while leases := stage.claim():
        report = answer(leases[0])
        if isinstance(leases[0].job, Confirm) and len(refused) < 2:
            refused.append(leases[0].job.challenger)
            report = ConfirmReport(failure=Crashed(stage="verify", reason="SIGSEGV"), failed="challenger")
        stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    view = stage.view(search)
    assert [each.verdict.promote for each in view.challenges] == [False, False, True]
    assert view.champion is not None
    assert view.champion.config not in refused
    ranked = sorted(stage.trials(search), key=lambda trial: (trial.time_us or 0, trial.number))
    assert [*refused, view.champion.config] == [trial.config for trial in ranked[:3]]


def test_corrected_time_of_a_confirmed_trial_survives_a_restart(stage: Stage) -> None:
    search = stage.submit(policy=policy(challenge_every=3))
    corrected: dict[int, object] = {}
    while not corrected:
        (lease,) = stage.claim()
        report = answer(lease)
        if isinstance(report, ConfirmReport):
            lucky = next(trial for trial in stage.trials(search) if trial.config == lease.job.challenger)
            slower = timing(1.5 * toy_time_us(lucky.config))
            corrected = {lucky.number: pytest.approx(slower.median_us)}
            report = replace(report, challenger=slower, challenger_again=slower)
        stage.conductor.report(lease.attempt_id, lease.token, report)
    for _ in range(2):
        with stage.conductor.registry.transaction(search) as transaction:
            assert transaction is not None
            assert transaction.active.search.history.corrected == corrected
        stage.restart()


def test_confirmation_on_a_slowed_device_does_not_correct_the_quick_time(stage: Stage) -> None:
    search = stage.submit(policy=policy(challenge_every=3))
    confirmed = False
    while not confirmed:
        (lease,) = stage.claim()
        report = answer(lease)
        if isinstance(report, ConfirmReport):
            confirmed = True
            slower = timing(1.5 * toy_time_us(lease.job.challenger))
            warm = {name: timing(1.5 * each.median_us) for name, each in report.baselines.items()}
            report = replace(report, challenger=slower, challenger_again=slower, baselines=warm)
        stage.conductor.report(lease.attempt_id, lease.token, report)
    for _ in range(2):
        with stage.conductor.registry.transaction(search) as transaction:
            assert transaction is not None
            assert transaction.active.search.history.corrected == {}
        stage.restart()


def test_champion_confirmed_on_a_slowed_device_is_not_challenged_by_slower_trials(stage: Stage) -> None:
    """Trials whose quick times equal the champion's must not challenge it, although its confirmed time is longer."""
    search = stage.submit(budget={"trials": 9})
    confirmed = []
    while leases := stage.claim():
        report = answer(leases[0])
        if isinstance(leases[0].job, Confirm):
            assert isinstance(report, ConfirmReport)
            confirmed.append(leases[0].job.challenger)
            slower = timing(1.5 * toy_time_us(leases[0].job.challenger))
            report = replace(report, challenger=slower, challenger_again=slower, baselines={"library": timing(30.0)})
        stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    view = stage.view(search)
    assert view.champion is not None
    times = sorted(trial.time_us for trial in stage.trials(search) if trial.time_us is not None)
    assert times[1] < 0.98 * view.champion.time_us, "the next trial must look faster than the champion's confirmed time"
    assert confirmed == [view.champion.config]


def confirmed_configs(stage: Stage, search: int, *, slower: float, lucky: Mapping[str, float] = {}) -> list[Config]:
    """Run a search to its end, and return the confirmed configs in order.

    Args:
        slower: factor by which kernels, but not baselines, take longer in confirmations than in quick samples.
        lucky: factors of quick times, by config as text. With a factor below 1, the time is too low by chance.
    """
    confirmed = []
    while leases := stage.claim():
        report, job = answer(leases[0]), leases[0].job
        if isinstance(report, EvaluateReport) and isinstance(job, Evaluate):
            quick = timing(toy_time_us(job.config) * lucky.get(str(job.config), 1.0))
            report = replace(report, outcome=Measured(timing=quick))
        elif isinstance(report, ConfirmReport) and isinstance(job, Confirm):
            confirmed.append(job.challenger)
            late = timing(slower * toy_time_us(job.challenger))
            beside = None if job.incumbent is None else timing(slower * toy_time_us(job.incumbent))
            report = replace(report, challenger=late, challenger_again=late, incumbent=beside)
        stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    assert stage.view(search).state == "finished"
    return confirmed


def test_undetected_device_slowdown_causes_at_most_one_extra_challenge(stage: Stage) -> None:
    """The second confirmation shows that the device slows every kernel, not only the champion."""
    search = stage.submit(budget={"trials": 14})
    confirmed = confirmed_configs(stage, search, slower=1.8)
    champion = stage.view(search).champion
    assert champion is not None
    times = sorted(trial.time_us for trial in stage.trials(search) if trial.source == "quick" and trial.time_us)
    assert times[0] < 0.98 * champion.time_us, "the next trial must be faster than the champion's confirmed time"
    assert len(confirmed) == 2 and champion.config == confirmed[0]
    assert stage.view(search).unconfirmed is None


def test_faster_trial_challenges_after_an_undetected_device_slowdown(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 14}, policy=policy(challenge_every=1))
    confirmed = confirmed_configs(stage, search, slower=1.8)
    champion = stage.view(search).champion
    assert champion is not None and champion.config == confirmed[-1] != confirmed[0]
    assert toy_time_us(champion.config) == min(toy_time_us(trial.config) for trial in stage.trials(search))


def test_faster_trial_challenges_a_champion_whose_quick_time_was_too_low(stage: Stage) -> None:
    lucky, best = {"BLOCK": 16, "UNROLL": 2}, {"BLOCK": 8, "UNROLL": 2}
    search = stage.submit(budget={"trials": 14})
    confirmed = confirmed_configs(stage, search, slower=1.0, lucky={str(lucky): 0.5})
    champion = stage.view(search).champion
    assert champion is not None and champion.config == best and confirmed == [lucky, best]


def test_trial_challenges_again_if_the_incumbent_changed_during_its_confirmation(stage: Stage) -> None:
    slow = stage.submit(budget={"trials": 2})
    fast = stage.submit(budget={"trials": 9}, seed=3)
    held = None
    while leases := stage.claim():
        lease = leases[0]
        if isinstance(lease.job, Confirm) and lease.terms.search_id == slow and held is None:
            held = lease
            continue
        stage.hand_in(lease)
    assert held is not None
    assert stage.view(fast).champion is not None
    stage.hand_in(held)
    list(stage.play())
    view = stage.view(slow)
    assert view.state == "finished"
    assert view.challenges[0].verdict.summary.startswith("Not promoted. The incumbent changed")
    assert len(view.challenges) == 2
    assert sum(champion.current for champion in stage.champions()) == 1


def test_champion_that_an_edited_family_cannot_build_is_replaced_without_comparison(stage: Stage) -> None:
    stage.submit(budget={"trials": 1})
    (first,) = [lease.job.config for lease in stage.play() if isinstance(lease.job, Evaluate)]
    edited = {**TOY, "cpu": {**TOY["cpu"], "tunables": {**TOY["cpu"]["tunables"], "BLOCK": {"values": [8, 64]}}}}
    stage.register_family(edited, OTHER_DIGEST)
    assert first["BLOCK"] != 8
    stage.submit(family_digest=OTHER_DIGEST)
    (confirm,) = [lease.job for lease in stage.play() if isinstance(lease.job, Confirm)]
    assert confirm.incumbent is None  # the config of the first champion no longer exists
    newest, oldest = stage.champions()
    assert newest.replaces == oldest.id


def test_search_fails_with_the_first_error_if_no_trial_was_measured(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 3})
    while leases := stage.claim():
        lease = leases[0]
        stage.hand_in(lease, CompileFailed(log="no such file"))
    view = stage.view(search)
    assert view.state == "failed"
    assert view.reason == "none of the 3 trials could be measured: 3 compile failed. First failure: no such file"
    assert view.champion is None


def test_failing_reference_ends_the_search_and_uses_no_budget(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 9})
    served = 0
    while leases := stage.claim():
        served += isinstance(leases[0].job, Evaluate)
        stage.hand_in(leases[0], ReferenceFailed(reason="reference.py, reference() (line 18): ValueError: boom"))
    view = stage.view(search)
    assert (served, view.state, view.counts) == (3, "failed", {"reference_failed": 3})
    assert view.reason == ("no config can be verified: reference.py, reference() (line 18): ValueError: boom")


def test_compile_error_common_to_all_configs_ends_the_search_with_one_explanation(stage: Stage) -> None:
    search, served = stage.submit(budget={"trials": 60}), 0
    while leases := stage.claim():
        served += isinstance(leases[0].job, Evaluate)
        stage.hand_in(leases[0], CompileFailed(log=f"k.c:{served}:1: error: unknown type name 'flaot'"))
    view = stage.view(search)
    assert (view.state, served) == ("failed", ALIKE)
    assert view.reason == f"the first {ALIKE} configs fail to compile with the same error: unknown type name 'flaot'"


def test_search_ends_if_all_pairs_of_values_fail_at_the_same_error_directive(stage: Stage) -> None:
    tunables = {
        "BLOCK": {"values": [8, 16, 32]},
        "UNROLL": {"values": [1, 2, 4]},
        "PAD": {"values": [0, 1, 2, 3, 4, 5]},
    }
    stage.register_family({**TOY, "cpu": {**TOY["cpu"], "tunables": tunables}}, OTHER_DIGEST)
    search, served = stage.submit(budget={"trials": 36}, family_digest=OTHER_DIGEST), 0
    while leases := stage.claim():
        served += isinstance(leases[0].job, Evaluate)
        stage.hand_in(leases[0], CompileFailed(log="k.c:7:2: error: #error unsupported"))
    view = stage.view(search)
    assert view.state == "failed" and RUN_ALIKE <= served < 36
    assert view.reason is not None
    assert f"the first {served} configs fail to compile with the same error: #error unsupported. " in view.reason


def test_error_directive_that_depends_on_no_tunable_ends_the_search(stage: Stage) -> None:
    search, served = stage.submit(budget={"trials": 60}), 0
    while leases := stage.claim():
        served += isinstance(leases[0].job, Evaluate)
        stage.hand_in(leases[0], CompileFailed(log="k.c:7:2: error: #error unsupported", decided_by=()))
    view = stage.view(search)
    assert (view.state, served) == ("failed", ALIKE)
    assert view.reason is not None
    assert f"the first {ALIKE} configs fail to compile: #error unsupported. No tunable affects this" in view.reason


def test_time_below_the_roofline_is_impossible_and_never_ranked(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 1})
    stage.hand_in(stage.one())
    stage.hand_in(stage.one(), Measured(timing=timing(1e-4)))
    (trial,) = stage.trials(search)
    assert isinstance(trial.outcome, Impossible)
    assert trial.time_us is None
    assert stage.view(search).state == "failed"


@pytest.mark.parametrize("baseline_first", [True, False])
def test_trial_ten_times_faster_than_every_baseline_is_marked_as_suspect(stage: Stage, baseline_first: bool) -> None:
    search = stage.submit(budget={"trials": 2})
    baseline, first, second = (*stage.claim(count=3),)
    if baseline_first:
        stage.hand_in(baseline)
    stage.hand_in(first, Measured(timing=timing(1.9)))
    stage.hand_in(second, Measured(timing=timing(2.1)))
    if not baseline_first:
        stage.hand_in(baseline)
    assert [trial.suspect for trial in stage.trials(search)] == [True, False]


def test_crashed_and_timed_out_trials_are_retried_up_to_the_fault_limit_of_the_policy(stage: Stage) -> None:
    search = stage.submit(policy=policy(max_candidate_faults=3))
    stage.hand_in(stage.one())
    first = stage.one()
    stage.hand_in(first, Crashed(stage="verify", reason="SIGSEGV"))
    second = stage.one()
    assert second.job == first.job
    stage.hand_in(second, TimedOut(stage="measure", limit_s=1.0))
    assert stage.trials(search)[0].outcome is None
    third = stage.one()
    stage.hand_in(third, Crashed(stage="verify", reason="SIGSEGV"))
    assert isinstance(stage.trials(search)[0].outcome, Crashed)
    assert isinstance(stage.one().job, Evaluate)


def test_crashed_trial_is_not_retried_by_default(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.hand_in(stage.one(), Crashed(stage="verify", reason="SIGSEGV"))
    assert isinstance(stage.trials(search)[0].outcome, Crashed)


def test_stopped_search_confirms_its_best_trial(stage: Stage) -> None:
    search = stage.submit()
    list(stage.play(3))
    running = stage.one()
    stage.conductor.orders.command(search, "stop")
    assert stage.claim() == []
    stage.hand_in(running)
    assert isinstance(stage.one().job, Confirm)
    stage.conductor.orders.command(search, "stop")  # a repeated stop changes nothing
    assert stage.view(search).state == "stopping"


def test_search_stopped_before_its_first_job_ends_immediately(stage: Stage) -> None:
    search = stage.submit()
    stage.conductor.orders.command(search, "stop")
    assert (stage.view(search).state, stage.view(search).asked) == ("finished", 0)
    assert stage.claim() == []


def test_search_stopped_before_its_first_trial_ends_after_the_baseline(stage: Stage) -> None:
    search = stage.submit()
    baseline = stage.one()
    stage.conductor.orders.command(search, "stop")
    assert stage.view(search).state == "stopping"
    stage.hand_in(baseline)
    assert (stage.view(search).state, stage.view(search).asked) == ("finished", 0)


def test_cancel_immediately_ends_the_search_its_trials_and_its_leases(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    leases = stage.claim(count=2)
    stage.conductor.orders.command(search, "cancel")
    view = stage.view(search)
    assert (view.state, view.counts) == ("cancelled", {"cancelled": 2})
    assert set(stage.conductor.heartbeat("w1", [lease.attempt_id for lease in leases]).cancel) == {
        lease.attempt_id for lease in leases
    }
    with pytest.raises(StaleLease):
        stage.hand_in(leases[0])
    with pytest.raises(Conflict, match="cancelled"):
        stage.conductor.orders.command(search, "resume")
    stage.conductor.orders.command(search, "cancel")


def test_error_for_an_empty_space_gives_the_reason_of_the_constraint(stage: Stage) -> None:
    broken = {**TOY["cpu"], "constraints": [{"expression": "BLOCK > 100", "because": "nothing fits"}]}
    stage.register_family({**TOY, "cpu": broken}, OTHER_DIGEST)
    with pytest.raises(InvalidInput, match="nothing fits"):
        stage.submit(family_digest=OTHER_DIGEST)


@pytest.mark.parametrize(
    ("terms", "error", "text"),
    [
        ({"problem": {"M": 1}}, InvalidInput, "problem.M"),
        ({"problem": "N=0"}, InvalidInput, "problem.N"),
        ({"strategy": "magic"}, InvalidInput, "^strategy: there is no `magic`. Strategies: evolution, "),
        ({"objective": {"threads": 3}}, InvalidInput, "^objective.threads: 3 .* accepted: 1 … 2, the cores of Toy CPU"),
        ({"objective": {"launch": "pdl"}}, InvalidInput, "^objective.launch: .* sm_90 or newer, but Toy CPU .*plain$"),
        ({"objective": {"threads": 0}}, InvalidInput, "^objective.threads: 0 "),
        ({"policy": "lax"}, InvalidInput, "policy"),
        ({"policy": {"minimum_gian": 0.1}}, InvalidInput, "minimum_gain"),
        ({"device": "cuda"}, InvalidInput, "cuda"),
        ({"device": "Other CPU"}, Conflict, "Toy CPU"),
        ({"device": "Other CPU", "strategy": "magic"}, InvalidInput, "^strategy"),
        ({"device": "Other CPU", "objective": {"target": "sm_1"}}, InvalidInput, "^objective.target"),
        ({"device_uuid": "cpu-9"}, Conflict, "cpu-9"),
    ],
)
def test_error_names_the_invalid_field_of_a_search_request(
    stage: Stage, terms: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        stage.submit(**terms)


@pytest.mark.parametrize(("from_default", "block"), [(False, 16), (True, 4)])
def test_search_begins_with_a_starting_config_unless_from_default_is_set(
    stage: Stage, from_default: bool, block: int
) -> None:
    start = {"expression": "N >= 1", "config": {"BLOCK": 16}, "because": "it was fast elsewhere"}
    stage.register_family({**TOY, "cpu": {**TOY["cpu"], "starts": [start]}}, OTHER_DIGEST)
    stage.submit(family_digest=OTHER_DIGEST, strategy="portfolio", from_default=from_default)
    [first] = [lease.job for lease in stage.claim(count=2) if isinstance(lease.job, Evaluate)]
    assert first.config == {"BLOCK": block, "UNROLL": 1}


def test_search_is_refused_while_its_only_worker_sends_no_heartbeats(stage: Stage) -> None:
    stage.register_family()
    stage.register_worker()
    request = SearchRequest(family_digest=DIGEST, strategy="random")
    stage.wait(1000)
    with pytest.raises(Conflict, match="no connected worker"):
        stage.conductor.orders.submit(request)
    stage.conductor.heartbeat("w1", [])
    stage.conductor.orders.submit(request)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lease: EvaluateReport(outcome=Abandoned(worker_losses=1)),
        lambda lease: EvaluateReport(outcome=Measured(timing=timing(1.0, count=0))),
        lambda lease: EvaluateReport(outcome=Measured(timing=timing(-1.0))),
        lambda lease: EvaluateReport(outcome=Measured(timing=timing(float("inf")))),
    ],
)
def test_invalid_report_is_refused_and_the_lease_stays_valid(
    stage: Stage, spoil: Callable[[object], EvaluateReport]
) -> None:
    stage.submit()
    stage.hand_in(stage.one())
    lease = stage.one()
    with pytest.raises(InvalidInput, match=r"report\.outcome"):
        stage.conductor.report(lease.attempt_id, lease.token, spoil(lease))
    stage.hand_in(lease)


def test_report_of_the_wrong_kind_is_refused(stage: Stage) -> None:
    stage.submit()
    baseline = stage.one()
    report = EvaluateReport(outcome=Measured(timing=timing(1.0)))
    with pytest.raises(InvalidInput, match=r"report\.kind"):
        stage.conductor.report(baseline.attempt_id, baseline.token, report)
    stage.hand_in(baseline)


def test_best_trial_of_a_search_is_the_fastest_trial(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 8})
    list(stage.play())
    best = stage.view(search).best
    assert best is not None
    assert best.time_us == pytest.approx(min(toy_time_us(trial.config) for trial in stage.trials(search)))


def test_enumerating_a_large_space_delays_no_other_search(monkeypatch: pytest.MonkeyPatch) -> None:
    began, end = threading.Event(), threading.Event()

    def family(document: str) -> Any:
        def space(*_: object) -> str:
            if document == "large":
                began.set()
                assert end.wait(30)
            return document

        return Mock(space=space)

    monkeypatch.setattr("api.families.parsed", family)
    monkeypatch.setattr("api.families.aimed_at", lambda device, _: device)
    large, small = (Mock(family=Mock(digest=name, document=name), problem_key="") for name in ("large", "small"))
    catalogue = Catalogue()
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(catalogue.space(large))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert began.wait(30)
    assert catalogue.space(small) == "small"
    assert not found
    end.set()
    for thread in threads:
        thread.join(30)
    assert found == ["large", "large"]
