# Every command works on each module in its own folder, as its users will see
# it. The workspace is for editors and for `go test work` by hand.
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
# The benchmarks are a program, not a part of the suite, and are not tidied.
TESTED := $(filter-out lab/bench,$(MODULES))
# These are tests that run on Linux, with libraries that take minutes to compile.
PORTABLE := $(filter-out lab/observe lab/adapters lab/browser,$(MODULES))

TESTFLAGS ?=
# A count, not a time: at the end of a time Go 1.26 fails now and then with "context
# deadline exceeded" (golang/go#75804).
FUZZTIME ?= 1000000x
KILLS ?= 1000
ROUNDS ?= 200
RACES ?= 10000
SOAK ?= 30m
PROGRAMS ?= 1h
VERSION ?=

# $(call each,modules,command): the command in the folder of each module, all of
# them even if one fails.
each = failed=0; for m in $(1); do echo "== $$m: $(2)"; (cd $$m && $(2)) || failed=1; done; [ $$failed = 0 ]

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## -- tests

# Built first, and in the shell's place: a signal of make then reaches what runs the tests, and
# ends them.
SUITE = go -C lab build -o ../.cache/suite ./suite && exec .cache/suite

.PHONY: test test-all test-nightly thorough part stress clients alerts fuzz programs scenario crash chaos interop interop-mongolock interop-mongodoc interop-eslock faults faults-long faults-kept soak engines bench bench-serve bench-dashboard bench-small
test: ## the tests of every module but the thorough ones, in minutes; TESTFLAGS go to go test
	@$(SUITE) test $(if $(FOLDERS),-packages '$(FOLDERS)') $(TESTFLAGS)

thorough: ## all tests under the race detector, the thorough ones too; FOLDERS is an expression, such as 'pglock(/.*)?'
	@$(SUITE) all $(if $(FOLDERS),-packages '$(FOLDERS)') $(TESTFLAGS)

test-all: thorough ## all that can be run in some two hours: the thorough tests, and what follows with all of its rounds
	@$(MAKE) fuzz programs crash chaos clients alerts interop faults PROGRAMS=1m

test-nightly: ## the thorough tests with the newest OpenSearch, where its tests start one; needs pip
	@export HOLDFAST_TEST_NEWER=1; $(SUITE) all $(TESTFLAGS)

# What takes too long for every change, in parts of some five minutes each. The gate runs one
# of them: the commit chooses, so that all run every few commits. Each package with tests is in
# one of their FOLDERS.
part-1 = fuzz thorough FUZZTIME=50000x FOLDERS='server(/.*)?|fence/.*'
part-2 = programs crash chaos thorough PROGRAMS=30s KILLS=300 ROUNDS=60 FOLDERS='\.|(adapt|docs/examples|driver|internal|memlock|metrics/observe|sqlitelock)(/.*)?'
part-3 = interop-mongolock interop-mongodoc thorough RACES=5000 FOLDERS='mongolock/compat/mongo-lock|mongolock(/fence|/integration(/fence|/dropin)?)?'
part-4 = interop-eslock clients alerts thorough RACES=5000 FOLDERS='metrics/(otel|prom)holdfast|lab/(adapters|explore|figures|install|internal|interop|modcheck|observe|outsider|pictures|portable|printed|proxy|release|suite|transcript)(/.*)?'
part-5 = faults bench-small RUN=TestFaults STORE=sqlite,redis,mongodb,serve
part-6 = faults release-check packages packages-check RUN=TestFaults ONLY=linux_amd64 STORE=elasticsearch,opensearch-cluster,redis-sentinel,redis-sentinel-replica,postgres-standby,mongodoc-ttl,mongodoc-value,serve-sqlite
part-7 = faults thorough RUN=TestFaults STORE=postgres,opensearch,mongodoc-flag,serve-redis FOLDERS='lab/(campaign|queue|openapi)(/.*)?'
part-8 = thorough FOLDERS='(pglock|redislock)(/.*)?|lab/recipes'
part-9 = thorough FOLDERS='eslock(/.*)?|lab/linear'
part-10 = thorough FOLDERS='mongolock/compat/mongodoc|mongolock/integration/mongodoc|httplock(/.*)?|lab/(httpfence|engines)'
part-11 = thorough FOLDERS='lab/mutants'
part-12 = thorough FOLDERS='cmd/.*|lab/browser'
part: ## one of the twelve parts of what takes long: make part N=7
	$(MAKE) $(or $(part-$(N)),$(error N is 1 to 12: make part N=7))

# Each store has its tests beside it; those that ask a server are in its folder integration.
STRESSED ?= \.|driver/.*|memlock|.*lock|cmd/holdfast(/.*)?
stress: ## runs each test of the folders STRESSED (root, drivertest, stores, command) N (200) times under load, or just those that RUN matches; RACE=false and SHORT=true for many more in the same time
	@$(SUITE) stress -times $(or $(N),200) -race=$(or $(RACE),true) -short=$(or $(SHORT),false) -packages '$(STRESSED)' -run '$(RUN)'

