"""The disposable child: the only process that runs a family's Python and a candidate's machine code.

Started by a slot as ``python -m workers.runner PARENT_PID``; answers one request at a time until its input ends. It may
crash, hang or be killed at any moment; nothing of value lives in it.
"""

import os
import sys

from evo.errors import EvoError
from evo.outcome import Crashed, LaunchFailed
from workers import confinement
from workers.bench import Bench
from workers.devices import DeviceLostError, LaunchError
from workers.protocol import (
    REPLIES,
    REQUESTS,
    Compare,
    Measure,
    Open,
    Ready,
    Refused,
    Reply,
    Request,
    Save,
    Trouble,
    encode,
)
from workers.verify import WrongAnswerError


class Runner:
    """Dispatches requests to the bench that the first of them opens."""

    def __init__(self) -> None:
        self._bench: Bench | None = None

    def answer(self, request: Request) -> Reply:
        """The reply to one request; whatever goes wrong is a reply as well."""
        try:
            return self._answer(request)
        except WrongAnswerError as wrong:
            return Refused(outcome=wrong.outcome)
        except LaunchError as error:
            return Refused(outcome=LaunchFailed(reason=str(error)))
        except DeviceLostError as error:
            return Refused(outcome=Crashed(stage=request.kind, reason=str(error)))
        except MemoryError:
            return Trouble(reason=f"the {request.kind} step ran out of memory; a smaller problem may fit")
        except Exception as error:  # noqa: BLE001 - a bug of ours is told, not mistaken for a crash of the candidate
            step = f"the {request.kind} step failed: {type(error).__name__}: {error}"
            return Trouble(reason=str(error) if isinstance(error, EvoError) else step)

    def _answer(self, request: Request) -> Reply:
        if isinstance(request, Open):
            self._bench = Bench.open(request)
            return Ready()
        if self._bench is None:
            return Trouble(reason="the slot asked before it opened the device")
        if isinstance(request, Measure):
            return self._bench.measure(request)
        if isinstance(request, Compare):
            return self._bench.compare(request)
        if isinstance(request, Save):
            return self._bench.save(request)
        return self._bench.verify(request)


def main(arguments: list[str]) -> int:
    """Serve requests until the slot closes the pipe."""
    channel = confinement.take_channel()
    confinement.die_with(int(arguments[0]))
    confinement.adopt()
    runner, own = Runner(), os.getpid()
    for line in channel.requests:
        reply = runner.answer(REQUESTS.validate_json(line))
        if os.getpid() != own:  # a copy that the candidate forked must not answer in our place
            os._exit(1)
        channel.replies.write(encode(reply, REPLIES))
        channel.replies.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
