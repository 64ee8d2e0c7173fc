# Two commands are enough on a fresh machine: `make demo` and `make test`. Each makes what it needs.

VENV := .venv
BIN := $(VENV)/bin
BUILD := build
AUDIT := $(BUILD)/audit
DOCS := $(BUILD)/docs-venv
KAFKA_VERSIONS := 4.3.1 3.9.1
OLD_KAFKA_VERSIONS := 2.8.2
TOXIPROXY_VERSION := v2.12.0
HELM_VERSION := v3.19.2
DEPLOY := $(BUILD)/deploy
# Where the real schemas of what the chart makes are: module@version/folder/file.
DEFINITIONS := sigs.k8s.io/gateway-api@v1.6.0/config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml \
	github.com/cert-manager/cert-manager@v1.21.2/deploy/crds/cert-manager.io_certificates.yaml \
	github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml \
	github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml \
	github.com/compose-spec/compose-go/v2@v2.9.0/schema/compose-spec.json
TOXIPROXY := $(BUILD)/bin/toxiproxy-server-$(TOXIPROXY_VERSION)
PYTEST_ARGS ?=
# They wait more than they work.
WORKERS ?= 3
DEMO_ARGS ?=
BENCH_ARGS ?=
AUDIT_ARGS ?=
DOCS_ARGS ?=
DURATION ?= 600
GATEWAYS ?= 2
SEEDED = $(if $(SEED),--seed $(SEED))
EXACT_SLICE := tests/exact/test_failback.py tests/exact/test_topics.py tests/exact/test_transactional_round_trip.py \
	tests/integration/promote/test_topic_promote.py
# Without the copy that fails for good: it is tried again, for a minute and a half.
SPARK_SLICE := tests/spark/test_catch_up.py -k "not deleted_is_skipped or not fail"
# Partitions change their gateway amid records: part of test-exact.
OWNERSHIP := tests/integration/fleet/test_ownership_transfer*.py
# A file stays with one worker, each with brokers of its own. How long each test took is in build/durations.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --junit-xml=$(BUILD)/durations/$@.xml
LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-options \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links

LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed
JARS := $(KAFKA_VERSIONS:%=$(BUILD)/brokers/%/.complete)
OLD_JARS := $(OLD_KAFKA_VERSIONS:%=$(BUILD)/brokers/%/.complete)

.NOTPARALLEL:
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Stops with one line when something that only a person can install is missing.
need = $(eval missing := $(shell sh scripts/need.sh $(1)))$(if $(missing),$(error $(missing)))

.PHONY: help
help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: demo
demo: need-demo venv brokers ## Run a whole migration between two real clusters
	@$(BIN)/python -m demo

.PHONY: demo-exact
demo-exact: need-demo venv brokers ## Take compacted and transactional topics over and back
	@$(BIN)/python -m demo.exact

.PHONY: demo-secure
demo-secure: need-demo venv brokers ## The same with TLS, logins and ACLs everywhere, each client under its own name
	@$(BIN)/python -m demo.secure

.PHONY: demo-spark
demo-spark: need-demo venv brokers ## Copy a backlog by Spark, with its tasks and its driver killed (DEMO_ARGS="--backlog-mb 200")
	@$(BIN)/python -m demo.spark $(DEMO_ARGS)

.PHONY: demo-topologies
demo-topologies: need-demo venv brokers ## A chain, links both ways and two sources of one target, between three clusters
	@$(BIN)/python -m demo.topologies $(DEMO_ARGS)

.PHONY: demo-carry
demo-carry: need-demo venv brokers ## Move an application with its ACLs, users, quotas, Avro schemas and a share group
	@$(BIN)/python -m demo.carry $(DEMO_ARGS)

.PHONY: demo-app
demo-app: need-demo venv brokers ## Move four applications as sets from one file (Streams, transactions), take them home, move them again
	@$(BIN)/python -m demo.app $(DEMO_ARGS)

