"""Variants of a search run from submission to champion, without HTTP and without a device."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, get_ident
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.families import files_of
from api.scheduler import variants as variants_module
from api.scheduler.variants import VariantDesk
from api.schemas import SearchRequest, VariantBody
from api.views import variant_view, variant_views
from db.models import FamilyRow, ProposalRow
from db.repositories.archive import Archive, latest_families
from db.repositories.artefacts import Artefacts
from db.repositories.retention import remove_search
from db.repositories.variants import Proposals, Variants
from evo.errors import Conflict, InvalidInput, NotFound
from evo.family.importing.kernelbench.writing import PROBLEM
from evo.messages.job import Baseline, Confirm, Evaluate, Lease
from evo.messages.view import VariantView
from evo.search.halving import FIRST, GROWTH, REPEATED
from evo.text.document import toml_text
from evo.text.wording import time_text
from evo.trial.outcome import CaseError, CompileFailed, Measured, WrongAnswer
from evo.trial.results import ConfirmReport, Profiled
from templates import registry
from tests.integration.inside import BROWSER
from tests.integration.serving import served
from tests.integration.stage import QUICK, TOY, Stage, answer, timing
from tests.integration.test_confirmed_figures import slowed

SOURCE = {"fast.c": "int width = BLOCK * UNROLL + N;\n"}
TABLE: dict[str, Any] = {"name": "fast", "idea": "wider", "author": "ana"}
LOG = "/home/ana/scratch/variant/fast.c:3:5: error: 'b' undeclared\n  3 | b;\n    | ^\nnote: other\n"


class Lab:
    """A `Stage` with a family whose files exist, so that variants can be composed."""

    def __init__(self, stage: Stage, folder: Path, *, model: str | None = None) -> None:
        self.stage, self.submitted = stage, 0
        self.desk = VariantDesk(
            database=stage.database,
            artefacts=Artefacts(folder / "artefacts"),
            catalogue=stage.conductor.catalogue,
            clock=stage.conductor.clock,
            connected_since=stage.conductor.connected_since,
        )
        family = folder / "toy"
        family.mkdir()
        (family / "family.toml").write_text(toml_text(TOY))
        (family / "reference.py").write_text("")
        (family / "kernel.c.j2").write_text("{{ BLOCK }} {{ UNROLL }} {{ N }}")
        if model is not None:
            (family / PROBLEM).write_text(model)
        self.package = registry.find(str(family))
        with stage.database.write() as session:
            Archive(session).register_family(
                digest=self.package.digest, name="toy", document=dict(TOY), location=str(family), now=stage.now
            )
        stage.register_worker()

    def search(self, **terms: Any) -> int:
        given = {"family_digest": self.package.digest, "strategy": "random", "policy": QUICK, **terms}
        return self.stage.conductor.orders.submit(SearchRequest.model_validate(given))

    def submit(self, search: int, **fields: Any) -> VariantView:
        """Submit a variant, by default with files that no other variant has, and return its view."""
        self.submitted += 1
        files = {"fast.c": f"{SOURCE['fast.c']}// {self.submitted}\n"}
        body = VariantBody.model_validate({"document": TABLE, "files": files, **fields})
        return self.view(*self.desk.submit(search, body))

    def view(self, search: int, number: int) -> VariantView:
        with self.stage.database.read() as session:
            return variant_view(session, search, number)

    def play(self, *, faster: float = 1.0) -> list[Lease]:
        """Serve every job, and return the leases. Variants take the time of the toy family divided by `faster`."""
        served = []
        while leases := self.stage.claim():
            lease = leases[0]
            served.append(lease)
            outcome = None
            if isinstance(lease.job, Evaluate) and lease.terms.family.digest != self.package.digest:
                outcome = Measured(timing=timing(toy_us(lease) / faster))
            self.stage.hand_in(lease, outcome)
        return served


def toy_us(lease: Lease) -> float:
    assert isinstance(lease.job, Evaluate)
    return 10.0 + abs(int(lease.job.config["BLOCK"]) - 8)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a lab on SQLite. Only the test of submissions also runs on PostgreSQL."""
    stage = Stage(tmp_path / "evo.db")
    yield Lab(stage, tmp_path)
    stage.database.close()


