"""The commands of the documentation parse, links lead to targets, and excerpts come from example families."""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from typer.main import get_command

from evo.cli.files.variant import read_variant_files
from evo.cli.main import app
from evo.cli.session.request import read_policy
from evo.family import Family
from evo.promotion import judgement, rules
from evo.promotion.goal import Goal
from evo.promotion.policy import DECLARED, Policy, policy_from
from evo.promotion.rules.base import MARKED
from evo.promotion.verdict import Rule
from evo.strategy import Context
from evo.text.assignments import split_assignments, split_shapes
from evo.trial import Value
from evo.trial.history import History
from evo.trial.objective import Objective
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing
from evo.variants import proposers
from templates import registry
from templates.render import used_names
from tests.unit.landscapes import SPACES, advance, measured

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
EXAMPLES = GUIDES / "examples"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PRESENT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
PAGES = [*DOCUMENTS, *sorted((ROOT / "templates").rglob("*.md")), *sorted((ROOT / "tests").rglob("*.md"))]
FAMILIES = {
    "your-kernel.md": "saxpy",
    "existing-source.md": "my_transpose",
    "cuda-kernel.md": "column_sums",
    "triton-kernel.md": "row_softmax",
    "python-family.md": "saxpy_python",
}
SHELL = re.compile(r"\s(?:&&?|\||>|2>)\s")
"""Matches an operator of the shell, which ends a command."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SOURCE = re.compile(r"\b(?:evo|api|workers|db|templates|tests|docs)/[\w./-]+\.(?:py|c|cu|cuh|js|json|md|sh|toml)\b")
WRITTEN_BY_THE_READER = {
    "evo/strategy/hill_climb.py",
    "evo/promotion/rules/rounds.py",
    "tests/unit/test_rounds.py",
    "evo/variants/proposers/program.py",
    "api/rest/outcomes.py",
    "tests/integration/test_outcomes.py",
    "api/v1/openapi.json",
}
"""Paths that the guides ask the reader to create, and an address of the service that looks like a path."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each ``kernel-evo`` command in a fenced block of a document."""
    for path in DOCUMENTS:
        for language, block in FENCE.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines() if language in ("", "sh", "bash") else ():
                for part in SHELL.split(line):
                    words = shlex.split(part, comments=True) if part.strip().startswith("kernel-evo ") else []
                    if words:
                        yield path.name, words[1:]


@pytest.mark.parametrize(("document", "arguments"), list(commands()), ids=str)
def test_documented_command_is_parsed(document: str, arguments: list[str]) -> None:
    command: Any = get_command(app)
    name = "kernel-evo"
    while hasattr(command, "commands") and not (command.invoke_without_command and not arguments):
        name, *arguments = arguments
        command = command.commands[name]
    given = command.make_context(name, arguments).params
    if "problem" in given and (family := documented_family(given["family"])) is not None:
        for problem in split_shapes(given["problem"]):
            family.problem(problem)
        check_objectives(given.get("objective") or (), family, family.problem(split_shapes(given["problem"])[0]))
        for kind, implementation in family.implementations.items():
            values = {each.name: each for each in implementation.tunables}
            for tunable, value in split_assignments(given.get("config") or "", "config").items():
                assert tunable in values, f"{tunable} on {kind}"
                values[tunable].parse(value, tunable)


def check_objectives(objectives: Sequence[str], family: Family, problem: Mapping[str, Value]) -> None:
    """Check that the metrics of a document use only quantities that are known on a supported device."""
    for each in objectives:
        _, _, metric = each.partition(":")
        if metric:
            tunables = {name for kind in family.implementations.values() for name in (t.name for t in kind.tunables)}
            goal = Goal.of(Objective(metric=metric.strip()), problem, flops=1.0, moved=1.0)
            assert goal is not None
            goal.check(tunables, compiled=True)


