# Each target sets up what it needs in .venv; PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes: each would compile the modules again

.PHONY: bench-confirmation bench-short bench-operations bench-triton bench-verification bench-discovery bench-start bench-zoo bench-honest bench-microsecond bench-compiling bench-overhead bench-gpus help search test test-long test-gpu test-gpu-long check bench bench-gpu bench-ladder bench-events bench-strategy bench-verdict bench-throughput fuzz clean bench-fleet bench-web screenshots chaos

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 16

search: .venv/.installed    ## search attention on the best device of this machine, 3 minutes with all confirmations (ARGS="--minutes 5" to change)
	$(BIN)/kernel-evo search sdpa --minutes 1.5 $(ARGS)

test: .venv/.test           ## every test tier but gpu, without the long tests
	$(BIN)/python -m pytest -m "not gpu and not long" -n 5 --dist loadfile --no-loadscope-reorder tests/e2e tests/integration tests/unit $(ARGS)

test-long: .venv/.test      ## the long tests: the rest of the cases that compile, kills in three rounds, chaos, benches, a mission's rehearsal
	$(BIN)/python -m pytest -v -m "not gpu and long" -n 2 --dist loadfile tests/integration tests/e2e tests/unit $(ARGS)

test-gpu: .venv/.test       ## the tests that need a CUDA device
	$(BIN)/python -m pytest -v -m "gpu and not long" -n 4 --dist loadgroup tests/gpu $(ARGS)

test-gpu-long: .venv/.test  ## the GPU tests that take minutes each
	$(BIN)/python -m pytest -v -m "gpu and long" tests/gpu $(ARGS)

check: .venv/.check .venv/.test  ## format, lint, types, import contracts, packaging; types and lint of the pages' scripts
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/python -m tests.packaging
	$(BIN)/deno check --no-remote --no-npm --no-lock api/web/static && $(BIN)/deno lint --quiet api/web/static tests/integration/scripts

bench: .venv/.bench         ## the CPU figures of docs/results, in one run
	$(BIN)/python -m tests.bench.cpu $(ARGS)

bench-gpu: .venv/.bench     ## the GPU figures of docs/results
	$(BIN)/python -m tests.bench.gpu $(ARGS)

bench-gpus: .venv/.bench    ## the same, contests in parallel on all GPUs (ARGS="--within 1500 0 1 2")
	$(BIN)/python -m tests.bench.side_by_side $(ARGS)

bench-ladder: .venv/.bench  ## the steps of hand-written attention against each other and PyTorch, on this machine's GPU
	$(BIN)/python -m tests.bench.ladder $(ARGS)

bench-zoo: .venv/.bench     ## the zoo's calls against all baselines; --device cpu: in small (ARGS="--seconds 20 --within 500 rmsnorm")
	$(BIN)/python -m tests.bench.zoo $(ARGS)

bench-triton: .venv/.bench  ## Triton's tutorials, found configs against their own (ARGS="FOLDER --seconds 60 --helion 60 matmul")
	$(BIN)/python -m tests.bench.triton_tutorials $(ARGS)

bench-operations: .venv/.bench    ## ten operations by written variants against PyTorch, through brief and submit alone (ARGS="--out FOLDER rope")
	$(BIN)/python -m tests.bench.operations $(ARGS)

bench-overhead: .venv/.test    ## the overhead of a search, on a kernel with almost no work
	$(BIN)/python -m tests.bench.overhead $(ARGS)

bench-start: .venv/.test    ## seconds from the command to the first measured candidate, by stage (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.start $(ARGS)

bench-confirmation: .venv/.test  ## seconds of confirmations, by step (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.confirmation $(ARGS)

bench-short: .venv/.test    ## candidates per minute of a search of 0.4 minutes beside one of 2.4 (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.short $(ARGS)

bench-discovery: .venv/.bench  ## what searches find from the default alone, against the best known (ARGS="--device cpu --minutes 0.3 0")
	$(BIN)/python -m tests.bench.discovery $(ARGS)

bench-web: .venv/.test      ## page times with 100,000 trials, and a live page at 100 trials a second
	$(BIN)/python -m tests.bench.web $(ARGS)

screenshots: .venv/.test    ## every page as a picture in build/screenshots (ARGS=--whole: from top to bottom)
	$(BIN)/python -m tests.e2e.web.screenshots build/screenshots $(ARGS)

bench-throughput: .venv/.bench-strategy  ## trials a minute on this machine's GPU, against Kernel Tuner's loop
	$(BIN)/python -m tests.bench.throughput $(ARGS)

bench-compiling: .venv/.test  ## share of sampled configs of each CUDA family that pass the gates, and compile times (no GPU)
	$(BIN)/python -m tests.bench.compiling $(ARGS)

bench-events: .venv/.test   ## cost of live events to the service, by number of listeners
	$(BIN)/python -m tests.bench.events

bench-strategy: .venv/.bench-strategy    ## the strategies against Kernel Tuner's and Optuna's on recorded spaces (ARGS="--quick")
	$(BIN)/python -m tests.bench.strategy $(ARGS)

bench-verification: .venv/.test ## trials per second beside those of another commit (ARGS=COMMIT)
	$(BIN)/python -m tests.bench.verification $(ARGS)

bench-microsecond: .venv/.test  ## cost of timing a kernel of 1 µs in a process of its own
	$(BIN)/python -m tests.bench.microsecond $(ARGS)

bench-honest: .venv/.test   ## false refusals of honest kernels: sampled configs of the CPU families (ARGS="softmax --configs 50")
	$(BIN)/python -m tests.bench.honest $(ARGS)

bench-verdict: .venv/.test  ## error rates of verdicts on recorded noise (ARGS="--confirmations 1000")
	$(BIN)/python -m tests.bench.verdict $(ARGS)

fuzz: .venv/.test           ## random requests by every role, and random sequences of claims and losses (KERNEL_EVO_FUZZ_EXAMPLES=100)
	KERNEL_EVO_FUZZ_EXAMPLES=$${KERNEL_EVO_FUZZ_EXAMPLES:-50} $(BIN)/python -m pytest tests/integration/test_openapi_fuzz.py tests/integration/test_leases_stateful.py $(ARGS)

bench-fleet: .venv/.test    ## a thousand simulated workers at four service processes on PostgreSQL (ARGS="capacity --cores 1")
	$(BIN)/python -m tests.bench.fleet $(ARGS)

chaos: .venv/.test          ## a hundred random faults in a fleet (ARGS="--faults 300 --seed 2")
	$(BIN)/python -m tests.e2e.chaos $(ARGS)


clean:          ## remove the environment and every cache
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kernel-evo needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt --upgrade pip
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

.venv/.test .venv/.check .venv/.bench .venv/.bench-strategy: .venv/.%: .venv/.installed
	$(BIN)/pip install -q -c constraints.txt --group $*
	@touch $@
