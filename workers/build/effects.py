"""Finds tunables without effect, by compiling configs that differ in one tunable and comparing their kernels.

A tunable without effect makes the space larger and the search longer, and is often caused by a typo. Comparing binaries
finds all causes: the source does not contain the tunable's name, a header redefines the name, or the source assigns the
name and never uses it. `Effects.warnings` also reports files that a kernel uses but cannot access.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path

import numpy as np

from evo.device import kind_of
from evo.device.separation import SEPARATION
from evo.errors import EvoError
from evo.family.implementation import Implementation
from evo.family.problem import problem_key
from evo.lru_cache import LruCache
from evo.space import Space
from evo.text.shell import quoted
from evo.text.wording import count_text
from evo.trial import Config
from evo.trial.outcome import CompileFailed
from templates.registry import Package
from templates.render import used_names
from workers.build import Artefact, Compiler, Unit
from workers.build.advice import REDEFINED
from workers.build.build import call_arguments
from workers.build.cache import Cache
from workers.build.cached import compile_cached
from workers.build.families import Assignment
from workers.build.rendering import RENDERER
from workers.system.private_folders import all_may_enter, kernels_may_enter

VALUES = 3
"""Maximum number of values of a tunable that are compared with its default value."""

CONTEXTS = 12
"""Maximum number of additional configs in which a tunable is tested if it has no effect in the default config."""

MOST_S = 3.0
"""Time limit of the check in seconds. Tunables that are not checked by then are not reported."""

_KEPT = 64
_DEBUG = re.compile(r"-g\w*|-?-generate-line-info|-lineinfo|-?-device-debug|-G")
"""Flags for debugging. With these flags, even a changed comment in the source would change the binary."""


@dataclass(frozen=True, kw_only=True)
class Idle:
    """A tunable for which all tested values gave the same kernel.

    Attributes:
        tunable: name of the tunable.
        values: number of values that were compared with the default value in the default config.
        contexts: number of additional configs in which a second value of the tunable gave the same kernel.
    """

    tunable: str
    values: int
    contexts: int


class OutOfTime(Exception):
    """Raised if the check reached its time limit."""


def idle_tunables(space: Space, differ: Callable[[Config, Config], bool]) -> tuple[Idle, ...]:
    """Return the tunables for which no tested value changes the kernel.

    Args:
        differ: function that returns True if two configs give different kernels. If it raises `OutOfTime`, the check
            ends, and the tunables that were found so far are returned.
    """
    default, found = space.default(), dict[str, Idle]()
    with suppress(OutOfTime):
        for name in space.names:
            others = _neighbours_of(space, default, name)
            if others and not any(differ(default, other) for other in others):
                found[name] = Idle(tunable=name, values=len(others), contexts=0)
        for name in tuple(found):
            for context, other in _contexts(space, default, name):
                if differ(context, other):
                    del found[name]
                    break
                found[name] = replace(found[name], contexts=found[name].contexts + 1)
    return tuple(found.values())


def _neighbours_of(space: Space, config: Config, name: str) -> list[Config]:
    """Return at most `VALUES` valid configs that differ from `config` only in the tunable `name`."""
    found = [each for each in space.neighbours(config, "hamming") if each[name] != config[name]]
    indices = dict.fromkeys((len(found) - 1, 0, len(found) // 2)) if found else {}
    return [found[index] for index in indices][:VALUES]


def _contexts(space: Space, default: Config, name: str) -> Iterator[tuple[Config, Config]]:
    """Yield at most `CONTEXTS` pairs of configs. The configs of a pair differ only in the tunable `name`.

    The pairs differ from each other in the values of other tunables.
    """
    changed = [
        [each for each in space.neighbours(default, "hamming") if each[other] != default[other]]
        for other in space.names
        if other != name
    ]
    nearby = [each for turn in zip_longest(*map(reversed, changed)) for each in turn if each is not None]
    spread = space.sample(np.random.default_rng(0), CONTEXTS // 3)
    for context in [*nearby[: CONTEXTS - len(spread)], *spread]:
        for other in _neighbours_of(space, context, name)[:1]:
            yield context, other


class Effects:
    """Finds tunables without effect, once per searched problem. Thread-safe.

    Args:
        compiler: function that returns the compiler. It is called on demand.
    """

    def __init__(self, compiler: Callable[[], Compiler], cache: Cache) -> None:
        self._compiler = compiler
        self._cache = cache
        self._found: LruCache[str, tuple[str, ...]] = LruCache(_KEPT)
        self._finding = threading.Lock()

    def warnings(self, work: Assignment) -> tuple[str, ...]:
        """Return a warning for each tunable without effect, and for each file that the kernel cannot access.

        The warnings are computed once per searched problem. The check takes at most about `MOST_S` seconds.
        """
        terms = work.terms
        key = f"{terms.family.digest} {problem_key(terms.problem)} {terms.device!r} {terms.objective!r}"
        with self._finding:
            return self._found.get(key, lambda: (*_files_in_private_folders(work), *self._examine(work)))

    def _examine(self, work: Assignment) -> tuple[str, ...]:
        terms, family = work.terms, work.copy.family
        try:
            kernels = _Kernels(work=work, compiler=self._compiler(), cache=self._cache, ends_s=_now_s() + MOST_S)
            space = family.space(terms.problem, terms.device, terms.objective)
            if not kernels.compiles(space.default()):
                return ()
            found = idle_tunables(space, kernels.differ)
            implementation = family.implementation(terms.device.kind)
            return tuple(_sentence(each, work.copy.package, implementation, kernels.log) for each in found)
        except (EvoError, OSError, OutOfTime):  # errors are reported by the trials
            return ()


@dataclass(kw_only=True)
class _Kernels:
    """Compiles and compares the kernels of configs, and raises `OutOfTime` after `ends_s` on the monotonic clock.

    `log` contains the output of all compilations.
    """

    work: Assignment
    compiler: Compiler
    cache: Cache
    ends_s: float
    log: str = ""

    def compiles(self, config: Config) -> bool:
        return self._digest(self._unit(config)[0]) is not None

    def differ(self, one: Config, other: Config) -> bool:
        """Return True if the launches or binaries of two configs differ.

        Also return True if one of them cannot be rendered, or if only one of them compiles.
        """
        if _now_s() > self.ends_s:
            raise OutOfTime
        try:
            (first, called), (second, otherwise) = self._unit(one), self._unit(other)
        except EvoError:  # one of the configs cannot be rendered
            return True
        if called != otherwise:
            return True
        if first == second:
            return False
        return self._digest(first) != self._digest(second)

    def _unit(self, config: Config) -> tuple[Unit, str]:
        """Return the unit of a config without flags for debugging, and the kernel's launch and arguments as text."""
        terms, copy = self.work.terms, self.work.copy
        candidate = copy.family.candidate(config, terms.problem, terms.device, terms.objective)
        source = RENDERER.render(copy.package, terms.device.kind, config, terms.problem, candidate.derived)
        unit = copy.unit(terms.device.kind, source, candidate.target(terms.device.architecture))
        flags = tuple(flag for flag in unit.flags if not _DEBUG.fullmatch(flag))
        return replace(unit, flags=flags), repr((candidate.launch, call_arguments(candidate)))

    def _digest(self, unit: Unit) -> str | None:
        """Return the digest of a unit's binary, or None if it does not compile."""
        left_s = self.ends_s - _now_s()
        if left_s <= 0:
            raise OutOfTime
        limit_s = min(left_s, self.work.terms.policy.compile_timeout_s)
        result: Artefact | CompileFailed = compile_cached(self.compiler, self.cache, unit, timeout_s=limit_s)
        self.log = f"{self.log}\n{result.log.replace(f'{self.work.copy.folder}/', '')}"
        if isinstance(result, CompileFailed):
            if _now_s() >= self.ends_s:  # the compilation exceeded the time limit of the check
                raise OutOfTime
            return None
        return result.digest