def test_submitted_variants_are_numbered_in_sqlite_and_postgresql(stage: Stage, tmp_path: Path) -> None:
    lab = Lab(stage, tmp_path)
    search = lab.search(budget={"trials": 2})
    lab.play()
    numbers = [lab.submit(search, document={"name": name}).number for name in ("one", "two")]
    assert numbers == [1, 2]


def test_variant_is_tuned_with_the_settings_of_its_search(lab: Lab) -> None:
    search = lab.search(budget={"trials": 6}, seed=7, problem={"N": 32})
    lab.play()
    view = lab.submit(search)
    jobs = [lease for lease in lab.play() if isinstance(lease.job, Evaluate)]

    base, tuning = lab.stage.view(search), lab.stage.view(view.tuning_id)
    for name in ("problem", "device", "objective", "policy", "seed", "strategy"):
        assert getattr(tuning, name) == getattr(base, name), name
    assert {lease.terms.family.digest for lease in jobs} == {view.family_digest} != {lab.package.digest}
    assert jobs[0].terms.family.location is not None
    assert jobs[0].terms.family.location.startswith("bundle:")
    assert (view.search_id, view.number, view.name, view.author) == (search, 1, "fast", "ana")


def test_variant_search_does_not_measure_baselines_again(lab: Lab) -> None:
    search = lab.search(budget={"trials": 6})
    lab.play()
    lab.submit(search)
    assert not any(isinstance(lease.job, Baseline) for lease in lab.play())


@pytest.mark.slow
def test_confirmation_job_contains_the_family_of_an_incumbent_from_another_variant(lab: Lab) -> None:
    search = lab.search(budget={"trials": 6})
    lab.play()
    view = lab.submit(search)
    confirm = next(lease for lease in lab.play(faster=3.0) if isinstance(lease.job, Confirm))

    assert isinstance(confirm.job, Confirm)
    assert confirm.job.incumbent is not None
    assert confirm.job.incumbent_family is not None
    assert confirm.job.incumbent_family.digest == lab.package.digest
    assert confirm.terms.family.digest == view.family_digest


@pytest.mark.slow
def test_equal_config_of_a_different_variant_may_challenge(lab: Lab) -> None:
    search = lab.search(budget={"trials": 14})
    lab.play()
    champion = lab.stage.view(search).champion
    assert champion is not None
    lab.submit(search, trials=14)
    challenged = [lease.job for lease in lab.play(faster=3.0) if isinstance(lease.job, Confirm)]
    assert champion.config in [job.challenger for job in challenged]


@pytest.mark.slow
def test_variant_among_the_fastest_gets_more_trials(lab: Lab) -> None:
    search = lab.search(budget={"trials": 12})
    lab.play()
    view = lab.submit(search, trials=2 * FIRST)
    lab.play(faster=2.0)
    done = lab.view(search, view.number)
    assert FIRST < done.finished <= 2 * FIRST
    assert done.reason in {"trials", "exhausted"}


def test_slower_variant_ends_after_its_first_trials(lab: Lab) -> None:
    search = lab.search(budget={"trials": 12})
    lab.play()
    view = lab.submit(search, trials=FIRST * GROWTH)
    lab.play(faster=0.5)
    done = lab.view(search, view.number)
    assert (done.finished, done.reason, done.state) == (FIRST, "outperformed", "finished")


