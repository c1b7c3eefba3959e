# Commands run in the folder of each module without the workspace, so that they see what
# users of the module get. The workspace is for editors, and for `go test work` by hand.
export GOWORK := off

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

LINT_VERSION := v2.15.0
ACTIONLINT_VERSION := v1.7.12
VULN_VERSION := v1.9.0
GORELEASER_VERSION := v2.16.0
SBOM_VERSION := v1.10.0
LINT := .cache/golangci-lint-$(LINT_VERSION)/golangci-lint
GORELEASER := .cache/goreleaser-$(GORELEASER_VERSION)/goreleaser
SBOM := .cache/cyclonedx-gomod-$(SBOM_VERSION)/cyclonedx-gomod

MODULES := $(patsubst %/,%,$(dir $(shell git ls-files -co --exclude-standard -- go.mod '*/go.mod')))
# The benchmarks are not tidied, and bench-small runs their tests.
TESTED := $(filter-out lab/bench,$(MODULES))
# The modules left out have only tests for Linux, and libraries that take minutes to compile.
PORTABLE := $(filter-out lab/observe lab/adapters lab/browser,$(MODULES))

TESTFLAGS ?=
# A count instead of a time: when a time ends, Go 1.26 sometimes fails with "context deadline
# exceeded" (golang/go#75804).
FUZZTIME ?= 1000000x
KILLS ?= 1000
ROUNDS ?= 200
RACES ?= 10000
SOAK ?= 30m
PROGRAMS ?= 1h
VERSION ?=

# $(call each,modules,command) runs the command in the folder of each module, and goes on if it
# fails in one.
each = failed=0; for m in $(1); do echo "== $$m: $(2)"; (cd $$m && $(2)) || failed=1; done; [ $$failed = 0 ]

.PHONY: help
help: ## print this list
	@echo 'usage: make TARGET [VARIABLE=value]. Details: CONTRIBUTING.md. Targets:'
	@awk -F ':.*## ' '/^## -- / { printf "\n%s\n", substr($$0, 7) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## -- tests

# The suite is built first and replaces the shell, so that a signal to make ends the tests.
SUITE = go -C lab build -o ../.cache/suite ./suite && exec .cache/suite

.PHONY: test test-all test-nightly thorough part stress clients client-python alerts fuzz programs scenario crash chaos interop interop-mongolock interop-mongodoc interop-eslock faults faults-long faults-kept soak engines bench bench-serve bench-dashboard bench-small greed
test: ## run all tests except the thorough ones, in minutes; FOLDERS selects folders, TESTFLAGS go to go test
	@$(SUITE) test $(if $(FOLDERS),-packages '$(FOLDERS)') $(TESTFLAGS)

thorough: ## run all tests with the race detector, of all FOLDERS or of a pattern such as 'pglock(/.*)?'
	@$(SUITE) all $(if $(FOLDERS),-packages '$(FOLDERS)') $(TESTFLAGS)

test-all: thorough ## run thorough, fuzz, programs, crash, chaos, clients, alerts, interop, faults and greed: about two hours
	@$(MAKE) fuzz programs crash chaos clients alerts interop faults greed PROGRAMS=1m

test-nightly: ## run thorough with OpenSearch 3; needs pip
	@export HOLDFAST_TEST_NEWER=1; $(SUITE) all $(TESTFLAGS)

