# Pilotlight: "make demo" shows the main job, "make test" tests it. "make help" lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .tmp/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
# Set by deploy/onnxruntime.sh; the worker and its tests read it.
export PILOTLIGHT_ONNXRUNTIME ?=

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Without golang.org/x/net/trace, which gRPC does not need: its templates call methods by name, so that the linker could leave out no method of
# any message of Envoy, and the sidecar would take some 10 MB more memory. TestTheLinkerLeavesOutWhatNobodyCalls watches over it.
TAGS := grpcnotrace
.PHONY: build
build: ## write bin/pilotlight
	go build -trimpath -tags '$(TAGS)' -o bin/pilotlight .

.PHONY: demo
demo: build .cache/onnxruntime ## show a cold model server with and without Pilotlight
	bin/pilotlight demo $(DEMO_FLAGS)

.PHONY: test
test: .cache/onnxruntime ## run every test, with the race detector
	go test -race ./...

# How long each fuzzer runs.
FUZZTIME ?= 60s
# About as long, for the model of the queue.
QUEUE_CHECKS ?= 40000
.PHONY: fuzz
fuzz: ## let fuzzers look for requests, paths and answers that mean two things, and compare the queue with its model
	go test ./proxy/upstream -run '^$$' -fuzz '^FuzzAnswer$$' -fuzztime $(FUZZTIME)
	go test ./proxy -run '^$$' -fuzz '^FuzzAnswer$$' -fuzztime $(FUZZTIME)
	go test ./proxy -run '^$$' -fuzz '^FuzzRequest$$' -fuzztime $(FUZZTIME)
	go test ./proxy -run '^$$' -fuzz '^FuzzPath$$' -fuzztime $(FUZZTIME)
	go test ./proxy -run TestQueueBehavesLikeItsModel -timeout 10m -rapid.checks=$(QUEUE_CHECKS)

.PHONY: fuzz-pages
fuzz-pages: ## let fuzzers look for heads of weight files that hang, crash or mislead the prefetch
	for reader in GGUF Safetensors ONNX Zip; do go test ./warmup/pages -run '^$$' -fuzz "^Fuzz$$reader$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s; done

.PHONY: clients
clients: build ## run real clients against real servers, with Pilotlight in between
	examples/clients/run $(or $(CLIENTS),all)

.PHONY: servers
servers: build ## start real servers cold, with and without Pilotlight, and check what first users get
	examples/servers/run $(or $(SERVERS),all) $(SERVERS_FLAGS)

# Where a real Envoy is, or is put if it is not there yet.
ENVOY_FOLDER ?= $(CURDIR)/.cache/bench
.PHONY: e2e-envoy
e2e-envoy: ## run a real Envoy in front of Pilotlight, and check what users get while it warms, is sick and drains
	[ -x "$(ENVOY_FOLDER)/envoy" ] || internal/bench/install.sh "$(ENVOY_FOLDER)" envoy
	TEST_ENVOY="$(ENVOY_FOLDER)/envoy" go test -count=1 -v -run 'TestEnvoy|TestXDS' .

.PHONY: lint
lint: $(GOLANGCI_LINT) ## run every linter
	$(GOLANGCI_LINT) run ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code
	$(GOLANGCI_LINT) fmt ./...

# The ONNX Runtime library, which the worker opens at run time.
.PHONY: .cache/onnxruntime
.cache/onnxruntime:
	@deploy/onnxruntime.sh

$(GOLANGCI_LINT):
	mkdir -p $(@D)
	GOBIN=$(CURDIR)/.tmp/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tmp/bin/golangci-lint $@

.PHONY: bench-steady
bench-steady: ## try the decision "warm" on simulated servers with planted coldness, under other noise, and on what real servers took
	go test -count=1 -v -run '^TestSimulation' ./warmup/steady

.PHONY: bench
bench: .cache/onnxruntime bench-steady ## run the benchmarks that fail when a promise is broken
	go test -run '^$$' -bench 'ListenToFirstSynthetic|ConvergedToReady' -benchtime 1x .
	go test -run '^$$' -bench 'Held10000|C17|Path' -benchtime 1x ./proxy
	go test -run '^$$' -bench . ./circuit
	go test -run '^$$' -bench ThousandSteps -benchtime 200x ./warmup

# Needs 2 GiB on a disk, in the folder for temporary files; BENCH_PAGES_FLAGS="-pages.dir /elsewhere -pages.size 1073741824" for another.
.PHONY: bench-pages
bench-pages: ## measure the prefetch beside cat, dd and vmtouch, a loader beside the prefetch, and the prefetch in a small memory cgroup, and fail when a promise is broken
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m -v ./warmup/pages $(BENCH_PAGES_FLAGS)
	go test -run '^TestPrefetchInASmallMemoryGroup$$' -count 1 -v .

# To try: make bench-proxy BENCH_PROXY_FLAGS=-quick
BENCH_PROXY_FLAGS ?= -o docs/benchmarks.md
.PHONY: bench-proxy
bench-proxy: build ## measure the hop beside other proxies, about ten minutes, write docs/benchmarks.md, and fail when a promise is broken
	internal/bench/install.sh
	go run ./internal/bench $(BENCH_PROXY_FLAGS)

.PHONY: figures
figures: build .cache/onnxruntime ## run the demo and write its figures into README.md and docs/
	docs/figures.sh
