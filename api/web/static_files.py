"""Scripts and styles of the pages."""

import os

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

WORKER_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a worker may do whose script is one of ours: import scripts, and follow the service's events."""


class Files(StaticFiles):
    """Static files with the headers that scripts need."""

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a file, or 304 if the browser has it.

        A shared worker has the policy that came with its script, not that of a page. A browser asks for every file
        again (304 where nothing has changed): after an upgrade, new scripts do not work with old ones from its cache.
        """
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Content-Security-Policy"] = WORKER_POLICY
        response.headers["Cache-Control"] = "no-cache"
        return response
