# What there is to do. Every target installs what it needs (tools/setup.sh) and reads nothing outside this folder.

# Seconds of fuzzing for each target of `make fuzz`.
SECONDS_EACH ?= 60
# Compilers and tests at once.
JOBS ?= $(shell nproc)
# What `make tidy` reads: everything, or with CHANGED=1 what differs from the last commit.
TIDY_FILES = find src tests -name '*.cpp'
ifdef CHANGED
TIDY_FILES = git diff --name-only --diff-filter=d HEAD -- 'src/*.cpp' 'tests/*.cpp'; git ls-files -o --exclude-standard 'src/*.cpp' 'tests/*.cpp'
endif
# What `make clean-machine` runs on a bare Debian 12.
TARGETS ?= build test demo

.PHONY: help setup build test demo asan tsan fuzz format tidy clean-machine clean

help:
	@echo "make build          the program, at build/release/qwell"
	@echo "make test           the tests"
	@echo "make demo           serve the bundled model, ask it a few questions, stop"
	@echo "make asan           the tests under the address and undefined-behaviour sanitizers"
	@echo "make tsan           the tests of what has threads under the thread sanitizer"
	@echo "make fuzz           every parser of outside bytes, SECONDS_EACH=$(SECONDS_EACH) each"
	@echo "make format         clang-format on all sources"
	@echo "make tidy           clang-tidy on all sources, or with CHANGED=1 on what differs from the last commit"
	@echo "make clean-machine  TARGETS=\"$(TARGETS)\" on a bare Debian 12 of its own (needs root)"
	@echo "make clean          remove build/"

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release >/dev/null
	@cmake --build build/release --target qwell -j $(JOBS)

test: setup
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS)
	@ctest --test-dir build/release --output-on-failure -j 2

demo: build
	@build/release/qwell demo

asan: setup
	@cmake --preset asan >/dev/null
	@cmake --build build/asan -j $(JOBS)
	@ctest --test-dir build/asan --output-on-failure -j 2

tsan: setup
	@cmake --preset tsan >/dev/null
	@cmake --build build/tsan -j $(JOBS)
	@ctest --test-dir build/tsan --output-on-failure -R '^(device|group|transfer|cache|control|net|server)$$'

fuzz:
	@tools/setup.sh --fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build build/fuzz --target fuzz -j $(JOBS)
	@tools/fuzz.sh $(SECONDS_EACH)

format:
	@tools/setup.sh --format
	@tools/format.sh

tidy:
	@tools/setup.sh --format
	@cmake --preset release >/dev/null
	@($(TIDY_FILES)) | xargs -r -P $(JOBS) -n 4 clang-tidy -p build/release --quiet 2>/dev/null
	@echo "clang-tidy: nothing found"

clean-machine:
	@tools/clean_machine.sh $(TARGETS)

clean:
	@rm -rf build
