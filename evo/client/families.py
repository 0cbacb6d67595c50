"""Requests about kernel families."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from evo.client.calls import Calls
from evo.client.transport import parse
from evo.messages.view import FamilyView, Page


class Families(Calls):
    """Requests about families."""

    def register_family(self, digest: str, *, name: str, document: Mapping[str, Any], location: str | None) -> None:
        body = {"name": name, "document": document, "location": location}
        self._send("PUT", f"/families/{digest}", body)

    def upload_family(self, digest: str, bundle: bytes) -> FamilyView:
        """Upload a family packed by `templates.bundle.pack`; its code will run on the workers."""
        sent = self._transport.request(
            "PUT", f"/families/{digest}/bundle", content=bundle, headers={"Content-Type": "application/zip"}
        )
        return parse(sent, FamilyView)

    def family_bundle(self, digest: str) -> bytes:
        return self._transport.request("GET", f"/families/{digest}/bundle").content

    def families(self) -> Page[FamilyView]:
        return self._get("/families", Page[FamilyView])

    def family(self, name: str) -> FamilyView:
        return self._get(f"/families/{quote(name, safe='')}", FamilyView)
