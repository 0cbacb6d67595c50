"""Repository of champions, with promotion, rollback, restoration and history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.engine.events import Events
from db.models import ChampionRow, SearchRow, TrialRow
from evo.errors import Conflict, MissingItem
from evo.messages.view import Decision
from evo.messages.view.champion import CalledTime
from evo.promotion import void_reason


class EvidenceVoid(Conflict):
    """Raised if a former champion cannot be restored, because its evidence is no longer valid."""


class IncumbentChanged(Conflict):
    """Raised if the current champion is not the champion that the caller expected."""


@dataclass(frozen=True, kw_only=True)
class Retired:
    """A former champion: its id, the number of its trial, and the reason for its retirement."""

    id: int
    trial: int
    rolled_back: bool
    reason: str


class Champions:
    """Reads and changes champions within one session. The caller commits the session.

    The key of a champion is (family, problem, device model, objective). At most one champion of a key is current.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def incumbent(self, search: SearchRow) -> ChampionRow | None:
        """Return the current champion for the search's family, problem, device model and objective, or None."""
        return self._current(search.family.name, search.problem_key, search.device.model, search.objective.key)

    def promote(self, champion: ChampionRow, *, over: int | None) -> None:
        """Make a champion current, and retire the champion with the id `over`.

        If `over` is None, there must be no current champion for the family, problem, device model and objective of
        `champion`.

        Raises:
            IncumbentChanged: the current champion is not `over`.
        """
        if over is not None:
            reason = f"replaced by trial {champion.trial_number} of search {champion.search_id}"
            if not self._retire(over, champion.promoted_at, reason):
                raise IncumbentChanged(
                    f"champion {over} is no longer current; confirm the trial against the current champion"
                )
        elif self._current(*_key(champion)) is not None:
            raise IncumbentChanged("another champion of this problem was promoted first; confirm the trial against it")
        champion.current, champion.replaces = True, over
        self.session.add(champion)
        self.session.flush()
        Events(self.session).search_changed(champion.search_id)

    def roll_back(self, champion_id: int, *, reason: str, now: datetime, by: str | None = None) -> ChampionRow | None:
        """Retire the current champion and reinstate its predecessor. Return the predecessor, or None if there is none.

        The predecessor is the first champion along the chain of `replaces` that was not rolled back.

        Args:
            by: name of the user who requested the rollback; None if unknown.

        Raises:
            Conflict: the champion is not current.
        """
        champion = self.champion(champion_id)
        if not self._retire(champion_id, now, f"rolled back: {reason}", by=by, rolled_back=True):
            raise Conflict(
                f"champion {champion_id} is not the current champion of its problem: {champion.retired_reason}"
            )
        self.session.refresh(champion)
        earlier = self._earlier(champion)
        if earlier is not None:
            _make_current(earlier, now, f"champion {champion_id} was rolled back: {reason}", by)
            self.session.flush()
        Events(self.session).search_changed(champion.search_id)
        return earlier

    def restore(
        self, champion_id: int, *, over: int | None, reason: str, now: datetime, by: str | None = None
    ) -> ChampionRow:
        """Make a former champion current again, in place of the champion with the id `over`, and return it.

        If it is current already, nothing changes.

        Args:
            over: id of the current champion. None if there is none.
            by: name of the user who requested the restoration; None if unknown.

        Raises:
            EvidenceVoid: the evidence for the promotion of the former champion is no longer valid.
            IncumbentChanged: the current champion is not `over`.
        """
        champion = self.champion(champion_id)
        current = self._current(*_key(champion))
        if current is champion:
            return champion
        if (why := self.evidence_fault(champion)) is not None:
            remedy = "search the problem again to promote a kernel on new evidence"
            raise EvidenceVoid(f"champion {champion_id} cannot be restored: {why}; {remedy}")
        if (None if current is None else current.id) != over:
            what = "there is none" if current is None else f"it is champion {current.id}"
            raise IncumbentChanged(f"the current champion of this problem is not the champion that you named; {what}")
        if current is not None:
            if not self._retire(current.id, now, f"champion {champion_id} was restored: {reason}", by=by):
                raise IncumbentChanged(f"champion {over} is no longer current")
            self.session.refresh(current)
        champion.rolled_back = False
        _make_current(champion, now, f"restored: {reason}", by)
        self.session.flush()
        Events(self.session).search_changed(champion.search_id)
        return champion

    def store_called(self, champion_id: int, times: CalledTime) -> ChampionRow:
        """Store the times of calls from PyTorch to a champion's exported kernel and to PyTorch's own function.

        Earlier times are replaced. Return the champion.
        """
        champion = self.champion(champion_id)
        champion.called = times
        self.session.flush()
        Events(self.session).search_changed(champion.search_id)
        return champion

    def evidence_fault(self, champion: ChampionRow) -> str | None:
        """Return the reason why the evidence of a champion is no longer valid, or None if it is valid."""
        trial = self.session.get(TrialRow, champion.trial_id)
        confirmed = None if trial is None else trial.confirmed
        refuted = None if confirmed is None else confirmed.refuted
        return void_reason(champion.evidence.verdict, champion.objective, refuted=refuted)

    def current_of(self, champion: ChampionRow) -> ChampionRow | None:
        """Return the current champion for the family, problem, device model and objective of `champion`, or None."""
        return self._current(*_key(champion))

    def binary_digest(self, champion: ChampionRow) -> str | None:
        """Return the digest of the binary of a champion's trial, or None if it is unknown."""
        return self.session.scalar(select(TrialRow.binary_digest).where(TrialRow.id == champion.trial_id))

    def counters(self, trial: TrialRow) -> Mapping[str, float]:
        """Return the profiler counters of a promoted trial by name (`evo.device.counters`).

        The result is empty if the trial was not promoted or not profiled.
        """
        champions = select(ChampionRow).where(ChampionRow.trial_id == trial.id).order_by(ChampionRow.id.desc())
        champion = self.session.scalars(champions).first()
        profile = None if champion is None else champion.evidence.report.profiles.get("challenger")
        return {} if profile is None else profile.figures

    def predecessor(self, champion_id: int) -> ChampionRow | None:
        """Return the champion that would become current if the given champion were rolled back, or None."""
        return self._earlier(self.champion(champion_id))

    def champion(self, champion_id: int) -> ChampionRow:
        if (row := self.session.get(ChampionRow, champion_id)) is None:
            raise MissingItem("champion", champion_id, request="GET /champions lists them")
        return row

    def champions(
        self,
        *,
        family: str | None = None,
        problem: Mapping[str, str] | None = None,
        device: str | None = None,
        current_only: bool = True,
        before: int | None = None,
        limit: int | None = None,
    ) -> Sequence[ChampionRow]:
        """Return champions, newest first. Former champions are included unless `current_only` is set.

        An argument that is None restricts nothing.

        Args:
            problem: required values of problem fields, formatted as in a problem key.
            device: required device model.
            before: only champions with lower ids are returned.
        """
        query = select(ChampionRow).order_by(ChampionRow.id.desc()).limit(limit)
        if family is not None:
            query = query.where(ChampionRow.family == family)
        if device is not None:
            query = query.where(ChampionRow.device_model == device)
        if before is not None:
            query = query.where(ChampionRow.id < before)
        for name, value in (problem or {}).items():
            fields = "," + ChampionRow.problem_key + ","
            query = query.where(fields.contains(f",{name}={value},", autoescape=True))
        return self.session.scalars(query.where(ChampionRow.current) if current_only else query).all()

    def retired_of(self, search_id: int) -> Sequence[Retired]:
        """Return the former champions from a search, newest first, without their evidence."""
        columns = (ChampionRow.id, ChampionRow.trial_number, ChampionRow.rolled_back, ChampionRow.retired_reason)
        query = select(*columns).where(ChampionRow.search_id == search_id, ~ChampionRow.current)
        found = self.session.execute(query.order_by(ChampionRow.id.desc()))
        return [
            Retired(id=id, trial=trial, rolled_back=rolled_back, reason=reason or "")
            for id, trial, rolled_back, reason in found
        ]

    def rolled_back_kernel(self, search: SearchRow, trial: TrialRow) -> ChampionRow | None:
        """Return the latest rolled-back champion that has the same kernel as a trial, or None.

        Only champions of the search's family, problem, device model and objective are considered.
        """
        query = (
            select(ChampionRow)
            .join(TrialRow, TrialRow.id == ChampionRow.trial_id)
            .where(
                ChampionRow.rolled_back,
                ChampionRow.family == search.family.name,
                ChampionRow.problem_key == search.problem_key,
                ChampionRow.device_model == search.device.model,
                ChampionRow.objective_key == search.objective.key,
                same_kernel(TrialRow, ChampionRow.family_digest, trial, search),
            )
        )
        return self.session.scalars(query.order_by(ChampionRow.id.desc())).first()

    def history(self, champion: ChampionRow, limit: int) -> Sequence[ChampionRow]:
        """Return at most `limit` champions for the family, problem, device model and objective of `champion`.

        The list includes `champion`. The newest champion is first.
        """
        same = (
            ChampionRow.family == champion.family,
            ChampionRow.problem_key == champion.problem_key,
            ChampionRow.device_model == champion.device_model,
            ChampionRow.objective_key == champion.objective_key,
        )
        return self.session.scalars(select(ChampionRow).where(*same).order_by(ChampionRow.id.desc()).limit(limit)).all()

    def _retire(
        self, champion_id: int, now: datetime, reason: str, *, by: str | None = None, rolled_back: bool = False
    ) -> bool:
        written = self.session.execute(
            update(ChampionRow)
            .where(ChampionRow.id == champion_id, ChampionRow.current)
            .values(current=False, retired_at=now, retired_reason=reason, retired_by=by, rolled_back=rolled_back)
            .returning(ChampionRow.id)
        )
        if written.first() is None:
            return False
        row = self.champion(champion_id)
        self.session.refresh(row)
        row.decisions = (*(row.decisions or ()), Decision(at=now, current=False, reason=reason, by=by))
        self.session.flush()  # written now, because a later refresh would discard the decision
        return True

    def _current(self, family: str, problem_key: str, device_model: str, objective_key: str) -> ChampionRow | None:
        query = select(ChampionRow).where(
            ChampionRow.current,
            ChampionRow.family == family,
            ChampionRow.problem_key == problem_key,
            ChampionRow.device_model == device_model,
            ChampionRow.objective_key == objective_key,
        )
        return self.session.scalars(query).first()

    def _earlier(self, champion: ChampionRow) -> ChampionRow | None:
        """Return the nearest of a champion's predecessors that was not rolled back, or None if there is none."""
        earlier = champion
        while earlier.replaces is not None:
            earlier = self.champion(earlier.replaces)
            if not earlier.rolled_back:
                return earlier
        return None


