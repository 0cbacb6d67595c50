"""A service in this process, with access to its application and database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Service
from api.settings import Settings
from db.engine.location import Location
from tests.integration.blank import prepared
from tests.integration.serving import client_of, listening
from tests.integration.test_api import Rest


class Local(Rest):
    """The request sequences of `Rest`, sent to a service in this process."""

    def __init__(self, client: httpx.Client, service: Service, app: FastAPI) -> None:
        super().__init__(client)
        self.service, self.app = service, app


@contextmanager
def local(database: Path | Location, **settings: Any) -> Iterator[Local]:
    app = create_app(Settings(db=prepared(database), **settings))
    with listening(app) as url, client_of(url) as client:
        yield Local(client, app.state.service, app)
