"""Delivers a webhook message when a search ends, with retries for a day.

A slow receiver does not delay messages to other receivers. Messages follow https://www.standardwebhooks.com. They are
JSON, signed with HMAC-SHA256 over id, time and body.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog
from sqlalchemy.orm import Session

from api.events.webhooks.outbound import Target, post, target_of
from api.events.webhooks.signature import signed, signing_key
from api.http.public_url import PublicUrl
from api.scheduler.active import Clock
from api.schemas import Webhook as WebhookRequest
from api.views.tally import search_summaries
from db.engine.session import Database, StoreUnavailable
from db.models import DeliveryRow, Webhook
from db.models.columns import adapter
from db.repositories.deliveries import Deliveries, Due, Unannounced
from evo.errors import InvalidInput
from evo.messages.event import SearchEvent

log = structlog.get_logger("webhooks")

Post = Callable[[Target, bytes, Mapping[str, str]], int]
ROUND_S = 1.0
"""Seconds after which `run` returns while deliveries continue in their threads."""


class WebhookDelivery:
    """Delivers webhook messages. Several processes may deliver messages of one database at the same time.

    Args:
        secret: default secret for signing, used if a webhook has no own secret. None if there is no default.
        private: True to allow URLs with non-public addresses.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        secret: str | None,
        private: bool,
        public: PublicUrl | None = None,
        send: Post = post,
    ) -> None:
        self._database = database
        self._clock = clock
        self._secret = secret
        self._private = private
        self._public = public
        self._send = send
        self._under_way = UnderWay()

    def accepted(self, webhook: WebhookRequest) -> Webhook:
        """Check a webhook and return the data to store with its search.

        Raises:
            InvalidInput: the URL is not allowed, the secret cannot be decoded, or neither the webhook nor the service
                has a secret.
        """
        target_of(webhook.url, private=self._private)
        secret = webhook.secret or self._secret
        if secret is None:
            raise InvalidInput(
                "webhook.secret",
                "required to sign the message; send a secret, or set KERNEL_EVO_WEBHOOK_SECRET for the service",
            )
        try:
            signing_key(secret)
        except ValueError as error:
            raise InvalidInput("webhook.secret", str(error)) from None
        return Webhook(url=webhook.url, secret=secret)

    def run(self) -> None:
        """Queue webhook messages about ended searches, and deliver the messages that are due.

        The method returns when no message is left, or after `ROUND_S` seconds. Deliveries that take longer continue in
        their threads.
        """
        until_s = time.monotonic() + ROUND_S
        while True:
            ended_count = self._under_way.ended_count
            self._start_due()
            if not self._under_way.wait(ended_count=ended_count, until_s=until_s):
                return

    def _start_due(self) -> None:
        now = self._clock()
        with self._database.read() as session:
            anything = Deliveries(session).pending(now)
        if not anything:
            return
        with self._database.write() as session:
            for ended in Deliveries(session).unannounced():
                self._note(session, ended, now)
        with self._database.read() as session:
            chosen = {each.id: each for each in self._under_way.fitting(Deliveries(session).due(now))}
        if not chosen:
            return
        with self._database.write() as session:
            claimed = {row.id: row for row in Deliveries(session).claim(chosen, now)}
        for number, due in chosen.items():
            if number in claimed:
                try:
                    self._under_way.start(due, partial(self._deliver, claimed[number]))
                except RuntimeError as error:  # the message is retried when its claim expires
                    log.warning(
                        "cannot start a thread for a webhook message; the delivery is retried when its claim expires",
                        search=claimed[number].search_id,
                        reason=str(error),
                    )

    def _note(self, session: Session, ended: Unannounced, now: datetime) -> None:
        """Queue a webhook message about an ended search.

        If the message cannot be created, store the reason, which users then see on the search's page.
        """
        deliveries = Deliveries(session)
        try:
            text, error = _message(search_summaries(session, [ended.search_id], now)[0], now, self._public), None
        except Exception as failure:
            log.exception("a webhook message cannot be created", search=ended.search_id)
            text, error = "", f"the message could not be created: {type(failure).__name__}: {failure}"
        deliveries.note(ended, text, now, error=error)

    def _deliver(self, delivery: DeliveryRow) -> None:
        try:
            error = self._tried(delivery)
        except Exception as failure:  # a bug must not prevent other deliveries
            log.exception("delivering a webhook message failed", search=delivery.search_id)
            error = f"{type(failure).__name__}: {failure}"
        fields = {"search": delivery.search_id, "attempts": delivery.attempts}
        try:
            self._store(delivery.id, error)
        except StoreUnavailable as failure:  # the message is sent again when its claim expires
            log.warning("database unavailable; the webhook message is sent again", **fields, reason=str(failure))
            return
        if error is None:
            log.info("webhook delivered", **fields)
        else:
            log.warning("webhook not delivered", **fields, error=error)

    def _store(self, delivery_id: int, error: str | None) -> None:
        now = self._clock()
        with self._database.write() as session:
            if error is None:
                Deliveries(session).delivered(delivery_id, now)
            else:
                Deliveries(session).failed(delivery_id, error, now)

    def _tried(self, delivery: DeliveryRow) -> str | None:
        """Send a message once. Return the reason if this fails, else None."""
        body = delivery.message.encode()
        try:
            target = target_of(delivery.url, private=self._private)
            status = self._send(target, body, signed(delivery.secret, delivery.message_id, self._clock(), body))
        except InvalidInput as refused:
            return refused.reason
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as failure:
            return f"{type(failure).__name__}: {str(failure) or 'the request took too long'}"
        return None if 200 <= status < 300 else f"the receiver answered {status}"


