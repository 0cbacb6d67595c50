"""Checks CUDA kernels with compute-sanitizer: out-of-bounds accesses, races, uninitialised reads, invalid barriers."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from evo.device.cores import core_numbers
from evo.trial.results import Sanitized
from workers.backends.cuda.tools.solo import DONE
from workers.backends.cuda.tools.toolkit import find_tool, watched
from workers.backends.tools import Subject
from workers.system.scratch import scratch

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MAX_FINDINGS = 10
MOST_CASES = 4
"""Maximum number of concurrent calls of `CudaSanitizer.examine`. A tool uses one core, and spends most of its time
opening the GPU."""

ARRIVALS = (
    "racecheck orders only the accesses of threads that arrive at an mbarrier themselves; if one lane arrives for its "
    "warp, let all lanes arrive"
)
"""Hint for kernels with mbarriers in which racecheck reports a race. Observed with compute-sanitizer 2025.3 and 2026.4,
also if a barrier of the whole warp precedes the arrival.
"""

OPTIONS = {"memcheck": ("--padding", "256")}
"""Additional options by tool. The driver allocates buffers without gaps if their sizes are multiples of 512 bytes, so a
read past the end of one buffer would be a valid read of the next. Padding makes such a read invalid.
"""

_SAID = re.compile(r"^========= ?(?P<text>.*)$", re.MULTILINE)
_HARMLESS = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application returned an error|"
    r"Saved host backtrace|Host Frame|No attachable process|Warning: .*not supported|$"
)
_HAZARDS = re.compile(r" \[\d+ hazards?\]$")
_OWN_FAULT = re.compile(
    r"(Error: (?:Device not supported|Target application terminated before|.*[Ii]nternal|.*not supported).*"
    r"|Internal Sanitizer Error.*|Error: No attachable process.*)"
)


class CudaSanitizer:
    """A `workers.backends.tools.Sanitizer` for CUDA kernels.

    Args:
        command: command line of compute-sanitizer, or None if compute-sanitizer is not installed.
    """

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command
        self.at_once = max(1, min(MOST_CASES, len(core_numbers()) // len(TOOLS)))
        self.together = command is not None

    @classmethod
    def here(cls) -> "CudaSanitizer":
        found = find_tool("compute-sanitizer")
        return cls(None if found is None else (str(found),))

    def examine(self, subjects: Sequence[Subject], *, timeout_s: float) -> tuple[Sanitized, ...]:
        if self._command is None:
            return tuple(
                Sanitized(tool=tool, skipped="compute-sanitizer is not installed on this machine") for tool in TOOLS
            )
        with ThreadPoolExecutor(len(TOOLS)) as pool:  # each tool uses one core
            return tuple(pool.map(lambda tool: self._examined(tool, subjects, timeout_s), TOOLS))

    def _examined(self, tool: str, subjects: Sequence[Subject], timeout_s: float) -> Sanitized:
        status, log = self.run_tool(tool, subjects, timeout_s=timeout_s)
        if status is None:
            return Sanitized(tool=tool, skipped=f"it did not end within {timeout_s:g} s")
        found = read(tool, log)
        if tool == "racecheck" and found.findings and any("mbarrier" in each.unit.source for each in subjects):
            return replace(found, findings=(f"{found.findings[0]} ({ARRIVALS})", *found.findings[1:]))
        return found

    def run_tool(self, tool: str, subjects: Sequence[Subject], *, timeout_s: float) -> tuple[int | None, str]:
        """Run one tool on some cases, and return its exit status and log.

        The status is None if the time limit was reached.
        """
        command = [*(self._command or ()), "--tool", tool, "--print-limit", str(MAX_FINDINGS), *OPTIONS.get(tool, ())]
        with scratch() as folder:
            return watched(command, subjects, folder, launches=1, timeout_s=timeout_s)


def read(tool: str, log: str) -> Sanitized:
    """Return the findings in a tool's log, or the reason why the tool checked nothing."""
    texts = [match["text"] for match in _SAID.finditer(log)]
    if own := next((text for text in texts if _OWN_FAULT.match(text)), None):
        return Sanitized(tool=tool, skipped=own)
    found = tuple(dict.fromkeys(_findings(texts)))[:MAX_FINDINGS]
    if not found and DONE not in log:
        printed = [line for line in log.splitlines() if line.strip() and not line.startswith("=========")]
        return Sanitized(tool=tool, skipped=f"the kernel was not launched: {printed[-1] if printed else 'no output'}")
    return Sanitized(tool=tool, findings=found)


def _findings(texts: Sequence[str]) -> Iterator[str]:
    """Yield the findings with their locations. A finding is not indented, and its location is on the next line.

    For a race, the next lines are the other accesses. Only the first of them is yielded, because their number depends
    on the timing of the threads.
    """
    for index, text in enumerate(texts):
        if text.startswith(" ") or _HARMLESS.match(text):
            continue
        following = texts[index + 1].strip() if index + 1 < len(texts) else ""
        yield f"{text} {_HAZARDS.sub('', following)}" if following.startswith(("at ", "and ")) else text