# These tests take too long for every change. Each part takes some five minutes, and the gate
# runs one of them, which the commit chooses: so all parts run every few commits. Each package
# with tests must be in FOLDERS of exactly one part.
part-1 = fuzz thorough FUZZTIME=50000x FOLDERS='server(/.*)?|fence/.*'
part-2 = programs crash chaos thorough PROGRAMS=30s KILLS=300 ROUNDS=60 FOLDERS='\.|(adapt|docs/examples|driver|internal|memlock|metrics/observe|sqlitelock)(/.*)?'
part-3 = interop-mongolock interop-mongodoc thorough RACES=5000 FOLDERS='mongolock/compat/mongo-lock|mongolock(/fence|/integration(/fence|/dropin)?)?'
part-4 = interop-eslock clients alerts thorough RACES=5000 FOLDERS='metrics/(otel|prom)holdfast|lab/(adapters|explore|figures|install|internal|interop|modcheck|observe|outsider|pictures|portable|printed|proxy|release|suite|transcript)(/.*)?'
part-5 = faults bench-small RUN=TestFaults STORE=sqlite,redis,mongodb,serve
part-6 = faults release-check packages packages-check RUN=TestFaults ONLY=linux_amd64 STORE=elasticsearch,opensearch-cluster,redis-sentinel,redis-sentinel-replica,postgres-standby,mongodoc-ttl,mongodoc-value,serve-sqlite
part-7 = faults thorough RUN=TestFaults STORE=postgres,opensearch,mongodoc-flag,serve-redis FOLDERS='lab/(campaign|queue|openapi)(/.*)?'
part-8 = thorough FOLDERS='(pglock|redislock)(/.*)?|lab/recipes'
part-9 = thorough FOLDERS='eslock(/.*)?|lab/linear'
part-10 = thorough FOLDERS='mongolock/compat/mongodoc|mongolock/integration/mongodoc|httplock(/.*)?|lab/(httpfence|engines|greed)'
part-11 = thorough FOLDERS='lab/mutants'
part-12 = thorough FOLDERS='cmd/.*|lab/browser'
part: ## run part N (1 to 12) of the long tests, as the gate does
	$(MAKE) $(or $(part-$(N)),$(error N is 1 to 12: make part N=7))

# The tests of a store that need a server are in its folder integration, which is left out here.
STRESSED ?= \.|driver/.*|memlock|.*lock|cmd/holdfast(/.*)?
stress: ## run the tests of STRESSED (root, stores, command) N (200) times under load; RUN, RACE=false, SHORT=true
	@$(SUITE) stress -times $(or $(N),200) -race=$(or $(RACE),true) -short=$(or $(SHORT),false) -packages '$(STRESSED)' -run '$(RUN)'

## -- tests of one kind

clients: ## test eslock with the official clients of Elasticsearch and OpenSearch
	cd lab && go test -race -count=1 -timeout 30m -tags officialclients ./esclients

