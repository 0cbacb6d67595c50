"""Renders templates of variants in a separate process, with limited time and memory.

Jinja2's sandbox keeps a template from Python's objects, but not from endless loops and unlimited output. As
``python -m workers.build.rendering`` it answers each line of JSON with a line of JSON.
"""

import json
import queue
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evo.device import DeviceKind
from evo.family import Family
from evo.family.problem import Problem
from evo.lru_cache import LruCache
from evo.trial import Config, Value
from templates.errors import RenderError
from templates.registry import SPEC, Package
from templates.render import render
from workers.system.line_process import LineProcess
from workers.system.sandbox import sandbox_here

RENDERING = "workers.build.rendering"
LONGEST_S = 10.0
"""Seconds that a template may take for one config; one of the largest takes 0.1."""

_MEMORY_BYTES = 2 << 30
_packages: LruCache[str, Package] = LruCache(4)


class Renderer:
    """Renders sources of configs: those of variants with a template in a separate process. Thread-safe."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._idle: queue.LifoQueue[LineProcess] = queue.LifoQueue()

    def render(
        self, package: Package, kind: DeviceKind, config: Config, problem: Problem, derived: Mapping[str, Value]
    ) -> str:
        """Return what `templates.render.render` returns.

        Raises:
            RenderError: the template is at fault, or needs too much time or memory.
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
        if isinstance(answer, str):  # the system may have ended an idle process, to free memory
            answer = self._answer(question, fresh=True)
        if answer is None:
            raise RenderError(f"{implementation.file}: takes more than {self._longest_s:g} s to render")
        if isinstance(answer, str):
            raise RenderError(f"{implementation.file}: the process that renders it ended: {answer}")
        if "text" not in answer:
            raise RenderError(str(answer.get("error")))
        return str(answer["text"])

    def _answer(self, question: Mapping[str, object], *, fresh: bool) -> Mapping[str, object] | str | None:
        """Return the answer of an idle process or a new one, see `LineProcess.ask`."""
        try:
            if fresh:
                raise queue.Empty
            process = self._idle.get_nowait()
        except queue.Empty:
            process = LineProcess(RENDERING, reads=() if sandbox_here() else None)
        try:
            answer = process.ask(question, self._longest_s)
        except BaseException:
            process.close()  # its answer would be read as that to the next request
            raise
        if process.works:
            self._idle.put(process)
        return answer


RENDERER = Renderer()
"""Serves all builds of this process; starts no process before the first template of a variant."""


def serve() -> None:
    """Render templates: answer each request on standard input, until it is closed."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(_answer(line))}\n")
        sys.stdout.flush()


def _answer(line: str) -> Mapping[str, str]:
    question = json.loads(line)
    config, problem, derived = question["values"]
    try:
        return {"text": render(_package(question), question["kind"], config, problem, derived)}
    except RenderError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"the template needs more than {_MEMORY_BYTES >> 30} GiB of memory"}


def _package(question: Mapping[str, Any]) -> Package:
    """Return the package of a request; the latest ones are kept, with their parsed templates."""

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
