"""How a service runs: from the environment (``KERNEL_EVO_…``) or from whoever composes the program."""

from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import AliasChoices, BeforeValidator, Field, InstanceOf
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from db.location import Location

DEFAULT_PORT = 8765
LONGEST_DAYS, LARGEST_GB = 36_500.0, 1e6
"""Of what is kept; beyond that no calendar can count, nor any disk hold."""


class Settings(BaseSettings):
    """Settings of one service process.

    Attributes:
        port: 0 takes any free port; the announcement beside the database says which.
        db: a file of SQLite, with lock and announcement beside it, or the URL of a PostgreSQL database.
        artefacts: folder of what workers upload, by default beside the file or in the user's data directory; service
            processes of one PostgreSQL database share it.
        lease_s: seconds a worker may be silent before its work is given to another.
        requests_per_s: how many requests the holder of one token may send, four seconds' worth of them at once.
        trusted_proxies: addresses of proxies, with commas, whose X-Forwarded-For and -Proto are believed; ``*``: any.
        allow_family_upload: take bundles, code that runs on the workers, from callers with the role ``author``.
        webhook_secret: signs the messages of webhooks that name no secret of their own.
        webhook_private: let webhooks lead to addresses that are not reachable from everywhere.
        keep_days: how long what no champion needs is kept of a search that has ended; None: for ever.
        artefact_limit_gb: how large the artefacts may grow together, what champions need apart; None: without limit.
        log_format: ``console`` for people, ``json`` for machines; both on standard error.
    """

    model_config = SettingsConfigDict(
        env_prefix="KERNEL_EVO_", env_ignore_empty=True, frozen=True, extra="ignore", populate_by_name=True
    )

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    db: Annotated[InstanceOf[Location], NoDecode, BeforeValidator(Location.of)] = Field(
        default_factory=lambda: Location.of(_data_folder() / "kernel-evo.db"),
        validation_alias=AliasChoices("KERNEL_EVO_DB", "KERNEL_EVO_DATABASE"),
    )
    artefacts: Path | None = None
    lease_s: float = Field(default=60.0, gt=0)
    requests_per_s: float = Field(default=100.0, gt=0)
    trusted_proxies: str = ""
    allow_family_upload: bool = False
    webhook_secret: str | None = Field(default=None, min_length=16, repr=False)
    webhook_private: bool = False
    keep_days: float | None = Field(default=None, gt=0, le=LONGEST_DAYS)
    artefact_limit_gb: float | None = Field(default=None, gt=0, le=LARGEST_GB)
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def artefact_folder(self) -> Path:
        """Where artefacts are kept."""
        return self.artefacts or (self.db.folder or _data_folder()) / "artefacts"

    @property
    def key_beside(self) -> Path:
        """Beside what the key lies that opens every door (`db.key`): the file of the database, or the artefacts."""
        return self.db.file or self.artefact_folder


def _data_folder() -> Path:
    return user_data_path("kernel-evo", appauthor=False)