def documented_family(name: str | None) -> Family | None:
    """Return a built-in family or an example of the guides; None if the reader supplies the family."""
    if name is None or (registry.is_path(name) and not list((EXAMPLES / Path(name).name).glob("family.*"))):
        return None
    return registry.find(str(EXAMPLES / Path(name).name) if registry.is_path(name) else name).family


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each relative link of a page."""
    for groups in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
        target = "".join(groups)
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = unquote(target).partition("#")
            yield (path.parent / file).resolve() if file else path, anchor


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_the_documentation_lead_to_files_and_headings(path: Path) -> None:
    for target, anchor in links(path):
        assert target.exists(), f"{target.relative_to(ROOT)} does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{target.relative_to(ROOT)} has no heading #{anchor}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_of_documentation_tables_have_the_same_number_of_cells(path: Path) -> None:
    columns = 0
    for line in FENCE.sub("", path.read_text(encoding="utf-8")).splitlines():
        row = line.strip()
        if row.startswith("|"):
            assert row.endswith("|"), row
            cells = len(re.findall(r"(?<!\\)\|", row)) - 1
            assert cells == columns or not columns, row
            columns = cells
        else:
            columns = 0


@pytest.mark.parametrize("path", PRESENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_the_documentation_exist(path: Path) -> None:
    named = set(SOURCE.findall(path.read_text(encoding="utf-8"))) - WRITTEN_BY_THE_READER
    assert [file for file in sorted(named) if not (ROOT / file).exists()] == []


def test_trial_path_in_architecture_md_has_at_most_twelve_stops_with_existing_names() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    path = text[text.index("## The path of a trial") : text.index("## Packages")]
    stops = [line.strip("|").split("|") for line in path.splitlines() if re.match(r"\| \d+\. ", line)]
    assert [int(cells[0].partition(".")[0]) for cells in stops] == list(range(1, len(stops) + 1))
    assert 0 < len(stops) <= 12
    defined = {
        name
        for folder in ("evo", "api", "workers", "db")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"^(?:\s*(?:class|def) )?(\w+)(?=[(:])", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for _, module, does, message in stops:
        (file,) = re.findall(r"`([^`]+)`", module)
        assert (ROOT / file).is_file(), file
        for mentioned in re.findall(r"`(\w[\w.]*)(?:\([^`]*\))?`", does + message):
            owner, _, name = mentioned.rpartition(".")
            assert name == "py" or {name, *owner.split()} <= defined, f"{file}: {mentioned}"


def test_every_documentation_page_is_linked_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached, pending = set[Path](), [index]
    while pending:
        page = pending.pop()
        if page not in reached and page.suffix == ".md" and page.is_relative_to(ROOT / "docs"):
            reached.add(page)
            pending.extend(target for target, _ in links(page))
    guides = {path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs") and "decisions" not in path.parts}
    assert sorted(path.name for path in guides - reached) == []


@pytest.mark.parametrize("document", FAMILIES)
def test_documented_excerpts_are_in_the_example_family(document: str) -> None:
    folder = EXAMPLES / FAMILIES[document]
    files = "\n".join(path.read_text() for path in folder.iterdir() if path.is_file())
    pieces = [block for language, block in FENCE.findall((GUIDES / document).read_text()) if language]
    assert len(pieces) >= 4
    for piece in pieces:
        assert piece in files


def test_strategy_in_the_guide_proposes_valid_new_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every proposal is valid and new until the space is exhausted."""
    monkeypatch.setattr("evo.strategy.base.MARKED", {})
    module = next(
        block for _, block in FENCE.findall((GUIDES / "strategy.md").read_text()) if "class HillClimb" in block
    )
    names: dict[str, Any] = {}
    exec(module, names)
    space, history = SPACES["mixed"](), History()
    trials = advance(history, names["HillClimb"](Context(space=space)), space, measured, 60)
    assert len(trials) == min(60, space.valid_count or 60)
    assert len({space.key(trial.config) for trial in trials}) == len(trials)
    assert all(trial.config in space for trial in trials)
    assert {trial.proposal.origin for trial in trials} == {"random", "hill_climb"}


def test_example_proposer_of_the_guide_submits_the_output_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.variants.proposers.base.MARKED", {})
    guide = (GUIDES / "proposer.md").read_text()
    (module,) = [block for language, block in FENCE.findall(guide) if language == "python"]
    names: dict[str, Any] = {}
    exec(module, names)
    names |= {"brief_markdown": str, "subprocess": SimpleNamespace(run=answering_program)}
    submitted, said = list[Any](), list[str]()

    def submit(*given: Any, **terms: Any) -> Any:
        submitted.append((given, terms))
        return SimpleNamespace(ended=False, number=4)

    client: Any = SimpleNamespace(
        variant_brief=lambda search_id: f"brief of {search_id}",
        submit_variant=submit,
        variant=lambda *_: SimpleNamespace(ended=True, name="program", usable=True),
    )
    context = proposers.Context(argument="model -v", trials=3, say=said.append, read=read_variant_files)
    assert list(names["ProgramProposer"](context).propose(lambda: client, 7, "saxpy")) == [None]
    source = "['model', '-v'] read the brief of 7"
    assert submitted == [((7, {"kernel.c": source}), {"document": {"name": "program"}, "trials": 3})]
    assert said == ["saxpy: program works"]


def answering_program(command: list[str], *, input: str, **_: Any) -> Any:
    return SimpleNamespace(returncode=0, stdout=f"{command} read the {input}", stderr="")


