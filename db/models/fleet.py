"""Workers and their devices."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.models.base import Base
from db.models.columns import Document
from evo.device import Device
from evo.messages.job import Activity


class WorkerRow(Base):
    """A worker and the process that speaks for it.

    `left_at` is set by a worker that ended in order, until it registers again. `incarnation` names the process that
    registered last; `contested_at` is when an earlier one last spoke after it, which means that two are alive.
    """

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    host: Mapped[str]
    drain: Mapped[bool] = mapped_column(default=False)
    note: Mapped[str | None]
    registered_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    left_at: Mapped[datetime | None]
    incarnation: Mapped[str | None] = mapped_column(String(64))
    contested_at: Mapped[datetime | None]

    devices: Mapped[list["DeviceRow"]] = relationship(lazy="raise", order_by="DeviceRow.uuid", viewonly=True)


class DeviceRow(Base):
    """A device as its worker last described it; only a person ends a quarantine."""

    __tablename__ = "devices"

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    model: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    activity: Mapped[Activity | None] = mapped_column(String(16))
    detail: Mapped[str | None]
    attempt_id: Mapped[int | None]
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str | None]