def same_kernel(
    stored: type[TrialRow], family_digest: InstrumentedAttribute[str], trial: TrialRow, search: SearchRow
) -> ColumnElement[bool]:
    """Return the SQL condition that a stored trial has the same kernel as `trial`.

    Kernels are the same if their binaries are equal, or if their configs are equal and the family has not changed. Both
    trials must have the same problem and device model.

    Args:
        stored: the table of trials, or an alias of it.
        family_digest: column with the digest of the stored trial's family.
        search: search of `trial`.
    """
    same = and_(stored.config_key == trial.config_key, family_digest == search.family_digest)
    return same if trial.binary_digest is None else or_(same, stored.binary_digest == trial.binary_digest)


def _key(champion: ChampionRow) -> tuple[str, str, str, str]:
    return champion.family, champion.problem_key, champion.device_model, champion.objective_key


def _make_current(champion: ChampionRow, now: datetime, reason: str, by: str | None) -> None:
    """Make a former champion current again. Its list of decisions keeps the decision to retire it."""
    champion.decisions = (*_decisions(champion), Decision(at=now, current=True, reason=reason, by=by))
    champion.current = True
    champion.retired_at, champion.retired_reason, champion.retired_by = None, None, None


def _decisions(champion: ChampionRow) -> tuple[Decision, ...]:
    """Return the decisions about a champion.

    Older versions of kernel-evo stored no decisions. For a champion that they retired, the retirement is the only
    decision.
    """
    if champion.decisions is not None or champion.retired_at is None:
        return champion.decisions or ()
    reason = champion.retired_reason or ""
    return (Decision(at=champion.retired_at, current=False, reason=reason, by=champion.retired_by),)