def test_route_and_page_in_the_guide_accept_only_get_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (GUIDES / "rest-route.md").read_text()
    route, page, _ = (block for language, block in FENCE.findall(guide) if language == "python")
    rest = ModuleType("api.rest.outcomes")
    exec(route, rest.__dict__)
    monkeypatch.setitem(sys.modules, rest.__name__, rest)
    web: dict[str, Any] = {}
    exec(page, web)
    for router, path in (
        (rest.router, "/api/v1/searches/{search_id}/outcomes"),
        (web["router"], "/searches/{search_id}/outcomes"),
    ):
        assert [(each.path, each.methods) for each in router.routes] == [(path, {"GET"})]


def test_policy_in_the_guide_changes_one_threshold(tmp_path: Path) -> None:
    guide = (GUIDES / "promotion-rule.md").read_text()
    text, _ = [block for language, block in FENCE.findall(guide) if language == "toml"]
    (tmp_path / "strict.toml").write_text(text)
    assert policy_from(read_policy(str(tmp_path / "strict.toml"))) == replace(
        Policy(), name="custom", minimum_gain=0.05
    )


@pytest.fixture
def rule_of_the_guide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Add the guide's module to the package of rules; return its policy."""
    blocks = FENCE.findall((GUIDES / "promotion-rule.md").read_text())
    module, _ = [block for language, block in blocks if language == "python"]
    (tmp_path / "rounds.py").write_text(module)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    monkeypatch.setattr(judgement, "RULES", rules.discovered())
    yield [block for language, block in blocks if language == "toml"][1]
    del MARKED["rounds"], DECLARED["rounds"], sys.modules[f"{rules.__name__}.rounds"], rules.rounds  # type: ignore[attr-defined]


@pytest.mark.parametrize(("rounds", "passed"), [(50, [True]), (49, [False])])
def test_promotion_rule_in_the_guide_is_discovered_and_applied(
    rule_of_the_guide: str, tmp_path: Path, rounds: int, passed: list[bool]
) -> None:
    (tmp_path / "strict.toml").write_text(rule_of_the_guide)
    policy = policy_from(read_policy(str(tmp_path / "strict.toml")))
    assert [(rule.passed, rule.figure, rule.threshold) for rule in rules_on_rounds(policy, rounds)] == [
        (each, float(rounds), 50.0) for each in passed
    ]


@pytest.mark.usefixtures("rule_of_the_guide")
def test_promotion_rule_in_the_guide_is_off_by_default() -> None:
    assert rules_on_rounds(Policy(), 3) == []


@pytest.mark.usefixtures("rule_of_the_guide")
def test_test_of_the_promotion_rule_in_the_guide_passes() -> None:
    blocks = FENCE.findall((GUIDES / "promotion-rule.md").read_text())
    _, module = [block for language, block in blocks if language == "python"]
    names: dict[str, Any] = {}
    exec(module, names)
    (test,) = [each for name, each in names.items() if name.startswith("test_")]
    (cases,) = test.pytestmark
    for case in cases.args[1]:
        test(*case)


def rules_on_rounds(policy: Policy, rounds: int) -> list[Rule]:
    report = ConfirmReport(
        challenger=Timing(samples_us=(1.0, 2.0, 3.0, 4.0, 5.0) * (rounds // 5) + (1.0,) * (rounds % 5))
    )
    verdict = judgement.judge(report, policy, 1, np.random.default_rng(0))
    return [rule for rule in verdict.rules if rule.name == "rounds"]


def test_code_excerpts_in_the_readme_are_from_the_example_family() -> None:
    pieces = {language: block for language, block in FENCE.findall((ROOT / "README.md").read_text()) if language}
    assert pieces["cuda"] in (EXAMPLES / "saxpy_cuda" / "kernel.cu.j2").read_text()
    assert pieces["toml"] in (EXAMPLES / "saxpy_cuda" / "family.toml").read_text()


@pytest.mark.parametrize("name", FAMILIES.values())
def test_example_family_uses_every_declared_tunable(name: str) -> None:
    package = registry.find(str(EXAMPLES / name))
    family = package.family
    for kind, implementation in family.implementations.items():
        launch = repr(implementation.launch)
        declared = {tunable.name for tunable in implementation.tunables if tunable.name not in launch}
        assert declared <= used_names(package, kind)
        assert all(case.problem is not None for case in family.case_problems(family.problem("", kind), kind))


def test_package_version_equals_the_version_of_the_latest_release() -> None:
    released = re.findall(r"^## (\d+\.\d+\.\d+) ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == released[0]
    assert f"kernel_evo-{released[0]}-py3-none-any.whl" in (ROOT / "README.md").read_text()
