"""A family's reference.py: what it draws, computes and offers as baselines. Runs in a runner only."""

import importlib.util
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from evo.export.loader.float_control import preserved
from workers.cache import Cache, cache_key
from workers.distance import distance
from workers.golden import Arrays, FamilyError, Golden, Limit
from workers.protocol import CasePlan

NO_LIMIT = sys.float_info.max
_GROWTH = 32
"""So many times its inputs a reference and its yardstick may hold at once: float64 copies of halves, a few of each."""

_FEW_ELEMENTS = 64
"""Of fewer the yardstick's largest error is chance, so what may go beyond it follows the tolerance of the norm."""

_KEPT_ANYWAY_BYTES = 16 << 20
_READ_BYTES_S = 2e8
"""What is larger is kept only if it takes longer to make than so many bytes a second take to be read and checked."""


class Reference:
    """The family's reference.py.

    Raises:
        FamilyError: it cannot be imported, or lacks `inputs` or `reference`.
    """

    def __init__(self, path: Path, family_digest: str, cache: Cache) -> None:
        self.path = path
        self._digest = family_digest
        self._cache = cache
        self._module = self._load()
        self._helpers = _helpers(self._module)

    def function(self, name: str) -> Callable[..., Any] | None:
        """A function of the module by name, wrapped so that its failure names it; None when it has none."""
        function = getattr(self._module, name, None)
        if function is None:
            return None

        def named(*arguments: object) -> Any:
            with self._blame(f"{name}()"):
                return function(*arguments)

        return named

    def goldens(self, plans: Sequence[CasePlan]) -> dict[str, tuple[Golden, ...]]:
        """Of each case one for each seed; made side by side, as many as cores and memory allow."""
        asked = [(plan, seed) for plan in plans for seed in plan.seeds]
        with ThreadPoolExecutor(min(len(asked), os.cpu_count() or 1)) as pool:
            drawn = list(pool.map(self._draw, *zip(*asked, strict=True)))
        largest = max(sum(np.asarray(array).nbytes for array in inputs.values()) for inputs in drawn)
        affordable = psutil.virtual_memory().available // (_GROWTH * max(largest, 1))
        with ThreadPoolExecutor(max(1, min(affordable, len(asked), os.cpu_count() or 1))) as pool:
            made = list(pool.map(self.golden, *zip(*asked, strict=True), drawn))
        return {plan.name: tuple(golden for golden in made if golden.case == plan.name) for plan in plans}

    def _draw(self, plan: CasePlan, seed: tuple[int, ...]) -> Arrays:
        return self._arrays("inputs", dict(plan.problem), plan.distribution, np.random.default_rng(list(seed)))

    def golden(self, plan: CasePlan, seed: tuple[int, ...], inputs: Arrays | None = None) -> Golden:
        """Inputs drawn with `seed`, the reference and the limits; the latter two are kept in the cache."""
        inputs = self._draw(plan, seed) if inputs is None else inputs
        key = self._key(plan, seed)
        kept = self._cache.get(key)
        stored = self._made(key, plan, inputs) if kept is None else _unpack(kept)
        names = [name.removeprefix("reference/") for name in stored if name.startswith("reference/")]
        return Golden(
            case=plan.name,
            inputs=inputs,
            reference={name: stored[f"reference/{name}"] for name in names},
            limits={name: _limit(plan, name, stored) for name in names},
        )

    def _made(self, key: str, plan: CasePlan, inputs: Arrays) -> Arrays:
        """Computed, and kept where that spares time."""
        began = time.perf_counter()
        made = self._compute(plan, inputs)
        size, took_s = sum(each.nbytes for each in made.values()), time.perf_counter() - began
        if size <= max(_KEPT_ANYWAY_BYTES, took_s * _READ_BYTES_S):
            self._cache.put(key, _pack(made))
        return made

    def _compute(self, plan: CasePlan, inputs: Arrays) -> Arrays:
        """References and, where a tolerance is relative to it, the yardstick's largest error."""
        problem = dict(plan.problem)
        reference = self._outputs("reference", plan.tolerances, np.float64, problem, inputs)
        stored = {f"reference/{name}": values for name, values in reference.items()}
        ratios = [name for name, tolerance in plan.tolerances.items() if tolerance.max_abs_ratio is not None]
        if ratios:
            yardstick = self._outputs("yardstick", ratios, None, problem, inputs)
            for name, values in yardstick.items():
                if values.shape != reference[name].shape:
                    shapes = f"of shape {values.shape}, while reference() says {reference[name].shape}"
                    raise FamilyError(f"{self.path.name}, yardstick(): makes `{name}` {shapes}")
                stored[f"error/{name}"] = np.asarray(distance(values, reference[name]).max_abs)
        return stored

    def _outputs(self, function: str, names: Iterable[str], dtype: Any, *arguments: object) -> dict[str, NDArray[Any]]:
        """Of what a function returns, these outputs, as `dtype`; None leaves them as they are."""
        made = self._arrays(function, *arguments)
        if missing := sorted(set(names) - set(made)):
            raise FamilyError(f"{self.path.name}, {function}(): returns no {', '.join(missing)}")
        outputs = {}
        for name in names:
            with self._blame(f"{function}(), output `{name}`"):
                outputs[name] = np.asarray(made[name], dtype)
        return outputs

    def _arrays(self, function: str, *arguments: object) -> Arrays:
        made = self._required(function)(*arguments)
        if not isinstance(made, Mapping):
            kind = type(made).__name__
            raise FamilyError(f"{self.path.name}, {function}(): returns {kind}, not a dict of arrays by name")
        return made

    def _key(self, plan: CasePlan, seed: tuple[int, ...]) -> str:
        what = json.dumps([sorted(plan.problem.items()), plan.distribution, seed, sorted(plan.tolerances)])
        return cache_key("golden", self._digest, self._helpers, what, np.__version__)

    def _required(self, name: str) -> Callable[..., Any]:
        function = self.function(name)
        if function is None:
            raise FamilyError(f"{self.path.name} has no function `{name}`, which family.toml relies on")
        return function

    def _load(self) -> ModuleType:
        name = f"kernel_evo_reference_{self._digest}"
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise FamilyError(f"{self.path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # by its name torch.compile, dataclasses and pickle look for what it defines
        try:
            with self._blame("import"):
                spec.loader.exec_module(module)
        except FamilyError:
            del sys.modules[name]
            raise
        return module

    @contextmanager
    def _blame(self, doing: str) -> Iterator[None]:
        try:
            with preserved():
                yield
        except (Exception, SystemExit) as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)]
            line = f" (line {frames[-1].lineno})" if frames else ""
            raise FamilyError(f"{self.path.name}, {doing}{line}: {type(error).__name__}: {error}") from error


