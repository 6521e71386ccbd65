# SPDX-License-Identifier: Apache-2.0
#
# A short door to the tools behind it: tools/deps installs, meson and ninja build, tests/run-suite tests.
#
#   make            build/brig                       make lint      every check without running brig
#   make run        a Python snippet, contained      make format    lay out the C files
#   make test       every suite                      make bench     brig and its peers, one table
#   make test-asan  the suites under sanitizers      make fuzz      FUZZ_TIME=60 seconds a target
#   make install    PREFIX=/usr/local, DESTDIR=      make soak      10 minutes a fuzz target, KILLS=200 a backend, the suites SOAK=20 times
#   make uninstall  what make install put there
#   make test-kernels  the suites on Debian's kernel with unified cgroups, in QEMU; ARCH=amd64 or arm64: the other one's

BUILD ?= build
# Without one, the prefix that the build folder has; a new one has /usr/local.
PREFIX ?=
FUZZ_TIME ?= 60
SOAK ?= 20
KILLS ?= 200
ARGS ?=

MESON = meson setup
C_FILES = $(shell find include src tests tools bench -name '*.[ch]')

.NOTPARALLEL:
.PHONY: build build-asan build-fuzz deps-test run test test-asan test-kernels bench fuzz soak lint format install uninstall clean

build:
	@tools/deps build
	@test -f $(BUILD)/build.ninja || $(MESON) --prefix=$(or $(abspath $(PREFIX)),/usr/local) $(BUILD)
	@$(if $(PREFIX),tools/set-prefix $(BUILD) $(abspath $(PREFIX)))
	@ninja --quiet -C $(BUILD)

# The second compiler and the sanitizers in one build.
build-asan: deps-test
	@test -f build-asan/build.ninja || \
		CC=clang $(MESON) -Db_sanitize=address,undefined -Db_lundef=false -Dstatic_cli=false build-asan
	@ninja --quiet -C build-asan

build-fuzz:
	@tools/deps fuzz
	@test -f build-fuzz/build.ninja || CC=clang $(MESON) -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Dstatic_cli=false build-fuzz
	@ninja --quiet -C build-fuzz

deps-test:
	@tools/deps test

run: build
	@$(if $(ARGS),$(BUILD)/brig $(ARGS),tools/demo $(BUILD)/brig)

test: deps-test build build-asan
	@tests/run-suite --build $(BUILD)

test-asan: build-asan
	@tests/run-suite asan

test-kernels: build
	@tools/deps kernels
	@tests/kernels/run $(if $(ARCH),,$(BUILD))

bench: build
	@tools/deps bench
	@bench/run $(BUILD)

fuzz: build-fuzz
	@tools/fuzz build-fuzz $(FUZZ_TIME)
	@tests/differential/compare.py build-fuzz/tests/differential-reader --seconds $(FUZZ_TIME)

soak: deps-test build build-fuzz
	@tools/fuzz build-fuzz 600
	@BRIG_KILLS=$(KILLS) BRIG=$(BUILD)/brig tests/soak
	@tests/run-suite --build $(BUILD) --repeat $(SOAK) run escape

lint: build
	@tools/deps lint
	@tests/run-suite --build $(BUILD) lint tidy
	@tools/sizes

format:
	@tools/deps lint
	@clang-format -i $(C_FILES)

install: build
	@meson install --quiet --no-rebuild -C $(BUILD)
	@tools/set-prefix --say $(BUILD)

uninstall:
	@tools/uninstall $(BUILD)

clean:
	rm -rf $(BUILD) build-asan build-fuzz
