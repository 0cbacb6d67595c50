"""The checks on CPUs refuse cheating and faulty kernels, and accept correct kernels."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from evo.errors import EvoError
from evo.family import Operand
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from tests.integration.cheats import CHEATS, HONEST, IN_A_ROW, source
from tests.integration.cheats_of_surroundings import WORKS_BETWEEN_CALLS
from tests.integration.workbench import cpu
from tests.measured import measured
from tests.tiers import one_in
from workers.backends import HostSession, InvalidMeasurementError, Timer, driver
from workers.build import Artefact, Unit
from workers.build.kernel import Argument
from workers.measure.checks.contents import Contents
from workers.measure.checks.output import OutputCheck
from workers.measure.checks.overtaken import judge_overtaken
from workers.measure.checks.overwrite import judge_mixed
from workers.measure.checks.two_threads import judge_two_threads
from workers.measure.family.expected_output import ExpectedOutput, Limit
from workers.measure.family.mixtures import mixtures
from workers.measure.proof import ProofPlan
from workers.measure.timing import interleave
from workers.measure.verify import WrongAnswerError, judge, remember, verify, verify_elsewhere

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the test needs Linux on x86-64"
)

ARGUMENTS = (
    Argument(name="x", role="input", dtype="float32", shape=(1000,)),
    Argument(name="y", role="output", dtype="float32", shape=(1000,)),
)
FEW_PROCESSES = Policy().confirm_processes
NEEDS_CORES = {"ELSEWHERE": "differs from the reference", "CORES": "cores", "SECOND": "processor time|cores"}
NEEDS_CORES |= {"THREADS": "called by two threads concurrently", "CHANGED": "after its inputs had changed"}
"""Tricks that are detected only on machines with more than one core."""


def golden(seed: int) -> ExpectedOutput:
    x = np.random.default_rng(seed).standard_normal(1000).astype(np.float32)
    limits = {"y": Limit(rel_l2=1e-6, max_abs=1e-5)}
    return ExpectedOutput(
        case="nominal", inputs={"x": x}, reference={"y": 3.0 * x.astype(np.float64) + 1.0}, limits=limits
    )


def lone(one: ExpectedOutput, place: int) -> ExpectedOutput:
    """Return the expected output for the inputs of `one` with one changed element."""
    x = one.inputs["x"].copy()
    x[place] = 95.0
    return replace(one, inputs={"x": x}, reference={"y": 3.0 * x.astype(np.float64) + 1.0})


def mixture(one: ExpectedOutput, name: str, seed: int = 5) -> ExpectedOutput:
    """Return the expected output for the inputs of `one`, changed by `workers.measure.family.mixtures`."""
    operand = Operand(name="x", role="input", dtype="float32", shape=(1000,), tolerance=None)
    made = mixtures(one.inputs, [golden(9).inputs], [operand], np.random.default_rng(seed), allowed=1e-6)
    x = next(each.inputs["x"] for each in made if each.name == name)
    return replace(one, inputs={"x": x}, reference={"y": 3.0 * x.astype(np.float64) + 1.0})


GOLDENS, HELD_BACK = [golden(seed) for seed in (1, 2, 3)], golden(4)
LONE, EQUAL = lone(GOLDENS[0], 617), mixture(GOLDENS[0], "equal elements and zeros", seed=6)
NEAR, WHOLE = mixture(GOLDENS[0], "elements near known ones"), mixture(GOLDENS[0], "whole numbers")
FEW = mixture(GOLDENS[0], "a few elements near known ones")
STRUCTURED = mixture(GOLDENS[0], "rows with a structure")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> HostSession:
    """Yield one session for all kernels, on the last core of the machine."""
    folder = measured(tmp_path_factory.mktemp("cache"))
    opened = driver("cpu").open(cpu(folder), Objective(), folder)
    assert isinstance(opened, HostSession)
    return opened


def refusal(
    session: HostSession, name: str, body: str, folder: Path, arguments: tuple[Argument, ...] = ARGUMENTS
) -> str | None:
    """Return the reason why the runner refuses a kernel; None if it accepts the kernel."""
    try:
        climb(session, built(source(name, body), folder), arguments)
    except EvoError as error:
        return str(error)
    return None


def attempts(session: HostSession, name: str, body: str, folder: Path) -> Iterator[str | None]:
    """Yield the result of `refusal` for several processes, because some faults are found only by chance."""
    for number in range(FEW_PROCESSES):
        place = folder / str(number)
        place.mkdir()
        yield refusal(session, name, body, place)


def built(text: str, folder: Path) -> Path:
    unit = Unit(source=text, architecture="native", entry="f", flags=("-pthread", "-w"))
    artefact = driver("cpu").compiler().compile(unit, timeout_s=60)
    assert isinstance(artefact, Artefact), artefact
    path = folder / "kernel.so"
    path.write_bytes(artefact.binary)
    return path


def climb(session: HostSession, path: Path, arguments: tuple[Argument, ...]) -> None:
    """Verify and time a kernel like the runner. Raises an `EvoError` if a check refuses the kernel."""
    plan = ProofPlan.draw([7], 1)
    apart = session.load(path, "f", arguments, None, elsewhere=plan.core)
    held = session.allocate(arguments, GOLDENS[0].inputs)
    verify(session, apart, held, GOLDENS[0], launches=1, deterministic=True)
    if fault := session.finish(apart):
        raise WrongAnswerError(fault)
    kernel, rights = session.load(path, "f", arguments, None), []
    sources = [session.allocate(arguments, each.inputs) for each in GOLDENS]
    contents = Contents(sources, np.random.default_rng(0), WeakKeyDictionary())
    for number, each in enumerate(GOLDENS):
        contents.put(held, number)
        verify(session, kernel, held, each, launches=1 if number else 3, deterministic=True, stale=number > 0)
        rights.append(held.sibling())
        rights[-1].rewrite(held)
        right = remember(held, each)
    for each in (GOLDENS[0], NEAR, GOLDENS[0], FEW, EQUAL, WHOLE, STRUCTURED):
        held.renew(each.inputs)
        verify(session, kernel, held, each, launches=1, deterministic=True)
    held.renew(GOLDENS[-1].inputs)
    verify_elsewhere(session, kernel, held, GOLDENS[-1], plan.launches, right=right)
    judge_two_threads(session, kernel, [held, sources[0]], [rights[-1], rights[0]], [GOLDENS[-1], GOLDENS[0]])
    timer, scrutiny = session.timer(kernel, [held]), OutputCheck(rights, GOLDENS, contents, deterministic=True)
    for _ in range(20):
        timer.sample()
        scrutiny.look_and_change(held)
    ring = session.allocate_sets(arguments, GOLDENS[0].inputs, 128)
    judge_mixed(session.timer(kernel, ring, once=True), ring, contents, look=scrutiny.look, calls=300, budget_s=1.0)
    for fault in (session.residue(), held.damage(), scrutiny.found.first):
        if fault:
            raise WrongAnswerError(fault)
    call_us, rng = timer.sample(), np.random.default_rng(1)
    judge_overtaken(session, kernel, held, arguments, [*GOLDENS[:2], LONE], call_us=call_us, rng=rng, budget_s=0.5)
    held.renew(HELD_BACK.inputs)
    session.call(kernel, held)
    judge(held, HELD_BACK, "held back")


def kind(trick: str) -> str:
    """Return the first words of the expected reason for refusing a trick, which identify the check."""
    return " ".join(CHEATS[trick][1].split()[:3])


@pytest.mark.parametrize("trick", one_in(4, CHEATS, of=kind))
def test_cheating_kernel_is_refused(session: HostSession, tmp_path: Path, trick: str) -> None:
    body, words = CHEATS[trick]
    if words in NEEDS_CORES:
        if (os.cpu_count() or 1) < 2:
            pytest.skip("one core")
        words = NEEDS_CORES[words]
    reason = next(filter(None, attempts(session, trick, body, tmp_path)), None)
    assert reason is not None
    assert re.search(words, reason), reason


@pytest.mark.parametrize("kind", one_in(3, HONEST))
def test_correct_kernel_is_accepted_by_all_checks(session: HostSession, tmp_path: Path, kind: str) -> None:
    assert refusal(session, kind, HONEST[kind], tmp_path) is None


@pytest.mark.parametrize("alignment", [1, 32])
def test_aligned_loads_crash_unless_the_family_declares_the_alignment(
    session: HostSession, tmp_path: Path, alignment: int
) -> None:
    body = (
        "typedef float V __attribute__((vector_size(32)));"
        "for (int i = 0; i < N; i += 8) { V v = *(const volatile V *)(x + i); *(volatile V *)(y + i) = 3 * v + 1; }"
    )
    arguments = tuple(replace(each, alignment=alignment) for each in ARGUMENTS)
    reason = refusal(session, "aligned", body, tmp_path, arguments)
    if alignment == 32:
        assert reason is None
    else:
        assert reason is not None
        assert "SIGSEGV" in reason
        assert "alignment = 32 under [[arguments]]" in reason


def test_kernel_that_reuses_its_result_on_unchanged_in_place_arguments_is_refused(
    session: HostSession, tmp_path: Path
) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    arguments = (Argument(name="y", role="inout", dtype="float32", shape=(1000,)),)
    goldens = [replace(each, inputs={"y": each.inputs["x"]}) for each in (*GOLDENS[:2], LONE)]
    bodies = {"honest": "right(x, (float *)x);", "cheat": "y = (float *)x;" + IN_A_ROW.format(known="at == x")}
    for name, body in bodies.items():
        kernel = session.load(built(source(name, body), tmp_path), "f", arguments, None)
        held = session.allocate(arguments, goldens[0].inputs)
        call_us = session.timer(kernel, [held]).sample()
        given = (session, kernel, held, arguments, goldens)
        refused = pytest.raises(WrongAnswerError, match="after its inputs had changed")
        with nullcontext() if name == "honest" else refused:
            judge_overtaken(*given, call_us=call_us, rng=np.random.default_rng(1), budget_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["leaves a thread that works between calls", "starts and joins a thread"])
def test_kernel_that_uses_a_core_while_other_kernels_are_timed_is_refused(
    session: HostSession, tmp_path: Path, kind: str
) -> None:
    kernels, timers = [], dict[str, Timer]()
    for name, body in {kind: HONEST.get(kind, WORKS_BETWEEN_CALLS), "plain": HONEST["plain"]}.items():
        (folder := tmp_path / name).mkdir()
        kernels.append(session.load(built(source(name, body), folder), "f", ARGUMENTS, None))
        timers[name] = session.timer(kernels[-1], [session.allocate(ARGUMENTS, GOLDENS[0].inputs)])
    for seed in range(5):  # on a busy machine, the thread may get too little processor time
        interleave(timers, 12, rng=np.random.default_rng(seed), warm=True)
        try:
            reason = session.residue(kernels[0]) or ""
        except InvalidMeasurementError as error:
            reason = str(error)
        if reason:
            break
    # A thread may also work during the next sample. On a busy machine, more and more threads may still sleep at the end
    # of each sample, and their memory is a leak.
    expected = r"uses processor time between its calls|used more processor time|keeps ([\d.]+ bytes|more)"
    found = re.search(expected, reason)
    assert bool(found) == (kind not in HONEST), reason


@pytest.mark.parametrize("register", ["rbx", "rbp", "r12", "r13", "r14", "r15"])
def test_callee_saved_registers_are_compared_after_each_call_of_a_sample(
    session: HostSession, tmp_path: Path, register: str
) -> None:
    body = f'right(x, y); if (++calls == 3) __asm__ volatile("mov $7, %{register}");'
    kernel = session.load(built(source("third call", body), tmp_path), "f", ARGUMENTS, None)
    session.timer(kernel, session.allocate_sets(ARGUMENTS, GOLDENS[0].inputs, 5), once=True).sample()
    assert session.residue(kernel) == f"does not restore the callee-saved register {register}"


def test_kernel_processes_of_one_runner_run_as_different_users(session: HostSession, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change the user of a process")
    kernels = [session.load(built(source("plain", HONEST["plain"]), tmp_path), "f", ARGUMENTS, None) for _ in range(2)]
    held = session.allocate(ARGUMENTS, GOLDENS[0].inputs)
    for kernel in kernels:
        session.call(kernel, held)
    users = {Path(f"/proc/{kernel.pid}/status").read_text().partition("Uid:")[2].split()[0] for kernel in kernels}
    assert len(users) == 2


RAMP = "static int torn; for (int i = 1; i < N; i++) torn |= x[i] != x[0] + i; out(torn ? -1 : x[0]);"
"""C code of a kernel that returns -1 once it has received invalid inputs. Elements of valid inputs are consecutive."""

RAMPS = {
    "honest": (RAMP, ""),
    "skips consecutive calls with the same address after the 16th": (
        "static const void *at; static int run, mine; run = at == x ? run + 1 : 0; at = x; if (run > 16) { out(mine); "
        f"return; }} {RAMP} mine = y[0];",
        "after its inputs had changed",
    ),
    "every 50th consecutive call computes": (
        f"static int n, mine; if (n++ % 50) {{ out(mine); return; }} {RAMP} mine = y[0];",
        "after its inputs had changed",
    ),
}


@pytest.mark.parametrize("kind", RAMPS)
def test_integer_inputs_change_between_consecutive_calls(session: HostSession, tmp_path: Path, kind: str) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    body, words = RAMPS[kind]
    text = (
        "enum { N = 4000 }; static inline void fill(int *y, int v) { for (int i = 0; i < N; i++) y[i] = v; }\n"
        f"#define out(v) fill(y, v)\nvoid f(const int *x, int *y) {{ {body} }}\n"
    )
    arguments = (
        Argument(name="x", role="input", dtype="int32", shape=(4000,)),
        Argument(name="y", role="output", dtype="int32", shape=(4000,)),
    )
    goldens = [
        ExpectedOutput(
            case="nominal",
            inputs={"x": np.arange(4000, dtype=np.int32) + first},
            reference={"y": np.full(4000, first, np.int64)},
            limits={"y": Limit(rel_l2=0.0, max_abs=0.0)},
        )
        for first in (1000, 2000, 3000)
    ]
    kernel = session.load(built(text, tmp_path), "f", arguments, None)
    held, rng = session.allocate(arguments, goldens[0].inputs), np.random.default_rng(1)
    call_us = session.timer(kernel, [held]).sample()
    with pytest.raises(WrongAnswerError, match=words) if words else nullcontext():
        judged = judge_overtaken(session, kernel, held, arguments, goldens, call_us=call_us, rng=rng, budget_s=60.0)
        assert judged >= 48


SPECIAL = {
    "honest": ("x[i] == x[i] ? 3.0f * x[i] + 1.0f : 7.0f", None),
    "wrong for NaN": ("x[i] < 1e30f ? 3.0f * x[i] + 1.0f : 7.0f + (x[i] != x[i])", "y"),
    "wrong for subnormal numbers": ("x[i] != x[i] ? 7.0f : fabsf(x[i]) < 1e-38f ? 1.5f : 3.0f * x[i] + 1.0f", "y"),
    "wrong for minus zero": ("x[i] != x[i] ? 7.0f : x[i] == 0 && signbit(x[i]) ? 0.5f : 3.0f * x[i] + 1.0f", "y"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_outputs_for_nan_negative_zero_and_subnormal_inputs_are_verified(
    session: HostSession, tmp_path: Path, kind: str
) -> None:
    formula, output = SPECIAL[kind]
    one, x = GOLDENS[0], GOLDENS[0].inputs["x"].copy()
    x[[3, 500, 999]] = np.nan, -0.0, 1e-40
    right = np.where(np.isnan(x), 7.0, 3.0 * x.astype(np.float64) + 1.0)
    body = f"for (int i = 0; i < N; i++) y[i] = {formula};"
    kernel = session.load(built(source(kind, body), tmp_path), "f", ARGUMENTS, None)
    special = replace(one, inputs={"x": x}, reference={"y": right})
    held = session.allocate(ARGUMENTS, special.inputs)
    refused = pytest.raises(WrongAnswerError, match=f"`{output}` differs from the reference")
    with refused if output else nullcontext():
        verify(session, kernel, held, special, launches=3, deterministic=True)


ADDS = """
typedef struct { volatile int ready, sum; } Shared;
static void *add(void *p) { Shared *s = p; __atomic_add_fetch(&s->ready, 1, 5); while (s->ready < 2) sched_yield();
  for (int i = 0; i < 200000; i++) { ADD; } return 0; }
