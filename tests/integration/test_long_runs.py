"""Kernels with faults that only long runs of calls show: stored outputs, and lists that grow."""

import platform
import sys
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from evo.errors import EvoError
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from tests.integration.cheats import source
from tests.integration.test_cheats import ARGUMENTS, GOLDENS, RAMP, built
from tests.integration.workbench import cpu
from tests.measured import measured
from workers.backends import HostSession, Warming, driver
from workers.build.kernel import Argument
from workers.measure.bench import Candidate
from workers.measure.checks.contents import Contents
from workers.measure.checks.long_runs import judge_long_runs
from workers.measure.checks.output import OutputCheck
from workers.measure.checks.overwrite import judge_mixed
from workers.measure.checks.repetition import USUAL_SETS, Inputs, repetition, series_sets
from workers.measure.family.expected_output import ExpectedOutput, Limit
from workers.measure.timing import WARM_US, Moment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the test needs Linux on x86-64"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> HostSession:
    folder = measured(tmp_path_factory.mktemp("cache"))
    opened = driver("cpu").open(cpu(folder), Objective(), folder)
    assert isinstance(opened, HostSession)
    return opened


def fault_of_rounds(session: HostSession, kernel: str, folder: Path, rounds: int = 40) -> str:
    """Time a kernel like the rounds of a confirmation. Return the reason for refusing it, or an empty string."""
    loaded = session.load(built(kernel, folder), "f", ARGUMENTS, None)
    timer = session.timer(loaded, [session.allocate(ARGUMENTS, GOLDENS[0].inputs)])
    assert isinstance(timer, Warming)
    try:
        for _ in range(rounds):
            timer.warm_up(WARM_US)
            timer.sample()
        return session.residue(loaded) or ""
    except EvoError as error:
        return str(error)


LISTS = {
    "doubles a list of its calls": (
        "right(x, y); static void **list; static size_t used, room;"
        "if (used == room) { room = room ? 2 * room : 1; list = realloc(list, room * 8); } list[used++] = 0;",
        True,
    ),
    "keeps a list of constant size": (
        "right(x, y); static void **list; static size_t used;"
        "if (!list) list = malloc(8 * 4096); list[used++ % 4096] = 0;",
        False,
    ),
}


@pytest.mark.parametrize("kind", LISTS)
def test_kernel_with_growing_memory_is_refused(session: HostSession, tmp_path: Path, kind: str) -> None:
    body, refused = LISTS[kind]
    reason = fault_of_rounds(session, source(kind, f"{body} spend(3000);"), tmp_path)
    assert ("keeps more and more memory" in reason) is refused, reason


NUMBERS = {
    "honest": ("out(x[0]);", 0),
    "copies its last output after 150 calls without a pause": (
        "static unsigned long end; static int run, mine; run = __builtin_ia32_rdtsc() - end < 2000 ? run + 1 : 0;"
        f"if (run > 150) out(mine); else {{ {RAMP} mine = y[0]; }} end = __builtin_ia32_rdtsc();",
        1,
    ),
    "leaves its outputs as they are after 300 calls without a pause": (
        "static unsigned long end; static int run; run = __builtin_ia32_rdtsc() - end < 2000 ? run + 1 : 0;"
        f"if (run <= 300) {{ {RAMP} }} end = __builtin_ia32_rdtsc();",
        1,
    ),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_kernel_that_skips_single_calls_in_long_runs_is_detected(
    session: HostSession, tmp_path: Path, kind: str
) -> None:
    body, least_wrong = NUMBERS[kind]
    text = (
        "enum { N = 400 }; static inline void fill(int *y, int v) { for (int i = 0; i < N; i++) y[i] = v; }\n"
        f"#define out(v) fill(y, v)\nvoid f(const int *x, int *y) {{ {body} }}\n"
    )
    arguments = (
        Argument(name="x", role="input", dtype="int32", shape=(400,)),
        Argument(name="y", role="output", dtype="int32", shape=(400,)),
    )
    goldens = [
        ExpectedOutput(
            case="nominal",
            inputs={"x": np.arange(400, dtype=np.int32) + first},
            reference={"y": np.full(400, first, np.int64)},
            limits={"y": Limit(rel_l2=0.0, max_abs=0.0)},
        )
        for first in (1000, 2000, 3000)
    ]
    kernel = session.load(built(text, tmp_path), "f", arguments, None)
    sources, rights = ([session.allocate(arguments, each.inputs) for each in goldens] for _ in range(2))
    for each in rights:
        session.call(kernel, each)
    contents = Contents(sources, np.random.default_rng(0), WeakKeyDictionary())
    mixed = session.allocate_sets(arguments, goldens[0].inputs, 64)
    seen, later = (OutputCheck(rights, goldens, contents, deterministic=True) for _ in range(2))
    turn = session.timer(kernel, mixed, once=True)
    judge_mixed(turn, mixed, contents, look=seen.look, calls=300, budget_s=1.0)
    assert seen.found.wrong == 0, "the check with 64 calls without a pause does not find the cheat"
    candidate = Candidate(kernel=kernel, arguments=arguments, rights=tuple(rights))
    calls, rng = session.timer(kernel, mixed[:1]).calls, np.random.default_rng(1)
    judged = judge_long_runs(session, candidate, mixed, contents, look=later.look, calls=calls, rng=rng, budget_s=60.0)
    assert judged == later.found.judged >= 64
    assert later.found.wrong >= least_wrong
    assert (later.found.wrong > 0) is (least_wrong > 0)


SHORT = {
    "honest": ("right(x, y); spend(2000);", False),
    "copies outputs of known inputs after 16 calls without a pause": (
        "static struct { uint64_t hash; float answer[N]; } known[256]; static unsigned long end; static int run;"
        "run = __builtin_ia32_rdtsc() - end < 2000 ? run + 1 : 0; uint64_t hash = 7;"
        "for (int i = 0; i < N; i += 2) { uint64_t w; memcpy(&w, x + i, 8); hash = (hash ^ w) * 3; }"
        "int place = hash >> 56;"
        "if (run > 16 && known[place].hash == hash) memcpy(y, known[place].answer, 4 * N);"
        "else { right(x, y); spend(30000); known[place].hash = hash; memcpy(known[place].answer, y, 4 * N); }"
        "end = __builtin_ia32_rdtsc();",
        True,
    ),
}


@pytest.mark.parametrize("kind", SHORT)
def test_caching_kernel_with_short_calls_is_slower_on_new_inputs(
    session: HostSession, tmp_path: Path, kind: str
) -> None:
    body, cheats = SHORT[kind]
    kernel = session.load(built(source(kind, body), tmp_path), "f", ARGUMENTS, None)
    rng, count = np.random.default_rng(3), series_sets(1.0)
    sets = session.allocate_sets(ARGUMENTS, GOLDENS[0].inputs, count)
    limit = Policy().max_repeat_ratio
    found = repetition(
        session.batch_timer(kernel, sets, count, behind=False),
        session.batch_timer(kernel, sets[:1], count, behind=False),
        sets,
        known=GOLDENS[0].inputs,
        draw=lambda count, _: Inputs(
            inputs=[{"x": rng.standard_normal(1000).astype(np.float32)} for _ in range(count)], verify=lambda _: None
        ),
        look=lambda _: None,
        rng=rng,
        moment=Moment(anchor_us=1.0, floor_us=0.0),
        budget_s=0.5,
        least=2,
        suspicious=lambda new_us, known_us: new_us > limit * known_us,
    )
    assert count > USUAL_SETS
    assert (min(found.new.samples_us) > limit * min(found.known.samples_us)) is cheats
