"""Compiler and kernel output is cleaned, so that a database can store it."""

import pytest

from api.http.strict_json import refuse_unstorable
from evo.client.transport import to_json
from evo.text.limits import storable
from evo.trial.outcome import CompileFailed, Crashed, Measured, WrongAnswer
from evo.trial.results import Ablated, AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from evo.trial.timing import Timing

ODD = "ptxas\x00 error \udcff in \ud83d"


@pytest.mark.parametrize(
    "report",
    [
        EvaluateReport(outcome=CompileFailed(log=ODD)),
        EvaluateReport(outcome=Crashed(stage="verify", reason=ODD), environment={ODD: ODD}),
        EvaluateReport(outcome=WrongAnswer(reason=ODD), uncovered={"tail": ODD}),
        BaselineReport(timings={}, unavailable={"numpy": ODD}, warnings=("fine", ODD)),
        ConfirmReport(failure=CompileFailed(log=ODD), failed="challenger"),
        AblateReport(changes=(Ablated(failure=CompileFailed(log=ODD)),)),
    ],
)
def test_every_text_of_a_report_is_cleaned_for_storage(report: Report) -> None:
    cleaned = to_json(storable(report), Report)
    refuse_unstorable(cleaned)
    assert "ptxas\N{REPLACEMENT CHARACTER} error" in repr(cleaned)


def test_ordinary_report_texts_are_stored_unchanged() -> None:
    report = EvaluateReport(outcome=Measured(timing=Timing(samples_us=(1.0, 2.0))), environment={"gcc": "12 — ✓"})
    assert storable(report) is report
    assert storable("a\tb\n") == "a\tb\n"
    assert storable(None) is None