.PHONY: test
test: need-test venv brokers toxiproxy ## Run every test but those of the next fourteen; of security, rights and limits (PYTEST_ARGS="-k name" for some)
	@$(PYTEST) --ignore=tests/spark --ignore=tests/exact --ignore=tests/links --ignore=tests/faults --ignore=tests/mutations/gateway \
		--ignore=tests/pages --ignore=tests/console --ignore=tests/hand --ignore=tests/quickstart --ignore=tests/wheel --ignore=tests/bench --ignore=tests/carry --ignore=tests/migration \
		--ignore=tests/integration/mirror --ignore=tests/integration/promote --ignore=tests/model/test_widest.py \
		--ignore-glob='$(OWNERSHIP)' --ignore=tests/integration/net/test_broker_loss.py \
		--ignore=tests/security/links --ignore=tests/security/listeners --ignore=tests/security/logins $(PYTEST_ARGS)

.PHONY: test-bench
test-bench: need-test venv brokers ## Run every load of the bench in small
	@$(BIN)/pytest tests/bench $(PYTEST_ARGS)

.PHONY: test-security
test-security: need-pages venv brokers toxiproxy ## Run the tests of security, and those of pages in a browser
	@$(PYTEST) tests/security tests/pages $(PYTEST_ARGS)

.PHONY: test-console
test-console: need-pages venv brokers ## Run the tests of the web console: in a browser, a migration by clicks between real clusters
	@$(BIN)/pytest tests/unit/console tests/console $(PYTEST_ARGS)

.PHONY: test-hand
test-hand: need-test venv ## Run the command line in a pseudo-terminal at four widths, and in a pipe
	@$(BIN)/pytest tests/hand $(PYTEST_ARGS)

.PHONY: test-quickstart
test-quickstart: need-test venv ## Run `lockgate quickstart` from the wheel in an empty environment, with a JDK alone
	@rm -f $(BUILD)/quickstart.txt
	@$(BIN)/pytest tests/quickstart $(PYTEST_ARGS)
	@cat $(BUILD)/quickstart.txt

.PHONY: test-wheel dist
test-wheel: need-test venv ## Build wheel and sdist twice: equal to the byte, whole; the wheel alone helps, serves and migrates
	@$(BIN)/pytest tests/wheel tests/test_packaging.py tests/hand/test_plain_install.py tests/quickstart $(PYTEST_ARGS)
dist: venv ## Build wheel and sdist into dist/, the same bytes from the same commit
	@$(BIN)/python scripts/dist.py

.PHONY: test-docs
test-docs: need-demo venv brokers ## Run the commands of the pages, in their order, between real clusters (DOCS_ARGS="--show docs/start/first-migration.md")
	@$(BIN)/python -m tests.docs $(DOCS_ARGS)

.PHONY: test-exact
test-exact: need-test venv brokers $(OLD_JARS) toxiproxy ## Run the tests of exactness: every kind of topic and client
	@$(PYTEST) tests/exact tests/integration/mirror tests/integration/promote tests/model/test_widest.py $(OWNERSHIP) $(PYTEST_ARGS)

.PHONY: test-links
test-links: need-test venv brokers toxiproxy ## Run the tests of links: their life, their mirrors, topologies
	@$(PYTEST) tests/links $(PYTEST_ARGS)

.PHONY: test-carry
test-carry: need-test venv brokers ## Run the tests of what comes along with clients: rights, users, quotas, groups, schemas
	@$(PYTEST) tests/carry $(PYTEST_ARGS)

.PHONY: test-migration
test-migration: need-test venv brokers ## Run the tests of migrations as one thing: discovered, carried out, told
	@$(PYTEST) tests/migration tests/unit/migration $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: need-demo venv brokers ## Run the tests of the Spark jobs
	@$(BIN)/pytest tests/spark $(PYTEST_ARGS)

.PHONY: test-mutations
test-mutations: need-test venv brokers ## Seed faults into histories and gateways; each must be caught
	@$(BIN)/python -m tests.mutations $(PYTEST_ARGS)

.PHONY: test-audit-mutations
test-audit-mutations: need-test venv ## Seed differences into pairs of logs; the audit must find each, and nothing in equal ones
	@$(BIN)/python -m tests.audit_mutations $(PYTEST_ARGS)

.PHONY: test-faults
test-faults: need-test venv brokers toxiproxy ## Run the tests of single faults, then a minute of chaos
	@$(PYTEST) tests/faults tests/integration/net/test_broker_loss.py $(PYTEST_ARGS)
	@$(BIN)/python -m tests.chaos --duration 60 --gateways $(GATEWAYS) $(SEEDED)

