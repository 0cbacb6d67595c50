"""Fetches a champion from the service and writes it as a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evo.cli.files.writing import write_folder, writing_to
from evo.client import Client
from evo.errors import Conflict, InvalidInput, NotFound
from evo.export.bundle import Bundle, refuse_unexportable
from evo.export.headers import NAME as HEADERS
from evo.export.headers import unpack_headers
from evo.export.runner_up import RunnerUp
from evo.family import Family
from evo.messages.view import ChampionView, TrialView
from evo.trial.outcome import Measured


def fetch(client: Client, champion: ChampionView) -> Bundle:
    """Return a champion with its files, fetched from the service.

    Raises:
        InvalidInput: the champion's device is neither a CPU nor a CUDA device.
        NotFound: the files of the champion are not in the artefact store of the service.
    """
    search = client.search(champion.search_id)
    refuse_unexportable(champion, search)
    family = Family.from_document(client.family(champion.family_digest or champion.family).document)
    source, library = (_artefact(client, champion, name) for name in ("source", "binary"))
    ptx = _artefact(client, champion, "ptx") if "ptx" in champion.artefacts else None
    return Bundle(
        champion=champion,
        search=search,
        family=family,
        source=source,
        library=library,
        ptx=ptx,
        headers=_headers(client, champion.artefacts),
        page=client.champion_report(champion.id),
    )


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The fastest kernels of a champion's search.

    Attributes:
        own: the trial of the champion.
        others: the best other trials of the search, best first.
        bare: numbers of trials that were skipped because their source or binary is not stored.
    """

    own: TrialView
    others: list[RunnerUp]
    bare: list[int]


def ranking(client: Client, bundle: Bundle, count: int) -> Ranking:
    """Return a champion's trial, and at most `count` of the fastest other trials of its search.

    Of several trials with the same binary, only the best is returned.
    """
    champion, found, bare = bundle.champion, list[RunnerUp](), list[int]()
    own = client.numbered_trial(champion.search_id, champion.trial_number)
    known = {own.binary_digest}
    for rank, trial in enumerate(client.every_trial(champion.search_id, sort="rank"), start=1):
        if len(found) == count or not isinstance(trial.outcome, Measured):
            break
        if trial.number == champion.trial_number or trial.binary_digest in known:
            continue
        known.add(trial.binary_digest)
        if not {"source", "binary"} <= trial.artefacts.keys():
            bare.append(trial.number)
            continue
        source, library = (client.artefact(trial.artefacts[name]) for name in ("source", "binary"))
        found.append(
            RunnerUp(
                search=bundle.search,
                family=bundle.family,
                source=source,
                library=library,
                ptx=client.artefact(trial.artefacts["ptx"]) if "ptx" in trial.artefacts else None,
                headers=_headers(client, trial.artefacts),
                trial=client.numbered_trial(champion.search_id, trial.number),
                outcome=trial.outcome,
                rank=rank,
                champion=champion.id,
            )
        )
    return Ranking(own=own, others=found, bare=bare)


def successor(client: Client, retired: ChampionView) -> ChampionView | None:
    """Return the current champion for the same family, problem, device model and objective; None if there is none."""
    present = client.champions(family=retired.family, problem=retired.problem_key, device=retired.device_model).items
    return next((each for each in present if each.objective == retired.objective), None)


def write(contents: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Write files into a new or empty folder, and return their paths.

    Args:
        contents: content of each file, by its path in the folder.

    Raises:
        Conflict: the folder is not empty.
        InvalidInput: `folder` is a file.
        EvoError: the folder cannot be written.
    """
    with writing_to(folder):
        if folder.exists() and not folder.is_dir():
            raise InvalidInput("--to", f"{folder} is not a folder; choose an empty folder, or a new one")
        if folder.exists() and any(folder.iterdir()):
            raise Conflict(f"{folder} is not empty; choose another folder with --to, or remove it first")
        return write_folder(folder, contents)


def _artefact(client: Client, champion: ChampionView, name: str) -> bytes:
    if name not in champion.artefacts:
        raise NotFound(f"champion {champion.id} has no stored {name}; measure it again to store one")
    return client.artefact(champion.artefacts[name])


def _headers(client: Client, artefacts: Mapping[str, str]) -> dict[str, bytes]:
    return unpack_headers(client.artefact(artefacts[HEADERS])) if HEADERS in artefacts else {}
