"""Computes inputs and expected outputs with a family's reference.py. Only runners use this module."""

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from evo.family import DRAWN, JUDGED, Operand
from evo.reference.encoding import is_floating
from evo.reference.library import GpuNeededError
from evo.reference.pieces import copied, in_pieces, largest_magnitude, norm, usable_cores
from workers.backends.distance import distance
from workers.build.cache import LIMIT_BYTES, Cache, cache_key
from workers.measure.family.contract import array_of, check_input, check_names, check_reference, check_yardstick
from workers.measure.family.dependencies import are_unchanged, dependencies, packed, unpacked
from workers.measure.family.expected_output import Arrays, ExpectedOutput, FamilyError, Limit
from workers.measure.family.mixtures import KINDS, MOST_BYTES, Mixture, mixtures
from workers.measure.family.module import ReferenceModule
from workers.measure.family.packing import pack, unpack
from workers.measure.family.verification import Verification
from workers.runner.protocol import CasePlan

NO_LIMIT = sys.float_info.max
_GROWTH = 32
"""Memory that ``reference()`` and ``yardstick()`` need, as a multiple of the size of the inputs. The functions make a
few float64 copies of half-precision arrays.
"""

_ALIKE = 2.0
"""Factor of the relative L2 limit for inputs with few different or few large numbers. Equal numbers have equal errors,
e.g. those of an approximated exponential, so the errors are not averaged. The largest error of such an approximation is
less than twice its root mean square.
"""

_FEW_ELEMENTS = 64
"""Number of elements below which the maximum error of ``yardstick()`` is too random to be the only limit. The relative
L2 tolerance then gives a second limit, and the larger one is used.
"""

_KEPT_ANYWAY_BYTES = 16 << 20
_LAYOUT = 6
"""Version of the layout of cache entries, and of the checks that the entries have passed."""

_REPEATED_S = 0.05
"""``reference()`` is called twice, to detect results that differ between calls, unless it takes longer than this number
of seconds.
"""

_MIXED = 0x6D69
"""Number that is appended to the seed of the inputs, for drawing mixtures."""

_SAMPLED_BYTES = 1 << 14
_DEPENDENCIES = "dependencies"
"""Name of the array in a cache entry with the states of the files that `dependencies` returned."""

_READ_BYTES_S = 2e8
"""Speed of reading and checking a cache entry, in bytes per second. Outputs of more than `_KEPT_ANYWAY_BYTES` that are
faster to compute than to read are not cached.
"""

_CACHE_SHARE = 2
"""The expected outputs that one call of `Reference.goldens` caches have, in total, at most the size of the cache
divided by this number. Otherwise, they could evict each other.
"""


def _pool_for(drawn: Sequence[Arrays]) -> ThreadPoolExecutor:
    """Return a pool with as many threads as cores and memory permit for these inputs."""
    largest = max((sum(np.asarray(array).nbytes for array in inputs.values()) for inputs in drawn), default=0)
    affordable = psutil.virtual_memory().available // (_GROWTH * max(largest, 1))
    return ThreadPoolExecutor(max(1, min(affordable, len(drawn), usable_cores())))


