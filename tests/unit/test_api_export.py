"""Exports of trials have separate columns for measured times and estimates, and all formats agree."""

import csv
import json
from dataclasses import replace

from api.rest.trial_files import as_csv, as_json, as_ndjson
from evo.space import Tunable
from evo.trial.outcome import Estimated
from tests.unit.views import trial

TUNABLES = (Tunable(name="BLOCK", values=(8, 16), default=8), Tunable(name="FAST", values=(False, True), default=True))
MEASURED = trial(0, 800.0)
ESTIMATED = replace(trial(1, 61.6), outcome=Estimated(time_us=61.6, resources={"registers": 40.0}))
PENDING = replace(trial(2, 1.0), outcome=None, time_us=None)


def test_csv_export_has_a_separate_column_for_estimates() -> None:
    lines = "".join(as_csv(TUNABLES, [MEASURED, ESTIMATED, PENDING])).splitlines()
    assert len({len(cells) for cells in csv.reader(lines)}) == 1
    measured, estimated, pending = csv.DictReader(lines)
    times = ("outcome", "time_us", "low_us", "high_us", "estimate_us")
    assert [measured[name] for name in times] == ["measured", "800.0", "800.0", "800.0", ""]
    assert [estimated[name] for name in times] == ["estimated", "", "", "", "61.6"]
    assert [pending[name] for name in times] == ["pending", "", "", "", ""]
    assert (estimated["registers"], estimated["BLOCK"]) == ("40.0", "8")


def test_csv_json_and_ndjson_exports_have_the_same_estimate() -> None:
    (row,) = csv.DictReader("".join(as_csv(TUNABLES, [ESTIMATED])).splitlines())
    (document,) = json.loads("".join(as_json(TUNABLES, [ESTIMATED])))
    assert json.loads("".join(as_ndjson(TUNABLES, [ESTIMATED]))) == document
    assert document["outcome"]["kind"] == "estimated"
    assert float(row["estimate_us"]) == document["outcome"]["time_us"] == document["time_us"]