def _sentence(idle: Idle, package: Package, implementation: Implementation, log: str) -> str:
    tried = f"{count_text(idle.values + 1, 'value')} gave the same kernel with the other tunables at their defaults"
    if idle.contexts:
        tried += f", and changing it made no difference in {count_text(idle.contexts, 'other config')}"
    remedy = _remedy(idle.tunable, package, implementation, log)
    return f"The tunable {idle.tunable} has no effect on this problem: {tried}. {remedy}."


def _remedy(name: str, package: Package, implementation: Implementation, log: str) -> str:
    file, table = implementation.file, f"[{implementation.kind}.tunables]"
    macro = implementation.macro(name)
    for found in REDEFINED.finditer(log):
        if macro in (found["gcc"], found["nvrtc"]):
            place = f"{found['file']}:{found['a'] or found['b']}"
            guard = f"write `#ifndef {macro}` on the line before and `#endif` on the line after"
            return f"{place} redefines `{macro}`; {guard}"
    if not implementation.becomes_macro(name):
        return f"It is not in the list `macros` of family.toml; add it to this list, or remove it from {table}"
    used = used_names(package, implementation.kind)
    if macro not in used and name not in implementation.reach(used):
        meant = get_close_matches(macro, sorted(used), n=1, cutoff=0.7)
        hint = f"; did you mean `{meant[0]}`? Use" if meant else "; use"
        return f"{file} does not contain `{macro}`{hint} `{macro}` there, or remove the tunable from {table}"
    kept = "If the tunable has an effect in other configs, keep it"
    return f"Make {file} depend on its value, or remove the tunable from {table}. {kept}"


