# Entry points of the repository: set up, build, test, check, demo, install, package.
#
#   cargo builds the Rust crates, measure/simulate/Makefile the Valgrind tool; this file only calls them.
#   All output is in target/ (cargo) and build/ (everything else); `make clean` removes both.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS   += --no-builtin-rules
.DEFAULT_GOAL := build

PREFIX      ?= /usr/local
DESTDIR     ?=
CARGO       ?= scripts/cargo
JOBS        ?= $(shell nproc)

# A profile of Cargo: release, or dev, which is what the tests use, so that CI compiles once. (PROFILE is a variable of PGXS.)
CARGO_BUILD ?= release

VERSION     := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
PROGRAM     := target/$(CARGO_BUILD:dev=debug)/hardmeter
# A dev build is for the tests. Their dependencies switch on features of common crates, so a build without the tests
# would compile most of the tree a second time.
TARGETS     := $(if $(filter dev,$(CARGO_BUILD)),--workspace --all-targets)

# Targets run one after another, because cargo and measure/simulate/Makefile already use all processors.
.NOTPARALLEL:

say = @printf '==> %s\n' '$(1)'

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables: PREFIX=%s DESTDIR=%s JOBS=%s\n' '$(PREFIX)' '$(DESTDIR)' '$(JOBS)'

.PHONY: setup
setup: ## install what building, testing and checking need (Debian 12 or 13)
	$(call say,setting up)
	@scripts/setup --checks

.PHONY: build
build: build-command build-plan build-persist build-objects build-place ## build the command, the software PMU, the PostgreSQL extension, p3l, OO1, OO7, SPLiT

# All that `make demo` needs.
.PHONY: build-command
build-command: build-simulate
	$(call say,building the hardmeter command)
	@$(CARGO) build --profile $(CARGO_BUILD) --locked --jobs $(JOBS) $(TARGETS)
	@printf 'built %s\n' '$(PROGRAM)'

.PHONY: build-simulate
build-simulate:
	$(call say,building the software PMU)
	@$(MAKE) --no-print-directory -C measure/simulate

.PHONY: build-plan
build-plan:
	$(call say,building the PostgreSQL extension)
	@$(MAKE) --no-print-directory -C plan

.PHONY: build-persist
build-persist:
	$(call say,building the persistent store)
	@cmake -S persist -B build/persist >/dev/null
	@cmake --build build/persist --parallel $(JOBS) -- --no-print-directory -s >/dev/null # warnings and errors are on stderr

# The benchmarks of persistent objects: a program for each mode, each with its own compiler and library.
.PHONY: build-objects
build-objects: build-persist
	$(call say,building the programs of OO1 and OO7)
	@for name in oo1 oo7; do \
	  cmake -S prove/$$name -B build/$$name >/dev/null; \
	  cmake --build build/$$name --parallel $(JOBS) -- --no-print-directory -s >/dev/null; \
	done

# SPLiT: the library, and modules for whatever servers this machine has headers of.
.PHONY: build-place
build-place:
	$(call say,building SPLiT)
	@cmake -S place -B build/place >/dev/null
	@cmake --build build/place --parallel $(JOBS) -- --no-print-directory -s >/dev/null # warnings and errors are on stderr

# Every part runs, whatever fails; scripts/run-tests closes with one table. One part alone: `make test-PART`.
.PHONY: test
test: ## run every test: unit, integration, end to end
	@scripts/run-tests CARGO_BUILD=$(CARGO_BUILD)

.PHONY: test-quick
test-quick: ## run the tests that need no server, in under three minutes
	@scripts/run-tests CARGO_BUILD=$(CARGO_BUILD) scripts simulate place rust-units

# The parts of `make test`, in the order in which they start, the longest first. scripts/run-tests reads them from here,
# builds what they depend on, and runs two at a time.
.PHONY: test-scripts test-simulate test-plan test-persist test-place test-objects test-rust
# --show-output: a test that skips prints why, and libtest hides what passing tests print.
test-rust: build-simulate build-plan build-objects build-place #: the Rust crates, and the command from end to end
	@$(CARGO) test --workspace --locked --jobs $(JOBS) --no-fail-fast -- --show-output
test-scripts: #: the scripts that build and check the tree
	@scripts/test/run
test-simulate: build-simulate #: the software PMU: simulator and Valgrind tool
	@$(MAKE) --no-print-directory -C measure/simulate test
test-plan: build-plan #: ccopt on a PostgreSQL server
	@$(MAKE) --no-print-directory -C plan installcheck
test-persist: build-persist #: the persistent store
	@ctest --test-dir build/persist --output-on-failure --parallel $(JOBS)
test-place: build-place #: SPLiT: the library, its queues and modules
	@ctest --test-dir build/place --output-on-failure
test-objects: build-objects #: the programs of OO1 and OO7
	@ctest --test-dir build/oo1 --output-on-failure
	@ctest --test-dir build/oo7 --output-on-failure
