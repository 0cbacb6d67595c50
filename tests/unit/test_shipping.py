"""A worker uploads sources and logs of all trials, and binaries of fast trials and of all challengers."""

from dataclasses import replace
from pathlib import Path

from evo.export.headers import unpack_headers
from evo.trial.outcome import Measured, WrongAnswer
from evo.trial.results import BaselineReport, ConfirmReport, EvaluateReport
from evo.trial.timing import Timing
from tests.unit.test_pipeline import lease
from workers.build.build import Built
from workers.delivery.outbox import digest_of
from workers.delivery.shipping import Shipping

BUILT = Built(folder=Path("none"), source="int x;", log="a warning", binary=b"\x7fELF")


def measured(time_us: float) -> EvaluateReport:
    return EvaluateReport(outcome=Measured(timing=Timing(samples_us=(time_us,))))


def names(shipping: Shipping, report: EvaluateReport | ConfirmReport, role: str = "candidate") -> list[str]:
    result = shipping.pack(lease(1), report, {role: BUILT})
    assert set(result.contents) == set(result.report.artefacts.values())
    assert all(digest_of(content) == digest for digest, content in result.contents.items())
    return sorted(result.report.artefacts)


def test_binaries_of_the_five_best_trials_so_far_and_their_duplicates_are_uploaded() -> None:
    shipping = Shipping()
    kept = [("binary" in names(shipping, measured(time_us))) for time_us in (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 45.0)]
    assert kept == [True] * 5 + [False, True]
    assert names(shipping, measured(55.0)) == ["compiler.log", "source"]
    assert ["binary" in names(shipping, measured(10.0)) for _ in range(6)] == [True] * 6
    assert "binary" in names(shipping, measured(10.1))
    assert "binary" not in names(shipping, measured(12.0))


def test_source_and_compiler_log_of_a_wrong_candidate_are_uploaded() -> None:
    assert names(Shipping(), EvaluateReport(outcome=WrongAnswer(reason="x"))) == ["compiler.log", "source"]


def test_binary_source_and_compiler_log_of_a_challenger_are_uploaded() -> None:
    assert names(Shipping(), ConfirmReport(), "challenger") == ["binary", "compiler.log", "source"]


def test_jobs_without_a_build_upload_no_artefacts() -> None:
    assert Shipping().pack(lease(1), BaselineReport(timings={}), {}).contents == {}
    assert Shipping().pack(lease(1), measured(1.0), {}).contents == {}


def test_headers_of_a_source_are_uploaded_with_its_binary(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("#define A 1")
    built = replace(BUILT, headers={"family/a.h": str(header)})
    shipping = Shipping()
    packed = [shipping.pack(lease(1), measured(time_us), {"candidate": built}) for time_us in (10.0, 10.0)]
    (kept,) = {result.report.artefacts["headers"] for result in packed}
    assert unpack_headers(packed[0].contents[kept]) == {"family/a.h": b"#define A 1"}
    wrong = shipping.pack(lease(1), EvaluateReport(outcome=WrongAnswer(reason="x")), {"candidate": built})
    assert "headers" not in wrong.report.artefacts
