"""Settings of the service, read from environment variables (``KERNEL_EVO_…``) and the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_data_path
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, InstanceOf, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from api.events.webhooks.signature import signing_key
from api.http.authority import is_loopback
from api.http.public_url import Proxies, PublicUrl
from db.engine.location import Location
from evo.errors import InvalidInput

DEFAULT_PORT = 8765
LONGEST_DAYS, LARGEST_GB = 36_500.0, 1e6
"""Maximum values of `keep_days` and `artefact_limit_gb`. More days would exceed the range of dates."""


def _parser(kind: type[PublicUrl] | type[Proxies]) -> Callable[[object], object]:
    """Return a function that parses a string as the type `kind` and returns other values unchanged."""
    return lambda given: kind.of(given) if isinstance(given, str) else given


def _check_secret(secret: str | None) -> str | None:
    """Return the secret unchanged (None if there is none) after checking that it can be used for signatures.

    Raises:
        ValueError: the secret cannot be decoded.
    """
    if secret is not None:
        signing_key(secret)
    return secret


class Settings(BaseSettings):
    """Settings of one service process.

    Attributes:
        port: TCP port. 0 selects any free port, which is then written to the address file next to the database.
        db: path of an SQLite file, or a PostgreSQL URL. A lock file and an address file are created next to an SQLite
            file.
        artefacts: folder of uploaded files, by default next to the database file or in the user's data directory. All
            service processes of one PostgreSQL database must use the same folder.
        lease_s: seconds without a heartbeat after which the jobs of a worker are given to other workers.
        requests_per_s: maximum number of requests per second with one token. A burst may contain four times this
            number.
        public_url: URL of the service for people and workers, e.g. ``https://tools.example.org/evo`` behind a proxy.
            If None, the addresses in requests determine it.
        trusted_proxies: addresses and networks of proxies, separated by commas, whose forwarding headers
            (``X-Forwarded-…`` and ``Forwarded``) are trusted. ``*`` trusts all addresses.
        allow_variants: True to accept variants (kernel sources that workers compile and run in confined processes) from
            callers with the role ``author``.
        allow_family_upload: True to accept ZIP files of families (code that workers run) from callers with the role
            ``author``.
        webhook_secret: secret for signing the messages of webhooks that have no secret of their own. If None, such
            webhooks are refused.
        webhook_private: True to allow webhook URLs with private addresses.
        keep_days: days after which ended searches, and unused family versions except the latest, are deleted. Archived
            searches and data that champions need are kept. If None, searches and families are never deleted. Workers
            that send no requests, and expired or revoked tokens, are deleted after `keep_days`, at the latest after 30
            days.
        artefact_limit_gb: maximum size of all artefacts together. Artefacts that champions or families need, and recent
            artefacts, are always kept. If None, there is no limit.
        log_format: ``console`` for people, or ``json`` for programs. Both are written to standard error.
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
    public_url: Annotated[InstanceOf[PublicUrl] | None, NoDecode, BeforeValidator(_parser(PublicUrl))] = None
    trusted_proxies: Annotated[InstanceOf[Proxies], NoDecode, BeforeValidator(_parser(Proxies))] = Proxies()
    allow_variants: bool = True
    allow_family_upload: bool = False
    webhook_secret: Annotated[str | None, AfterValidator(_check_secret)] = Field(
        default=None, min_length=16, repr=False
    )
    webhook_private: bool = False
    keep_days: float | None = Field(default=None, gt=0, le=LONGEST_DAYS)
    artefact_limit_gb: float | None = Field(default=None, gt=0, le=LARGEST_GB)
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def read(cls, **given: Any) -> "Settings":
        """Return the settings from the environment and from `given`, which has precedence.

        Args:
            given: settings from the command line.

        Raises:
            InvalidInput: a setting is invalid.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]).removeprefix("KERNEL_EVO_").lower()
            reason = first["msg"].removeprefix(
                "Value error, "
            )  # the message does not contain the value, which may be a secret
            if name in given:
                raise InvalidInput(f"--{name.replace('_', '-')}", reason) from None
            variable = f"KERNEL_EVO_{name.upper()}"
            raise InvalidInput(variable, f"{reason}; correct it, or `unset {variable}`") from None

    @property
    def local(self) -> bool:
        """True if only this machine can reach the service."""
        return is_loopback(self.host) and self.public_url is None

    @property
    def artefact_folder(self) -> Path:
        """Folder of the artefact files."""
        return self.artefacts or (self.db.folder or _data_folder()) / "artefacts"

    @property
    def key_file(self) -> Path:
        """Database file or artefact folder. The local key is stored next to it (`db.engine.key`)."""
        return self.db.file or self.artefact_folder


def _data_folder() -> Path:
    return user_data_path("kernel-evo", appauthor=False)