.PHONY: test-rust-units
test-rust-units: #+ the unit tests of the Rust crates (also in rust)
	@$(CARGO) test --workspace --locked --jobs $(JOBS) --no-fail-fast --lib -- --show-output

# FOLDER, WHAT, words for ctest under the address and the thread sanitizer: builds and tests both.
test_sanitized = for sanitizers in address,undefined thread; do \
    printf '==> testing %s under %s sanitizers\n' '$(2)' "$$sanitizers"; \
    folder=build/$(1)-$${sanitizers%%,*}; \
    cmake -S $(1) -B "$$folder" -DSANITIZE="$$sanitizers" >/dev/null; \
    cmake --build "$$folder" --parallel $(JOBS) -- --no-print-directory -s >/dev/null; \
    [ $$sanitizers = thread ] && chosen=($(4)) || chosen=($(3)); \
    ctest --test-dir "$$folder" --output-on-failure "$${chosen[@]}"; \
  done

# Left out: torture, which kills real processes on a real disk, and the compiler's tests, which sanitizers do not concern.
# Under the thread sanitizer only what has threads: power losses are replayed by one, for many minutes.
.PHONY: test-persist-sanitized
test-persist-sanitized: #: the persistent store under sanitizers
	@$(call test_sanitized,persist,the persistent store,--parallel $(JOBS) $(WITHOUT_KILLS),--parallel $(JOBS) $(THREADED))
WITHOUT_KILLS := --exclude-regex '^(torture|plugin_)'
THREADED := --tests-regex '^test_(threads|scope|pin|evict|prefetch|read_many|commit|pager|swizzle|residency|transaction|pptr|unread)$$'

# The library and its queues; servers are not built with sanitizers.
.PHONY: test-place-sanitized
test-place-sanitized: #: SPLiT under sanitizers
	@$(call test_sanitized,place,SPLiT)

# SHORT=--short: setup, build, the servers' modules and packages only, as CI has time for.
.PHONY: test-postgres
test-postgres: ## the parts on PostgreSQL 16 and 18, which Debian 12 and 13 lack (VERSIONS="16 18"; as root)
	@scripts/test-postgres $(or $(VERSIONS),16 18)

.PHONY: test-platform
test-platform: ## as a new user on PLATFORM=bookworm or trixie: setup, build, packages, demo, test, in a root of its own
	@scripts/test-platform $(SHORT) $(PLATFORM)

# Nothing is installed; qemu-user and libraries of arm64 are unpacked in a folder of their own.
.PHONY: test-aarch64
test-aarch64: ## the persistent store for aarch64 under qemu-user, with pages of 4, 16 and 64 KB
	@scripts/test-aarch64 $(foreach size,$(PAGES),--pages $(size))

# REPORT: a page that `hardmeter report --html` wrote. npm fetches the checks; building needs neither npm nor a browser.
REPORT ?= hardmeter.data.html
.PHONY: check-report screenshots
check-report: ## check a report in a browser: REPORT=FILE.html; what a machine lacks is skipped, and said
	@scripts/check-report '$(REPORT)'
screenshots: ## draw the pictures of docs/report.md: REPORT=FILE.html
	@scripts/check-report --screenshots docs/pictures '$(REPORT)'

.PHONY: lint
lint: ## check formatting, clippy, C and shell style; what a machine lacks is skipped, and said
	@scripts/lint

.PHONY: format
format: ## format Rust and C in place
	@$(CARGO) fmt --all
	@scripts/lint --list c | xargs --no-run-if-empty clang-format -i

.PHONY: demo
demo: ## profile a throwaway PostgreSQL under pgbench and print three findings
	@scripts/demo

# Every part with few repetitions: does it work? No figure of it is one to judge by, and a bar that is short fails nothing.
.PHONY: bench-quick
bench-quick: build ## run every benchmark with --quick
	@broken=(); \
	for program in bench/*/run; do \
	  status=0; $$program --quick || status=$$?; \
	  [ $$status -le 1 ] || broken+=($$program); \
	done; \
	[ $${#broken[@]} = 0 ] || { printf 'could not be measured: %s\n' "$${broken[*]}" >&2; exit 1; }

# bench/PART/run measures one part against its peers; `make bench-report` runs bench/report/run.
bench-%: ## run bench/PART/run
	@[ -x bench/$*/run ] || { echo 'there is no bench/$*/run; there is: $(wildcard bench/*/run)' >&2; exit 2; }
	@$(MAKE) --no-print-directory build
	$(call say,measuring $*)
	@bench/$*/run

# Does not build: installing is often done as root, and root should compile nothing in a user's tree.
.PHONY: install
install: ## install what was built below PREFIX (default /usr/local), staged below DESTDIR
	$(call say,installing below $(DESTDIR)$(PREFIX))
	@scripts/install --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

.PHONY: uninstall
uninstall: ## remove what install put there
	@scripts/install --remove --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

.PHONY: deb
deb: build ## make Debian packages in build/packages
	$(call say,packaging $(VERSION))
	@scripts/package-deb '$(VERSION)'

.PHONY: clean
clean: ## remove everything that was built
	@rm -rf target build