void f(const float *x, float *y) { Shared s = {0}; pthread_t t; right(x, y); pthread_create(&t, 0, add, &s); add(&s);
  pthread_join(t, 0); y[2] += s.sum != 400000; }
"""


ADD = {  # a thread yields its core in the middle of an addition, so that the race also occurs on a busy machine
    "with a race": "int old = s->sum; if (i % 1000 == 0) sched_yield(); s->sum = old + 1",
    "atomic": "__atomic_add_fetch(&s->sum, 1, 5)",
}


@pytest.mark.parametrize(("kind", "refused"), [("with a race", True), ("atomic", False)])
def test_race_between_kernel_threads_is_found_on_two_cores(tmp_path: Path, kind: str, refused: bool) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    own, folder, text = (
        os.sched_getaffinity(0),
        measured(tmp_path / "cache"),
        source("adds", "").rpartition("void f(")[0],
    )
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # sessions of other tests have pinned this process to one core
    try:
        session = driver("cpu").open(cpu(folder), Objective(threads=2), folder)
        kernel = session.load(built(text + ADDS.replace("ADD", ADD[kind]), tmp_path), "f", ARGUMENTS, None)
        held = session.allocate(ARGUMENTS, GOLDENS[0].inputs)
        with pytest.raises(WrongAnswerError, match="differs from the reference") if refused else nullcontext():
            verify(session, kernel, held, GOLDENS[0], launches=10, deterministic=True)
    finally:
        os.sched_setaffinity(0, own)


LEARNS = """
  static const void *after[4096][2]; static int known; static const void *before, *guess; static float right_, made;
  int place = 0; while (place < known && after[place][0] != x) place++;
  if (place == known) after[known++][0] = x;
  right_ += guess == x; made += guess != 0;
  for (int i = 0; before && i < known; i++) if (after[i][0] == before) after[i][1] = x;
  guess = after[place][1]; before = x; y[0] = right_; y[1] = made;
"""
"""C code of a kernel that predicts the next buffers from earlier calls, and counts its correct predictions."""


def test_kernel_cannot_predict_the_next_buffers_of_timed_cold_calls(session: HostSession, tmp_path: Path) -> None:
    kernel = session.load(built(source("learns", LEARNS), tmp_path), "f", ARGUMENTS, None)
    sets = session.allocate_sets(ARGUMENTS, GOLDENS[0].inputs, 32)
    shares: dict[bool, float] = {}
    for once in (True, False):  # first in a fixed order, then in the random order of timed calls
        timer, before = session.timer(kernel, sets, once=once), np.zeros(2)
        for sample in range(30):
            timer.sample()
            now = sets[timer.last].read("y")[:2].astype(np.float64)
            before = now if sample == 9 else before
        right, made = now - before
        shares[once] = right / made
    assert shares[True] > 0.9
    assert shares[False] < 0.3
