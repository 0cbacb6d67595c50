"""HTTP exchange with a service: limits retries, and raises the errors that the service's problem documents describe."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from evo.client.route import http_client, proxy_of
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.text.secrets import masked, sendable

T = TypeVar("T")

ATTEMPTS = 6
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_LONGEST_WAIT_S = 30.0
"""Longest `Retry-After`, in seconds, for which a request is retried. With a longer one, the request fails."""
_LONGEST_ASKED_S = 86_400
"""Maximum result of `retry_after_s`, in seconds."""


TOKEN_FORM = "as `kev_…`"
EXAMPLE = "http://127.0.0.1:8765"
_AWAY = {408, 425, 429, 502, 503, 504}
"""HTTP statuses of a temporarily unavailable service, or of a proxy in front of the service."""

CONNECT_S = 5.0
"""Maximum timeout for connecting, in seconds. The timeout for the response may be longer."""


class ServiceUnreachable(EvoError, ConnectionError):
    """No service answered, or the connection was interrupted."""


class ServiceAway(ServiceUnreachable):
    """The service is temporarily unavailable, as reported by the service or a proxy in front of it.

    Attributes:
        again_s: seconds to wait before the next request (`Retry-After`); 0 if not stated.
    """

    def __init__(self, message: str, *, again_s: float = 0.0) -> None:
        super().__init__(message)
        self.again_s = again_s


class ServiceError(EvoError, RuntimeError):
    """The service reported an internal error, or sent an invalid response."""


class ForeignService(ServiceError):
    """The program that answers at this address is not kernel-evo."""


class TooLarge(ServiceError):
    """The request is too large for the service or for a proxy in front of it."""


class AccessDenied(EvoError, PermissionError):
    """The service refused the token."""


class Transport:
    """A connection pool to one service. Threads may share it. The arguments are those of `Client`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout_s: float,
        attempts: int,
        transport: httpx.BaseTransport | None,
        sleep: Callable[[float], None],
    ) -> None:
        self.url = address(url).rstrip("/")
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = random.Random()
        self._http = http_client(
            f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {sendable('token', token, form=TOKEN_FORM)}"} if token else {},
            timeout=patience(timeout_s),
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    @contextmanager
    def stream(
        self, path: str, *, quiet_s: float, media_type: str | None = None, **options: Any
    ) -> Iterator[Iterator[bytes]]:
        """Yield the bytes of a response as they arrive.

        Args:
            quiet_s: longest accepted time without data, in seconds.
            media_type: expected type of the response. A proxy's sign-in page, for example, has a different type. If
                None, every type is accepted.

        Raises:
            ServiceUnreachable: no service responds, or the stream was interrupted or sent no data for `quiet_s`.
            ForeignService: the response is a redirect, or has a different type.
            EvoError: the service refused the request; see `checked` for the classes.
        """
        timeout = httpx.Timeout(self._http.timeout.connect, read=quiet_s)
        try:
            with self._http.stream("GET", path, timeout=timeout, **options) as response:
                if response.status_code >= 300:
                    response.read()
                    checked(response)
                content_type = response.headers.get("content-type", "")
                if media_type is not None and content_type.partition(";")[0].strip().lower() != media_type:
                    raise _foreign(response, f"{response.status_code}, and {masked(content_type) or 'no type':.80}")
                yield response.iter_bytes()
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def request(self, method: str, path: str, *, repeat: bool = True, **options: Any) -> httpx.Response:
        """Send a request and return the successful response.

        Args:
            repeat: True if the service may receive the request twice. If False, the request is retried only if it was
                never sent, or if the service refused it temporarily.
            options: other arguments of `httpx.Client.request`.

        Raises:
            InvalidInput: a string of the request contains an unpaired surrogate, which UTF-8 cannot represent.
            ServiceUnreachable: no service responded to the last attempt.
            EvoError: the response is not successful; see `checked` for the classes.
        """
        for attempt in range(1, self._attempts + 1):
            last, again_s = attempt == self._attempts, 0.0
            try:
                response = self._http.request(method, path, **options)
            except UnicodeEncodeError:
                raise InvalidInput(
                    "body", "contains an unpaired surrogate, which UTF-8 cannot represent; remove it"
                ) from None
            except httpx.TransportError as error:
                if last or not (repeat or isinstance(error, httpx.ConnectError)):
                    raise self._unreachable(error) from None
            else:
                again_s = retry_after_s(response.headers)
                if last or not _is_temporary(response) or again_s > _LONGEST_WAIT_S:
                    return checked(response)
            self.pause(attempt, least_s=again_s)
        raise AssertionError("the last attempt returns or raises")

    def reached(self, path: str) -> bool:
        """Return True if a GET request for this path succeeds at the first attempt."""
        try:
            return self._http.get(path).is_success
        except httpx.TransportError:
            return False

    def pause(self, attempt: int, *, least_s: float = 0.0) -> None:
        """Wait before the next attempt, for at least `least_s` seconds.

        The wait is random. Its upper limit doubles with each attempt, up to `_LONGEST_PAUSE_S`.
        """
        self._sleep(max(least_s, self._pause_s(attempt)))

    def _pause_s(self, attempt: int) -> float:
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**attempt)
        return longest * self._jitter.uniform(0.5, 1.0)

    def _unreachable(self, error: httpx.TransportError) -> ServiceUnreachable:
        reason = masked(str(error)) or type(error).__name__
        return ServiceUnreachable(
            f"no service answers at {masked(self.url)}{_through_proxy(self.url)} ({reason}): "
            f"is it running (`kernel-evo serve`), and is --url right?{_without_proxy(self.url)}"
        )


