# Each target sets up what it needs in .venv; PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes: each would compile the modules again

.PHONY: bench-confirmation bench-short bench-operations bench-triton bench-verification bench-discovery bench-start bench-zoo bench-honest bench-microsecond bench-compiling bench-overhead bench-gpus help search test test-slow test-long test-gpu test-gpu-long check bench bench-gpu bench-ladder bench-events bench-strategy bench-verdict bench-throughput fuzz clean bench-fleet bench-web screenshots chaos

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 20

search: .venv/.installed    ## search for fast attention kernels on the best device of this machine, 3 minutes including confirmations (ARGS="--minutes 5" to change)
	$(BIN)/kernel-evo search sdpa --minutes 1.5 $(ARGS)

test: .venv/.test           ## run all tests except the slow tests, the long tests and the GPU tests
	$(BIN)/python -m pytest -m "not gpu and not slow and not long" -n 5 --dist loadfile --no-loadscope-reorder tests/e2e tests/integration tests/unit $(ARGS)

test-slow: .venv/.test      ## run the slow tests: searches by the user's command, killed workers, many compilations, pages in a browser
	$(BIN)/python -m pytest -m "not gpu and slow and not long" -n 5 --dist loadfile --no-loadscope-reorder tests/e2e tests/integration tests/unit $(ARGS)

test-long: .venv/.test      ## run the long tests: the remaining tests that compile, kill processes, inject faults, run benchmarks or rehearse a mission
	$(BIN)/python -m pytest -v -m "not gpu and long" -n 2 --dist loadfile tests/integration tests/e2e tests/unit $(ARGS)

test-gpu: .venv/.test       ## run the tests that need a CUDA device, without the long ones
	$(BIN)/python -m pytest -v -m "gpu and not long" -n 4 --dist loadgroup tests/gpu $(ARGS)

test-gpu-long: .venv/.test  ## run the GPU tests that take minutes each
	$(BIN)/python -m pytest -v -m "gpu and long" tests/gpu $(ARGS)

check: .venv/.check .venv/.test  ## check format, lint, types, import contracts and packaging, and the types and lint of the web scripts
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/python -m tests.packaging
	$(BIN)/deno check --no-remote --no-npm --no-lock api/web/static && $(BIN)/deno lint --quiet api/web/static tests/integration/scripts

bench: .venv/.bench         ## measure all CPU figures of docs/results
	$(BIN)/python -m tests.bench.cpu $(ARGS)

bench-gpu: .venv/.bench     ## measure the GPU figures of docs/results
	$(BIN)/python -m tests.bench.gpu $(ARGS)

bench-gpus: .venv/.bench    ## measure the GPU figures with contests running in parallel on all GPUs (ARGS="--within 1500 0 1 2")
	$(BIN)/python -m tests.bench.side_by_side $(ARGS)

bench-ladder: .venv/.bench  ## compare the steps of hand-written attention with each other and with PyTorch on this machine's GPU
	$(BIN)/python -m tests.bench.ladder $(ARGS)

bench-zoo: .venv/.bench     ## compare the searches of the zoo with all baselines; with "--device cpu", in small shapes (ARGS="--seconds 20 --within 500 rmsnorm")
	$(BIN)/python -m tests.bench.zoo $(ARGS)

bench-triton: .venv/.bench  ## compare the configs found for Triton's tutorials with the tutorials' own (ARGS="FOLDER --seconds 60 --helion 60 matmul")
	$(BIN)/python -m tests.bench.triton_tutorials $(ARGS)

bench-operations: .venv/.bench    ## compare written variants of ten operations with PyTorch, using only brief and submit (ARGS="--out FOLDER rope")
	$(BIN)/python -m tests.bench.operations $(ARGS)

bench-overhead: .venv/.test    ## measure the overhead of a search with a kernel that does almost no work
	$(BIN)/python -m tests.bench.overhead $(ARGS)

bench-start: .venv/.test    ## measure the seconds from the command to the first measured candidate, by stage (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.start $(ARGS)

bench-confirmation: .venv/.test  ## measure the seconds that confirmations take, by step (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.confirmation $(ARGS)

bench-short: .venv/.test    ## compare candidates per minute of a search of 0.4 minutes with those of a search of 2.4 minutes (ARGS="--device cuda")
	$(BIN)/python -m tests.bench.short $(ARGS)

bench-discovery: .venv/.bench  ## compare what searches find, starting from the default only, with the best known (ARGS="--device cpu --minutes 0.3 0")
	$(BIN)/python -m tests.bench.discovery $(ARGS)

bench-web: .venv/.test      ## measure page times with 100,000 trials, and a live page at 100 trials per second
	$(BIN)/python -m tests.bench.web $(ARGS)

screenshots: .venv/.test    ## save a picture of every page in build/screenshots (ARGS=--whole: from top to bottom)
	$(BIN)/python -m tests.e2e.web.screenshots build/screenshots $(ARGS)

bench-throughput: .venv/.bench-strategy  ## compare trials per minute on this machine's GPU with Kernel Tuner's loop
	$(BIN)/python -m tests.bench.throughput $(ARGS)

bench-compiling: .venv/.test  ## measure the share of sampled configs of each CUDA family that pass the gates, and compile times (no GPU)
	$(BIN)/python -m tests.bench.compiling $(ARGS)

bench-events: .venv/.test   ## measure the cost of live events to the service, by number of listeners
	$(BIN)/python -m tests.bench.events

bench-strategy: .venv/.bench-strategy    ## compare the strategies with Kernel Tuner's and Optuna's on recorded spaces (ARGS="--quick")
	$(BIN)/python -m tests.bench.strategy $(ARGS)

bench-verification: .venv/.test ## compare trials per second with those of another commit (ARGS=COMMIT)
	$(BIN)/python -m tests.bench.verification $(ARGS)

bench-microsecond: .venv/.test  ## measure the cost of timing a kernel of 1 µs in its own process
	$(BIN)/python -m tests.bench.microsecond $(ARGS)

bench-honest: .venv/.test   ## count honest kernels that are refused: sampled configs of the CPU families (ARGS="softmax --configs 50")
	$(BIN)/python -m tests.bench.honest $(ARGS)

bench-verdict: .venv/.test  ## measure error rates of verdicts on recorded noise (ARGS="--confirmations 1000")
	$(BIN)/python -m tests.bench.verdict $(ARGS)

fuzz: .venv/.test           ## send random requests with every role, and random sequences of claims and losses (KERNEL_EVO_FUZZ_EXAMPLES=100)
	KERNEL_EVO_FUZZ_EXAMPLES=$${KERNEL_EVO_FUZZ_EXAMPLES:-50} $(BIN)/python -m pytest tests/integration/test_openapi_fuzz.py tests/integration/test_leases_stateful.py $(ARGS)

bench-fleet: .venv/.test    ## simulate a thousand workers that use four service processes on PostgreSQL (ARGS="capacity --cores 1")
	$(BIN)/python -m tests.bench.fleet $(ARGS)

chaos: .venv/.test          ## inject a hundred random faults into a fleet (ARGS="--faults 300 --seed 2")
	$(BIN)/python -m tests.e2e.chaos $(ARGS)


clean:          ## remove the environment and all caches
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
