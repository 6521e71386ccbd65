# SPDX-License-Identifier: Apache-2.0
#
# A short door to the tools behind it: tools/deps installs, meson and ninja build, tests/run-suite tests.
#
#   make            build/brig                       make lint      every check without running brig
#   make deps       what make needs: apt-get         make format    lay out the C files
#   make run        a Python snippet, contained      make bench     brig and its peers, one table
#   make check      a first answer, without root     make fuzz      FUZZ_TIME=60 seconds a target
#   make test       every suite, or SUITES="unit run"
#   make test-asan  all tests under sanitizers       make soak      10 minutes a fuzz target, KILLS=200 a backend, the suites SOAK=20 times,
#   make install    PREFIX=/usr/local, DESTDIR=                     what make test leaves to it (docs/design/tests-repeats.md)
#   make uninstall  what make install put there
#   make deb        Debian packages in build-deb     make test-deb  they pass lintian, and live and die in a clean root
#   make test-engines  as root: the docker suite on the engines of Debian sid
#   make test-cluster  as root: a real Kubernetes and a real Slurm of two nodes, started and stopped here (tests/cluster)
#   make test-kernels  the suites on Debian's kernel with unified cgroups, in QEMU; ARCH=amd64 or arm64: the other one's

BUILD ?= build
# Without one, the prefix that the build folder has; a new one has /usr/local.
PREFIX ?=
FUZZ_TIME ?= 60
SOAK ?= 20
KILLS ?= 200
ARGS ?=
SUITES ?=

# What a run starts.
PROGRAMS = brig brig-more brig-audit brig-egress brig-door brig-gate

# A warning breaks our own builds. An archive is built by compilers that we have not seen.
WERROR ?= $(if $(wildcard .git),true,false)

# Where ccache is, what one clone has compiled another need not: no path of a clone counts.
export CCACHE_BASEDIR = $(CURDIR)
export CCACHE_NOHASHDIR = 1

# meson finds ccache by itself unless a compiler is named.
CCACHE = $(shell command -v ccache)

MESON = meson setup -Dwerror=$(WERROR)
C_FILES = $(shell find include src tests tools bench -name '*.[ch]')

# What a step says is of interest where it fails.
quietly = said=$$($(1) 2>&1) || { printf '%s\n' "$$said"; exit 1; }

.NOTPARALLEL:
.PHONY: build configure build-asan build-fuzz deps run check test test-asan test-engines test-kernels test-cluster deb test-deb bench fuzz soak lint format install uninstall clean

build: configure
	@test ! -e $(BUILD)/brig -o -e $(BUILD)/tests/test_str || echo "building the rest: tests and pages"
	@ninja --quiet -C $(BUILD)

configure:
	@tools/deps --check build
	@test -e $(BUILD)/brig || echo "building, which takes some minutes and says nothing more unless it fails"
	@test -f $(BUILD)/build.ninja || \
		{ $(call quietly,$(MESON) --prefix=$(or $(abspath $(PREFIX)),/usr/local) $(BUILD)); }
	@$(if $(PREFIX),tools/set-prefix $(BUILD) $(abspath $(PREFIX)))
	@$(call quietly,ninja -C $(BUILD) build.ninja)

# The second compiler and the sanitizers in one build.
build-asan: deps-test
	@test -f build-asan/build.ninja || \
		CC="$(CCACHE) clang" $(MESON) -Db_sanitize=address,undefined -Db_lundef=false -Dstatic_cli=false build-asan
	@ninja --quiet -C build-asan

build-fuzz: deps-fuzz
	@test -f build-fuzz/build.ninja || CC=clang $(MESON) -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Dstatic_cli=false build-fuzz
	@ninja --quiet -C build-fuzz

deps: deps-build

deps-%:
	@tools/deps $*

# A first look needs no tests, benchmarks or pages.
run: deps-build configure
	@ninja --quiet -C $(BUILD) $(if $(ARGS),,$(PROGRAMS))
	@$(if $(ARGS),$(BUILD)/brig $(ARGS),tools/demo $(BUILD)/brig)

# No root, engine or Node: what a change breaks first.
check: build
	@ONLY_AS=user tests/run-suite --build $(BUILD) --fast lint unit fuzz run escape

# Two suites alone need what npm brings, a gigabyte.
test: deps-test $(if $(SUITES),$(if $(filter mcp workloads,$(SUITES)),deps-npm),deps-npm) build $(if $(SUITES),$(if $(findstring asan,$(SUITES)),build-asan),build-asan)
	@tests/run-suite --build $(BUILD) $(SUITES)

test-asan: deps-npm build-asan
	@tests/run-suite --whole asan

test-engines: deps-test build
	@BUILD=$(abspath $(BUILD)) tests/docker/engines

test-kernels: deps-kernels build
	@tests/kernels/run $(if $(ARCH),,$(BUILD))

test-cluster: deps-cluster build
	@tests/cluster/run $(BUILD)

deb: deps-deb
	@tools/build-deb build-deb

test-deb: deps-deb
	@tests/deb/run build-deb

bench: deps-bench build
	@bench/run $(BUILD)

fuzz: build-fuzz
	@tools/fuzz build-fuzz $(FUZZ_TIME)
	@tests/differential/compare.py build-fuzz/tests/differential-reader --seconds $(FUZZ_TIME)

soak: deps-test deps-npm build build-asan build-fuzz
	@tools/fuzz build-fuzz 600
	@BRIG_KILLS=$(KILLS) BRIG=$(BUILD)/brig tests/soak
	@tests/run-suite --build $(BUILD) --repeat $(SOAK) run escape
	@tests/run-suite --build $(BUILD) --whole tidy run docker egress daemon kube sdk mcp conformance denied bwrap asan

lint: deps-lint build
	@tests/run-suite --build $(BUILD) --whole lint tidy
	@tools/sizes

format: deps-lint
	@clang-format -i $(C_FILES)

install: build
	@meson install --quiet --no-rebuild -C $(BUILD)
	@tools/set-prefix --say $(BUILD)

uninstall:
	@tools/uninstall $(BUILD)

clean:
	rm -rf $(BUILD) build-asan build-fuzz build-deb