def _through_proxy(url: str) -> str:
    proxy = proxy_of(url)
    return "" if proxy is None else f" through the proxy {proxy} from the environment"


def _without_proxy(url: str) -> str:
    host = urlsplit(url).hostname
    return "" if proxy_of(url) is None else f" To reach it without the proxy, set NO_PROXY={host}"


def address(url: str) -> str:
    """Return the URL after checking that it can be the address of a service.

    Raises:
        InvalidInput: the URL is not an HTTP address, contains a user name, a query or a fragment, or its path ends in
            `/api/v1`.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise InvalidInput("url", f"{masked(url)!r} is not the address of a service; write one like {EXAMPLE}")
    for part, found in (
        ("a user name (a service accepts only tokens)", "@" in parts.netloc),
        ("a `?`", "?" in url),
        ("a `#`", "#" in url),
        ("/api/v1, which the client adds itself", parts.path.rstrip("/").endswith("/api/v1")),
    ):
        if found:
            raise InvalidInput("url", f"{masked(url)!r} contains {part}; remove it, as in {EXAMPLE}")
    return url


def patience(timeout_s: float) -> httpx.Timeout:
    """Return the timeouts of a request. The timeout for connecting is at most `CONNECT_S`."""
    return httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))


def checked(response: httpx.Response) -> httpx.Response:
    """Return a successful response. For others, raise the error that the response describes.

    Raises:
        ForeignService: the response is a redirect, an HTML page in answer to a request other than GET, or has an error
            status without a description.
        ServiceAway: the service is temporarily unavailable, or a proxy reports an internal error.
        TooLarge, AccessDenied, NotFound, Conflict, InvalidInput: the service refused the request for this reason.
        ServiceError: the service reported another error.
    """
    status = response.status_code
    if response.is_redirect:
        raise _foreign(response, f"redirects to {masked(response.headers['location'])}")
    if status < 400:
        if response.request.method != "GET" and response.headers.get("content-type", "").startswith("text/html"):
            raise _foreign(response, f"{status} with an HTML page")
        return response
    problem, ours = _problem(response), "problem+json" in response.headers.get("content-type", "")
    if status in _AWAY or (status >= 500 and status != 501 and not ours):
        raise _service_away(response, problem)
    if status == 413 and "field" not in problem:
        raise _too_large(response, problem)
    if not ours and "detail" not in problem:
        raise _foreign(response, f"{status} {response.reason_phrase}")
    detail = str(problem.get("detail") or problem.get("title") or response.reason_phrase or f"status {status}")
    if status in {401, 403}:
        explained = status == 403 or "--token" in detail
        raise AccessDenied(detail if explained else f"{detail}; pass a token with --token or KERNEL_EVO_TOKEN")
    if status == 404:
        raise NotFound(detail)
    if status in {409, 412}:
        raise Conflict(detail)
    if status in {400, 413, 422} and "field" in problem:
        raise InvalidInput(str(problem["field"]), detail.removeprefix(f"{problem['field']}: "))
    raise ServiceError(f"{response.request.method} {response.request.url.path} answered {status}: {detail}")


def _foreign(response: httpx.Response, detail: str) -> ForeignService:
    asked, base = response.request, str(response.request.url).partition("/api/v1")[0]
    return ForeignService(
        f"the program at {masked(base)}{_through_proxy(base)} is not a kernel-evo service ({asked.method} "
        f"{asked.url.path}: {detail}): is --url right?{_without_proxy(base)}"
    )


def _service_away(response: httpx.Response, problem: Mapping[str, Any]) -> ServiceAway:
    base = str(response.request.url).partition("/api/v1")[0]
    detail = problem.get("detail") or f"{response.status_code} {response.reason_phrase}".strip()
    again_s = retry_after_s(response.headers)
    when = f"in {again_s:.0f} s" if again_s >= 1 else "in a while"
    reason = f"the service at {masked(base)} is temporarily unavailable ({detail}); try again {when}"
    return ServiceAway(reason, again_s=again_s)


def _too_large(response: httpx.Response, problem: Mapping[str, Any]) -> TooLarge:
    """Return the error for a request that is too large, with advice for the service or the proxy that refused it."""
    asked = response.request
    size = f"{int(asked.headers.get('content-length', 0)):,} bytes"
    remedy = "raise the limit of the proxy in front of the service to 64 MiB (nginx: client_max_body_size)"
    detail = problem.get("detail") or remedy
    return TooLarge(f"{asked.method} {asked.url.path} with {size} is too large for the service: {detail}")


def _is_temporary(response: httpx.Response) -> bool:
    """Return True if the same request may succeed later.

    A response 409 with `Retry-After` means that an earlier copy of the request is still being executed.
    """
    return response.status_code in _AWAY or (response.status_code == 409 and "retry-after" in response.headers)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait according to `Retry-After`, which is a number or a date (RFC 9110).

    The result is 0 if the header is missing or invalid, and at most one day.

    Args:
        headers: headers of a response. Their names must be in lower case, or be compared without regard to case.
    """
    asked = headers.get("retry-after", "").strip()
    if asked.isdecimal() and asked.isascii():
        return float(min(int(asked[:10]), _LONGEST_ASKED_S))
    try:
        then, now = parsedate_to_datetime(asked), _date(headers)
        seconds = (then - now).total_seconds()
    except (ValueError, TypeError):
        return 0.0
    return min(max(0.0, seconds), float(_LONGEST_ASKED_S))