class Reference:
    """The family's reference.py, with a cache of expected outputs.

    Attributes:
        slowest_s: longest duration in seconds of computing the expected outputs for one set of inputs. 0 if none
            were computed.

    Raises:
        FamilyError: reference.py cannot be imported.
    """

    def __init__(self, path: Path, family_digest: str, cache: Cache) -> None:
        self._digest = family_digest
        self._cache = cache
        self._module = ReferenceModule(path, family_digest)
        self.slowest_s = 0.0
        self._most_kept_bytes = LIMIT_BYTES // _CACHE_SHARE
        self._ready: dict[tuple[str, tuple[int, ...]], ExpectedOutput] = {}

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function of reference.py, wrapped to convert errors, or None if the function is missing.

        The wrapped function raises only `FamilyError`, or `GpuNeededError` if it needs a GPU that this process may not
        use now.
        """
        return self._module.function(name)

    def drawn(self, plans: Sequence[CasePlan]) -> list[Arrays]:
        """Return the inputs of each case and seed, in order. The inputs are drawn in parallel."""
        asked = _cases_and_seeds(plans)
        with ThreadPoolExecutor(min(len(asked), usable_cores())) as pool:
            return list(pool.map(self.draw, *zip(*asked, strict=True)))

    def goldens(self, plans: Sequence[CasePlan], drawn: Sequence[Arrays]) -> dict[str, tuple[ExpectedOutput, ...]]:
        """Return the expected outputs of each case, by case name, in the order of the case's seeds.

        The outputs are computed in parallel as far as cores and memory permit. If `GpuNeededError` is raised, the
        outputs that need no GPU were computed and are kept. The next call computes only the others.

        Args:
            plans: cases with their seeds.
            drawn: inputs that `drawn` returned for these cases.

        Raises:
            FamilyError: reference.py violates its contract.
            GpuNeededError: ``reference()`` needs a GPU that this process may not use now.
        """
        asked = _cases_and_seeds(plans)
        self._most_kept_bytes = LIMIT_BYTES // (_CACHE_SHARE * len(asked))
        with _pool_for(drawn) as pool:
            done = list(pool.map(self._golden_if_allowed, *zip(*asked, strict=True), drawn))
        made = [golden for golden in done if golden is not None]
        if len(made) < len(done):
            raise GpuNeededError(
                "some expected outputs need the GPU, which another process may be using; compute them later"
            )
        self._ready.clear()
        self._refuse_zeros(plans, made)
        return {plan.name: tuple(golden for golden in made if golden.case == plan.name) for plan in plans}

    def _golden_if_allowed(self, plan: CasePlan, seed: tuple[int, ...], inputs: Arrays) -> ExpectedOutput | None:
        """Return the expected output for one set of inputs, or None if this needs a GPU that may not be used now."""
        with suppress(GpuNeededError):
            if (plan.name, seed) not in self._ready:
                self._ready[plan.name, seed] = self.golden(plan, seed, inputs)
        return self._ready.get((plan.name, seed))

    def _refuse_zeros(self, plans: Sequence[CasePlan], made: Sequence[ExpectedOutput]) -> None:
        """Reject a reference whose outputs are zero in every case, because a kernel that writes zeros would pass.

        If ``verify()`` checks an output, nothing is rejected.
        """
        if any(plan.verified for plan in plans):
            return
        if not any(norm for golden in made for norm in golden.norms.values()):
            reason = "every expected output of every case is zero, so a kernel that writes zeros passes"
            raise FamilyError(
                f"{self._module.maker('reference')}: {reason}; draw other inputs, or correct the reference"
            )

    def mixtures(
        self, plans: Sequence[CasePlan], goldens: Mapping[str, Sequence[ExpectedOutput]]
    ) -> tuple[ExpectedOutput, ...]:
        """Mix inputs of the first case with inputs of other cases. Return the mixed inputs with their expected outputs.

        Only cases with the first case's problem are mixed, and only if `CasePlan.mixed` is True. The result is empty if
        `CasePlan.mixed` is False for the first case.

        If no other case can be mixed, inputs of another case's distribution are drawn for the problem of the first
        case. If this is impossible, the first case is mixed with its own inputs for a second seed.

        A mixture is omitted if reference.py rejects it or returns no finite numbers for it, because kernels need not
        support such inputs.
        """
        first, *rest = plans
        mixed = {plan.distribution for plan in rest if plan.mixed}
        distributions = sorted(mixed.union(first.others) - {first.distribution})
        rest = [plan for plan in rest if plan.mixed and dict(plan.problem) == dict(first.problem)]
        others = [goldens[plan.name][0].inputs for plan in rest if first.mixed]
        rng, nominal = np.random.default_rng([*first.seeds[0], _MIXED]), goldens[first.name][0]
        if first.mixed and not others and sum(array.nbytes for array in nominal.inputs.values()) <= MOST_BYTES:
            others = self._drawn_from_another(first, distributions, rng)
            others = others or [golden.inputs for golden in goldens[first.name][1:2]]
        origins = ", ".join([first.distribution, *(plan.distribution for plan in rest)])

        def answered(each: Mixture) -> ExpectedOutput | None:
            plan = replace(first, name=f"{first.name} with {each.name}", distribution=f"{each.name}: {origins}")
            with suppress(FamilyError):
                expected = self.golden(plan, first.seeds[0], each.inputs, few=each.few)
                return _without_ties(expected) if each.ties else expected
            return None

        allowed = max((each.rel_l2 for each in nominal.limits.values()), default=0.0)
        drawn = mixtures(nominal.inputs, others, first.operands, rng, allowed=allowed)
        with _pool_for([nominal.inputs] * KINDS) as pool:  # computes outputs while further inputs are mixed
            return tuple(golden for golden in pool.map(answered, drawn) if golden is not None)

    def _drawn_from_another(
        self, plan: CasePlan, distributions: Sequence[str], rng: np.random.Generator
    ) -> list[Arrays]:
        """Return inputs for the problem of a case, drawn from one of the distributions.

        The result is empty if there is no distribution, or if reference.py rejects it for this problem.
        """
        if distributions:
            chosen = distributions[int(rng.integers(len(distributions)))]
            with suppress(FamilyError):
                return [self.draw(replace(plan, distribution=chosen), (*plan.seeds[0], _MIXED))]
        return []

    def draw(self, plan: CasePlan, seed: tuple[int, ...]) -> Arrays:
        """Return inputs of a case, drawn with a seed and checked against family.toml."""
        made = self._module.arrays("inputs", dict(plan.problem), plan.distribution, np.random.default_rng(list(seed)))
        maker = self._module.maker("inputs")
        check_names(made, plan.operands, DRAWN, case=plan.name, maker=maker)
        drawn = {}
        for each in plan.operands:
            if each.role in DRAWN:
                with self._module.blame(f"inputs(), input `{each.name}`"):
                    drawn[each.name] = check_input(each, made[each.name], case=plan.name, maker=maker)
        return drawn

    def golden(
        self, plan: CasePlan, seed: tuple[int, ...], inputs: Arrays | None = None, *, few: bool = False
    ) -> ExpectedOutput:
        """Return inputs with their expected outputs and error limits. Expected outputs are cached.

        Args:
            inputs: inputs to use. If None, inputs are drawn with `seed`.
            few: True if the inputs cause large errors in only a few output elements, e.g. because of one outlier.
        """
        inputs = self.draw(plan, seed) if inputs is None else inputs
        key = self._key(plan, seed, inputs)
        stored = self._cached_golden(key) or self._compute_golden(key, plan, inputs)
        golden = self._complete(plan, inputs, stored, few=few)
        if isinstance(golden.verify, Verification):
            golden.verify.check_refuses()
        return golden

    def further(self, plan: CasePlan, seed: tuple[int, ...]) -> ExpectedOutput:
        """Draw inputs and return them with their expected outputs, without using the cache."""
        return self.expected(plan, self.draw(plan, seed))

    def expected(self, plan: CasePlan, inputs: Arrays) -> ExpectedOutput:
        """Return inputs of a case with their expected outputs, without using the cache."""
        return self._complete(plan, inputs, self._compute(plan, inputs))

    def _complete(self, plan: CasePlan, inputs: Arrays, stored: Arrays, *, few: bool = False) -> ExpectedOutput:
        golden = _golden(plan, inputs, stored, few=few)
        if not plan.verified:
            return golden
        verify = Verification(
            function=self._module.required("verify"), maker=self._module.maker("verify"), plan=plan, inputs=inputs
        )
        return replace(golden, verify=verify, verified=tuple(each.name for each in plan.verified))

    def _cached_golden(self, key: str) -> Arrays | None:
        """Return cached expected outputs, or None if there are none or a file on which they depend has changed."""
        content = self._cache.get(key)
        if content is None:
            return None
        stored = unpack(content)
        return stored if are_unchanged(unpacked(stored.pop(_DEPENDENCIES).tobytes())) else None

    def _compute_golden(self, key: str, plan: CasePlan, inputs: Arrays) -> Arrays:
        """Compute expected outputs and return them. Cache them if they are small, or faster to read than to compute."""
        began = time.perf_counter()
        made = self._compute(plan, inputs)
        size, took_s = sum(each.nbytes for each in made.values()), time.perf_counter() - began
        self.slowest_s = max(self.slowest_s, took_s)
        if size <= min(max(_KEPT_ANYWAY_BYTES, took_s * _READ_BYTES_S), self._most_kept_bytes):
            states = packed(dependencies(self._module.path.parent))
            self._cache.put(key, pack({**made, _DEPENDENCIES: np.frombuffer(states, np.uint8)}))
        return made

    def _compute(self, plan: CasePlan, inputs: Arrays) -> Arrays:
        """Return the expected outputs, as arrays with keys of the form ``reference/OUTPUT``.

        For each output whose tolerance has a `max_abs_ratio`, also return the maximum absolute error of the result of
        ``yardstick()``, with a key of the form ``error/OUTPUT``.
        """
        began = time.perf_counter()
        stored = self._references(plan, inputs)
        if time.perf_counter() - began < _REPEATED_S:
            self._check_repeats(plan, stored, self._answers("reference", plan, inputs) if plan.outputs else {})
        measured = [each for each in plan.outputs if each.tolerance and each.tolerance.max_abs_ratio is not None]
        yardstick = self._answers("yardstick", plan, inputs) if measured else {}
        for each in measured:
            if each.name not in yardstick:
                raise FamilyError(
                    f"{self._module.maker('yardstick')} must return the output `{each.name}` for case {plan.name}"
                )
            with self._module.blame(f"yardstick(), output `{each.name}`"):
                values = array_of(yardstick[each.name], each, self._module.maker("yardstick"))
                error = self._error(plan, each, values, stored[f"reference/{each.name}"])
                stored[f"error/{each.name}"] = np.asarray(error)
        return stored

    def _references(self, plan: CasePlan, inputs: Arrays) -> dict[str, NDArray[Any]]:
        return self._checked(plan, self._answers("reference", plan, inputs)) if plan.outputs else {}

    def _checked(self, plan: CasePlan, made: Arrays) -> dict[str, NDArray[Any]]:
        """Check the result of ``reference()``, and return its arrays as they are stored."""
        maker = self._module.maker("reference")
        check_names(made, plan.outputs, JUDGED, case=plan.name, maker=maker)
        stored = {}
        for each in plan.outputs:
            with self._module.blame(f"reference(), output `{each.name}`"):
                stored[f"reference/{each.name}"] = check_reference(each, made[each.name], case=plan.name, maker=maker)
        return stored

    def _check_repeats(self, plan: CasePlan, first: Arrays, answers: Arrays) -> None:
        """Reject ``reference()`` if the results of two calls differ by more than the tolerance for kernels.

        Args:
            first: stored arrays of the first call.
            answers: result of the second call.
        """
        names = {each.name for each in plan.outputs}
        if answers.keys() == names and all(_are_equal(answers[name], first[f"reference/{name}"]) for name in names):
            return
        second = self._checked(plan, answers)
        for each in plan.outputs:
            right = first[f"reference/{each.name}"]
            off = math.sqrt(distance(second[f"reference/{each.name}"], right).squares)
            allowed = each.tolerance.rel_l2 if each.tolerance is not None else 0.0
            if off > allowed * norm(right):
                reason = "differs between calls on the same inputs; compute it from `problem` and `inputs` alone"
                where = f"{self._module.maker('reference')}: `{each.name}` of case {plan.name}"
                raise FamilyError(f"{where} {reason}, not from np.random, the time or earlier calls")

    def _answers(self, function: str, plan: CasePlan, inputs: Arrays) -> Arrays:
        """Call ``reference()`` or ``yardstick()`` with copies of the inputs, which it may modify. Return the result."""
        copies = {name: copied(array) for name, array in inputs.items()}
        return self._module.arrays(function, dict(plan.problem), copies)

    def _error(self, plan: CasePlan, output: Operand, values: NDArray[Any], reference: NDArray[Any]) -> float:
        """Return the maximum absolute error of ``yardstick()`` for an output, compared with ``reference()``."""
        where = f"{self._module.maker('yardstick')}: `{output.name}` of case {plan.name}"
        if values.shape != reference.shape:
            raise FamilyError(
                f"{where} has shape {values.shape}, but the result of reference() has shape {reference.shape}"
            )
        found = distance(check_yardstick(output, values, where), reference)
        if found.not_finite == found.elements:
            raise FamilyError(f"{where} contains only NaN or infinities; return finite numbers")
        size = norm(reference)
        if is_floating(output.dtype) and size and found.squares >= size * size:
            reason = (
                "differs from reference() as much as zeros do, so a tolerance based on it would accept every output"
            )
            raise FamilyError(f"{where} {reason}; compute the same values as reference(), in the dtype of the kernel")
        return found.max_abs

    def _key(self, plan: CasePlan, seed: tuple[int, ...], inputs: Arrays) -> str:
        """Return the cache key. The key depends on the inputs, because inputs may depend on more than the seed."""
        outputs = [[each.name, each.dtype, each.shape] for each in plan.outputs]
        drawn = [[name, _checksum(array)] for name, array in sorted(inputs.items())]
        what = json.dumps([_LAYOUT, sorted(plan.problem.items()), plan.distribution, seed, outputs, drawn])
        return cache_key("golden", self._digest, self._module.helpers, what, np.__version__)


def _are_equal(answer: Any, stored: NDArray[Any]) -> bool:
    """Return True if an array has the dtype, shape and values of a stored array, which contains no NaN."""
    if type(answer) is not np.ndarray or (answer.dtype, answer.shape) != (stored.dtype, stored.shape):
        return False
    one, other = np.ascontiguousarray(answer).reshape(-1), np.ascontiguousarray(stored).reshape(-1)
    return all(in_pieces(lambda piece: np.array_equal(one[piece], other[piece]), one.size))


def _cases_and_seeds(plans: Sequence[CasePlan]) -> list[tuple[CasePlan, tuple[int, ...]]]:
    return [(plan, seed) for plan in plans for seed in plan.seeds]


def _golden(plan: CasePlan, inputs: Arrays, stored: Arrays, *, few: bool) -> ExpectedOutput:
    names = [name.removeprefix("reference/") for name in stored if name.startswith("reference/")]
    return ExpectedOutput(
        case=plan.name,
        inputs=inputs,
        reference={name: stored[f"reference/{name}"] for name in names},
        limits={each.name: _limit(each, stored, few=few) for each in plan.outputs},
    )


def _without_ties(expected: ExpectedOutput) -> ExpectedOutput | None:
    """Return a copy without the outputs whose expected values are integers or bools.

    Such outputs, e.g. indices, may have several correct values if elements of the inputs are equal. Outputs that
    ``verify()`` checks stay. The result is None if no output remains.
    """
    reference = {name: values for name, values in expected.reference.items() if values.dtype.kind == "f"}
    return replace(expected, reference=reference) if reference or expected.verified else None


def _checksum(array: NDArray[Any]) -> str:
    """Return the sum of all 8-byte words, and a digest of a sample of the bytes, as text. Both are fast to compute."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    aligned = data.size // 8 * 8
    total = int(data[:aligned].view(np.uint64).sum(dtype=np.uint64)) + int(data[aligned:].sum(dtype=np.uint64))
    sample = data[:: max(1, data.size // _SAMPLED_BYTES)]
    return f"{total:x} {hashlib.sha256(sample.tobytes()).hexdigest()}"


def _limit(output: Operand, stored: Arrays, *, few: bool) -> Limit:
    """Return the error limits of an output.

    Args:
        few: True if the errors of the elements are not averaged, because the inputs have few different or few large
            numbers. The limits are then higher.
    """
    tolerance = output.tolerance
    if tolerance is None:
        raise FamilyError(f"output `{output.name}` has no tolerance; set rel_l2 for it in family.toml")
    rel_l2 = tolerance.rel_l2 * (_ALIKE if few and is_floating(output.dtype) else 1.0)
    if tolerance.max_abs is not None:
        return Limit(rel_l2=rel_l2, max_abs=tolerance.max_abs)
    if tolerance.max_abs_ratio is None:
        return Limit(rel_l2=rel_l2, max_abs=NO_LIMIT)
    error = float(stored[f"error/{output.name}"])
    if not is_floating(output.dtype):  # integers are never rounded, so the error may be 0
        return Limit(rel_l2=rel_l2, max_abs=tolerance.max_abs_ratio * error)
    # yardstick() may be exact by coincidence, but kernels need not be exact
    reference = stored[f"reference/{output.name}"]
    scale = largest_magnitude(reference)
    error = max(error, scale * float(np.finfo(np.float32).eps))
    few = few or reference.size < _FEW_ELEMENTS
    beyond = (tolerance.max_abs_ratio - 1) * tolerance.rel_l2 * scale if few else 0.0
    return Limit(rel_l2=rel_l2, max_abs=max(tolerance.max_abs_ratio * error, beyond))
