"""Converts the input of the form to the REST body, and assigns each fault to its field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from api.dependencies import Service
from api.http.errors import wrong_fields
from api.scheduler.submission import Unavailable
from api.schemas import SearchRequest
from api.web.pages.start.candidate import Candidate
from api.web.pages.start.entry import ENTRIES
from evo.errors import InvalidInput, NotFound

PROBLEM = "problem."


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Parsed input of a form.

    Attributes:
        given: parsed value by field. Empty and invalid fields are not included.
        wrong: text with the fault and the valid values, by field.
    """

    given: Mapping[str, object]
    wrong: Mapping[str, str]

    def body(self, chosen: Candidate) -> dict[str, Any]:
        """Return the input as the body of a REST request."""
        body: dict[str, Any] = {"family_digest": chosen.digest, "problem": {}}
        for name, value in self.given.items():
            group, _, inner = name.partition(".")
            if inner:
                body.setdefault(group, {})[inner] = value
            else:
                body[name] = value
        return body


def read(chosen: Candidate, typed: Mapping[str, str]) -> Terms:
    """Return the values and the faults of the form's fields.

    Empty fields are skipped, except problem fields: an empty problem field is a fault, because it has no safe default.
    """
    values: dict[str, object] = {}
    wrong: dict[str, str] = {}
    for field in chosen.family.fields:
        name = PROBLEM + field.name
        if (text := typed.get(name)) is None:
            continue
        if not text.strip():
            such_as = "" if field.default is None else f", such as {field.default}"
            wrong[name] = f"is empty; enter a value{such_as}"
            continue
        try:
            values[name] = field.parse(text, name)
        except InvalidInput as error:
            wrong[name] = error.reason
    for name, entry in ENTRIES.items():
        if not (text := typed.get(name, "").strip()):
            continue
        try:
            values[name] = entry.read(text)
        except ValueError as error:
            wrong[name] = str(error)
    return Terms(given=values, wrong=wrong)


def judged(service: Service, chosen: Candidate, typed: Mapping[str, str]) -> Terms:
    """Parse and check the input. Return the parsed values and all faults.

    A check may stop at its first fault. To find the other faults, invalid fields get their defaults, and the remaining
    fields are checked again.
    """
    terms = read(chosen, typed)
    while found := _faults(service, terms.body(chosen)):
        guessed = any(name.startswith(PROBLEM) for name in terms.wrong)
        sure = {name: reason for name, reason in found.items() if not guessed or not name.startswith("problem")}
        fresh = {_nearest(name): reason for name, reason in sure.items()}
        dropped = (fresh.keys() & terms.given.keys()) - terms.wrong.keys()
        rest = {name: value for name, value in terms.given.items() if name not in dropped}
        terms = Terms(given=rest, wrong=fresh | dict(terms.wrong))
        if not dropped or "device" in dropped:  # without a device, the remaining fields cannot be checked
            break
    return terms


def _faults(service: Service, body: dict[str, Any]) -> dict[str, str]:
    """Return the faults that the REST API would report, by field.

    The result is empty if the API would accept the request.
    """
    try:
        service.conductor.orders.check(SearchRequest.model_validate(body))
    except ValidationError as error:
        return {each["field"]: each["reason"] for each in wrong_fields(error.errors())}
    except InvalidInput as error:
        return {error.field: error.reason}
    except Unavailable as error:
        return {error.field: str(error)}
    except NotFound:  # the family is registered, and checked, when the search starts
        return {}
    return {}


def _nearest(field: str) -> str:
    """Return the form field that shows a fault: ``requirements.toolkit`` for ``requirements.toolkit.cuda``."""
    inside = [name for name in ENTRIES if field.startswith(f"{name}.")]
    return max(inside, key=len, default=field)


CHOSEN = "chosen"
"""Form field with the newly chosen family. It is not part of a search."""

LONGEST_ADDRESS = 7000
"""Maximum number of characters of a URL that common proxies accept."""


def address_of(typed: Mapping[str, str]) -> str:
    """Return the URL of the form with this input, without default values."""
    usual = {name: entry.usual for name, entry in ENTRIES.items()}
    parameters = {"family": ""} | {name: text for name, text in typed.items() if text != usual.get(name)}
    return f"/start?{urlencode(parameters)}"


def cut_address_of(typed: Mapping[str, str]) -> str:
    """Return the URL of the form, short enough to be a parameter of another URL. The longest texts are cut."""
    kept = dict(typed)
    while len(quote(address_of(kept))) > LONGEST_ADDRESS:
        name = max(kept, key=lambda each: len(quote(kept[each])))
        kept[name] = kept[name][: len(kept[name]) // 2]
    return address_of(kept)
