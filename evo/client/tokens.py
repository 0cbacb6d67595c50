"""Requests about access tokens."""

from collections.abc import Sequence
from urllib.parse import quote

from evo.client.calls import Calls
from evo.client.transport import parse
from evo.messages.access import IssuedToken, Role, TokenView
from evo.messages.view import Page


class Tokens(Calls):
    """Requests about access."""

    def tokens(self) -> Page[TokenView]:
        return self._get("/tokens", Page[TokenView])

    def create_token(
        self, name: str, roles: Sequence[Role], *, worker_id: str | None = None, expires_in_s: float | None = None
    ) -> IssuedToken:
        """Create a token; only this response contains its secret."""
        body = {"name": name, "roles": list(roles), "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens", body, repeat=False), IssuedToken)

    def create_join_token(self, name: str, *, worker_id: str | None = None, expires_in_s: float) -> IssuedToken:
        """Create a token that a new worker exchanges, once, for its own."""
        body = {"name": name, "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens/join", body, repeat=False), IssuedToken)

    def rotate_token(self, token_id: str, *, grace_s: float = 0.0) -> IssuedToken:
        """Replace a token by one on the same terms; the old one is refused after `grace_s`."""
        answer = self._send("POST", f"/tokens/{quote(token_id, safe='')}/rotate", {"grace_s": grace_s}, repeat=False)
        return parse(answer, IssuedToken)

    def revoke_token(self, token_id: str) -> TokenView:
        return parse(self._send("DELETE", f"/tokens/{quote(token_id, safe='')}"), TokenView)

    def join(self, worker_id: str, *, name: str | None = None) -> IssuedToken:
        """Exchange this client's join token for the worker's own."""
        return parse(self._send("POST", "/join", {"worker_id": worker_id, "name": name}, repeat=False), IssuedToken)