def _helpers(module: ModuleType) -> str:
    """The source of what a reference.py imports of our own, which its family's digest does not cover."""
    used = {getattr(each, "__module__", getattr(each, "__name__", None)) for each in vars(module).values()}
    ours = sorted(name for name in used if isinstance(name, str) and name.partition(".")[0] == "evo")
    return cache_key(*(Path(str(sys.modules[name].__file__)).read_text() for name in ours))


def _limit(plan: CasePlan, name: str, stored: Arrays) -> Limit:
    tolerance = plan.tolerances[name]
    if tolerance.max_abs is not None:
        return Limit(rel_l2=tolerance.rel_l2, max_abs=tolerance.max_abs)
    if tolerance.max_abs_ratio is None:
        return Limit(rel_l2=tolerance.rel_l2, max_abs=NO_LIMIT)
    # a yardstick that happens to be exact must not demand exactness of everybody
    reference = stored[f"reference/{name}"]
    scale = max(float(reference.max(initial=0.0)), -float(reference.min(initial=0.0)))
    error = max(float(stored[f"error/{name}"]), scale * float(np.finfo(np.float32).eps))
    beyond = (tolerance.max_abs_ratio - 1) * tolerance.rel_l2 * scale if reference.size < _FEW_ELEMENTS else 0.0
    return Limit(rel_l2=tolerance.rel_l2, max_abs=max(tolerance.max_abs_ratio * error, beyond))


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(packed: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