def _files_in_private_folders(work: Assignment) -> tuple[str, ...]:
    """Return a warning for each file that a CPU kernel uses but cannot access."""
    device, package = work.terms.device, work.copy.package
    if not kind_of(device.kind).on_host or kernels_may_enter(device.software.get(SEPARATION, "")):
        return ()
    implementation = package.family.implementation(device.kind)
    source = package.files.get(implementation.file, b"").decode("utf-8", errors="replace")
    return tuple(files_in_private_folders(source, implementation.flags))


def _now_s() -> float:
    return time.monotonic()


_NAMED = re.compile(r'"(/[^"\\\n]{1,1000})"')
"""Matches an absolute path in a string literal of a source or flag."""

_ASKS = re.compile(r"\baccess\s*\(")
"""Matches calls of ``access()``, the only function for files that kernels may call."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)

MOST = 3
"""Maximum number of files that are reported."""


def files_in_private_folders(source: str, flags: Sequence[str] = ()) -> Iterator[str]:
    """Yield a warning for each file that a source or flag names in a folder that other users may not enter.

    There are at most `MOST` warnings. A source without calls of ``access()`` is not checked, because kernels may use
    files only through this function.
    """
    if not _ASKS.search(source):
        return
    texts = (_INCLUDE.sub("", source), *flags)
    named = dict.fromkeys(Path(found) for text in texts for found in _NAMED.findall(text))
    closed = [(path, folder) for path in named if (folder := _closed(path)) is not None]
    for path, folder in closed[:MOST]:
        yield (
            f"The kernel cannot access {path}: the worker runs as root, so kernels run as a different user, who may "
            f"not enter {folder}. Allow it with chmod o+x {quoted(str(folder))}, or do not run the worker as root."
        )


def _closed(path: Path) -> Path | None:
    """Return the topmost parent folder of a path that other users may not enter, or None if there is none."""
    closed = (folder for folder in reversed(path.parents) if not all_may_enter(folder))
    return next((folder for folder in closed if folder.is_dir()), None)
