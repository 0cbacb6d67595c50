"""A chaos run: start a fleet, inject faults, wait for the end of its searches, audit the database."""

import json
import random
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from evo.promotion.policy import Policy
from evo.space.recording import config_key
from templates import registry
from tests import postgresql
from tests.bench.fleet.ledger import wrong
from tests.e2e.chaos.faults import Faults
from tests.e2e.chaos.fleet import RECORDING, Fleet

SETTINGS = {"fsync": "off"}
"""Settings of the database server. It need not sync, because only a power failure loses data that was written."""
_ENDED = """
SELECT name, proposal, outcome_kind, (
    SELECT max(worker_losses) FROM jobs WHERE jobs.trial_id = trials.id AND jobs.kind = 'evaluate'
) AS losses FROM trials
JOIN searches ON searches.id = search_id JOIN families ON digest = family_digest"""


def run(faults: int, *, services: int, workers: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Run a fleet with faults. Return the number of faults by name, and the counts of the audit.

    Raises:
        AssertionError: the audit failed.
    """
    with postgresql.server(SETTINGS) as server, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        fleet = Fleet(server, Path(folder), stack, services=services, seed=seed)
        fleet.begin(workers)
        done = Faults(fleet, random.Random(seed)).do(faults)
        fleet.finish()
        return done, audited(fleet)


def audited(fleet: Fleet) -> Counter[str]:
    """Check that every trial ended exactly once. Return counts of the answers to workers and of the outcomes."""
    answers = [json.loads(line) for line in (fleet.folder / "answers").read_text().splitlines()]
    accepted = [attempt for attempt, status in answers if status == "accepted"]
    assert len(set(accepted)) == len(accepted), "a report was accepted twice"
    done = {row.id for row in fleet.rows("SELECT id FROM attempts WHERE state = 'done'")}
    assert set(accepted) <= done, "an accepted report is lost"
    contradictions = fleet.asked(wrong)
    assert not contradictions, contradictions
    assert not fleet.rows("SELECT id FROM attempts WHERE state = 'live'")
    kinds = Counter(row.outcome_kind for row in fleet.rows("SELECT outcome_kind FROM trials"))
    mistaken = [(row.name, row.outcome_kind) for row in fleet.rows(_ENDED) if row.outcome_kind not in _rightful(row)]
    assert not mistaken, f"an injected fault counts against a config: {mistaken}"
    refused = [path.name for path in fleet.folder.rglob("*.refused")]
    assert not refused, f"the service refused results of real workers: {refused}"
    logs = "".join(worker.machine.log.read_text(errors="replace") for worker in fleet.real)
    texts = {
        "in_memory_only": "a result is kept only in memory",
        "stale_of_real": "the service no longer needs a result",
    }
    met = {name: logs.count(text) for name, text in texts.items()}
    return Counter(status for _, status in answers) + Counter({f"trial {kind}": n for kind, n in kinds.items()} | met)


def _rightful(trial: Any) -> tuple[str, ...]:
    """Return the kinds of outcome that a trial may have: those of its config, or ``abandoned``.

    A trial may be abandoned only if its workers were lost as often as the default policy permits.
    """
    if trial.outcome_kind == "abandoned" and trial.losses >= Policy().max_worker_losses:
        return ("abandoned",)
    if trial.name == "softmax":
        return ("measured", "pruned")
    if trial.name == "simulated":
        return ("measured",)
    recording = registry.find(str(RECORDING)).recording
    assert recording is not None
    return (recording.outcome(config_key(trial.proposal["config"])).kind,)
