"""REST routes for workers, which claim jobs, report results, and return jobs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import rest_router
from api.rest.artefacts import BINARY
from api.scheduler.leasing.wakeup import set_within
from api.schemas import MAX_RESULTS, Id, LeaseReply, LeaseRequest, Receipt, Release, Result, Results, ResultsReply
from evo.messages.job import Answer, Delivery
from evo.trial.results import ConfirmReport, EvaluateReport, Report

LOOK_S = 10.0
"""Seconds between checks for work while a request waits. Notifications from other processes can be lost."""

STALE = timedelta(hours=12)
"""If a report names an artefact that is older than this, the artefact's age is reset, so that it is not deleted."""

MOST_NAMED = 4 * MAX_RESULTS
"""Maximum number of artefacts that are looked up per request. A report names one to five artefacts."""

router = rest_router(tag="leases")


@router.post("/leases")
@allow("worker")
async def claim_leases(body: LeaseRequest, request: Request, service: ServiceDep) -> LeaseReply:
    """Lease up to `count` jobs for one device. If there is no job, wait up to `wait_s` seconds."""
    caller().speak_for(body.worker_id)
    begun_s, waited_s = time.monotonic(), 0.0
    while True:
        with service.wakeup.expected() as woken:
            reply = await run_in_threadpool(
                service.conductor.claim,
                body.worker_id,
                body.device_uuid,
                body.count,
                body.holding,
                body.unable,
                incarnation=body.incarnation,
            )
            left_s = begun_s + body.wait_s - time.monotonic()
            service.metrics.claimed(len(reply.leases))
            if reply.leases or reply.drain or left_s <= 0 or service.wakeup.closed:
                return reply.model_copy(update={"waited_s": waited_s})
            await set_within(woken, min(left_s, LOOK_S))
            waited_s = time.monotonic() - begun_s
        if await request.is_disconnected():
            return LeaseReply(leases=[], drain=False)


@router.post("/attempts/{attempt_id}/result")
@allow("worker")
async def report_result(attempt_id: Id, body: Result, service: ServiceDep) -> Receipt:
    """Report the result of a job.

    A result is accepted once; a repeated report gets the same response. The status is 409 if the lease has ended.
    """
    receipt = await run_in_threadpool(service.conductor.report, attempt_id, body.token, body.report)
    service.metrics.reported("repeated" if receipt.repeated else "accepted")
    return receipt


@router.post("/results")
@allow("worker")
async def report_results(body: Results, service: ServiceDep) -> ResultsReply:
    """Report several results. Each result gets a separate response. A refused result does not affect other results."""
    answers = await run_in_threadpool(_take, body, service)
    for answer in answers:
        service.metrics.reported(answer.status)
    return ResultsReply(answers=answers)


def _take(body: Results, service: Service) -> list[Answer]:
    """Store the artefacts of the reports, then accept the reports."""
    if body.contents:
        with service.database.write() as session:
            now = service.conductor.clock()
            for digest, content in body.contents.items():
                service.artefacts.put(session, digest, content, media_type=BINARY, now=now)
    deliveries = [Delivery(attempt_id=each.attempt_id, token=each.token, report=each.report) for each in body.results]
    return _with_lacking(service, deliveries, service.conductor.report_many(deliveries))


def _with_lacking(service: Service, deliveries: Sequence[Delivery], answers: Sequence[Answer]) -> list[Answer]:
    """Add to the response to each accepted report the digests of its artefacts that the service does not have.

    Repeated reports are treated like accepted ones. The age of artefacts older than `STALE` is reset. A worker uploads
    an artefact only once. The service may have deleted the artefact since then, or lost it when a backup was restored.
    """
    taken = [answer.status in {"accepted", "repeated"} for answer in answers]
    named = [_artefacts(each.report) if ok else set() for each, ok in zip(deliveries, taken, strict=True)]
    if not (every := sorted(set().union(*named))[:MOST_NAMED]):
        return list(answers)
    now = service.conductor.clock()
    with service.database.look() as session:
        missing = service.artefacts.missing(session, every)
        aged = service.artefacts.any_before(session, every, now - STALE)
    if aged:
        with service.database.write() as session:
            service.artefacts.used_again(session, every, before=now - STALE, now=now)
    return [
        replace(answer, lacking=tuple(sorted(lacking))) if (lacking := mine & missing) else answer
        for answer, mine in zip(answers, named, strict=True)
    ]


def _artefacts(report: Report) -> set[str]:
    return set(report.artefacts.values()) if isinstance(report, EvaluateReport | ConfirmReport) else set()


@router.post("/attempts/{attempt_id}/release", status_code=204)
@allow("worker")
def release_attempt(attempt_id: Id, body: Release, service: ServiceDep) -> None:
    """Return a job to the queue without counting a failure."""
    service.conductor.release(attempt_id, body.token, body.reason, unfit=body.unfit)