.PHONY: deploy-tools test-deploy
deploy-tools: $(DEPLOY)/.helm-$(HELM_VERSION) $(DEPLOY)/.validator $(DEPLOY)/.definitions ## Fetch Helm and the schemas of Kubernetes' objects into build/deploy
test-deploy: need-test venv deploy-tools ## Run the tests of what deploys a gateway: the Helm chart in six shapes, by the real schemas
	@$(BIN)/pytest tests/deploy $(PYTEST_ARGS)

.PHONY: test-exact-slice
test-exact-slice: need-test venv brokers toxiproxy ## Run what CI runs of test-exact
	@$(PYTEST) $(EXACT_SLICE) $(PYTEST_ARGS)

.PHONY: test-spark-slice
test-spark-slice: need-test venv brokers ## Run what CI runs of test-spark
	@$(BIN)/pytest $(SPARK_SLICE) $(PYTEST_ARGS)

.PHONY: chaos
chaos: need-test venv brokers toxiproxy ## Random faults, clients and migrations, judged (DURATION=600 SEED=7 GATEWAYS=2 BUSY=1)
	@$(BIN)/python -m tests.chaos --duration $(DURATION) --gateways $(GATEWAYS) $(SEEDED) $(if $(filter 1,$(BUSY)),--busy 2)

.PHONY: simulate
simulate: venv ## The fleet in virtual time, judged (SEED=7: one run as a story; SEEDS=2000)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST))

.PHONY: simulate-mutations
simulate-mutations: venv ## Seed faults into the shipped code; the simulation must find each
	@$(BIN)/python -m tests.simulation.mutations

.PHONY: fuzz
fuzz: venv ## Whole conversations with a gateway, random and judged (SECONDS=600; SEED=7: one as a story)
	@$(BIN)/python -m tests.fuzz $(SEEDED) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FIRST),--first $(FIRST))

.PHONY: fuzz-mutations
fuzz-mutations: venv ## Seed faults into the shipped gateway; the fuzzer must find each
	@$(BIN)/python -m tests.fuzz.mutations

.PHONY: test-broker-model
test-broker-model: need-demo venv brokers ## The simulation's brokers against real ones: the same requests, the same answers
	@$(BIN)/python -m tests.broker_model

.PHONY: bench bench-quick
bench: need-demo venv brokers ## Measure the gateway beside no proxy, HAProxy and MirrorMaker 2 (BENCH_ARGS="--kafka-proxy PROGRAM")
	@$(BIN)/python -m bench $(BENCH_ARGS)
bench-quick: need-demo venv brokers ## The same in small
	@$(BIN)/python -m bench --profile quick $(BENCH_ARGS)

.PHONY: bench-production
bench-production: need-demo venv brokers toxiproxy ## Measure the mirror in production's shape (BENCH_ARGS="--profile quick --only tail")
	@$(BIN)/python -m bench.production $(BENCH_ARGS)

.PHONY: bench-strangers
bench-strangers: need-demo venv brokers ## What strangers cost an honest client, attack by attack (BENCH_ARGS="--only half_open")
	@$(BIN)/python -m bench.strangers $(BENCH_ARGS)

.PHONY: bench-pictures
bench-pictures: venv ## Draw bench/results/pictures.md from the reports of `make bench-production` and `make bench`
	@$(BIN)/python -m bench.pictures $(BENCH_ARGS)

.PHONY: bench-spark
bench-spark: need-demo venv brokers ## Measure the Spark jobs beside MirrorMaker 2 (BENCH_ARGS="--size-mb 200 --rounds 1")
	@$(BIN)/python -m bench.spark $(BENCH_ARGS)

.PHONY: ci-turn ci-all
ci-turn: ## Run one of the suites that are too long for each run of CI, chosen by the number of commits
	@sh scripts/suites.sh turn $$(git rev-list --count HEAD)
ci-all: ## Run all of them, for hours
	@sh scripts/suites.sh all

.PHONY: lint
lint: venv ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: house
house: venv ## Count the files, lines and classes of the code, and the files that a common change touches
	@$(BIN)/python scripts/house.py

.PHONY: fmt
fmt: venv ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: venv
venv: $(INSTALLED) ## Make .venv with the packages of requirements/dev.lock

.PHONY: brokers
brokers: $(JARS) ## Fetch the Kafka brokers

.PHONY: toxiproxy
toxiproxy: $(TOXIPROXY)

