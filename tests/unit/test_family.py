"""Family documents are parsed strictly, and their declarations are evaluated for problem, device and config."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from jinja2.defaults import DEFAULT_NAMESPACE

from evo.device import Device, kind_of
from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.family import Family, Launch, Operand, Work
from evo.family.argument import Tolerance
from evo.family.scope import TEMPLATE_FUNCTIONS
from evo.space import EmptySpace
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.unit.family_document import CPU, CUDA, document, edited

OBJECTIVE = Objective(threads=3)


@pytest.fixture(scope="module")
def family() -> Family:
    return Family.from_document(document())


def test_family_document_is_unchanged_by_conversion_to_json_and_back(family: Family) -> None:
    again = Family.from_document(json.loads(json.dumps(family.document)))
    assert again.describe() == family.describe()
    json.dumps(family.describe(), allow_nan=False)


def test_problem_defaults_depend_on_the_device_kind(family: Family) -> None:
    assert family.problem("")["dtype"] == "float16"
    assert family.problem("ROWS=3", "cpu") == {"ROWS": 3, "COLS": 1024, "squared": False, "dtype": "float32"}
    assert family.problem("", "cuda")["dtype"] == "float16"


def test_unsupported_problem_is_refused_with_the_reason(family: Family) -> None:
    with pytest.raises(
        InvalidInput, match=r"cannot run on cpu; it violates .*\(the C kernel is float32 only\)"
    ) as raised:
        family.problem("dtype=float16", "cpu")
    assert raised.value.field == "problem"
    with pytest.raises(InvalidInput, match="does not run on replay, only on cpu, cuda"):
        family.problem("", "replay")


def test_space_depends_on_problem_and_device(family: Family) -> None:
    assert family.space(family.problem("", "cpu"), CPU, OBJECTIVE).valid_count == 4 * 3 * 2
    assert family.space(family.problem("COLS=4", "cpu"), CPU, OBJECTIVE).valid_count == 6 * 2
    assert family.space(family.problem("", "cuda"), CUDA, OBJECTIVE).valid_count == 9
    small = Device(kind="cpu", model="tiny", architecture="x86_64", uuid="u", limits={"l1_bytes": 2})
    with pytest.raises(EmptySpace, match=r"`step \* 4 <= l1_bytes` \(a step must fit the first cache\)") as raised:
        family.space(family.problem("", "cpu"), small, OBJECTIVE)
    assert raised.value.field == "family.toml: cpu.constraints[0].expression"


def test_error_for_an_empty_space_names_the_fields_of_the_problem() -> None:
    family = find("quantize_e4m3").family
    problem = family.problem("B=1,H=1,S=1,D=16", "cuda")
    with pytest.raises(EmptySpace) as raised:
        family.space(problem, known("sm_90"), OBJECTIVE)
    assert raised.value.field == "problem"
    told = r"with S=1, D=16 no config is valid: .*\(family.toml: cuda.constraints\[3\]\..*\); widen .*, or choose a.*"
    assert re.fullmatch(told, raised.value.reason)
    family = find("reduce").family
    with pytest.raises(EmptySpace, match=r"^problem.cols: with cols=1073741789 no config is valid: `steps <= 4096`"):
        family.space(family.problem("rows=1,cols=1073741789", "cuda"), known("sm_90"), OBJECTIVE)


def test_error_about_a_problem_larger_than_the_memory_states_its_size() -> None:
    family = find("gemm").family
    problem = family.problem("M=65536,N=65536,K=65536", "cuda")
    small = replace(known("sm_89"), memory_bytes=24 * 10**9)
    with pytest.raises(InvalidInput, match=r"problem: needs 60.1 GB .* L4 has 24.0 GB; choose a smaller problem"):
        family.check_device(problem, small)
    family.check_device(problem, replace(small, memory_bytes=None))
    family.check_device(problem, replace(small, memory_bytes=61 * 10**9))


def test_error_names_the_limit_that_the_device_does_not_report(family: Family) -> None:
    blind = Device(kind="cpu", model="blind", architecture="x86_64", uuid="u")
    with pytest.raises(InvalidInput, match="blind does not report its `l1_bytes`"):
        family.space(family.problem("", "cpu"), blind, OBJECTIVE)


def test_candidate_has_all_values_derived_from_its_config(family: Family) -> None:
    problem = family.problem("ROWS=2,COLS=10,squared=true", "cpu")
    candidate = family.candidate({"TILE": 4, "UNROLL": 2, "ORDER": "rows"}, problem, CPU, OBJECTIVE)
    assert candidate.derived == {"parts": 3, "step": 8}
    assert candidate.launch is None
    assert candidate.operands == (
        Operand(name="x", role="input", dtype="float32", shape=(2, 10)),
        Operand(name="factor", role="scalar", dtype="float32", value=0.5),
        Operand(name="partial", role="workspace", dtype="float32", shape=(2, 3)),
        Operand(
            name="out",
            role="output",
            dtype="float32",
            shape=(2, 10),
            tolerance=Tolerance(rel_l2=1e-6, max_abs_ratio=2),
        ),
    )


def test_cuda_candidate_has_a_launch_and_its_own_argument_order(family: Family) -> None:
    problem = family.problem("ROWS=5,COLS=1000", "cuda")
    candidate = family.candidate({"BLOCK": 128, "ITEMS": 2}, problem, CUDA, OBJECTIVE)
    assert candidate.launch == Launch(grid=(4, 5, 1), block=(128, 1, 1), shared_memory_bytes=1024)
    assert [operand.name for operand in candidate.operands] == ["out", "x", "factor"]


def test_operands_and_work_depend_only_on_the_problem(family: Family) -> None:
    problem = family.problem("ROWS=5,COLS=7", "cuda")
    assert [(operand.name, operand.shape) for operand in family.operands(problem)] == [("x", (5, 7)), ("out", (5, 7))]
    assert family.work(problem) == Work(flops=35.0, bytes=140.0, dtype="float32")
    assert Family.from_document(edited("work", None)).work(problem) is None


@pytest.mark.parametrize("count", ["flops", "bytes", "exponentials"])
def test_problem_with_negative_work_is_refused(count: str) -> None:
    family = Family.from_document(edited(f"work.{count}", "(ROWS - 8) * COLS"))
    assert family.problem("ROWS=8,COLS=7", "cuda")["ROWS"] == 8
    with pytest.raises(InvalidInput, match=r"`\(ROWS - 8\) \* COLS` is -21 for this problem, but must be") as refusal:
        family.problem("ROWS=5,COLS=7", "cuda")
    assert refusal.value.field.endswith(f"work.{count}")


def test_cases_are_the_searched_problem_and_its_variations(family: Family) -> None:
    nominal, tail = family.case_problems(family.problem("ROWS=100", "cpu"), "cpu")
    assert nominal.problem == family.problem("ROWS=100", "cpu")
    assert tail.problem == family.problem("ROWS=28,COLS=17", "cpu")
    assert (nominal.case.hidden, tail.case.hidden) == (False, True)


def test_case_changes_are_computed_for_the_default_problem(family: Family) -> None:
    default = family.problem()
    rows = max(1, int(default["ROWS"]) // 4 + 3)
    assert family.case_changes() == {"nominal": {}, "tail": {"ROWS": rows, "COLS": 17}}
    without = Family.from_document(edited("problem.ROWS.default", None))
    assert without.case_changes() is None, "there is no default problem"


def test_case_problem_applies_to_later_cases_without_their_own_problem() -> None:
    changed = document() | {"case_problem": {"ROWS": "min(ROWS, 64)"}}
    changed["cases"].append({"name": "ones", "inputs": "ones"})
    family = Family.from_document(changed)
    nominal, tail, ones = family.case_problems(family.problem("ROWS=100", "cpu"), "cpu")
    assert nominal.problem == family.problem("ROWS=100", "cpu")
    assert tail.problem == family.problem("ROWS=28,COLS=17", "cpu")
    assert ones.problem == family.problem("ROWS=64", "cpu")
    small, _, the_same = family.case_problems(family.problem("ROWS=50", "cpu"), "cpu")
    assert small.problem == the_same.problem


def test_case_with_a_problem_field_out_of_range_is_reported_without_an_exception() -> None:
    family = Family.from_document(edited("cases.1.problem.ROWS", "ROWS - 65536"))
    case = family.case_problems(family.problem("", "cpu"), "cpu")[1]
    assert case.problem is None
    assert case.refusal is not None
    assert "problem.ROWS: -65408 is out of range" in case.refusal


def test_violations_list_the_broken_constraints_of_a_config(family: Family) -> None:
    config: Config = {"TILE": 8, "UNROLL": 4, "ORDER": "rows"}
    (broken,) = family.violations(config, family.problem("COLS=17", "cpu"), CPU, OBJECTIVE)
    assert broken.because == "a step is no longer than a row"
    assert family.violations(config, family.problem("", "cpu"), CPU, OBJECTIVE) == []


def test_number_of_threads_and_device_limits_are_integers_in_expressions() -> None:
    family = Family.from_document(edited("cpu.derived.share", "cores // 2 + threads"))
    candidate = family.candidate({"TILE": 1, "UNROLL": 1, "ORDER": "rows"}, family.problem("", "cpu"), CPU, OBJECTIVE)
    assert repr(candidate.derived["share"]) == "4"


def test_recording_is_a_family_for_the_replay_device() -> None:
    tunables = {"min": {"values": [1, 2]}, "threads": {"values": [32, 64]}}
    family = Family.from_document(
        {"name": "rec-1", "recording": True, "replay": {"tunables": tunables, "valid_keys": ["1,32", "2,64"]}}
    )
    replay = Device(kind="replay", model="recorded", architecture="digest", uuid="u")
    space = family.space(family.problem("", "replay"), replay, OBJECTIVE)
    assert (space.product_size, space.valid_count) == (4, 2)
    assert family.cases == ()
    assert family.work({}) is None
    assert family.describe()["implementations"]["replay"]["configs"] == 2


START = {"expression": "True", "because": "x"}

WRONG: list[tuple[str, Any, str, str]] = [
    # each entry: path, value at the path, field of the error, part of the reason
    ("name", None, "name", "is missing; set it to a name"),
    ("name", "a b", "name", "is not a name"),
    ("name", 7, "name", "must be a name"),
    ("titel", "x", "titel", "there is no `titel`; did you mean `title`"),
    ("problem.ROWS.typ", "int", "problem.ROWS.typ", "did you mean `type`"),
    ("problem.ROWS.type", "integer", "problem.ROWS.type", "did you mean `int`"),
    ("problem.ROWS.min", True, "problem.ROWS.min", "must be a whole number"),
    ("problem.ROWS.min", 70000, "problem.ROWS.min", "is above max"),
    ("problem.ROWS.default", 0, "problem.ROWS.default", "out of range"),
    ("problem.ROWS.default", True, "problem.ROWS.default", "not a whole number"),
    ("problem.ROWS.choices", ["a"], "problem.ROWS.choices", "there is no `choices`"),
    ("problem.squared.default", 0, "problem.squared.default", "neither true nor false"),
    ("problem.dtype.choices", [], "problem.dtype.choices", "is missing"),
    ("problem.dtype.choices", ["a", "a"], "problem.dtype.choices", "contains 'a' twice; write [\"a\"]"),
    ("problem.dtype.choices", ["a b"], "problem.dtype.choices", "'a b' is not a valid choice; use at most 100 letters"),
    ("problem.dtype.choices", ["a" * 101], "problem.dtype.choices", "is not a valid choice; use at most 100 letters"),
    ("problem.dtype.choices", ["a" * 10_001], "problem.dtype.choices[0]", "is 10,001 characters long"),
    ("title", "x" * 10_001, "title", "is 10,001 characters long; the limit is 10,000"),
    (f"problem.{'x' * 65}", {"type": "int"}, f"problem.{'x' * 65}", "at most 64 letters, digits and underscores"),
    ("problem.dtype.choices", ["float32", 16], "problem.dtype.choices[1]", "must be a string"),
    ("problem.dtype.choices", ["float32", "float16", "fp8"], "arguments[0].dtype", "there is no `fp8`"),
    ("problem.if", {"type": "int"}, "problem.if", "is reserved in"),
    ("problem.max", {"type": "int"}, "problem.max", "is reserved in"),
    ("problem.threads", {"type": "int"}, "problem.threads", "is reserved in"),
    ("problem.cores", {"type": "int"}, "problem.cores", "is the name of a device limit"),
    ("problem.x-y", {"type": "int"}, "problem.x-y", "a name must have at most 64 letters"),
    ("problem.ROWS", 7, "problem.ROWS", "must be a table"),
    ("arguments.0.role", "in", "arguments[0].role", "there is no `in`"),
    ("arguments.0.shape", None, "arguments[0].shape", "is missing"),
    ("arguments.0.shape", "ROWS", "arguments[0].shape", "must be a list"),
    ("arguments.0.shape", ["ROW"], "arguments[0].shape[0]", "did you mean `ROWS`"),
    ("arguments.0.shape", ["TILE"], "arguments[0].shape[0]", "there is no `TILE`. Problem fields"),
    ("arguments.0.shape", [[]], "arguments[0].shape[0]", "must be an expression in quotes"),
    ("arguments.0.rel_l2", 1e-3, "arguments[0].rel_l2", "there is no `rel_l2`"),
    ("arguments.0.name", "out", "arguments[3].name", "is declared twice"),
    ("arguments.1.value", None, "arguments[1].value", "is missing"),
    ("arguments.1.shape", ["ROWS"], "arguments[1].shape", "there is no `shape`"),
    (
        "arguments.3.rel_l2",
        None,
        "arguments[3].rel_l2",
        "is missing; set it to the largest relative L2 error",
    ),
    ("arguments.3.max_abs_ratio", None, "arguments[3].max_abs", "is missing; set either"),
    ("arguments.3.max_abs", 1, "arguments[3].max_abs", "set either"),
    ("arguments.3.role", "workspace", "arguments[3].rel_l2", "there is no `rel_l2`"),
    ("arguments", [], "arguments", "no argument is an output"),
    ("work.flops", "ROWS *", "work.flops", "not an expression"),
    ("work.flops", "ROWS * TILE", "work.flops", "there is no `TILE`"),
    ("work.dtype", "half", "work.dtype", "`half` is named `float16` in family.toml"),
    ("cases", [], "cases", "is missing or empty; add a case, e.g. cases = [{ name = "),
    ("cases.0.name", "n" * 65, "cases[0].name", "is not a name: at most 64 letters"),
    ("cases.0.problem", {"ROWS": "1"}, "cases", "the first case is timed, so it must not change the problem"),
    ("case_problem", {"ROWS": "rows"}, "case_problem.ROWS", "did you mean `ROWS`"),
    ("case_problem", {"HEADS": "1"}, "case_problem.HEADS", "there is no `HEADS`"),
    ("case_problem", "ROWS", "case_problem", "must be a table"),
    ("cases.1.problem.ROWS", "rows", "cases[1].problem.ROWS", "did you mean `ROWS`"),
    ("cases.1.problem.HEADS", "1", "cases[1].problem.HEADS", "there is no `HEADS`"),
    ("cases.1.name", "nominal", "cases[1].name", "is declared twice"),
    ("cases.1.instead_of", "nominal", "cases[1].instead_of", "must name an earlier case other than the first"),
    ("cases.1.hidden", "yes", "cases[1].hidden", "must be true or false"),
    ("cases.0.mixed", 0, "cases[0].mixed", "must be true or false"),
    ("cases.1.inputs", None, "cases[1].inputs", "is missing"),
    ("cpu.template", None, "cpu.template", "is missing; set one of them: template (Jinja2) or source"),
    ("cpu.source", "kernel.c", "cpu.template", "cannot be combined with `source`; remove one of them"),
    ("cpu.template", "../kernel.c.j2", "cpu.template", "the path of a file in the family's folder"),
    ("cpu.template", "/etc/passwd", "cpu.template", "the path of a file in the family's folder"),
    ("cpu.entry", "scale()", "cpu.entry", "is not a plain function name"),
    ("cpu.arguments", ["x"], "cpu.arguments", "must contain the output `out`"),
    ("cpu.arguments", ["x", "x", "out"], "cpu.arguments[1]", "`x` is listed twice; remove one"),
    (
        "cpu.arguments",
        ["x", "y", "out"],
        "cpu.arguments[1]",
        "there is no `y`. Arguments of the family: factor, out, partial, x",
    ),
    ("cpu.constraints", ["T == 'a'"], "cpu.constraints[0]", """write { expression = "T == 'a'", because = "why"""),
    ("cpu.flags", "-O3", "cpu.flags", "must be a list"),
    ("cpu.flags", [""], "cpu.flags[0]", "is empty; remove it"),
    ("arguments.0.alignment", 24, "arguments[0].alignment", "a power of two up to 4096, in bytes, not 24"),
    ("arguments.0.alignment", 8192, "arguments[0].alignment", "a power of two up to 4096, in bytes, not 8192"),
    ("arguments.0.alignment", "32", "arguments[0].alignment", "must be a whole number, not '32'"),
    ("arguments.0.min", "1", "arguments[0].min", "applies only to integer inputs, such as lengths"),
    ("arguments.1.alignment", 32, "arguments[1].alignment", "there is no `alignment`"),
    ("cpu.requires", [{"expression": "TILE > 1", "because": "x"}], "cpu.requires[0].expression", "there is no `TILE`"),
    ("cpu.requires", [{"expression": "ROWS > 1"}], "cpu.requires[0].because", "is missing; set it to a sentence"),
    ("cpu.starts", [{"expression": "TILE > 1", "because": "x"}], "cpu.starts[0].expression", "there is no `TILE`"),
    ("cpu.starts", [{"expression": "True", "because": "x"}], "cpu.starts[0].config", "list the tunables that differ"),
    ("cpu.starts", [START | {"config": {"TILE": 3}}], "cpu.starts[0].config.TILE", "3 is not one of 1, 2, 4, 8"),
    ("cpu.starts", [START | {"config": {"TILES": 2}}], "cpu.starts[0].config.TILES", "did you mean `TILE`"),
    ("cpu.defaults", {"ROWS": 0}, "cpu.defaults.ROWS", "out of range"),
    ("cpu.defaults", {"rows": 1}, "cpu.defaults.rows", "did you mean `ROWS`"),
    ("cpu.launch", {"grid": ["1"]}, "cpu.launch", "there is no `launch`"),
    ("cpu.tunables", {}, "cpu.tunables", "at least one tunable"),
    ("cpu.tunables.TILE", 4, "cpu.tunables.TILE", "a list of values such as [1, 2, 4], or a table, not 4"),
    ("cpu.tunables.TILE", "1,2", "cpu.tunables.TILE", "a list of values such as [1, 2, 4], or a table, not '1,2'"),
    ("cpu.tunables.TILE.values", [], "cpu.tunables.TILE.values", "has 0 values"),
    ("cpu.tunables.TILE.values", [1, True], "cpu.tunables.TILE.values", "mixes"),
    ("cpu.tunables.TILE.values", [1, 2, 2, 4], "cpu.tunables.TILE.values", "the same"),
    ("cpu.tunables.TILE.values", [4, float("nan")], "cpu.tunables.TILE.values", "cannot be a value"),
    (
        "cpu.tunables.TILE.values",
        "1, 2",
        "cpu.tunables.TILE.values",
        "must be a list, not '1, 2'; write values = [1, 2]",
    ),
    (
        "arguments.0.dtype",
        "float",
        "arguments[0].dtype",
        'is named `float32` in family.toml; write dtype = "float32"',
    ),
    (
        "arguments.0.dtype",
        "Double",
        "arguments[0].dtype",
        'is named `float64` in family.toml; write dtype = "float64"',
    ),
    (
        "arguments.0.dtype",
        "bf16",
        "arguments[0].dtype",
        'is named `bfloat16` in family.toml; write dtype = "bfloat16"',
    ),
    ("cpu.tunables.TILE.values", None, "cpu.tunables.TILE.values", "is missing"),
    ("cpu.tunables.TILE.default", 3, "cpu.tunables.TILE.default", "3 is not one of 1, 2, 4, 8"),
    ("cpu.tunables.TILE.default", True, "cpu.tunables.TILE.default", "true is not one of"),
    ("cpu.tunables.TILE.kind", "number", "cpu.tunables.TILE.kind", "there is no `number`"),
    ("cpu.tunables.TILE.value", [1], "cpu.tunables.TILE.value", "did you mean `values`"),
    ("cpu.tunables.ROWS", [1, 2], "cpu.tunables.ROWS", "is declared twice"),
    ("cpu.tunables.l1_bytes", [1, 2], "cpu.tunables.l1_bytes", "is the name of a device limit"),
    ("cpu.tunables.loop", [1, 2], "cpu.tunables.loop", "is reserved in"),
    ("cpu.tunables.range", [1, 2], "cpu.tunables.range", "is reserved in"),
    ("cpu.derived.TILE", "1", "cpu.derived.TILE", "is declared twice"),
    ("cpu.derived.cores", "1", "cpu.derived.cores", "is the name of a device limit"),
    ("cpu.derived.parts", "step // 2", "cpu.derived.parts", "there is no `step`"),
    ("cpu.derived.step", "TILE @ 2", "cpu.derived.step", "`TILE @ 2` is not available"),
    ("cpu.constraints.0.expression", "stop * 4 < 1", "cpu.constraints[0].expression", "did you mean `step`"),
    ("cpu.constraints.0.expression", "sm_count > 1", "cpu.constraints[0].expression", "there is no `sm_count`"),
    (
        "cpu.constraints.0.expression",
        '"TILE > 1"',
        "cpu.constraints[0].expression",
        'for every config; write `"TILE > 1"`',
    ),
    ("cpu.constraints.0.expression", "True", "cpu.constraints[0].expression", "contains no tunable, field or limit"),
    ("cpu.constraints.0.expression", "2 > 1", "cpu.constraints[0].expression", "contains no tunable, field or limit"),
    ("cpu.constraints.0.because", "", "cpu.constraints[0].because", "must be a sentence"),
    ("cpu.constraints", {}, "cpu.constraints", "must be a list"),
    ("cuda.launch", None, "cuda.launch.grid", "one to three expressions"),
    ("cuda.launch.block", [1, 1, 1, 1], "cuda.launch.block", "one to three expressions"),
    ("cuda.launch.block", ["BLOK"], "cuda.launch.block[0]", "did you mean `BLOCK`"),
    ("cuda.launch.cluster", [2], "cuda.launch.cluster", "in the source, e.g. `__global__ __cluster_dims__(2, 1, 1)"),
    ("cuda.launch.min_blocks", 2, "cuda.launch.min_blocks", "there is no `min_blocks`"),
    ("rocm", {}, "rocm", "there is no `rocm`"),
    ("replay", {}, "replay", "there is no `replay`"),
    ("recording", True, "replay.tunables", "at least one tunable"),
]