@pytest.mark.slow
def test_stagnating_search_gives_a_slower_variant_of_a_new_niche_more_trials(lab: Lab) -> None:
    search = lab.search(budget={"trials": 14})
    lab.play()
    trials = {}
    for name, mechanisms in (("early", ("mma",)), ("same", ("scalar",)), ("again", ("scalar",)), ("late", ("wgmma",))):
        view = lab.submit(search, document={"name": name}, trials=FIRST + 1)
        while leases := lab.stage.claim():
            measured = Measured(timing=timing(200.0 + view.number), mechanisms=mechanisms)
            lab.stage.hand_in(leases[0], measured if isinstance(leases[0].job, Evaluate) else None)
        trials[name] = lab.view(search, view.number).finished
    assert trials["early"] == FIRST, "the search found its best trial recently"
    assert trials["again"] == FIRST, "another variant of its niche is better"
    assert trials["late"] == FIRST + 1


def test_profile_of_a_champion_states_what_bounds_its_variant(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    assert lab.view(search, 0).bound is None
    while leases := lab.stage.claim():
        report = answer(leases[0])
        if isinstance(report, ConfirmReport):
            report = replace(report, profiles={"challenger": Profiled(tool="ncu", figures={"dram_share": 0.9})})
        lab.stage.conductor.report(leases[0].attempt_id, leases[0].token, report)
    view = lab.view(search, 0)
    assert (view.champion, view.bound) == (True, "memory")


def test_copy_of_an_earlier_variant_ends_after_its_first_trials(lab: Lab) -> None:
    search = lab.search(budget={"trials": 12})
    lab.play()
    first = lab.submit(search)
    copied = lab.submit(search, document={**TABLE, "name": "copy"}, files={"fast.c": f"{SOURCE['fast.c']} // again"})
    while leases := lab.stage.claim():
        job = leases[0].job
        lab.stage.hand_in(leases[0], binary=f"{job.number:064d}" if isinstance(job, Evaluate) else None)
    done = lab.view(search, copied.number)
    assert (done.finished, done.reason) == (REPEATED, "duplicate")
    assert lab.view(search, first.number).finished >= FIRST


def test_binary_of_a_variant_is_served_only_by_its_search_and_the_search_that_tunes_it(
    lab: Lab, tmp_path: Path
) -> None:
    search, other = lab.search(budget={"trials": 2}), lab.search(budget={"trials": 2}, seed=9)
    lab.play()
    view = lab.submit(search, trials=2)
    digest = "d" * 64
    lease = lab.stage.one()
    assert lease.terms.family.variant
    lab.stage.hand_in(lease, binary=digest)
    with served(tmp_path / "evo.db") as url, httpx.Client(base_url=f"{url}/api/v1", timeout=60) as client:
        status = [
            client.get(f"/searches/{each}/binaries/{digest}").status_code for each in (search, view.tuning_id, other)
        ]
    assert status == [200, 200, 404]


def test_extra_trials_granted_to_a_variant_survive_a_restart(lab: Lab) -> None:
    search = lab.search(budget={"trials": 12})
    lab.play()
    view = lab.submit(search, trials=12)
    for _ in range(FIRST):
        lease = lab.stage.one()
        lab.stage.hand_in(lease, Measured(timing=timing(1.0)))
    lab.stage.restart()
    budget = lab.stage.view(view.tuning_id).budget
    assert budget.trials == 12


def test_variant_failures_show_the_compiler_message_without_host_paths(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    view = lab.submit(search, trials=2)
    wrong = CaseError(case="tail", output="y", rel_l2=0.5, max_abs=3.0, rel_l2_limit=1e-5, max_abs_limit=1e-5)
    for outcome in (CompileFailed(log=LOG), WrongAnswer(reason="out of tolerance", cases=(wrong,))):
        lab.stage.hand_in(lab.stage.one(), outcome)
    lab.play()
    done = lab.view(search, view.number)

    assert done.best is None
    assert done.state == "failed"
    details = {each.outcome: each.detail for each in done.failures}
    assert "fast.c:3:5: error: 'b' undeclared" in details["compile_failed"]
    assert [(each.outcome, each.count, each.trial) for each in done.failures] == [
        ("compile_failed", 1, 0),
        ("wrong_answer", 1, 1),
    ]
    assert "/home" not in details["compile_failed"]
    assert "case tail, output y: relative L2 error 0.5" in details["wrong_answer"]


def test_variant_made_from_other_variants_is_numbered_and_stores_its_parents(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    first = lab.submit(search)
    files = {"fast.c": "int width = BLOCK * UNROLL - N;"}
    second = lab.submit(first.tuning_id, files=files, document={"name": "next"}, parents=[1, 0])
    with lab.stage.database.read() as session:
        names = [(view.number, view.name, view.parents) for view in variant_views(session, search)]
        note = Archive(session).search(second.tuning_id).family.document["variant"]
    assert names == [(0, "family", ()), (1, "fast", (0,)), (2, "next", (1, 0))]
    assert note["parents"] == ["fast", "family"]


def test_variant_with_the_files_or_name_of_an_existing_variant_is_refused(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    lab.submit(search)
    with pytest.raises(Conflict, match="another name"):
        lab.submit(search)
    with pytest.raises(Conflict, match="another name"):
        lab.submit(search, document={"name": "family"})
    lab.submit(search, document={}, files=SOURCE)
    for document in ({}, {"name": "other"}, {"idea": "the same again", "author": "ben"}):
        with pytest.raises(Conflict, match="variant 2 of search 1 has the same files"):
            lab.submit(search, document=document, files=SOURCE)


def test_comparing_variant_files_does_not_block_writes_to_the_database(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    first = lab.submit(search, document={"name": "first"}, files=SOURCE)
    wrote = []

    def write(session: Session, artefacts: Artefacts, family: FamilyRow) -> dict[str, bytes]:
        with ThreadPoolExecutor(1) as pool:
            wrote.append(pool.submit(noted).result(timeout=300))
        return files_of(session, artefacts, family)

    def noted() -> bool:
        with lab.stage.database.write() as session:
            Archive(session).search(search).notes = f"written {len(wrote)} times"
        return True

    monkeypatch.setattr(variants_module, "files_of", write)
    with pytest.raises(Conflict, match=f"variant {first.number} of search {search} has the same files"):
        lab.submit(search, document={"name": "second"}, files=SOURCE)
    assert len(wrote) >= 2


def test_equal_variants_submitted_simultaneously_are_stored_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    together = Barrier(2, timeout=300)
    compare = VariantDesk._refuse_again
    met: set[int] = set()

    def at_once(desk: VariantDesk, *arguments: Any) -> None:
        compare(desk, *arguments)
        if get_ident() not in met:
            met.add(get_ident())
            together.wait()

    monkeypatch.setattr(VariantDesk, "_refuse_again", at_once)

    def submit(name: str) -> bool:
        body = VariantBody.model_validate({"document": {"name": name}, "files": SOURCE})
        try:
            lab.desk.submit(search, body)
        except Conflict as error:
            assert "has the same files" in str(error)
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(submit, ("one", "two"))) == [False, True]


@pytest.mark.slow
def test_variants_submitted_simultaneously_get_distinct_names_and_numbers(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()

    def submitted(place: int, **document: Any) -> str:
        files = {"fast.c": f"{SOURCE['fast.c']} // {place}"}
        try:
            return lab.submit(search, files=files, document={"idea": "wider", **document}).name
        except Conflict as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        unnamed = list(pool.map(submitted, range(4)))
        named = list(pool.map(lambda place: submitted(place, name="same"), range(4, 8)))
    assert sorted(unnamed) == [f"variant-{number}" for number in range(1, 5)]
    assert sorted(each == "same" for each in named) == [False, False, False, True]
    assert sum("another name" in each for each in named) == 3


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"document": {"cases": []}}, InvalidInput),
    ({"document": {"requires": []}}, InvalidInput),
    ({"files": {"reference.py": "x"}}, InvalidInput),
    ({"files": {"fast.c": "int x;"}}, InvalidInput),
    ({"document": {"tunables": {"BLOCK": []}}}, InvalidInput),
    ({"document": {"flags": ["-o", "x"]}}, InvalidInput),
    ({"document": {"constraints": [{"expression": "BLOCK > 99", "because": "no"}]}}, InvalidInput),
    ({"parents": [5]}, NotFound),
    ({"parents": [0, 0]}, InvalidInput),
    ({"files": {}}, ValidationError),
    ({"champion": True}, ValidationError),
]


def test_invalid_variants_are_refused_and_neither_stored_nor_queued(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.play()
    for fields, error in REFUSED:
        with pytest.raises(error):
            lab.submit(search, **fields)
    with lab.stage.database.read() as session:
        assert Variants(session).of_search(search) == []
    assert lab.stage.claim() == []


def test_family_name_selects_the_family_and_never_a_variant(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    lab.stage.wait(10)
    lab.submit(search)
    with lab.stage.database.read() as session:
        assert [row.digest for row in session.scalars(latest_families())] == [lab.package.digest]
        assert Archive(session).family_named("toy", {}).digest == lab.package.digest


def test_searches_of_variants_continue_after_their_parent_search_is_deleted(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    view = lab.submit(search)
    lab.stage.conductor.orders.command(search, "cancel")
    with lab.stage.database.write() as session:
        remove_search(session, search)
    assert lab.stage.view(view.tuning_id).state == "running"
    lab.play()
    assert lab.stage.view(view.tuning_id).state == "finished"


def test_numbers_of_deleted_variants_are_not_reused(lab: Lab) -> None:
    search = lab.search(budget={"trials": 2})
    first = lab.submit(search)
    lab.stage.conductor.orders.command(first.tuning_id, "cancel")
    with lab.stage.database.write() as session:
        remove_search(session, first.tuning_id)
    second = lab.submit(search, document={"name": "second"})
    assert (first.number, second.number) == (1, 2)


@pytest.mark.parametrize("model", ["class Model:\n    def forward(self, x):\n        return 2 * x\n", None])
def test_brief_contains_the_model_source_of_an_imported_family(model: str | None, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "evo.db")
    search = Lab(stage, tmp_path, model=model).search(budget={"trials": 1})
    with served(tmp_path / "evo.db") as url:
        brief = httpx.get(f"{url}/api/v1/searches/{search}/variants/brief", timeout=60)
    stage.database.close()
    assert brief.json()["model"] == (model or "")


@pytest.mark.slow
def test_variant_pages_show_cost_and_escape_text(lab: Lab, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    search = lab.search(budget={"trials": 2})
    lab.play()
    first = lab.submit(search, document={**TABLE, "idea": hostile, "author": hostile})
    lab.submit(
        search, files={"fast.c": f"// {hostile}\nint w = BLOCK * UNROLL * N;"}, document={"name": "b"}, parents=[1]
    )
    with lab.stage.database.write() as session:
        given = {"operator": "mutate", "information": "task", "model": "m", "usd": 0.25}
        long = hostile * 10_000
        asked = ProposalRow(search_id=search, asked_at=lab.stage.now, variant=1, prompt=long, answer=long, **given)
        Proposals(session).add(asked)
    with served(tmp_path / "evo.db") as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        pages = [
            client.get(f"/searches/{search}/variants{path}")
            for path in ("", "/0", "/1", "/2?against=1", "/9", "/1?against=9")
        ]
        tuning = client.get(f"/searches/{first.tuning_id}")
    assert [page.status_code for page in pages] == [200, 200, 200, 200, 404, 404]
    assert "m: 0 of 0 variants valid, from 1 request (0.2500 USD)" in pages[0].text
    assert len(pages[0].text) < 60_000  # of each prompt and answer, only the beginning is shown
    assert "toy (fast)" in tuning.text
    for page in pages[:4]:
        assert hostile not in page.text
    assert "&lt;script&gt;" in pages[0].text
    assert "&lt;script&gt;" in pages[3].text


def test_time_ratio_of_a_variant_never_mixes_quick_and_confirmed_times(lab: Lab) -> None:
    """The confirmation found that the family's own implementation takes 30 times its quick time."""
    search = lab.search(budget={"trials": 4})
    while leases := lab.stage.claim():
        lab.stage.conductor.report(leases[0].attempt_id, leases[0].token, slowed(leases[0]))  # type: ignore[arg-type]
    own, view = lab.view(search, 0), lab.submit(search)
    assert own.best is not None and own.best.source == "confirmed" and own.best.quick_us is not None
    while (view := lab.view(search, view.number)).best is None:
        lab.stage.hand_in(lab.stage.one())
    assert view.best is not None and (view.best.source, view.ratio_source) == ("quick", "quick")
    assert view.ratio == pytest.approx(view.best.time_us / own.best.quick_us, rel=0.01)
    assert view.ratio_text.endswith("× the time of the family's own implementation (quick)")
    assert view.best_text.endswith(" (quick)") and own.best_text.endswith(" (confirmed)")
    assert own.speedup_text.endswith("× (confirmed) over library, the fastest baseline")


@pytest.mark.parametrize("objective", [{}, {"metric": "time_us / UNROLL", "direction": "minimise"}])
def test_tuning_gain_compares_quick_costs_of_all_trials(lab: Lab, objective: dict[str, str]) -> None:
    """The confirmation found that the best kernel takes 30 times its quick time."""
    search = lab.search(budget={"trials": 6}, objective=objective)
    while leases := lab.stage.claim():
        lab.stage.conductor.report(leases[0].attempt_id, leases[0].token, slowed(leases[0]))  # type: ignore[arg-type]
    trials = lab.stage.trials(search)
    assert any(trial.source == "confirmed" for trial in trials)
    quick = [trial.quick_cost for trial in trials if trial.quick_cost is not None]
    medians = [trial.outcome.timing.median_us for trial in trials if isinstance(trial.outcome, Measured)]
    divisors = [int(trial.config["UNROLL"]) if objective else 1 for trial in trials]
    assert quick == pytest.approx([median / divisor for median, divisor in zip(medians, divisors, strict=True)])
    assert lab.view(search, 0).tuning_gain == pytest.approx(quick[0] / min(quick))
    with lab.stage.database.read() as session:
        assert Variants(session).costs(search) == pytest.approx(quick)
        assert Variants(session).costs_of_all(search) == pytest.approx(quick)


def test_refuted_trial_has_no_cost(lab: Lab) -> None:
    search = lab.search(budget={"trials": 4})
    lab.play()
    with lab.stage.database.write() as session:
        row = Archive(session).best(search)
        assert row is not None
        number, row.cost, row.quick_us = row.number, None, row.time_us
    with lab.stage.database.read() as session:
        costs = Variants(session).costs(search)
        assert [position for position, cost in enumerate(costs) if cost is None] == [number]


@pytest.mark.slow
def test_variants_of_a_search_by_metric_are_compared_by_cost(lab: Lab) -> None:
    metric = {"metric": "time_us / UNROLL", "direction": "minimise"}
    search = lab.search(budget={"trials": 6}, objective=metric)
    lab.play()
    lab.submit(search)
    lab.play(faster=2.0)

    with lab.stage.database.read() as session:
        own, variant = variant_views(session, search)
        costs = Variants(session).costs(variant.tuning_id)
    assert own.best is not None
    assert variant.best is not None
    for best in (own.best, variant.best):
        assert best.rank == pytest.approx((best.quick_us or best.time_us) / int(best.config["UNROLL"]))
    assert variant.best.cost is not None and own.best.cost is not None and variant.ratio_source == "confirmed"
    assert variant.ratio == pytest.approx(variant.best.cost / own.best.cost, rel=0.01)
    ended = lab.stage.trials(variant.tuning_id)
    expected = [trial.quick_cost for trial in ended if trial.quick_cost is not None]
    assert len(expected) == len(ended) and any(trial.source == "confirmed" for trial in ended)
    assert costs == pytest.approx(expected)
    assert variant.tuning_gain == pytest.approx(expected[0] / min(expected))
    assert variant.quantity == "cost (minimise: time_us / UNROLL)"
    assert f" at {time_text(variant.best.time_us)} (" in variant.best_text
