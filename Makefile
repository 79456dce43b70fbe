# `make` lists the targets. Everything needs Go alone; a Postgres is found, or fetched, by the program and the tests.

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT         := .bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# The race detector needs a C compiler; go env says 0 where there is none.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

# Tests of one package at once. Most of the time they wait, so there may be more of them than cores.
PARALLEL ?= 4

# What several goroutines share is in these; the others' tests take twice the time with the race detector, so it is for make race.
RACED := ./handlers ./handlers/webhook ./scheduled ./scheduled/api/... ./scheduled/internal/... ./scheduled/scheduledtest ./store ./store/inspect ./store/localpg ./store/seal ./store/storetest

# Of the others, these wait longest, so they begin first.
WAITING := ./cmd ./scheduled/bench

# This one keeps the processors busy, so it does not run beside those that measure times.
BUSY := ./scheduled/dashboard

# The modules below the root's, by their folders. They need what an application that imports the root's must not need. The
# go command takes each by itself, so every target that looks at all packages goes through this list, too.
MODULES := $(patsubst ./%/go.mod,%,$(sort $(shell find . -mindepth 2 -name go.mod -not -path './.*')))

# In this one a page has a second to follow a change, so it runs alone.
BROWSER := cmd/internal/browsertest

# These measure how late tasks start, so they run alone.
TIMED := ./scheduled/sizes

# The race detector would wait a second at the end of each process.
export GORACE ?= atexit_sleep_ms=0
# make lint has vet. It compiles each package once more, for a minute and a half where nothing is cached.
TEST = -vet=off -parallel $(PARALLEL) -timeout 20m $(TESTFLAGS)

.DEFAULT_GOAL := help
.PHONY: help run migrate demo prove bench test race torture mutants sizes soak fuzz clients pictures plots pages image lint fmt cover clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Where the dashboard of make run is. On a private Postgres it needs no key.
HTTP_ADDR ?= 127.0.0.1:8080

run: ## Migrate and serve, with the dashboard, on DATABASE_URL or a private Postgres
	@test -e .bin/tasktable || echo "building … (the first time takes a minute or two)"
	@go build -o .bin/tasktable .
	@exec .bin/tasktable serve --migrate --http-addr $(HTTP_ADDR) --dashboard $(if $(DATABASE_URL),,--dashboard-open)

migrate: ## Bring the database's schema up to date
	go run . migrate

demo: ## Play the example live, and audit it
	go run . demo

prove: ## Kill nodes while thousands of tasks run, and show that none is lost
	@go build -o .bin/tasktable .
	@exec .bin/tasktable prove

bench: ## Measure the engine: drain, precise, herd, schedule, idle, recover
	@go build -o .bin/bench ./scheduled/bench
	@for bench in drain precise herd schedule idle recover crowd; do .bin/bench $$bench || exit 1; done

# The checks of accessibility, for the tests of the dashboard in a browser. Without npm these are left out.
AXE_VERSION := 4.14.1
AXE         := .bin/axe-core-$(AXE_VERSION).js

$(AXE):
	@mkdir -p .bin
	@(cd .bin && npm pack --silent axe-core@$(AXE_VERSION) && tar -xzf axe-core-$(AXE_VERSION).tgz -O package/axe.min.js > axe.part && \
		mv axe.part axe-core-$(AXE_VERSION).js) >/dev/null 2>&1 || \
		echo "npm does not give axe-core: THE DASHBOARD'S ACCESSIBILITY IS NOT TESTED"

# Some of the pictures that the browser tests take. They show the week of browsertest/testdata/week.sql.
PICTURES := scheduled/dashboard/pictures

pictures: plots ## Take the pictures of the dashboard, and draw the plots, anew
	@mkdir -p $(PICTURES) .bin/pictures
	TASKTABLE_TEST_PAGES=all TASKTABLE_TEST_PICTURES=$(CURDIR)/.bin/pictures go test -C cmd/internal/browsertest -count=1 -timeout 10m -run 'TestPages/1280'
	cp .bin/pictures/task-failed-1280-light.png $(PICTURES)/task.png
	cp .bin/pictures/overview-1280-light.png $(PICTURES)/overview.png
	cp .bin/pictures/recurring-1280-dark.png $(PICTURES)/recurring.png
	cp .bin/pictures/tasks-failed-1280-dark.png $(PICTURES)/tasks.png

plots: ## Run the benches that the plots show, for some minutes, and draw them anew
	@mkdir -p .bin scheduled/plots
	@go build -o .bin/bench ./scheduled/bench
	@for bench in drain precise ramp "scale -n 5000" "scale -n 50000" "scale -n 500000" "scale -n 2000000"; do \
		.bin/bench $$bench -json || exit 1; \
	done > .bin/figures.json
	go run -C scheduled/bench/plots . $(CURDIR)/scheduled/plots < .bin/figures.json

pages: $(AXE) ## Look at each page of the dashboard in wide and narrow windows, in light and dark colors
	TASKTABLE_TEST_PAGES=all go test -C cmd/internal/browsertest -count=1 -timeout 10m -v -run 'TestPages'

