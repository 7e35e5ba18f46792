# The front door: what a person types. The build itself is CMake (CMakePresets.json).
#   make demo        install what is missing, build, run the demonstration
#   make test        install what is missing, build, run all tests with the IR verifier on
#   make bench       install and build what is compared with too, measure
#   make check-all   every preset, sanitizer and long test (tools/check_all.sh)
#   make format, make lint, make clean
# SPDX-License-Identifier: MIT
JOBS ?= $(shell nproc)

.PHONY: all demo test bench check-all format lint clean build packages

all: build

packages:
	@tools/install_packages.sh build

# The command alone, without the tests. A folder that is configured stays as it is (with the tests,
# if `make test` came first): the objects are the same, and CMake runs by itself where it must.
build: packages
	@test -f build/release/build.ninja || \
	  cmake --preset release -DBUILD_TESTING=OFF --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS) --target tenon

demo: build
	build/release/tenon run digits

test:
	@tools/install_packages.sh build test
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS)
	@ctest --preset release --parallel $(JOBS)

bench:
	@tools/install_packages.sh build bench
	@cmake --preset bench --log-level=WARNING
	@cmake --build --preset bench --parallel $(JOBS) --target tenon
	build/bench/tenon bench

check-all:
	@tools/install_packages.sh build test check
	@tools/check_all.sh

format:
	@tools/install_packages.sh format
	@tools/format.sh

lint:
	@python3 tools/lint.py
	@tools/format.sh --check

clean:
	rm -rf build
