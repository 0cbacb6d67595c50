"""Files under the SHA-256 of their content."""

from evo.client.calls import Calls


class Artefacts(Calls):
    """Requests about files."""

    def put_artefact(self, digest: str, content: bytes) -> None:
        self._transport.request("PUT", f"/artefacts/{digest}", content=content)

    def artefact(self, digest: str) -> bytes:
        return self._transport.request("GET", f"/artefacts/{digest}").content
