"""Searches several problems of one family, one after another.

Each search starts from the champions of similar problems.
"""

from collections.abc import Sequence
from pathlib import Path

from evo.cli.console.output import console, print_json, styled
from evo.cli.exits import Exit
from evo.cli.service.connection import Connection
from evo.cli.service.locations import ServiceRef
from evo.cli.session import session
from evo.cli.session.request import Request
from evo.messages.view import SearchView
from evo.text.wording import settings_text, time_text


def run(
    requests: Sequence[Request],
    where: ServiceRef,
    *,
    announce: Path | None,
    as_json: bool,
    then: session.Then | None = None,
) -> Exit:
    """Search the problems one after another, and stop after an interrupted search.

    Return the exit code of the first unsuccessful search, or `Exit.DONE` if all succeeded. With `as_json`, the searches
    are printed as one list, even if an error ended the run early. The service starts each search with the champions of
    similar problems.

    Args:
        announce: file that describes the first search, or None; see `session.run`.
        then: function that is called with each ended search, or None.
    """
    ended: list[SearchView] = []
    codes: list[Exit] = []
    out = console(stderr=as_json)
    if not as_json:
        problems = "; ".join(request.terms["problem"] for request in requests)
        out.print(f"{len(requests)} problems are searched one after another: {problems}\n", markup=False)
    try:
        with session.ended_by_signals(), session.reached(out, where, measuring=where.url is None, beginning=True):
            for request in requests:  # each search uses the service that this connection keeps running
                kept = _recording_views(ended, then)
                codes.append(
                    session.run(request, where, announce=announce, as_json=as_json, then=kept, tell=lambda _: None)
                )
                announce = None
                if codes[-1] is Exit.INTERRUPTED or (ended and ended[-1].reason == "stopped"):
                    break
    finally:
        if as_json and ended:
            print_json(ended)
    if not as_json:
        _summarise(ended, where)
    return next((code for code in codes if code is not Exit.DONE), Exit.DONE)


def _recording_views(ended: list[SearchView], then: session.Then | None) -> session.Then:
    def keep(connection: Connection, view: SearchView) -> None:
        ended.append(view)
        if then is not None:
            then(connection, view)

    return keep


def _summarise(ended: Sequence[SearchView], where: ServiceRef) -> None:
    """Print the champions side by side, and the command that exports them as one folder."""
    out = console()
    out.print(styled("\n", ("All shapes", "bold")))
    for view in ended:
        found = "nothing was run" if view.estimated else "no champion"
        if view.champion is not None:
            found = f"champion {view.champion.id}, {time_text(view.champion.time_us)}"
        out.print(f"  {settings_text(view.problem)}: {found}")
    champions = [str(view.champion.id) for view in ended if view.champion is not None]
    if len(champions) > 1:
        out.print(f"  export all to one folder: kernel-evo champion export {' '.join(champions)}{where.options}")
