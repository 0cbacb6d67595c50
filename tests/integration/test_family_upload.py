"""Authors upload families, workers download them, and the service never executes them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from evo.cli.session.request import Request
from evo.client import AccessDenied, Client
from evo.errors import Conflict, InvalidInput
from evo.messages.job import FamilyRef
from templates import registry
from templates.bundle import pack
from tests.integration.inside import HOME, Inside, Serving, serving
from tests.integration.test_access import API, Callers, register
from tests.unit.test_bundle import FAULTY
from workers.build.families import Families

SAXPY = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy"
FAMILY = registry.find(str(FAULTY))


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with serving(tmp_path_factory.mktemp("upload") / "evo.db", allow_family_upload=True) as service:
        yield Callers(service)


def client_of(callers: Callers, secret: str) -> Client:
    return Client(HOME, token=secret, transport=Inside(callers.service.app, callers.service.portal), attempts=1)


def test_worker_downloads_the_family_that_an_author_uploaded(callers: Callers, tmp_path: Path) -> None:
    author, worker = (
        client_of(callers, callers.token("author", "submitter")),
        client_of(callers, callers.token("worker")),
    )
    view = author.upload_family(FAMILY.digest, pack(FAMILY))
    assert (view.name, view.document) == ("faulty", FAMILY.family.document)
    author.register_family(FAMILY.digest, name="faulty", document=FAMILY.family.document, location=None)
    location = author.family(FAMILY.digest).location
    assert location is not None
    assert location.startswith("bundle:"), "a second registration must not remove the files"
    worker.register_worker("traveller", name="t", host="h", devices=[])
    ref = FamilyRef(name="faulty", digest=FAMILY.digest, location=location)
    assert Families(tmp_path, worker.family_bundle).get(ref).package.digest == FAMILY.digest


@pytest.mark.parametrize(
    ("location", "reason"), [("scale", "is not an absolute path"), ("/a\nb", "contains invisible characters")]
)
def test_error_states_why_a_family_location_is_refused(callers: Callers, location: str, reason: str) -> None:
    author = client_of(callers, callers.token("author", "submitter"))
    with pytest.raises(InvalidInput, match=reason):
        author.register_family(FAMILY.digest, name="faulty", document=FAMILY.family.document, location=location)


def test_only_authors_may_upload_families_or_set_their_location(callers: Callers) -> None:
    submitter = client_of(callers, callers.token("submitter"))
    with pytest.raises(AccessDenied, match="role author"):
        submitter.upload_family(FAMILY.digest, pack(FAMILY))
    for location in (str(FAULTY), "/tmp/anything"):
        with pytest.raises(AccessDenied, match="role author"):
            submitter.register_family("0" * 64, name="faulty", document=FAMILY.family.document, location=location)
    for location in ("relative/path", "bundle:" + "0" * 64, "../..", "/tmp/\x00", "~/family"):
        with pytest.raises(InvalidInput, match="location"):
            submitter.register_family("0" * 64, name="faulty", document=FAMILY.family.document, location=location)


def test_submitter_cannot_replace_the_document_of_a_builtin_family(callers: Callers) -> None:
    submitter = client_of(callers, callers.token("submitter"))
    softmax = registry.find("softmax")
    submitter.register_family(softmax.digest, name="softmax", document=softmax.family.document, location=None)
    with pytest.raises(InvalidInput, match="document"):
        submitter.register_family(softmax.digest, name="faulty", document=FAMILY.family.document, location=None)


@pytest.mark.slow
def test_only_authors_can_change_the_family_of_an_author(callers: Callers) -> None:
    submitter, author = (client_of(callers, callers.token(role, "submitter")) for role in ("submitter", "author"))
    document = dict(FAMILY.family.document) | {"name": "placed"}
    author.register_family("cd" * 32, name="placed", document=document, location="/srv/placed")
    submitter.register_family("cd" * 32, name="placed", document=document, location=None)
    assert submitter.family("placed").location == "/srv/placed"
    for digest, other in (("ce" * 32, document), ("cd" * 32, document | {"title": "Another"})):
        with pytest.raises(Conflict):
            submitter.register_family(digest, name="placed", document=other, location=None)
    author.register_family("cd" * 32, name="placed", document=document, location=None)
    assert submitter.family("placed").location is None
    softmax = registry.find("softmax")
    for digest in (softmax.digest, "ab" * 32):
        submitter.register_family(digest, name="softmax", document=softmax.family.document, location=None)
    assert submitter.family("softmax").digest == softmax.digest, "another version is available only by its digest"
    assert [each.digest for each in submitter.families().items if each.name == "softmax"] == [softmax.digest]
    assert submitter.family("ab" * 32).name == "softmax"


def test_uploaded_family_files_must_match_the_digest_in_the_url(callers: Callers) -> None:
    author = client_of(callers, callers.token("author", "submitter"))
    with pytest.raises(InvalidInput, match="digest"):
        author.upload_family("0" * 64, pack(FAMILY))
    with pytest.raises(InvalidInput, match="bundle"):
        author.upload_family(FAMILY.digest, b"PK\x03\x04 junk")


def test_search_uploads_its_family_if_permitted_and_otherwise_registers_the_path(tmp_path: Path) -> None:
    request = Request.of(family=str(SAXPY), problem="", policy="default", device="cpu")
    for allowed in (True, False):
        with serving(tmp_path / f"{allowed}.db", allow_family_upload=allowed) as service:
            assert register(service.client(), "w1").status_code == 200
            client = Client(HOME, transport=Inside(service.app, service.portal), attempts=1)
            request.submit(client)
            location = client.family(request.package.digest).location or ""
            assert location.startswith("bundle:") if allowed else location == str(SAXPY)


def test_family_uploads_are_off_by_default(tmp_path: Path) -> None:
    with serving(tmp_path / "evo.db") as service:
        refused = _put(service, pack(FAMILY))
        assert (refused.status_code, "KERNEL_EVO_ALLOW_FAMILY_UPLOAD" in refused.text) == (403, True)
        assert service.client().get(f"{API}/families/{FAMILY.digest}").status_code == 404


def _put(service: Serving, content: bytes) -> httpx.Response:
    return service.client().put(f"{API}/families/{FAMILY.digest}/bundle", content=content)
