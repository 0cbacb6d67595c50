"""``folder:PATH`` submits the variants in the folder PATH/PROBLEM, one after another in the order of their names."""

from collections.abc import Callable, Iterator

from evo.client import Client
from evo.errors import EvoError, InvalidInput, NotFound
from evo.messages.view import VariantView
from evo.text.shell import with_home
from evo.text.wording import count_text
from evo.variants.proposers.base import Context, proposer


@proposer("folder")
class FolderProposer:
    """Submits each file and folder in PATH/PROBLEM as a variant, except those whose names begin with a dot."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = with_home(context.argument)
        if not self._folder.is_dir():
            raise InvalidInput(
                "--proposer", f"{self._folder} is not a folder; write folder:PATH with the path of an existing folder"
            )

    def propose(self, client: Callable[[], Client], search_id: int, problem: str) -> Iterator[None]:
        say, folder = self._context.say, self._folder / problem
        if not folder.is_dir():
            raise NotFound(f"{folder} does not exist: the proposer has no variants for this problem")
        for path in sorted(each for each in folder.iterdir() if not each.name.startswith(".")):
            files = self._context.read(path)
            brief = client().variant_brief(search_id)
            say(f"{problem}: the brief has {count_text(len(brief.tried), 'timed variant')}; submitting {path.name}")
            try:
                view = client().submit_variant(
                    search_id, files.files, document=files.document, parents=(0,), trials=self._context.trials
                )
            except EvoError as error:
                say(f"{problem}: {path.name} was refused: {error}")
                continue
            while not view.ended:
                yield
                view = client().variant(search_id, view.number)
            say(f"{problem}: {_result_text(view)}")


def _result_text(view: VariantView) -> str:
    if view.best is None:
        detail = view.failures[0].detail.strip().splitlines()[0] if view.failures else view.reason or ""
        return f"{view.name} does not work: {detail[:200]}"
    gain = "" if view.tuning_gain is None else f", tuning gain {view.tuning_gain:.2f}×"
    return f"{view.name}: {view.best.time_us:.4g} µs in {count_text(view.finished, 'trial')}{gain}"
