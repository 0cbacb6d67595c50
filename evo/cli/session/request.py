"""The request for a new search, checked as far as possible without a service."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evo.client import AccessDenied, Client
from evo.errors import InvalidInput, RenderError
from evo.family.problem import Problem
from evo.messages.view import SearchView
from evo.promotion.policy import POLICIES, policy_from
from evo.text.document import literal_text, read_json, read_toml
from evo.text.encoding import not_utf8, utf8_text
from evo.text.shell import with_home
from templates import registry
from templates.bundle import pack
from templates.registry import Package
from templates.render import check


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for a new search.

    Attributes:
        family: name or path of the family, as the user wrote it.
        terms: body of the request ``POST /searches``.
    """

    family: str
    package: Package
    terms: Mapping[str, Any]

    @classmethod
    def of(cls, *, family: str, problem: str, policy: str, **terms: Any) -> "Request":
        """Return the request for a search of a family, after checking the family, the problem and the policy.

        Args:
            family: name of a family or recording, or path of its folder or file.
            problem: problem fields as ``NAME=VALUE,…``. If empty, all fields have their defaults.
            policy: name of a policy, or path of a file.
            terms: other fields of the request.

        Raises:
            NotFound: the family does not exist.
            InvalidInput: the family, the problem or the policy is not valid.
        """
        package = registry.find(family)
        _check_templates(package, terms.get("device", "auto"))
        if problem:
            package.family.problem(problem)
        digest = {"family_digest": package.digest}
        return cls(
            family=family, package=package, terms={**digest, "problem": problem, "policy": read_policy(policy), **terms}
        )

    def under(self, policy: Mapping[str, Any]) -> "Request":
        """Return a copy whose policy has the given fields, and the default policy's values for all other fields."""
        return replace(self, terms={**self.terms, "policy": dict(policy)})

    def with_terms(self, **terms: Any) -> "Request":
        """Return a copy in which some request fields are replaced, e.g. the budget."""
        return replace(self, terms={**self.terms, **terms})

    def instance(self, kind: str) -> Problem:
        """Return the problem with all fields; the defaults of omitted fields may depend on the device kind."""
        return self.package.family.problem(self.terms["problem"], kind)

    def at(self, problem: str) -> "Request":
        """Return a copy of the request for another problem.

        Raises:
            InvalidInput: the problem is not valid for the family.
        """
        if problem:
            self.package.family.problem(problem)
        return replace(self, terms={**self.terms, "problem": problem})

    def submit(self, client: Client) -> SearchView:
        """Start the search, and return its view.

        First, the family is uploaded. If this is impossible or not allowed, only its document and path are registered.

        Raises:
            NotFound, InvalidInput, Conflict: the service refuses the family or the request.
        """
        package = self.package
        if not _uploaded(package, client):
            name, document = package.family.name, package.family.document
            client.register_family(package.digest, name=name, document=document, location=package.location)
        return client.create_search(self.terms)


def _uploaded(package: Package, client: Client) -> bool:
    """Upload the family's files, and return True. Return False if this is not possible or not allowed."""
    if package.location is None:
        return False
    try:
        content = pack(package)
    except InvalidInput:  # the files cannot be uploaded, but the workers may have access to the folder
        return False
    try:
        client.upload_family(package.digest, content)
    except AccessDenied:
        return False
    return True


def _check_templates(package: Package, device: str) -> None:
    """Refuse a template or source that fails `check`, for example because it uses a name that is not declared.

    If `device` is a device kind of the family, check only the template or source of this kind.

    Raises:
        InvalidInput: the check failed.
    """
    kinds = package.family.implementations
    try:
        for kind in kinds:
            if device == kind or device not in kinds:
                check(package, kind)
    except RenderError as error:
        raise InvalidInput("family", f"{package.path}: {error}") from None


def read_policy(name_or_file: str) -> str | dict[str, Any]:
    """Return the name of a policy, or the policy fields that a file sets.

    Raises:
        InvalidInput: a field is invalid, or the file cannot be read.
    """
    path = with_home(name_or_file)
    if path.suffix not in (".toml", ".json"):
        return policy_from(name_or_file).name
    try:
        content = path.read_bytes()
        text = utf8_text(content)
        document = read_toml(text) if path.suffix == ".toml" else read_json(text, "file")
    except UnicodeDecodeError as error:
        raise InvalidInput("--policy", f"{path} {not_utf8(content, error, str(path))}") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        remedy = f"use a .toml or .json file, or one of {', '.join(POLICIES)}"
        raise InvalidInput("--policy", f"{path} cannot be read ({reason}); {remedy}") from None
    if not isinstance(document, dict):
        raise InvalidInput("--policy", f"{path} must contain fields and values, not {literal_text(document)}")
    policy_from(document)
    return document
