"""Static files of the pages: scripts and styles."""

import os

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

WORKER_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Policy of shared workers: import scripts of the service and follow its events."""


class Files(StaticFiles):
    """Static files with the headers that scripts need."""

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a file, or 304 if the browser has it.

        A shared worker has the policy of its own script, not that of a page. Browsers revalidate every file (304 if
        unchanged), because after an upgrade new scripts do not work with cached old ones.
        """
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Content-Security-Policy"] = WORKER_POLICY
        response.headers["Cache-Control"] = "no-cache"
        return response
