# The house from outside: set up, build, test, check, show, install, package.
#
#   cargo builds the Rust rooms, softpmu/Makefile the Valgrind tool; this file only strings them together.
#   Everything that is made lands in target/ (cargo) and build/ (all else); `make clean` removes both.

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

VERSION     := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
PROGRAM     := target/release/hardmeter

# A room that is not there yet is passed over, and the reader is told.
SOFTPMU     := $(wildcard softpmu/Makefile)

say = @printf '\033[1m==> %s\033[0m\n' '$(1)' | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables: PREFIX=%s DESTDIR=%s JOBS=%s\n' '$(PREFIX)' '$(DESTDIR)' '$(JOBS)'

.PHONY: setup
setup: ## install what building, testing and checking need (Debian 12)
	$(call say,setting up)
	@scripts/setup --checks

.PHONY: build
build: build-softpmu ## build the command and the software PMU
	$(call say,building the hardmeter command)
	@$(CARGO) build --release --locked --jobs $(JOBS)
	@printf 'built %s\n' '$(PROGRAM)'

.PHONY: build-softpmu
build-softpmu:
ifneq ($(SOFTPMU),)
	$(call say,building the software PMU)
	@$(MAKE) --no-print-directory -C softpmu
else
	@echo 'softpmu/ has no Makefile: the software PMU is not built'
endif

.PHONY: test
test: build-softpmu ## run every test: unit, integration, end to end
	$(call say,testing the software PMU)
ifneq ($(SOFTPMU),)
	@$(MAKE) --no-print-directory -C softpmu test
endif
	$(call say,testing the Rust rooms and the command from end to end)
	@$(CARGO) test --workspace --locked --jobs $(JOBS) --no-fail-fast 2>&1 | scripts/test-summary

.PHONY: lint
lint: ## check formatting, clippy, C and shell style; what a machine lacks is skipped, and said
	@scripts/lint

.PHONY: format
format: ## format Rust and C in place
	@$(CARGO) fmt --all
	@scripts/lint --list c | xargs --no-run-if-empty clang-format -i

.PHONY: demo
demo: ## profile a throwaway PostgreSQL under pgbench and print where it misses the caches
	@scripts/demo

# bench/PART/run measures one part against its peers; `make bench-report` runs bench/report/run.
bench-%: build ## run bench/PART/run
	$(call say,measuring $*)
	@[ -x bench/$*/run ] || { echo "there is no bench/$*/run; parts: $$(ls -d bench/*/run 2>/dev/null | xargs -r -n1 dirname | xargs -r -n1 basename | xargs)" >&2; exit 2; }
	@bench/$*/run

.PHONY: install
install: build ## install below PREFIX (default /usr/local), staged below DESTDIR
	$(call say,installing below $(DESTDIR)$(PREFIX))
	@scripts/install --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

.PHONY: uninstall
uninstall: ## remove what install put there
	@scripts/install --remove --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

.PHONY: deb
deb: build ## make build/hardmeter_VERSION_ARCH.deb
	$(call say,packaging $(VERSION))
	@scripts/package-deb '$(VERSION)'

.PHONY: clean
clean: ## remove everything that was built
	@rm -rf target build
ifneq ($(SOFTPMU),)
	@$(MAKE) --no-print-directory -C softpmu clean
endif