# Each group runs even if one before it has failed, and the failures are told once more at the end. The other modules
# run beside the busy packages, because most of their time they wait.
test: $(AXE) ## Check the format, build, and run all tests
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi
	@if [ -z "$(RACE)" ]; then echo "no C compiler: the tests run without the race detector"; fi
	@if ! command -v chromium >/dev/null; then echo "no chromium on the PATH: THE DASHBOARD IS NOT TESTED IN A BROWSER"; fi
	go build ./...
	go build $(RACE) $(RACED) # now, because the compiler would keep the processors from the first tests
	@for module in $(MODULES); do echo "go build -C $$module ./..."; go build -C $$module -o /dev/null ./... || exit 1; done
	@mkdir -p .bin && rm -f .bin/test.out .bin/test.failed
	@group() { echo "go test $$*"; { go test "$$@" 2>&1 || touch .bin/test.failed; } | tee -a .bin/test.out; }; \
	group $(RACE) $(TEST) $(RACED); \
	group -C scheduled/torture $(RACE) $(TEST) ./...; \
	group -p 4 $(TEST) $(WAITING) $$(go list ./... | grep -v -x -F "$$(go list $(RACED) $(WAITING) $(BUSY) $(TIMED))"); \
	for module in $(filter-out scheduled/torture $(BROWSER),$(MODULES)); do group -C $$module $(TEST) ./...; done & \
	group $(TEST) $(BUSY); \
	wait; \
	for module in $(filter $(BROWSER),$(MODULES)); do group -C $$module $(TEST) ./...; done; \
	group $(TEST) $(TIMED); \
	group -C scheduled/torture -tags mutants -run '^TestMutantsApply$$'
	@if [ -e .bin/test.failed ]; then echo; echo "FAILED:"; grep -E '^ *--- FAIL: |^FAIL[[:space:]]|^panic: ' .bin/test.out; exit 1; fi

race: ## Run all tests with the race detector
	go test $(RACE) $(TEST) ./...
	@for module in $(MODULES); do go test -C $$module $(RACE) $(TEST) ./... || exit 1; done

# One after the other, each with all cores. What one finds stays in its package's testdata/fuzz, and from then on is a test. Go's
# fuzzer sometimes takes the end of its time for a failure, and says so in a line of its own.
FUZZTIME ?= 30s

fuzz: ## Fuzz each target for FUZZTIME (30s)
	@mkdir -p .bin
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			go test -C $$(dirname $$file) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s 2>&1 | tee .bin/fuzz.out; \
			if grep -q '^FAIL' .bin/fuzz.out && ! grep -q '^    context deadline exceeded$$' .bin/fuzz.out; then exit 1; fi; \
		done; \
	done

soak: ## Work a steady load off for ten minutes; nothing may grow
	TASKTABLE_TEST_SOAK=10m go test -timeout 20m -v -run 'TestSoak$$' ./scheduled

# SEED repeats the decisions of a run; each run prints its own. A failure prints the faults and the stories of the tasks, too.
SECONDS ?= 60
torture: ## Run the engine under faults, with an oracle: SECONDS=60 SEED=...
	TASKTABLE_TORTURE_SECONDS=$(SECONDS) TASKTABLE_TORTURE_SEED=$(SEED) go test -C scheduled/torture -timeout 60m -count=1 -v -run '^TestTorture$$'

mutants: ## Break the engine in each known way; the torture test must notice
	go test -C scheduled/torture -tags mutants -timeout 120m -count=1 -v -run '^(TestMutants|TestClocks)$$'

sizes: ## Measure how late plain tasks start beside ten times more of each thing
	TASKTABLE_TEST_SIZES=long go test -timeout 30m -count=1 -v -run '^TestSizes$$' ./scheduled/sizes

# Needs Node 20, Java 17 and Python 3.11. Debian: apt-get install nodejs npm default-jre-headless python3-certifi
# python3-dateutil python3-urllib3. The versions of the generators are those of testdata/package-lock.json.
clients: ## Generate clients for Python and TypeScript, and use them
	@mkdir -p .bin/clients
	cp scheduled/api/clients/testdata/package.json scheduled/api/clients/testdata/package-lock.json .bin/clients
	npm ci --prefix .bin/clients --no-audit --no-fund
	TASKTABLE_TEST_CLIENTS="$(CURDIR)/.bin/clients" go test -C scheduled/api/clients -timeout 20m -count=1 -v

# Needs a Docker daemon that has, or can pull, golang:1.26, postgres:18 and postgres:17-alpine.
image: ## Build the image, serve by compose.yaml, and run a test on a Postgres in a container
	TASKTABLE_TEST_IMAGE=1 go test -timeout 30m -count=1 -v -run '^TestImage$$' ./cmd
	TASKTABLE_TEST_DATABASE_URL=container go test -timeout 5m -count=1 ./store/storetest/container ./store/storetest

lint: $(GOLANGCI_LINT) ## Run golangci-lint
	$(GOLANGCI_LINT) run ./...
	@for module in $(MODULES); do echo "lint $$module"; (cd $$module && $(CURDIR)/$(GOLANGCI_LINT) run ./...) || exit 1; done

# Built from source through the Go module proxy, so it is of this very version and needs no other download.
$(GOLANGCI_LINT):
	GOBIN="$(CURDIR)/.bin" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .bin/golangci-lint $@

fmt: ## Format the code
	gofmt -w .

cover: ## Run the tests, and show the coverage
	@mkdir -p .bin
	go test -timeout 5m -coverpkg=./... -coverprofile=.bin/cover.out $(TESTFLAGS) ./...
	go tool cover -func=.bin/cover.out

clean: ## Remove what make made (never the private Postgres)
	rm -rf .bin
