"""Imports a family's reference.py, calls its functions, and raises `FamilyError` for their faults."""

import importlib.util
import inspect
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from evo.export.loader.float_control import preserved
from evo.reference.library import GpuNeededError
from evo.text.encoding import not_utf8, python_text
from workers.build.cache import cache_key
from workers.measure.family.dependencies import Siblings, recorded
from workers.measure.family.expected_output import Arrays, FamilyError
from workers.system.descendants import excused

_MODULE = "kernel_evo_reference_"

_PARAMETERS = {
    "inputs": "problem, distribution, rng",
    "reference": "problem, inputs",
    "yardstick": "problem, inputs",
    "verify": "problem, inputs, outputs",
}
"""Parameters of the functions in reference.py, by name of the function."""

_NEEDED_BY = {"yardstick": "`max_abs_ratio`", "verify": "`verified = true`"}
"""Keys in family.toml that require an optional function, by name of the function. Other functions are always required.
"""


class ReferenceModule:
    """An imported reference.py.

    Attributes:
        helpers: digest of the modules of kernel-evo that reference.py imports. These modules are not part of the
            family's digest.

    Raises:
        FamilyError: the module cannot be imported.
    """

    def __init__(self, path: Path, family_digest: str) -> None:
        self.path = path
        self._module = self._load(f"{_MODULE}{family_digest}")
        self.helpers = _helpers(self._module)

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function of the module, wrapped to convert errors (see `blame`), or None if the function is missing.

        The wrapped function also raises `FamilyError` if it leaves a timer running.
        """
        function = getattr(self._module, name, None)
        if function is None:
            return None

        @wraps(function)
        def named(*arguments: object) -> Any:
            before = _timers()
            try:
                with self.blame(f"{name}()"), excused():
                    made = function(*arguments)
            except FamilyError as error:
                advice = _key_advice(error.__cause__, arguments) + _declaration_advice(function, name)
                raise FamilyError(f"{error}{advice}") from error.__cause__
            self._refuse_timers(name, _timers() - before)
            return made

        return named

    def required(self, name: str) -> Callable[..., Any]:
        """Return a function of the module, wrapped to convert errors (see `function`).

        Raises:
            FamilyError: the function does not exist.
        """
        function = self.function(name)
        if function is None:
            needed = f"{_NEEDED_BY[name]} in family.toml needs" if name in _NEEDED_BY else "every family needs"
            remedy = f"define `def {name}({_PARAMETERS[name]}):`"
            raise FamilyError(f"{self.path.name} has no function `{name}`, which {needed}; {remedy}")
        return function

    def arrays(self, function: str, *arguments: object) -> Arrays:
        """Call a function of the module, and return its result: arrays by name.

        Raises:
            FamilyError: the function does not exist, does not accept the arguments, raises an exception, or does not
                return a mapping.
            GpuNeededError: the function needs a GPU that this process may not use now.
        """
        called = self.required(function)
        try:
            inspect.signature(called).bind(*arguments)
        except TypeError as error:
            remedy = f"declare it as `def {function}({_PARAMETERS[function]}):`"
            raise FamilyError(f"{self.maker(function)}: {error}; {remedy}") from None
        except ValueError:  # the function is implemented in C and has no signature
            pass
        made = called(*arguments)
        if not isinstance(made, Mapping):
            kind = type(made).__name__
            name = "x" if function == "inputs" else "out"
            remedy = f'write e.g. `return {{"{name}": array}}`, with the names of family.toml'
            raise FamilyError(f"{self.maker(function)}: returns {kind}, not a dict of arrays by name; {remedy}")
        return made

    def maker(self, function: str) -> str:
        """Return the names of the file and the function, for error messages."""
        return f"{self.path.name}, {function}()"

    @contextmanager
    def blame(self, doing: str) -> Iterator[None]:
        """Convert exceptions inside the ``with`` block to `FamilyError`. `GpuNeededError` passes unchanged.

        The message contains the line in reference.py, and `doing`, e.g. ``inputs(), input `x```.
        """
        try:
            with preserved(), recorded():
                yield
        except (FamilyError, GpuNeededError):
            raise
        except (Exception, SystemExit) as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)]
            line = f" (line {frames[-1].lineno})" if frames else ""
            remedy = _import_advice(error, self.path) or _dict_advice(error) or _path_advice(error, self.path.parent)
            raise FamilyError(f"{self.path.name}, {doing}{line}: {type(error).__name__}: {error}{remedy}") from error

    def _refuse_timers(self, function: str, left: frozenset[int]) -> None:
        """Reject a function that leaves timers running. Their signals would later be attributed to a kernel."""
        for which in left:
            signal.setitimer(which, 0.0)
        if left:
            reason = "leaves a timer running (signal.alarm or setitimer), whose signal would end the process"
            raise FamilyError(f"{self.maker(function)}: {reason}; stop the timer before the function returns")

    def _load(self, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise FamilyError(f"{self.path} must be a Python file with the suffix .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # torch.compile, dataclasses and pickle look for the module here
        try:
            with self.blame("import"):
                _provide_earlier_names()
                Siblings.provide(self.path.parent, [each for each in sys.modules if each.startswith(_MODULE)])
                spec.loader.exec_module(module)
        except FamilyError:
            del sys.modules[name]
            raise
        return module


def _timers() -> frozenset[int]:
    """Return the interval timers that are running in this process."""
    every = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return frozenset(which for which in every if signal.getitimer(which)[0])


def _dict_advice(error: BaseException) -> str:
    """Return advice if the error is an access to an attribute of a dict, else an empty string."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, dict):
        return ""
    return f': problem and inputs are dicts, so write e.g. problem["{error.name}"]'