@pytest.mark.parametrize(("path", "value", "field", "reason"), WRONG, ids=[f"{row[0]}={row[1]!r:.30}" for row in WRONG])
def test_error_names_the_key_of_an_invalid_family_document(path: str, value: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Family.from_document(edited(path, value))
    assert raised.value.field == f"family.toml: {field}"
    assert reason in raised.value.reason


def test_stored_families_may_break_rules_that_apply_to_new_families() -> None:
    stored = Family.from_document(edited("cpu.flags", ["-O0"]))
    with pytest.raises(InvalidInput, match="turns off optimisations") as refused:
        stored.check_new()
    assert refused.value.field == "family.toml: cpu.flags[0]"


def test_family_document_without_an_implementation_is_refused() -> None:
    whole = document()
    del whole["cpu"], whole["cuda"]
    with pytest.raises(InvalidInput, match=r"cpu: is missing"):
        Family.from_document(whole)


@pytest.mark.parametrize("whole", [None, [], "name = 1", {1: 2}, {"name": "x" * 20_000}])
def test_value_that_is_not_a_table_is_refused_as_family_document(whole: Any) -> None:
    with pytest.raises(InvalidInput):
        Family.from_document(whole, "document")


@pytest.mark.parametrize("values", [{"t" + str(n): [1] for n in range(300)}, {"T": list(range(20_000))}])
def test_excessively_large_family_documents_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Family.from_document(edited("cpu.tunables", values))


def test_string_values_of_source_families_must_be_valid_macro_values() -> None:
    whole = edited("cpu.template", None)
    whole["cpu"]["source"] = "kernel.c"
    Family.from_document(whole)
    whole["cpu"]["tunables"]["ORDER"]["values"] = ["rows", "cols-first"]
    with pytest.raises(InvalidInput, match="`cols-first` of ORDER cannot be a macro value"):
        Family.from_document(whole)
    whole["cpu"]["tunables"]["ORDER"]["values"] = ["1", "2.5", "8"]
    with pytest.raises(
        InvalidInput, match=r"`1` of ORDER cannot be a macro value; write the values as numbers: \[1, 2\.5, 8\]"
    ):
        Family.from_document(whole)


@pytest.mark.parametrize(
    ("name", "file", "meaning"),
    [
        ("int", "kernel.c", "a keyword of C"),
        ("restrict", "kernel.c", "a keyword of C"),
        ("_Bool", "kernel.c", "a keyword of C"),
        ("typename", "kernel.cpp", "a keyword of C++"),
        ("co_await", "kernel.cpp", "a keyword of C++"),
        ("int", "k.cc", "a keyword of C++"),
        ("xor", "k.cc", "an operator of C++"),
        ("compl", "k.cc", "an operator of C++"),
        ("bitand", "k.cc", "an operator of C++"),
        ("defined", "kernel.c", "a preprocessor operator of C"),
        ("NULL", "kernel.c", "a macro of the C library"),
        ("INT_MAX", "kernel.c", "a macro of the C library"),
        ("__VA_ARGS__", "kernel.c", "reserved for compilers"),
        ("__x86_64__", "kernel.c", "reserved for compilers"),
    ],
)
def test_tunable_of_a_source_family_must_not_be_named_like_a_keyword(name: str, file: str, meaning: str) -> None:
    whole = edited("cpu.template", None)
    whole["cpu"]["source"] = file
    whole["cpu"]["tunables"][name] = [1, 2]
    with pytest.raises(InvalidInput, match=rf"`{name}` becomes the macro `{name}`, .* {re.escape(meaning)}.*; rename"):
        Family.from_document(whole)
    declared = [*whole["problem"], *whole["cpu"]["tunables"]]
    Family.from_document(whole | {"cpu": {**whole["cpu"], "macro_prefix": "TUNED_"}})
    Family.from_document(whole | {"cpu": {**whole["cpu"], "macros": [each for each in declared if each != name]}})


@pytest.mark.parametrize("name", ["xor", "compl", "linux", "unix", "NAN", "match", "co_await", "_N"])
def test_tunable_named_like_xor_linux_or_nan_is_accepted_in_c(name: str) -> None:
    whole = edited("cpu.template", None)
    whole["cpu"]["source"] = "kernel.c"
    whole["cpu"]["tunables"][name] = [1, 2]
    Family.from_document(whole)


@pytest.mark.parametrize(
    ("name", "kind"), [("UNROLL", "tunable"), ("ROWS", "problem field"), ("parts", "derived value")]
)
def test_flags_cannot_define_the_macros_of_a_source(name: str, kind: str) -> None:
    whole = edited("cpu.template", None)
    whole["cpu"] |= {"source": "kernel.c", "flags": [f"-D{name}=8"]}
    with pytest.raises(InvalidInput, match=f"{name} is a {kind}") as refused:
        Family.from_document(whole)
    assert refused.value.field == "family.toml: cpu.flags[0]"
    whole["cpu"]["macro_prefix"] = "TUNED_"
    Family.from_document(whole)


def test_tunable_named_like_a_cpp_keyword_is_accepted_in_c() -> None:
    whole = edited("cpu.template", None)
    whole["cpu"]["source"] = "kernel.c"
    whole["cpu"]["tunables"]["typename"] = [1, 2]
    family = Family.from_document(whole)
    assert "typename" in [each.name for each in family.implementation("cpu").tunables]


def test_error_names_the_shape_expression_with_an_invalid_value() -> None:
    family = Family.from_document(edited("arguments.2.shape", ["ROWS", "parts - 256"]))
    problem = family.problem("", "cpu")
    with pytest.raises(
        InvalidInput, match=r"arguments\[2\]\.shape\[1\]: `parts - 256` evaluates to 0, but must be at least 1"
    ):
        family.candidate({"TILE": 4, "UNROLL": 1, "ORDER": "rows"}, problem, CPU, OBJECTIVE)


def test_device_limits_do_not_include_threads() -> None:
    assert "threads" not in kind_of("cpu").limits | kind_of("cuda").limits


@pytest.mark.parametrize("role", ["in_out", "output_input", "restore_value", "inptu"])
def test_error_for_an_unknown_role_explains_in_place_arguments(role: str) -> None:
    made = document()
    made["arguments"][0]["role"] = role
    with pytest.raises(InvalidInput, match=r'changes in place, write role = "inout"') as refused:
        Family.from_document(made)
    assert refused.value.field == "family.toml: arguments[0].role"
    assert "inout, input, output, scalar, workspace" in refused.value.reason


def test_jinja_function_names_are_reserved() -> None:
    assert set(DEFAULT_NAMESPACE) == TEMPLATE_FUNCTIONS


@pytest.mark.parametrize(
    ("name", "problem", "expected"),
    [
        ("sdpa", "B=4,H=16,S=2048,D=64", ("B", "H", "S")),
        ("gemm", "M=4096,N=4096,K=4096", ("M", "N", "batch")),
        ("softmax", "rows=4096,cols=1024", ("rows",)),
    ],
)
def test_blocks_are_distributed_over_the_fields_that_determine_the_grid(
    name: str, problem: str, expected: tuple[str, ...]
) -> None:
    family, device = find(name).family, known("sm_90")
    values = family.problem(problem, "cuda")
    config = family.space(values, device, OBJECTIVE).default()
    assert family.distributed_over(config, values, device, OBJECTIVE) == expected


def test_cpu_function_is_not_distributed_over_blocks(family: Family) -> None:
    config: Config = {"TILE": 4, "UNROLL": 2, "ORDER": "rows"}
    assert family.distributed_over(config, family.problem("", "cpu"), CPU, OBJECTIVE) is None