.PHONY: lock
lock: venv ## Resolve the lock files anew from pyproject.toml
	$(LOCK) --upgrade --extra dev --extra spark --output-file requirements/dev.lock pyproject.toml
	@sed -n 's/^\([A-Za-z0-9._-]*==[^ ]*\) .*/\1/p' requirements/dev.lock > requirements/.pins
	$(LOCK) --pip-args "--constraint requirements/.pins" --output-file requirements/runtime.lock pyproject.toml
	$(LOCK) --pip-args "--constraint requirements/.pins" --output-file requirements/build.lock \
		--only-build-deps --build-deps-for wheel pyproject.toml
	@rm -f requirements/.pins
	$(LOCK) --upgrade --output-file requirements/audit.lock requirements/audit.in
	$(LOCK) --upgrade --output-file requirements/deploy.lock requirements/deploy.in
	$(LOCK) --upgrade --output-file requirements/docs.lock requirements/docs.in

.PHONY: docs docs-venv
docs: venv docs-venv ## Build the site into build/site, strictly, and check its links, its pages and its commands
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@$(BIN)/python -m tests.support.pages.site
docs-venv: $(DOCS)/.installed ## Make build/docs-venv with what builds the site

.PHONY: sbom
sbom: $(AUDIT)/.installed ## Write build/sbom.json (CycloneDX): what a gateway needs at run time, with hashes
	@$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file $(BUILD)/sbom.json requirements/runtime.lock
	@echo $(BUILD)/sbom.json

.PHONY: audit-deps
audit-deps: $(AUDIT)/.installed ## Look the run-time packages up in a list of known faults (AUDIT_ARGS="--vulnerability-service osv")
	@$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/runtime.lock $(AUDIT_ARGS)

# Tools that look at packages do not share an environment with them.
$(AUDIT)/.installed: requirements/audit.lock
	@$(call need,python)
	@$$(sh scripts/need.sh which-python) -m venv --clear $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.lock
	@touch $@

$(DOCS)/.installed: requirements/docs.lock
	@$(call need,python)
	@$$(sh scripts/need.sh which-python) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch $@

.PHONY: clean
clean: ## Remove what was made, except running clusters' folders and .venv
	rm -rf $(BUILD)/brokers $(BUILD)/bin $(BUILD)/lib $(AUDIT) $(DOCS) $(BUILD)/site $(BUILD)/bdist.* dist *.egg-info

.PHONY: need-demo need-test need-pages
need-demo:
	@$(call need,python java maven)
need-test:
	@$(call need,python java maven go)
need-pages:
	@$(call need,python java maven go chromium)

# A .venv that was made by hand is brought to the locked versions, not thrown away.
$(LOCKED): requirements/dev.lock
	@$(call need,python)
	@$(BIN)/python -c 'import pip' 2>/dev/null || $$(sh scripts/need.sh which-python) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(BUILD)/brokers/%/.complete: configs/brokers/pom.xml | $(INSTALLED)
	@$(call need,java maven)
	@LOCKGATE_DEV_HOME=$(CURDIR)/$(BUILD) $(BIN)/lockgate dev jars $*
	@touch $@

$(DEPLOY)/.helm-$(HELM_VERSION):
	@$(call need,go)
	@mkdir -p $(@D)/bin
	GOBIN=$(CURDIR)/$(@D)/bin go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@touch $@

$(DEPLOY)/.validator: requirements/deploy.lock
	@$(call need,python)
	@$$(sh scripts/need.sh which-python) -m venv --clear $(DEPLOY)/venv
	@$(DEPLOY)/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/deploy.lock
	@touch $@

# A module is fetched whole; of it one file is taken.
$(DEPLOY)/.definitions: Makefile
	@$(call need,go)
	@mkdir -p $(@D)/crds
	@for one in $(DEFINITIONS); do \
		module=$$(echo $$one | sed 's,\(@[^/]*\)/.*,\1,'); \
		folder=$$(cd $(@D) && go mod download -json $$module | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
		install -m 0644 "$$folder/$${one#$$module/}" $(@D)/crds/ || exit 1; \
	done
	@touch $@

$(TOXIPROXY):
	@$(call need,go)
	@mkdir -p $(@D)
	GOBIN=$(CURDIR)/$(@D)/install go install github.com/Shopify/toxiproxy/v2/cmd/server@$(TOXIPROXY_VERSION)
	@mv $(@D)/install/server $@ && rmdir $(@D)/install