clients: ## tests eslock through the official clients of Elasticsearch and OpenSearch, which compile for minutes
	cd lab && go test -race -count=1 -timeout 30m -tags officialclients ./esclients

alerts: ## runs the alert rules of docs/observe on samples, with the engine of Prometheus, which compiles for minutes
	cd lab/observe && go test -race -count=1 -timeout 30m -tags promqltest ./rules

programs: ## random programs of the Client, and of its adapters, on bad networks, each for PROGRAMS (1h)
	go test -race -count=1 -v -timeout 0 -run '^TestRandomPrograms$$' . -args -programs.for=$(PROGRAMS)
	go test -race -count=1 -v -timeout 0 -run '^TestPrograms$$' ./adapt -args -programs.for=$(PROGRAMS)

fuzz: ## every fuzz target for FUZZTIME (1000000x) tries
	@for m in $(TESTED); do \
		(cd $$m; go test -list '^Fuzz' ./... \
			| awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, t[i]; n = 0 }' \
			| while read -r package target; do \
				echo "== $$package $$target"; \
				go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" < /dev/null; \
			done); \
	done

# Of a scenario in docs/dev/scenarios.md, what is named after it: tests, and subtests of the suites, in every store.
SCENARIO = S0*$(or $(N),$(error N is the number of a scenario: make scenario N=7a))_
scenario: ## the tests of scenario N, such as 5 or 7a, in every store
	@$(SUITE) all -count=1 -run '^Test$(SCENARIO)|^Test(Conformance|Faults|Backend)/^$(SCENARIO)|^Test(Conformance|Faults)/^(opensearch|elasticsearch|flag|TTL|value)$$/^$(SCENARIO)'

crash: ## kills processes that write to a SQLite file, KILLS (1000) times
	cd sqlitelock && go test -count=1 -v -timeout 60m -run '^TestCrash$$' -args -crash.kills=$(KILLS)

chaos: ## kills, stops and suspends the command holdfast while others wait, ROUNDS (200) times
	cd cmd/holdfast && go test -count=1 -v -timeout 60m -run '^TestChaos$$' . -args -chaos.rounds=$(ROUNDS)

INTEROP = cd lab && go test -race -count=1 -v -timeout 60m -run 'Races$$|Broken' ./interop
interop: interop-mongolock interop-mongodoc interop-eslock ## races old programs against new ones for one resource, RACES (10000) times, and a fifth of that in each other old layout

interop-mongolock:
	$(INTEROP)/mongolock -args -interop.rounds=$(RACES)

interop-mongodoc:
	$(INTEROP)/mongodoc -args -interop.rounds=$$(($(RACES) / 5))

interop-eslock:
	$(INTEROP)/eslock -args -interop.rounds=$$(($(RACES) / 5))

STORE ?= sqlite,redis,redis-sentinel,redis-sentinel-replica,postgres,postgres-standby,mongodb,mongodoc-flag,mongodoc-ttl,mongodoc-value,opensearch,opensearch-cluster,elasticsearch,serve,serve-redis,serve-sqlite
FAULTS = mkdir -p .cache/faults && cd lab && go test -count=1 -v -timeout 180m $(if $(RUN),-run '$(RUN)') ./campaign -args -campaign.report='$(CURDIR)/.cache/faults' -campaign.stores=$(STORE) $(if $(SEED),-campaign.seed=$(SEED)) $(if $(FAULT),-campaign.only='$(FAULT)')

faults: ## lets processes take locks for 15 s in each STORE (all) while everything around them fails, or FAULT alone, from SEED (any)
	$(FAULTS) -campaign=15s

faults-long: ## the same for 5 min in each STORE, about an hour in all
	$(FAULTS) -campaign=5m

