# One environment for everything, made on demand: .venv
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN_ARGS ?=
# Without bytecode files each of the hundreds of servers that tests start compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
HISTORY ?= $(HOME)/rocketmq-history

.PHONY: run test test-all test-java test-spark test-browser check collect unit coverage integration bench-start bench bench-quick bench-former bench-route-workers bench-route-watch bench-console bench-rmq bench-controller bench-failover bench-replicas bench-role-checks bench-role-addresses bench-role-clients bench-role-throughput bench-switchovers bench-resizes bench-offset-readings bench-offset-commits bench-offset-isolation bench-offset-failovers bench-attacks bench-analytics bench-history dashboards demo console-pictures soak mutants size clean
.DEFAULT_GOAL := run

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,etcd]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,etcd,analytics,dev]'
	touch $@

## run: a NameServer and a controller in the foreground, on loopback
# The servers print their addresses, which RUN_ARGS may change. `exec` makes it make's own child: make hands SIGTERM on to its
# children only, and a shell between the two would end alone.
run: $(VENV)/.run
	@echo "Brokers need the address of the Name Server as namesrvAddr, clients as NAMESRV_ADDR. Brokers that need failover"
	@echo "have enableControllerMode=true, and the address of the Controller Server as controllerAddr."
	@exec $(BIN)/rmq-namesrv --bind-address 127.0.0.1 --enable-controller-in-namesrv --history-dir "$(HISTORY)" \
		--console-peers controller=http://127.0.0.1:9881 $(RUN_ARGS)

## check: format, lint, types, import contracts
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file benchmarks/mypy.ini benchmarks
	$(BIN)/lint-imports

# The first to load the tests compiles them, the workers find them compiled.
collect: $(VENV)/.dev
	@$(BIN)/pytest --quiet --quiet --collect-only >$(VENV)/collected.txt || (cat $(VENV)/collected.txt; false)

# A worker takes a file at a time: its tests may share brokers, for which they wait a part of the time.
WORKERS ?= $(shell echo $$(( $$(nproc) * $(or $(HALVES),3) / 2 )))

# Spark takes longer to install than these tests take.
$(VENV)/.unit: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,etcd,dev]'
	touch $@

## unit: rules and servers, without Java, etcd and Spark; on another Python: make unit PYTHON=python3.13 VENV=.venv-3.13
UNIT := -m "not java and not etcd and not soak and not broad" tests/remoting tests/role_agent tests/rmq tests/serving tests/console tests/history \
	tests/namesrv tests/controller tests/offsets tests/scaling
unit: $(VENV)/.unit
	$(BIN)/pytest --quiet --numprocesses $(WORKERS) $(UNIT)

## coverage: which branches of the rules the unit tests do not take
coverage: $(VENV)/.dev
	$(BIN)/pytest --quiet --numprocesses $(WORKERS) --cov --cov-branch --cov-report=term-missing:skip-covered $(UNIT)

integration: $(VENV)/.dev
	$(BIN)/pytest tests/integration

## test: the fast checks, all rules and servers, and a smoke of each real peer; some nine minutes on two cores
PYTEST = $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# Most of these tests wait for a server more than they compute.
test: HALVES = 4
# Types and collection take one processor each, about as long.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 check collect
	$(PYTEST) -m "not soak and not broad"

## test-java, test-spark, test-browser: all tests with these peers
test-java test-spark test-browser: test-%: $(VENV)/.dev
	$(PYTEST) -m "$* and not soak"

## test-all: what CI runs: `make test`, and then everything else but `make soak`
test-all: test
	$(PYTEST) -m "broad and not soak"

## bench-start: how long the start takes, and how much memory an idle server holds
bench-start: $(VENV)/.run
	$(BIN)/python benchmarks/start.py

## bench: this NameServer beside its peers, into benchmarks/RESULTS.md; about 70 minutes, as every server is warmed
bench: $(VENV)/.run
	$(BIN)/python benchmarks/bench.py

bench-quick: $(VENV)/.run
	$(BIN)/python benchmarks/bench.py --quick

## bench-former: rows 1 to 5 beside another commit of this repository: make bench-former FORMER=REVISION; about 20 minutes
bench-former: $(VENV)/.run
	$(BIN)/python benchmarks/former.py $(FORMER)

## bench-route-workers: what route workers bring and cost, into benchmarks/ROUTE_WORKERS.md; about 15 minutes
bench-route-workers: $(VENV)/.run
	$(BIN)/python benchmarks/route_workers.py

## bench-route-watch: a thousand watchers of routes, into benchmarks/ROUTE_WATCH.md; about two minutes
bench-route-watch: $(VENV)/.run
	$(BIN)/python benchmarks/route_watch.py

## bench-console: what ten open consoles take of the route rate, and how soon a browser shows 10,000 topics; prints only
bench-console: $(VENV)/.dev
	$(BIN)/python benchmarks/console_load.py
	$(BIN)/python benchmarks/console_speed.py

