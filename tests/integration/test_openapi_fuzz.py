"""The service behaves as its OpenAPI document states, for all requests and roles.

``make fuzz`` runs many more examples than ``make test``.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from db.engine.key import local_key
from tests.integration.inside import HOME, serving
from tests.integration.test_access import Callers
from tests.integration.test_api import Rest
from tests.tiers import one_in

EXAMPLES = int(os.environ.get("KERNEL_EVO_FUZZ_EXAMPLES", "0"))
"""Number of examples per operation and role. With 0, the owner of the service sends a few, and other roles one."""
EXTENTS = {"some": (2, 6), "all": (4, 1)}
"""Pairs (examples, n): the owner sends `examples` examples per operation; other roles request every n-th one."""
NUMBERED = ("search_id", "trial_id", "champion_id", "attempt_id")
"""Path parameters that are ids. Half of the owner's requests use the id 1, which exists."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

schemathesis.serializer.alias("application/zip", "application/octet-stream")


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Yield clients of every role, for a service with searches, trials, a champion and leases."""
    database = tmp_path_factory.mktemp("fuzz") / "evo.db"
    with serving(database, requests_per_s=1e6, allow_family_upload=True) as service:
        rest = Rest(service.client(base=f"{HOME}/api/v1"))
        rest.prepare()
        rest.submit(budget={"trials": 3})
        rest.play()
        rest.submit()
        rest.claim(2)
        callers = Callers(service)
        callers.clients["owner"] = service.client(local_key(database))
        yield callers


@pytest.mark.slow
@pytest.mark.timeout(3600 if EXAMPLES else 900)
@pytest.mark.parametrize("extent", one_in(2, ["all"] if EXAMPLES else EXTENTS))
def test_every_operation_responds_to_every_role_as_documented_in_openapi(callers: Callers, extent: str) -> None:
    """Only `test_access.py` tests every combination of role and operation."""
    (owners, share), schema = EXTENTS[extent], schemathesis.openapi.from_dict(callers.service.app.openapi())
    interview = OperationFuzzer(callers)
    for number, result in enumerate(schema.get_all_operations()):
        for place, role in enumerate(callers.clients):
            if role != "owner" and (number + place) % share:
                continue
            examples = EXAMPLES or (owners if role == "owner" else 1)
            interview.ask(result.ok(), role, GenerationMode.POSITIVE, examples)
            if examples > 1:
                interview.ask(result.ok(), role, GenerationMode.NEGATIVE, examples // 2)
    assert not interview.wrong, "\n\n".join(interview.wrong)
    assert set(interview.answers) >= {200, 201, 204, 401, 403, 404, 409, 422}, interview.answers


class OperationFuzzer:
    """Sends requests generated from the OpenAPI document, and collects faults of the responses."""

    def __init__(self, callers: Callers) -> None:
        self.callers = callers
        self.answers: Counter[int] = Counter()
        self.wrong: list[str] = []

    def ask(self, operation: Any, role: str, mode: GenerationMode, examples: int) -> None:
        """Send examples of one operation as one role."""

        @hypothesis.settings(
            max_examples=examples,
            phases=[Phase.generate],
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def each(case: Any) -> None:
            self._ask(case, role)

        with suppress(Unsatisfiable):  # this operation has no input that can be invalid
            each()

    def _ask(self, case: Any, role: str) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("wait_s"), int | float):
            case.body["wait_s"] = min(case.body["wait_s"], 0)  # a lease request must not wait for work in this test
        if role == "owner" and self.answers.total() % 2:
            case.path_parameters |= {name: 1 for name in case.path_parameters if name in NUMBERED}
        sent = requests.Request(**_as_request(case)).prepare()
        response = self.callers.clients[role].request(
            sent.method or "", str(sent.url), headers=_headers(sent), content=_content(sent.body)
        )
        self.answers[response.status_code] += 1
        said = f"{role}: {sent.method} {sent.url} {sent.body!r:.500} -> {response.status_code} {response.text:.500}"
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as failures:
            self.wrong.extend(f"{failure}\n{said}" for failure in failures.exceptions)
        if response.status_code >= 400 and response.headers["content-type"] != "application/problem+json":
            self.wrong.append(f"no problem document\n{said}")


def _as_request(case: Any) -> dict[str, Any]:
    given: dict[str, Any] = case.as_transport_kwargs(base_url=HOME)
    return {name: value for name, value in given.items() if name not in {"timeout", "verify", "cert"}}


def _headers(sent: requests.PreparedRequest) -> dict[str, str]:
    """Return the headers of a request without the headers that the HTTP client adds."""
    kept = {name: value for name, value in sent.headers.items() if name.lower() != "authorization"}
    return {name: value if isinstance(value, str) else value.decode("latin-1") for name, value in kept.items()}


def _content(body: Any) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else str(body).encode()
