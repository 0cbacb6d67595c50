"""Workers and their devices."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.models.base import Base
from db.models.columns import Document
from evo.device import Device
from evo.messages.job import Activity


class WorkerRow(Base):
    """A worker and the process that registered for it last.

    `left_at` is set when a worker shuts down normally and cleared when it registers again. `incarnation` identifies the
    process that registered last. `contested_at` is the last time an earlier process sent a request after that, which
    means that two processes use the same worker id.
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
    """A device as last reported by its worker. Only a person can end its quarantine."""

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