## bench-rmq: each command of rmq beside mqadmin's, into benchmarks/RMQ.md; about ten minutes
bench-rmq: $(VENV)/.dev
	$(BIN)/python benchmarks/rmq_times.py

## bench-controller: 3,000 broker sets, beside a former commit and the Java controller, into benchmarks/CONTROLLER.md;
## about 20 minutes
bench-controller: $(VENV)/.run
	$(BIN)/python benchmarks/controller_load.py

## bench-failover: masters that die, stop and pause, with real brokers, into benchmarks/CONTROLLER.md; about 30 minutes
bench-failover: $(VENV)/.run
	$(BIN)/python benchmarks/failover.py

## bench-replicas: killed masters of sets of three, what is lost and for how long nothing is sent, into
## benchmarks/CONTROLLER.md; about an hour
bench-replicas: $(VENV)/.run
	$(BIN)/python benchmarks/three_replicas.py

## bench-role-checks: a thousand role checks a second, into benchmarks/CONTROLLER.md; about two minutes
bench-role-checks: $(VENV)/.run
	$(BIN)/python benchmarks/role_checks.py

## bench-role-addresses: failovers with and without role addresses side by side, as clients see them, into
## benchmarks/CONTROLLER.md; about 80 minutes
bench-role-addresses: $(VENV)/.run
	$(BIN)/python benchmarks/role_addresses.py

## bench-role-clients: what each kind of client sees of failovers, into benchmarks/CONTROLLER.md; about seven minutes
bench-role-clients: $(VENV)/.run
	$(BIN)/python benchmarks/role_clients.py

## bench-role-throughput: messages through HAProxy beside direct ones, into benchmarks/CONTROLLER.md; about five minutes
bench-role-throughput: $(VENV)/.run
	$(BIN)/python benchmarks/role_throughput.py

## bench-switchovers: planned switchovers under load, into benchmarks/CONTROLLER.md; about 40 minutes
bench-switchovers: $(VENV)/.run
	$(BIN)/python benchmarks/switchovers.py

## bench-resizes: resizes and a ramp with clients as they come, into benchmarks/CONTROLLER.md; about an hour
bench-resizes: $(VENV)/.run
	$(BIN)/python benchmarks/resizes.py

## bench-offset-readings: what readings of 100 brokers take, into benchmarks/CONTROLLER.md; about eight minutes
bench-offset-readings: $(VENV)/.run
	$(BIN)/python benchmarks/offset_readings.py

## bench-offset-commits: commits into an offset manager over HTTP; ten seconds
bench-offset-commits: $(VENV)/.run
	$(BIN)/python benchmarks/offset_commits.py

## bench-offset-isolation: elections and leases while an offset manager takes 30,000 commits a second, into
## benchmarks/CONTROLLER.md; about 12 minutes
bench-offset-isolation: $(VENV)/.run
	$(BIN)/python benchmarks/offset_isolation.py

## bench-offset-failovers: messages twice, skipped and out of order when masters fail, with and without an offset manager,
## into benchmarks/CONTROLLER.md; about ten hours
bench-offset-failovers: $(VENV)/.run
	$(BIN)/python benchmarks/offset_failovers.py

## bench-attacks: what the same attacks do to these servers and to Java's, into benchmarks/ATTACKS.md; about 12 minutes
bench-attacks: $(VENV)/.run
	$(BIN)/python benchmarks/attacks.py

## bench-analytics: ingest and analyses of a day, a report of a month, into benchmarks/ANALYTICS.md
bench-analytics: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python benchmarks/analyses.py

## bench-history: any route of a month, into benchmarks/HISTORY.md; about ten minutes, most of it to write the month
bench-history: $(VENV)/.run
	$(BIN)/python benchmarks/time_machine.py

## dashboards: boards, rules and the chart's table of values, written anew
dashboards: $(VENV)/.dev
	$(BIN)/python -m dashboards.generate
	$(BIN)/python helm/values_table.py

## demo: real brokers, resizes, incidents, and what the analyses find of them; about twelve minutes, into ~/rocketmq-demo
demo: $(VENV)/.dev
	$(BIN)/python demo/play.py

## console-pictures: every view of the console from the data of the demo, into docs/console-*.png; the README has the overview
console-pictures: $(VENV)/.dev
	$(BIN)/python demo/pictures.py

## soak: what takes too long for CI
soak: $(VENV)/.dev
	$(BIN)/pytest -m soak

## mutants: which mistakes in the rules no test would notice, into benchmarks/MUTANTS.md; every fifth of them, about 20
## minutes, or those that are named: make mutants MUTANTS='controller.failover.monitor.*'
MUTANTS ?= *[27]
mutants: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/mutants.py '$(MUTANTS)'

## size: lines of the product and of its tests, by package, beside the aims; of a commit: make size OF=REVISION
OF ?=
size:
	@$(PYTHON) benchmarks/size.py $(OF)

clean:
	rm -rf .venv .venv-* .cache build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