def _message(search: SearchEvent, now: datetime, public: PublicUrl | None) -> str:
    data: Any = adapter(SearchEvent).dump_python(search, mode="json")
    message = {"type": f"search.{search.state}", "timestamp": now.isoformat(), "data": data}
    if public is not None:
        message["url"] = f"{public}/searches/{search.id}"
    return json.dumps(message)


AT_ONCE = 32
"""Maximum number of concurrent deliveries."""

RETRIES_AT_ONCE = 8
"""Maximum number of concurrent retries. Receivers that do not respond then cannot block new messages."""

PER_RECEIVER = 2
"""Maximum number of concurrent deliveries to one receiver."""


class UnderWay:
    """Deliveries of webhook messages that run in this process, one thread per delivery."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._messages: dict[int, Due] = {}
        self.ended_count = 0
        """Number of deliveries that have ended."""

    def fitting(self, due: Iterable[Due]) -> list[Due]:
        """Select the messages whose delivery can start within the limits on concurrent deliveries. Keep their order."""
        with self._ended:
            messages = list(self._messages.values())
        known = {each.id for each in messages}
        receivers = Counter(receiver_of(each.url) for each in messages)
        retries = sum(each.retried for each in messages)
        chosen: list[Due] = []
        for each in due:
            if len(messages) + len(chosen) >= AT_ONCE:
                break
            receiver = receiver_of(each.url)
            full = receivers[receiver] >= PER_RECEIVER or (each.retried and retries >= RETRIES_AT_ONCE)
            if full or each.id in known:
                continue
            chosen.append(each)
            receivers[receiver] += 1
            retries += each.retried
        return chosen

    def start(self, message: Due, deliver: Callable[[], None]) -> None:
        """Deliver a webhook message in a daemon thread, which does not prevent the process from ending.

        Raises:
            RuntimeError: the system cannot start another thread.
        """

        def end() -> None:
            with self._ended:
                del self._messages[message.id]
                self.ended_count += 1
                self._ended.notify_all()

        def run() -> None:
            try:
                deliver()
            finally:
                end()

        with self._ended:
            self._messages[message.id] = message
        try:
            threading.Thread(target=run, name=f"webhook-{message.id}", daemon=True).start()
        except RuntimeError:
            end()
            raise

    def wait(self, *, ended_count: int, until_s: float) -> bool:
        """Wait until more than `ended_count` deliveries have ended in total, and return True.

        Return False if no running delivery is left to wait for, or if the time limit is reached.

        Args:
            until_s: time limit, in seconds on the monotonic clock.
        """
        with self._ended:
            rest_s = max(0.0, until_s - time.monotonic())
            self._ended.wait_for(lambda: self.ended_count > ended_count or not self._messages, rest_s)
            return self.ended_count > ended_count and time.monotonic() < until_s


def receiver_of(url: str) -> str:
    """Return the host and port of a URL, or the whole URL if it cannot be parsed."""
    try:
        return urlsplit(url).netloc.lower() or url
    except ValueError:
        return url
