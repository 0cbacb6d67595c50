"""Requests about champions and their rollback."""

from typing import Literal

from evo.client.calls import Calls
from evo.client.transport import parse
from evo.messages.view import ChampionView, Page


class Champions(Calls):
    """Requests about champions."""

    def champions(
        self,
        *,
        family: str | None = None,
        problem: str | None = None,
        device: str | None = None,
        history: bool | None = None,
        sort: Literal["newest", "oldest", "fastest"] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[ChampionView]:
        """Return one page; `history` adds replaced and rolled-back champions."""
        wanted = {"family": family, "problem": problem, "device": device, "history": history}
        return self._get("/champions", Page[ChampionView], **wanted, sort=sort, cursor=cursor, limit=limit)

    def champion(self, champion_id: int) -> ChampionView:
        return self._get(f"/champions/{champion_id}", ChampionView)

    def champion_report(self, champion_id: int) -> bytes:
        """Return its evidence as a self-contained page."""
        return self._transport.request("GET", f"/champions/{champion_id}/report.html").content

    def rollback(self, champion_id: int, *, reason: str, seen: str | None = None) -> ChampionView:
        """Retire the current champion; `seen` is the entity tag of the state that the decision is based on."""
        path = f"/champions/{champion_id}/rollback"
        return parse(self._send("POST", path, {"reason": reason}, once=True, seen=seen), ChampionView)

    def store_called(
        self, champion_id: int, *, called_us: float, torch_us: float, model: str, software: str
    ) -> ChampionView:
        """Store the times of a champion in an exported package for PyTorch, and of PyTorch's own function."""
        body = {"called_us": called_us, "torch_us": torch_us, "model": model, "software": software}
        return parse(self._send("PUT", f"/champions/{champion_id}/called", body), ChampionView)

    def promote(self, champion_id: int, *, over: int | None, reason: str) -> ChampionView:
        """Make an earlier champion the current one again, in place of `over` (None: there is none)."""
        body = {"reason": reason, "over": over}
        return parse(self._send("POST", f"/champions/{champion_id}/promote", body, once=True), ChampionView)
