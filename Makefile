# Everything that README and CI call. GO may name another toolchain.
GO ?= go
BIN := $(CURDIR)/.bin
LINT := $(BIN)/golangci-lint
LINT_VERSION := v2.15.0
MODULES := $(shell sed -n 's/^[[:space:]]*use[[:space:]]*\(\..*\)/\1/p; s/^[[:space:]]\{1,\}\(\.[^ ]*\)$$/\1/p' go.work)

# Modules whose tests start servers: see test-stores.
SERVED := ./internal/servers ./internal/etcdserver $(filter ./stores/%,$(MODULES))

.PHONY: test vet race test-stores faults 386 sim mutants model cross alone lint fuzz bench fleet quickstart

# The command that README gives and CI calls.
test: vet race test-stores 386 cross alone

vet:
	$(GO) vet $(addsuffix /...,$(MODULES))

race:
	$(GO) test -race -timeout 10m $(GOTESTFLAGS) $(addsuffix /...,$(filter-out $(SERVED) ./faults,$(MODULES)))

# Stores on real servers, which the tests start: each store by itself, and then worker
# processes under faults on all of them.
test-stores:
	$(GO) test -race -timeout 10m $(GOTESTFLAGS) $(addsuffix /...,$(SERVED))
	$(GO) test -race -timeout 20m $(GOTESTFLAGS) ./faults/...

# The same faults; the results become docs/faults.md and docs/stores.md. The machine should
# have nothing else to do.
faults:
	$(GO) test -race -timeout 20m -count=1 ./faults -faults.write

# A 32-bit build cannot use the race detector. The examples need cgo-free SQLite, which
# builds there too, but it is the library that must not care.
386:
	CGO_ENABLED=0 GOARCH=386 $(GO) test -timeout 10m $(GOTESTFLAGS) ./...

# Builds and vets, tests included, for every platform that is promised.
cross:
	@for platform in linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 windows/386; do \
		echo "vet $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) vet . || exit 1; \
	done

# Every module also builds without go.work.
alone:
	@for module in $(MODULES); do \
		echo "build $$module alone"; \
		(cd $$module && GOWORK=off $(GO) build -o /dev/null ./... && GOWORK=off $(GO) mod verify >/dev/null) || exit 1; \
	done

lint: $(LINT)
	@failed=; for module in $(MODULES); do \
		echo "lint $$module"; \
		(cd $$module && $(LINT) run --timeout 10m ./...) || failed="$$failed $$module"; \
	done; test -z "$$failed" || { echo "lint:$$failed"; exit 1; }

$(LINT):
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

# Fleets in virtual time; N seeds, from SEED on.
N ?= 1000
SEED ?= 1
sim:
	$(GO) run ./internal/sim/run -seeds $(N) -seed $(SEED)

# Breaks the protocol in one named way after the other: the simulator must find each.
mutants:
	$(GO) run ./internal/sim/mutants

# Searches the models of the protocol, and finds every break of them. It takes spin and gcc.
model:
	$(GO) run ./model

# A minute for each fuzz target, or FUZZTIME.
FUZZTIME ?= 1m
fuzz:
	@for package in . ./stores/redisstore ./examples/kubernetes/ordinal; do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep ^Fuzz); do \
			echo "fuzz $$target of $$package"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

# Ratios within one run; then, beside the peers, ten rounds of some 50 seconds, which write
# docs/benchmarks.md. The machine should have nothing else to do.
bench:
	$(GO) test -run '^$$' -bench . -benchmem -count 6 .
	cd bench && $(GO) run ./cmd/report

# 800 generators on leases in etcd mint 2,000,000 IDs/s for a minute; every ID is checked.
fleet:
	$(GO) run ./bench/fleet

quickstart:
	$(GO) run ./examples/quickstart
