"""Renders templates. Templates of variants are rendered in a separate process, with limits on time and memory.

Jinja2's sandbox protects Python objects from a template, but limits neither its time nor its output. The process runs
``python -m workers.build.rendering``, reads one JSON request per line, and writes one JSON reply per line.
"""

import json
import queue
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evo.device import DeviceKind
from evo.errors import RenderError
from evo.family import Family
from evo.family.problem import Problem
from evo.lru_cache import LruCache
from evo.trial import Config, Value
from templates.registry import SPEC, Package
from templates.render import render
from workers.system.line_process import LineProcess
from workers.system.sandbox import sandbox_here

RENDERING = "workers.build.rendering"
LONGEST_S = 10.0
"""Time limit for rendering one config in seconds. One of the largest templates takes 0.1 s."""
START_S = 60.0
"""Time limit for the start of a rendering process in seconds. A busy machine may need many seconds for its imports."""

_MEMORY_BYTES = 2 << 30
_packages: LruCache[str, Package] = LruCache(4)


class Renderer:
    """Renders the sources of configs. Thread-safe."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._idle: queue.LifoQueue[LineProcess] = queue.LifoQueue()

    def render(
        self, package: Package, kind: DeviceKind, config: Config, problem: Problem, derived: Mapping[str, Value]
    ) -> str:
        """Return the rendered source of a config. A template of a variant is rendered in a separate process.

        Raises:
            RenderError: the template is invalid, or needs too much time or memory.
        """
        implementation = package.family.implementation(kind)
        if package.family.variant is None or implementation.mode != "template":
            return render(package, kind, config, problem, derived)
        question = {
            "files": {name: content.decode("latin-1") for name, content in package.files.items()},
            "document": dict(package.family.document),
            "digest": package.digest,
            "kind": kind,
            "values": [dict(config), dict(problem), dict(derived)],
        }
        answer = self._answer(question, fresh=False)
        if isinstance(answer, str):  # the system may have killed an idle process to free memory
            answer = self._answer(question, fresh=True)
        if answer is None:
            raise RenderError(
                f"{implementation.file}: rendering takes more than {self._longest_s:g} s; simplify the template"
            )
        if isinstance(answer, str):
            raise RenderError(f"{implementation.file}: the rendering process ended: {answer}")
        if "text" not in answer:
            raise RenderError(str(answer.get("error")))
        return str(answer["text"])

    def _answer(self, question: Mapping[str, object], *, fresh: bool) -> Mapping[str, object] | str | None:
        """Send a request to a rendering process, and return the reply.

        Args:
            fresh: True to start a new process, False to use an idle process if there is one.

        Returns:
            The reply; a string with the reason if the process ended or did not start; None after the time limit.
        """
        try:
            if fresh:
                raise queue.Empty
            process, started = self._idle.get_nowait(), True
        except queue.Empty:
            process, started = LineProcess(RENDERING, reads=() if sandbox_here() else None), False
        try:
            if not started and isinstance(failure := process.ask({}, START_S), str | None):
                return failure or f"it did not start within {START_S:g} s"
            answer = process.ask(question, self._longest_s)
        except BaseException:
            process.close()  # its late reply would be mistaken for the reply to the next request
            raise
        if process.works:
            self._idle.put(process)
        return answer


RENDERER = Renderer()
"""Renderer for all builds of this process."""


def serve() -> None:
    """Reply to the requests on standard input until it is closed."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(_answer(line))}\n")
        sys.stdout.flush()


def _answer(line: str) -> Mapping[str, str]:
    question = json.loads(line)
    if not question:  # sent first, so that the time limit of a template does not include the start
        return {}
    config, problem, derived = question["values"]
    try:
        return {"text": render(_package(question), question["kind"], config, problem, derived)}
    except RenderError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"the template needs more than {_MEMORY_BYTES >> 30} GiB of memory"}


def _package(question: Mapping[str, Any]) -> Package:
    """Return the package of a request. Recent packages are cached with their parsed templates."""

    def made() -> Package:
        return Package(
            path=Path("family"),
            family=Family.from_document(question["document"], SPEC),
            digest=question["digest"],
            files={name: content.encode("latin-1") for name, content in question["files"].items()},
            location=None,
        )

    return _packages.get(question["digest"], made)


if __name__ == "__main__":
    serve()