# In the order of STORE, as tables have them.
REPORTS ?= .cache/faults/*.json
faults-kept: ## keeps REPORTS (.cache/faults/*.json) of campaigns as TABLE (long, copies, serve) of docs/dev/faults.md, or one of them as its time line (LINE=true)
	@go -C lab run ./campaign/keep $(if $(LINE),-line ../docs/dev/faults-line.json,-to ../docs/dev/faults.json -table '$(TABLE)') $(abspath $(wildcard $(REPORTS)))
	@go -C lab/figures run .

soak: ## lets 200 workers take locks in four stores for SOAK (30m), and wants that they use no more in the end
	cd lab && go test -count=1 -v -parallel 4 -timeout 180m -run '^TestSoak$$' ./campaign -args -soak=$(SOAK)

engines: ## starts the servers that tests need, for work by hand, and prints their URLs; Ctrl-C ends them
	@go -C lab build -o ../.cache/engines/ ./engines/up && exec .cache/engines/up

bench: ## measures, compares with the targets and keeps the result in docs
	cd lab/bench && status=0; go run . -keep ../../docs/dev/performance.json || status=$$?; go -C ../figures run . && exit $$status

bench-serve: ## the same for holdfast serve, beside its stores and etcd
	cd lab/bench && status=0; go run . -serve -keep ../../docs/dev/performance-serve.json || status=$$?; go -C ../figures run . && exit $$status

bench-dashboard: ## what it costs holdfast serve and its stores when somebody watches the dashboard; some fourteen minutes
	cd lab/bench && status=0; go run . -dashboard -keep ../../docs/dev/performance-dashboard.json || status=$$?; go -C ../figures run . && exit $$status

# A measurement that nobody tries does not go on when what it measures changes.
bench-small: ## tries each measurement in one short round, without a verdict
	@go -C lab/bench build -o ../../.cache/bench .
	@cd lab/bench; for which in '' -serve -dashboard; do ../../.cache/bench -small $$which || exit 1; done

## -- checks

.PHONY: check fmt fmt-check tidy check-modules vet cross lint vuln
check: fmt-check check-modules cross lint docs-check ## all that can be checked without running a test

fmt: ## formats all Go files
	@git ls-files -z -co --exclude-standard -- '*.go' | xargs -0 gofmt -s -w

fmt-check: ## fails if a Go file is not formatted
	@unformatted=$$(git ls-files -z -co --exclude-standard -- '*.go' | xargs -0 gofmt -s -l); \
	if [ -n "$$unformatted" ]; then echo "make fmt would change:"; echo "$$unformatted"; exit 1; fi

tidy: ## go mod tidy in every module but the benchmarks
	@$(call each,$(TESTED),go mod tidy)

check-modules: ## tidy, replaces, go directives; the root module needs no other
	@go -C lab run ./modcheck

vet: ## go vet of every module
	@$(call each,$(MODULES),go vet ./...)

# Lint has go vet for linux.
cross: ## go vet of every module for darwin and windows, and builds of the command for these, linux and 32 bits
	@for os in darwin windows; do \
		$(call each,$(PORTABLE),GOOS=$$os go vet ./...); \
	done
	@for os in linux darwin windows; do \
		GOOS=$$os go -C cmd/holdfast build -o /dev/null .; \
	done
	@GOARCH=386 CGO_ENABLED=0 go -C cmd/holdfast build -o /dev/null .

lint: $(LINT) ## golangci-lint in every module, and actionlint of the workflows
	@$(call each,$(MODULES),'$(CURDIR)/$(LINT)' run --config '$(CURDIR)/.golangci.yml' ./...)
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION) -shellcheck= -pyflakes=

$(LINT):
	GOBIN='$(CURDIR)/$(@D)' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

vuln: ## govulncheck in every module (needs its vulnerability database)
	@$(call each,$(MODULES),go run golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION) ./...)

## -- products

.PHONY: build build-bench packages packages-check docs docs-check pictures pictures-browser release release-check
build: ## the command holdfast, in bin/
	go -C cmd/holdfast build -o ../../bin/ .

build-bench: ## the benchmarks, without running them
	go -C lab/bench build -o /dev/null ./...

# Of the last commit: a change that is not committed is in the binary, which then says so.
packages: $(GORELEASER) $(SBOM) ## all that a release offers to install, in dist/; ONLY=linux_amd64 for this system alone
	PATH="$(CURDIR)/$(dir $(SBOM)):$$PATH" $(if $(ONLY),PACKAGES_TRIED_ONLY=true) $(GORELEASER) release --snapshot --clean

packages-check: ## tries what make packages has made: unpacks it into empty roots and runs it there
	HOLDFAST_PACKAGES='$(CURDIR)/dist' go -C lab test -count=1 -v $(TESTFLAGS) ./install

$(GORELEASER):
	CGO_ENABLED=0 GOBIN='$(CURDIR)/$(@D)' go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)

$(SBOM):
	CGO_ENABLED=0 GOBIN='$(CURDIR)/$(@D)' go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_VERSION)

docs: ## runs the transcripts again and writes them, and the examples, into the documents; draws docs/dev/figures and writes the tables of result files
	@go -C lab run ./transcript
	@go -C lab/figures run .

docs-check: ## fails if a document shows what does not happen, or a figure or table what no result file has
	@go -C lab run ./transcript -check
	@go -C lab/figures run . -check

pictures: ## records the terminals of docs/pictures again; needs root, tmux and npx
	@go -C lab run ./pictures

pictures-browser: ## takes the pictures of the dashboard in docs/pictures again; needs Chromium
	@cd lab/browser && HOLDFAST_REQUIRE=browser go test -count=1 -run '^TestPictures$$' . -args -pictures='$(CURDIR)/docs/pictures'

release: ## proves VERSION=vX.Y.Z, then tags every module in this repository; pushes nothing
	@go -C lab run ./release -version '$(VERSION)'

release-check: ## proves that the working tree can be released: installs it as a user does
	@go -C lab run ./release -check -version '$(VERSION)'
