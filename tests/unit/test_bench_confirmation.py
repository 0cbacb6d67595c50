"""The confirmation benchmark prints a table with the durations of all steps."""

from evo.trial.results import ConfirmReport, Repeat, Step
from evo.trial.timing import Timing
from tests.bench.confirmation import Timed, seconds, shown

STEPS = (
    Step(process=1, name="start", seconds=1.0),
    Step(process=1, name="rounds", seconds=4.0),
    Step(process=2, name="start", seconds=0.25),
    Step(process=3, name="start", seconds=0.5),
    Step(process=0, name="sanitizers", seconds=3.0),
)


def test_confirmation_table_sums_the_steps_of_later_processes_separately() -> None:
    found = seconds(ConfirmReport(steps=STEPS))
    assert found == {"start": (1.0, 0.75), "rounds": (4.0, 0.0), "sanitizers": (0.0, 3.0)}


def test_confirmation_table_shows_unattributed_time_in_the_column_other() -> None:
    repeat = Repeat(challenger=Timing(samples_us=(1.0,)), other=None)
    report = ConfirmReport(steps=STEPS, repeats=(repeat, repeat))
    text = shown(Timed(label="softmax", total_s=10.0, report=report, summary="Promoted."))
    assert text.startswith("softmax: 10.0 s, 3 processes. Promoted.")
    assert [cell.strip() for cell in text.rstrip().splitlines()[-1].split("|")[1:4]] == ["other", "", "1.25"]