def _key_advice(error: BaseException | None, arguments: tuple[object, ...]) -> str:
    """Return advice if the error is a missing key, else an empty string.

    The advice lists the keys of the dicts that the function got. If the key is the requested distribution, it names the
    place in family.toml instead.
    """
    if not isinstance(error, KeyError):
        return ""
    if error.args and isinstance(error.args[0], str) and error.args[0] in arguments:
        return f"; a case in family.toml requests this distribution: inputs = {error.args[0]!r}"
    dicts = [", ".join(map(str, each)) for each in arguments if isinstance(each, Mapping)]
    names = ("problem", "inputs", "outputs")
    return "".join(f"; `{name}` contains {keys}" for name, keys in zip(names, dicts, strict=False))


def _declaration_advice(function: Callable[..., Any], name: str) -> str:
    """Return advice if a function's declared parameters differ from those it is called with, else an empty string."""
    parameters = _PARAMETERS.get(name)
    with suppress(ValueError):  # functions that are implemented in C have no signature
        if parameters is None or ", ".join(inspect.signature(function).parameters) == parameters:
            return ""
    return f"; it is called as `{name}({parameters})`"


def _path_advice(error: BaseException, folder: Path) -> str:
    """Return advice if the error is a missing file that exists in the family's folder, else an empty string."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str):
        return ""
    if Path(error.filename).is_absolute() or not (folder / error.filename).exists():
        return ""
    return f"; reference.py runs in another folder: open `Path(__file__).parent / {error.filename!r}`"


def _import_advice(error: BaseException, path: Path) -> str:
    """Return advice if the error is a failed import, else an empty string."""
    if isinstance(error, SyntaxError):
        unreadable = (_encoding_fault(each) for each in (path, *sorted(path.parent.glob("*.py"))))
        return next((f"; {fault}, in the family's folder" for fault in unreadable if fault), "")
    if not isinstance(error, ImportError):
        return ""
    if "relative import" in str(error):
        return ": reference.py is not part of a package; write `import helper` for helper.py of the family's folder"
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.partition(".")[0]
        return f"; put {name}.py into the family's folder, or install it into the environment of the worker"
    return ""


def _encoding_fault(path: Path) -> str:
    """Return advice on a Python file that is not valid UTF-8; an empty string if it is valid."""
    try:
        content = path.read_bytes()
        python_text(content)
    except UnicodeDecodeError as error:
        return f"{path.name} {not_utf8(content, error, path.name)}"
    except (OSError, SyntaxError):
        pass
    return ""


def _provide_earlier_names() -> None:
    """Let reference.py import helpers of `evo.reference` from `evo`, where older versions of kernel-evo had them."""
    for name in ("encoding", "heads", "library", "rows", "torch_baselines"):
        sys.modules.setdefault(f"evo.{name}", importlib.import_module(f"evo.reference.{name}"))


def _helpers(module: ModuleType) -> str:
    """Return a digest of the source of the `evo` modules that reference.py imports."""
    used = {getattr(each, "__module__", getattr(each, "__name__", None)) for each in vars(module).values()}
    ours = sorted(name for name in used if isinstance(name, str) and name.partition(".")[0] == "evo")
    return cache_key(*(Path(str(sys.modules[name].__file__)).read_text() for name in ours))