def _date(headers: Mapping[str, str]) -> datetime:
    """Return the `Date` of a response or, if it is missing or invalid, the time of this machine's clock."""
    try:
        return parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return datetime.now(UTC)


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def to_json(value: object, shape: Any) -> Any:
    """Convert a value of type `shape` to JSON data for httpx."""
    return _adapter(shape).dump_python(value, mode="json")


def from_json(text: str, shape: type[T], *, what: str) -> T:
    """Parse a JSON text, and return its value of type `shape`.

    Args:
        what: noun that names the text in the error message.

    Raises:
        ServiceError: the text is not JSON, or its value does not have this type.
    """
    untyped: Any = shape
    adapter: TypeAdapter[T] = _adapter(untyped)
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise ServiceError(f"the service sent {what}, which {_not_understood(error)}") from None


def parse(response: httpx.Response, shape: type[T]) -> T:
    """Return the body of a response as a value of the type `shape`.

    Raises:
        ForeignService: the body is not JSON.
        ServiceError: the body does not match `shape`.
    """
    untyped: Any = shape
    adapter: TypeAdapter[T] = _adapter(untyped)
    try:
        return adapter.validate_json(response.content)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise _foreign(response, f"{response.status_code} without JSON") from None
        raise ServiceError(f"{response.request.url.path}: the answer {_not_understood(error)}") from None


def _not_understood(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return (
        f"is not understood by this version ({where}: {first['msg']}); install the same version for client and service"
    )