.PHONY: test-js
test-js: ## test clients/js with node, against a server that is built for it
	cd clients/js && node --test tests/*.test.js
client-python: build ## test clients/python with a server; PYTHON (python3) runs them
	cd clients/python && HOLDFAST_COMMAND='$(CURDIR)/bin/holdfast' $(or $(PYTHON),python3) -m unittest

alerts: ## test the alert rules of docs/observe with the engine of Prometheus
	cd lab/observe && go test -race -count=1 -timeout 30m -tags promqltest ./rules

programs: ## run random programs of the Client and of the adapters, each for PROGRAMS (1h)
	go test -race -count=1 -v -timeout 0 -run '^TestRandomPrograms$$' . -args -programs.for=$(PROGRAMS)
	go test -race -count=1 -v -timeout 0 -run '^TestPrograms$$' ./adapt -args -programs.for=$(PROGRAMS)

fuzz: ## run every fuzz target for FUZZTIME (1000000x)
	@for m in $(TESTED); do \
		(cd $$m; go test -list '^Fuzz' ./... \
			| awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, t[i]; n = 0 }' \
			| while read -r package target; do \
				echo "== $$package $$target"; \
				go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" < /dev/null; \
			done); \
	done

# The tests of a scenario, and subtests of the suites, have its number as the start of their names.
SCENARIO = S0*$(or $(N),$(error N is the number of a scenario: make scenario N=7a))_
scenario: ## run the tests of scenario N, such as 5 or 7a, in every store
	@$(SUITE) all -count=1 -run '^Test$(SCENARIO)|^Test(Conformance|Faults|Backend)/^$(SCENARIO)|^Test(Conformance|Faults)/^(opensearch|elasticsearch|flag|TTL|value)$$/^$(SCENARIO)'

crash: ## kill processes that write to a SQLite file, KILLS (1000) times
	cd sqlitelock && go test -count=1 -v -timeout 60m -run '^TestCrash$$' -args -crash.kills=$(KILLS)

chaos: ## kill, stop and suspend the command holdfast while others wait, ROUNDS (200) times
	cd cmd/holdfast && go test -count=1 -v -timeout 60m -run '^TestChaos$$' . -args -chaos.rounds=$(ROUNDS)

INTEROP = cd lab && go test -race -count=1 -v -timeout 60m -run 'Races$$|Broken' ./interop
interop: interop-mongolock interop-mongodoc interop-eslock ## race old programs against Holdfast for one resource, RACES (10000) times

interop-mongolock:
	$(INTEROP)/mongolock -args -interop.rounds=$(RACES)

interop-mongodoc:
	$(INTEROP)/mongodoc -args -interop.rounds=$$(($(RACES) / 5))

interop-eslock:
	$(INTEROP)/eslock -args -interop.rounds=$$(($(RACES) / 5))

STORE ?= sqlite,redis,redis-sentinel,redis-sentinel-replica,postgres,postgres-standby,mongodb,mongodoc-flag,mongodoc-ttl,mongodoc-value,opensearch,opensearch-cluster,elasticsearch,serve,serve-redis,serve-sqlite
FAULTS = mkdir -p .cache/faults && cd lab && go test -count=1 -v -timeout 180m $(if $(RUN),-run '$(RUN)') ./campaign -args -campaign.report='$(CURDIR)/.cache/faults' -campaign.stores=$(STORE) $(if $(SEED),-campaign.seed=$(SEED)) $(if $(FAULT),-campaign.only='$(FAULT)')

faults: ## run a fault campaign of 15 s in each STORE (all); FAULT is the only fault, SEED repeats a run
	$(FAULTS) -campaign=15s

faults-long: ## run faults for 5 min in each STORE: over an hour
	$(FAULTS) -campaign=5m

# Reports in the order of STORE, as the tables have them.
REPORTS ?= .cache/faults/*.json
faults-kept: ## save REPORTS as TABLE (long, copies, serve) for the documents, or one as the time line (LINE=true)
	@go -C lab run ./campaign/keep $(if $(LINE),-line ../docs/dev/faults-line.json,-to ../docs/dev/faults.json -table '$(TABLE)') $(abspath $(wildcard $(REPORTS)))
	@go -C lab/figures run .

soak: ## let 200 workers lock in four stores for SOAK (30m), and check that they do not use more over time
	cd lab && go test -count=1 -v -parallel 4 -timeout 180m -run '^TestSoak$$' ./campaign -args -soak=$(SOAK)

## -- servers and measurements

engines: ## start the servers that tests use, for work by hand, and print their URLs; Ctrl-C ends them
	@go -C lab build -o ../.cache/engines/ ./engines/up && exec .cache/engines/up

bench: ## measure, compare with the targets and save the result in docs
	cd lab/bench && status=0; go run . -keep ../../docs/dev/performance.json || status=$$?; go -C ../figures run . && exit $$status

bench-serve: ## measure holdfast serve beside its stores and etcd
	cd lab/bench && status=0; go run . -serve -keep ../../docs/dev/performance-serve.json || status=$$?; go -C ../figures run . && exit $$status

FOR ?= 4s
greed: ## measure what a greedy caller of the server takes from others, FOR (4s) with each ATTACK (all)
	cd lab && go run ./greed -for $(FOR) $(if $(ATTACK),-only '$(ATTACK)')

bench-dashboard: ## measure the cost of watching the dashboard: about 14 minutes
	cd lab/bench && status=0; go run . -dashboard -keep ../../docs/dev/performance-dashboard.json || status=$$?; go -C ../figures run . && exit $$status

# Measurements that never run stop working when the measured code changes.
bench-small: ## run the tests of the benchmarks, and each measurement in one short round without a verdict
	@go -C lab/bench test .
	@go -C lab/bench build -o ../../.cache/bench .
	@cd lab/bench; for which in '' -serve -dashboard; do ../../.cache/bench -small $$which || exit 1; done

## -- checks

.PHONY: check fmt fmt-check tidy check-modules vet cross lint vuln
check: fmt-check check-modules cross lint docs-check ## run all checks that are not tests

fmt: ## format all Go files
	@git ls-files -z -co --exclude-standard -- '*.go' | xargs -0 gofmt -s -w

fmt-check: ## fail if a Go file is not formatted
	@unformatted=$$(git ls-files -z -co --exclude-standard -- '*.go' | xargs -0 gofmt -s -l); \
	if [ -n "$$unformatted" ]; then echo "make fmt would change:"; echo "$$unformatted"; exit 1; fi

tidy: ## run go mod tidy in every module except the benchmarks
	@$(call each,$(TESTED),go mod tidy)

check-modules: ## check the go.mod files: tidy, replaces, go directives, no dependencies in the root
	@go -C lab run ./modcheck

vet: ## run go vet in every module
	@$(call each,$(MODULES),go vet ./...)

# For linux, lint runs go vet.
cross: ## run go vet for darwin and, without the command, windows; build the command for linux, darwin and 32 bits
	@$(call each,$(PORTABLE),GOOS=darwin go vet ./...)
	@$(call each,$(filter-out cmd/holdfast,$(PORTABLE)),GOOS=windows go vet ./...)
	@for os in linux darwin; do \
		GOOS=$$os go -C cmd/holdfast build -o /dev/null .; \
	done
	@GOARCH=386 CGO_ENABLED=0 go -C cmd/holdfast build -o /dev/null .

lint: $(LINT) ## run golangci-lint in every module, and actionlint on the workflows
	@$(call each,$(MODULES),'$(CURDIR)/$(LINT)' run --config '$(CURDIR)/.golangci.yml' ./...)
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION) -shellcheck= -pyflakes=

$(LINT):
	GOBIN='$(CURDIR)/$(@D)' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

vuln: ## run govulncheck in every module; needs its database on the network
	@$(call each,$(MODULES),go run golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION) ./...)

## -- products

.PHONY: build build-bench packages packages-check docs docs-check pictures pictures-browser release release-check
build: ## build the command holdfast in bin/
	go -C cmd/holdfast build -o ../../bin/ .

build-bench: ## build the benchmarks without running them
	go -C lab/bench build -o /dev/null ./...

# goreleaser builds the working tree: with changes that are not committed, the binary's version says so.
packages: $(GORELEASER) $(SBOM) ## build the packages of a release in dist/; ONLY=linux_amd64 builds for one system
	PATH="$(CURDIR)/$(dir $(SBOM)):$$PATH" $(if $(ONLY),PACKAGES_TRIED_ONLY=true) $(GORELEASER) release --config cmd/holdfast/packaging/goreleaser.yaml --snapshot --clean

packages-check: ## install the packages in empty roots and run them there
	HOLDFAST_PACKAGES='$(CURDIR)/dist' go -C lab test -count=1 -v $(TESTFLAGS) ./install

$(GORELEASER):
	CGO_ENABLED=0 GOBIN='$(CURDIR)/$(@D)' go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)

$(SBOM):
	CGO_ENABLED=0 GOBIN='$(CURDIR)/$(@D)' go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_VERSION)

docs: ## run the transcripts, and write them, the reference, the examples, figures and tables into the documents
	@go -C cmd/holdfast test -count=1 -run '^TestReference$$' ./cli -args -write
	@go -C lab run ./transcript
	@go -C lab/figures run .

docs-check: ## fail if make docs would change a document
	@go -C cmd/holdfast test -count=1 -run '^TestReference$$' ./cli
	@go -C lab run ./transcript -check
	@go -C lab/figures run . -check

pictures: ## record the terminals in docs/pictures; needs root, tmux and npx
	@go -C lab run ./pictures

pictures-browser: ## take the pictures of the dashboard in docs/pictures; needs Chromium
	@cd lab/browser && HOLDFAST_REQUIRE=browser go test -count=1 -run '^TestPictures$$' . -args -pictures='$(CURDIR)/docs/pictures'

release: ## prove VERSION=vX.Y.Z and tag every module in this repository; pushes nothing
	@go -C lab run ./release -version '$(VERSION)'

release-check: ## check that the working tree can be released: install it as users do
	@go -C lab run ./release -check -version '$(VERSION)'
