"""Pages of kernel families. The list also contains families that cannot be read, with the reasons."""

from fastapi import Request
from fastapi.responses import HTMLResponse

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import page_router
from api.web.pages.start.candidate import candidates
from api.web.rendering import render
from evo.errors import InvalidInput, NotFound
from evo.text.suggestion import unknown
from templates import registry

router = page_router("/families")


@router.get("")
@allow("viewer")
def families_page(request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        families = candidates(session)
    described, broken = [], registry.broken()
    for each in families:
        try:
            described.append((each, each.family.describe()))
        except InvalidInput as error:  # the document was registered by a different version of kernel-evo
            broken.append(registry.Broken(name=each.name, reason=str(error)))
    return render(request, "families/families.html", families=described, broken=broken)


@router.get("/{name}")
@allow("viewer")
def family_page(name: str, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        families = {each.name: each for each in candidates(session)}
    if name not in families:
        raise NotFound(unknown(name, families, "families"))
    chosen = families[name]
    described, changes = chosen.family.describe(), chosen.family.case_changes()
    return render(request, "families/family.html", family=chosen, described=described, changes=changes)
