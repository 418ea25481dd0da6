# scopetrace: `make demo` sets up, builds and shows it; `make check` sets up, builds and tests. README.md tells the rest.
#
# V=1 shows the commands, DEBUG=1 builds without optimisation, SAN=address,undefined with sanitizers, WERROR=1 makes
# warnings errors, O=DIR builds elsewhere.

O          ?= build
CC         := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG      ?= clang
LLVM_STRIP ?= llvm-strip
CROSS      ?= aarch64-linux-gnu-
BPFTOOL    ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/bin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
PROTOC_C   ?= protoc-c
ARCH       := $(shell uname -m)

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' '$(1)' '$(patsubst $(O)/%,%,$@)')

# ---- flags ---------------------------------------------------------------------------------------------------------
optimise := $(if $(DEBUG),-O0,-O2)
warnings := -Wall -Wextra -Wmissing-prototypes -Wshadow $(if $(WERROR),-Werror)
sanitize := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
CPPFLAGS += -D_GNU_SOURCE -MMD -MP
CFLAGS   ?= -g
CFLAGS   += -std=c11 $(optimise) $(warnings) $(sanitize)
LDFLAGS  += $(sanitize)

# Written when the flags change, so that DEBUG=1, SAN= and WERROR=1 build anew what they mean.
flags_now   := $(CC) $(CLANG) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
flags_stamp := $(O)/flags
ifneq ($(file <$(flags_stamp)),$(flags_now))
$(shell mkdir -p $(O))
$(file >$(flags_stamp),$(flags_now))
endif

loader_includes := -Iloader -I. -I$(O)/gen
loader_libs     := -lbpf -ldw -lelf -lcapstone -lprotobuf-c -liberty -lz -lpthread -lm

# ---- what there is -------------------------------------------------------------------------------------------------
# From the bottom to the top; tests/includes.sh holds who may include whom.
rooms        := base event program code file source probe plan timeline sink follow pinned record command
room_sources  = $(sort $(wildcard loader/$(1)/*.c))
room_objects  = $(patsubst %.c,$(O)/obj/%.o,$(call room_sources,$(1)))
room_archive  = $(O)/lib/$(1).a
archives     := $(foreach a,$(rooms),$(call room_archive,$(a)))

reader_sources   := libscope/reader.c libscope/validate.c libscope/find.c
producer_sources := $(filter-out $(reader_sources),$(sort $(wildcard libscope/*.c)))
bpf_sources      := $(sort $(wildcard bpf/*.bpf.c))
# Written in x86-64 assembler, for one exact machine code.
x86_only         := textchange textrel lookers bits32 pops vectors twin zerosize loopentry redzone stackswitch jmpthrower
target_names     := $(filter-out $(if $(filter x86_64,$(ARCH)),,$(x86_only)),$(sort $(patsubst tests/targets/%.c,%,$(wildcard tests/targets/*.c))))
target_programs  := $(addprefix $(O)/targets/,$(target_names)) \
	$(addprefix $(O)/targets/,$(filter-out $(if $(filter x86_64,$(ARCH)),,$(x86_only)),$(sort $(patsubst tests/targets/%.cpp,%,$(wildcard tests/targets/*.cpp)))))
unit_rooms       := $(filter-out support,$(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/unit/*/*.c))))))
unit_programs    := $(addprefix $(O)/unit/,$(unit_rooms))

# Targets that a person calls.
.PHONY: help
help:
	@printf '%s\n' 'make [O=DIR] [V=1] [DEBUG=1] [SAN=address,undefined] [WERROR=1] [TARGET]' '' \
		'all          build/scopetrace, build/libscope.a and .so, build/scopetrace.bpf.o (default)' \
		'demo         sets up, builds, and shows the demonstration on a timeline' \
		'check        sets up, builds, lints and runs all tests; check-long: at full length' \
		'test         the tests alone; tests/run.sh [PATTERN]... runs some, tests/run.sh --list names them' \
		'lint         formatting, scripts, includes, a build by clang' \
		'deps         installs what building and testing need' \
		'static       build/scopetrace-static, one file for hosts without the libraries' \
		'single       libscope as one source file, in build/single' \
		'fuzz         each fuzz target for FUZZ_SECONDS' \
		'bench        all benchmarks; bench-peers: beside packaged tools; benches: only built' \
		'install      PREFIX, DESTDIR; install-libscope: the library alone; uninstall' \
		'clean        removes the build directory'

.PHONY: all
.DEFAULT_GOAL := all
all: $(O)/scopetrace $(O)/libscope.a $(O)/libscope.so $(O)/scopetrace.bpf.o

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# ---- bpf/: one object, its skeleton, and proof that it compiles for arm64 -------------------------------------------
bpf_arch_x86_64  := x86
bpf_arch_aarch64 := arm64
bpf_flags := -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-declarations \
	-Ivmlinux -Ibpf -MMD -MP

$(O)/bpf/%.bpf.o: bpf/%.bpf.c
	$(call say,BPF)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(bpf_flags) -D__TARGET_ARCH_$(bpf_arch_$(ARCH)) -c $< -o $@

$(O)/bpf-arm64/%.bpf.o: bpf/%.bpf.c
	$(call say,BPF)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(bpf_flags) -D__TARGET_ARCH_arm64 -c $< -o $@

$(O)/scopetrace.bpf.o: $(patsubst bpf/%.c,$(O)/bpf/%.o,$(bpf_sources))
	$(call say,GENOBJ)
	$(Q)$(BPFTOOL) gen object $@ $^

$(O)/scopetrace-arm64.bpf.o: $(patsubst bpf/%.c,$(O)/bpf-arm64/%.o,$(bpf_sources))
	$(call say,GENOBJ)
	$(Q)$(BPFTOOL) gen object $@ $^

$(O)/gen/scopetrace.skel.h: $(O)/scopetrace.bpf.o
	$(call say,SKEL)
	@mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name scopetrace_bpf > $@

# ---- libscope/: archive and shared object ---------------------------------------------------------------------------
# Hidden by default, so that neither form exports more than the map file lists.
libscope_flags := -Ilibscope -Ilibscope/include -fvisibility=hidden -fPIC

$(O)/obj/libscope/%.o: libscope/%.c $(flags_stamp)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(libscope_flags) -c $< -o $@

$(O)/libscope.a: $(patsubst %.c,$(O)/obj/%.o,$(producer_sources))
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/libscope.so: $(patsubst %.c,$(O)/obj/%.o,$(producer_sources)) libscope/libscope.map
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libscope.so.1 -Wl,--version-script=libscope/libscope.map \
		-Wl,-z,defs $(filter %.o,$^) -lpthread -o $@
	@ln -sf libscope.so $(O)/libscope.so.1

$(O)/lib/reader.a: $(patsubst %.c,$(O)/obj/%.o,$(reader_sources))
	$(call say,AR)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# ---- loader/ ---------------------------------------------------------------------------------------------------------
$(O)/obj/loader/%.o: loader/%.c $(flags_stamp)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(loader_includes) -c $< -o $@

# Only these see generated headers.
$(O)/obj/loader/probe/object.o: $(O)/gen/scopetrace.skel.h
$(patsubst %.c,$(O)/obj/%.o,$(wildcard loader/sink/perfetto*.c)): $(O)/gen/perfetto.pb-c.h

$(O)/gen/perfetto.pb-c.c $(O)/gen/perfetto.pb-c.h &: loader/sink/perfetto.proto
	$(call say,PROTOC)
	@mkdir -p $(O)/gen
	$(Q)$(PROTOC_C) --c_out=$(O)/gen --proto_path=loader/sink $<

$(O)/obj/gen/perfetto.pb-c.o: $(O)/gen/perfetto.pb-c.c $(flags_stamp)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -I$(O)/gen -c $< -o $@

define archive_rule
$(call room_archive,$(1)): $(call room_objects,$(1)) $(if $(filter sink,$(1)),$(O)/obj/gen/perfetto.pb-c.o)
	$$(call say,AR)
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach a,$(rooms),$(eval $(call archive_rule,$(a))))

loader_archives := $(addprefix $(O)/lib/,command.a record.a pinned.a follow.a plan.a sink.a timeline.a file.a source.a probe.a code.a program.a \
	event.a base.a reader.a)

$(O)/scopetrace: $(O)/obj/loader/main.o $(loader_archives)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(loader_libs) -o $@

# One file for hosts without the libraries; libdw's decompressors come along, and at the end what it lacks (libeu_static.c).
$(O)/scopetrace-static: $(O)/obj/loader/main.o $(loader_archives)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -static $(filter %.o,$^) $(filter %.a,$^) -lbpf -ldw -lelf -lcapstone -lprotobuf-c -liberty -llzma \
		-lbz2 -lzstd -lz -lpthread -lm $(O)/lib/program.a -o $@
	$(Q)strip $@

.PHONY: static
static: $(O)/scopetrace-static

# ---- setting up ------------------------------------------------------------------------------------------------------
.PHONY: deps
deps:
	$(Q).ci/deps.sh

# Everything from a clean clone to a timeline: the built-in demonstration, attached to by pid while it runs.
.PHONY: demo
demo: deps
	$(Q)$(MAKE) --no-print-directory all $(O)/targets/demo
	$(Q)O=$(O) tests/demo.sh

# ---- tests -----------------------------------------------------------------------------------------------------------
# What a room may lean on: the same order as the include rules.
unit_libs_base     := base
unit_libs_event    := event base
unit_libs_program  := plan code program base
unit_libs_code     := code program base
unit_libs_plan     := plan code program base
unit_libs_file     := timeline file event base
unit_libs_timeline := timeline file event base
unit_libs_sink     := sink timeline file event base
unit_libs_probe    := probe event base
unit_libs_source   := source probe event base reader
unit_libs_pinned   := pinned follow plan source file probe code program event base reader
unit_libs_record   := record follow plan source timeline file probe code program event base reader
unit_libs_command  := command record pinned follow plan sink timeline file source probe code program event base reader
unit_libs_libscope := reader
# What several rooms' tests share.
unit_support_program  := program
unit_support_code     := program
unit_support_plan     := program
unit_support_file     := capture
unit_support_record   := capture
unit_support_timeline := capture

# Compiled file by file; a room's own tests and what they share become one program.
unit_sources = $(sort $(wildcard tests/unit/$(1)/*.c)) $(patsubst %,tests/unit/support/%.c,$(unit_support_$(1)))
unit_objects = $(patsubst tests/unit/%.c,$(O)/obj/unit/%.o,$(call unit_sources,$(1)))
unit_flags   = $(filter-out -Wmissing-prototypes -Wshadow,$(CFLAGS)) $(loader_includes) -Itests/unit -Ilibscope -Ilibscope/include

$(O)/obj/unit/%.o: tests/unit/%.c $(flags_stamp)
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(unit_flags) -c $< -o $@

.SECONDEXPANSION:
$(O)/unit/%: $$(call unit_objects,$$*) $$(addprefix $(O)/lib/,$$(addsuffix .a,$$(unit_libs_$$*))) $$(if $$(filter libscope,$$*),$(O)/libscope.a)
	$(call say,UNIT)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -lcriterion $(loader_libs) -o $@

.PHONY: unit
unit: $(unit_programs)

# Small traced programs: plain, and with the 5-byte nop at each entry that the kernel can optimise.
target_flags := -D_GNU_SOURCE -O2 -g -Wall -Wextra -Ilibscope/include
target_headers := $(wildcard tests/targets/*.h)
# Compiled so, but not linked so: the profiler's start-up code would write gmon.out wherever they run.
nop5_flags   := -pg -mfentry -mnop-mcount -fno-pie
nop5_targets := $(if $(filter x86_64,$(ARCH)),$(addsuffix .nop5,$(addprefix $(O)/targets/,$(filter-out $(x86_only),$(target_names)))))

$(O)/targets/twin: tests/targets/twin.s

$(O)/targets/%: tests/targets/%.c $(target_headers) $(O)/libscope.a
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(target_flags) $< $(wildcard $(<:.c=.s)) -o $@ $(O)/libscope.a -pthread

$(O)/targets/%.nop5: tests/targets/%.c $(target_headers) $(O)/libscope.a
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(target_flags) $(nop5_flags) -c $< -o $@.o
	$(Q)$(CC) -no-pie $@.o -o $@ $(O)/libscope.a -pthread

$(O)/targets/%: tests/targets/%.cpp $(target_headers) $(O)/libscope.a
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 $(target_flags) $< -o $@ $(O)/libscope.a -pthread

# What can kill a program under a tracer, built in the ways in which it shows least or differs most. Rust's and Go's only
# where there is a compiler; tests/kernel/hazards.sh says so where not.
hazard_targets := $(addprefix $(O)/targets/,cxxexc.static cxxexc.stripped cxxexc.clang forkserver.clang \
	pluginhost-plugin.so $(if $(filter x86_64,$(ARCH)),pluginhost.nop5-plugin.so) \
	$(addprefix entryloop.,gcc-O1 gcc-Os clang-O1 clang-O2 clang-Os) \
	$(if $(shell command -v rustc),rustpanic) $(if $(shell command -v go),gostacks))
# endbr64 at each entry, as distributions build.
branch_protection := $(if $(filter x86_64,$(ARCH)),-fcf-protection=branch)
cxx_target = -std=c++17 $(target_flags) $< -o $@ -pthread

$(O)/targets/sigthrow: target_flags += -fnon-call-exceptions

$(O)/targets/cxxexc.static: tests/targets/cxxexc.cpp $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(cxx_target) -static

# Nothing imported tells of exceptions; only what can be found by name is left in the symbol table.
$(O)/targets/cxxexc.stripped: tests/targets/cxxexc.cpp $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(cxx_target) -static-libstdc++ -static-libgcc -rdynamic -s

$(O)/targets/cxxexc.clang: tests/targets/cxxexc.cpp $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CLANG) --driver-mode=g++ $(cxx_target)

# In clang's words the same nop of five bytes at each entry.
$(O)/targets/forkserver.clang: tests/targets/forkserver.c $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 $(target_flags) -fpatchable-function-entry=5 $< -o $@

$(O)/targets/%-plugin.so: tests/targets/plugins/thrower.cpp
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 $(target_flags) -shared -fPIC $< -o $@

$(O)/targets/entryloop.gcc-%: tests/targets/entryloop.c $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(target_flags) -$* $(branch_protection) $< -o $@

$(O)/targets/entryloop.clang-%: tests/targets/entryloop.c $(target_headers)
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 $(target_flags) -$* $(branch_protection) $< -o $@

# Not a program to trace, but one that traces: for tests/kernel/cycles.sh.
$(O)/stress/cycles: tests/stress/cycles.c $(loader_archives)
	$(call say,STRESS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

$(O)/targets/rustpanic: tests/targets/rustpanic.rs
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)rustc --edition 2021 -O -g $< -o $@

$(O)/targets/gostacks: tests/targets/gostacks.go
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)GOCACHE=$(abspath $(O))/go-cache GO111MODULE=off go build -o $@ $<

# One function for each form of first instruction (tests/sites/generate.py), for tests/kernel/sites.sh.
$(O)/targets/sites: tests/sites/run.c tests/sites/generate.py tests/sites/forms.txt
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)python3 tests/sites/generate.py tests/sites/forms.txt > $@.s
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -fno-stack-protector -fno-pie -no-pie $< $@.s -o $@

# Built so that each function calls a profiler. (These are linked without -pg: gmon.out would be written.)
$(O)/targets/lookers.profiled: tests/targets/lookers.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(target_flags) -pg -c $< -o $@.o
	$(Q)$(CC) $@.o -o $@

$(O)/targets/lookers.instrumented: tests/targets/lookers.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(target_flags) -finstrument-functions $< -o $@

$(O)/targets/bits32: tests/targets/bits32.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -m32 -ffreestanding -fno-pie -fno-stack-protector -nostdlib -static -no-pie $< -o $@

$(O)/targets/libtextrel-plugin.so: tests/targets/plugins/textrel.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -shared -fno-pic -mcmodel=large -Wl,-z,notext -Wl,-soname,$(@F) $< -o $@

$(O)/targets/textrel: tests/targets/textrel.c $(O)/targets/libtextrel-plugin.so
	$(call say,TARGET)
	$(Q)$(CC) -std=gnu11 $(target_flags) $^ -Wl,-rpath,'$$ORIGIN' -o $@

$(O)/targets/libversion%.so: tests/targets/plugins/version.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -shared -fPIC -DVERSION=$* $< -o $@

$(O)/targets/version%.prog: tests/targets/plugins/version.c
	$(call say,TARGET)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -DVERSION=$* -DPROGRAM $< -o $@

# Two versions of one file, for tests that write the one over the other.
version_targets := $(foreach n,1 2,$(O)/targets/libversion$n.so $(O)/targets/version$n.prog)

site_targets := $(if $(filter x86_64,$(ARCH)),$(addprefix $(O)/targets/,sites lookers.profiled lookers.instrumented))

.PHONY: targets
targets: $(version_targets) $(site_targets) $(target_programs) $(nop5_targets) $(hazard_targets) $(O)/stress/cycles

include tests/proofs.mk

# The tests alone, for one who has set up and built: everything `make check` runs.
.PHONY: test
test: all static targets unit proofs benches $(O)/scopetrace-arm64.bpf.o
	$(Q)O=$(O) tests/run.sh

# What needs no run: the form of the sources, the scripts, who includes whom, and another compiler's warnings. libscope/
# and its proofs are formatted by themselves.
formatted  := $(filter-out vmlinux/% libscope/% tests/unit/libscope/% tests/model/% tests/stress/% tests/api/% bench/scope_%, \
	$(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp' 2>/dev/null))
scripts    := $(shell git ls-files '*.sh' '*.bash' .ci/run 2>/dev/null)
.PHONY: lint
lint:
	$(Q)[ -z "$(formatted)" ] || clang-format --dry-run -Werror $(formatted)
	$(Q)[ -z "$(scripts)" ] || shellcheck -x -P SCRIPTDIR -S warning $(scripts)
	$(Q)tests/includes.sh
	$(Q)$(MAKE) --no-print-directory O=$(O)/clang CC=$(CLANG) WERROR=1 all

.PHONY: check
check: deps
	$(Q)$(MAKE) --no-print-directory lint
	$(Q)$(MAKE) --no-print-directory test

# The same at full length, and what takes minutes: tests that know SCOPETRACE_LONG enlarge themselves.
.PHONY: check-long
check-long: deps
	$(Q)SCOPETRACE_LONG=1 TEST_TIMEOUT=3600 $(MAKE) --no-print-directory test

# ---- benchmarks: each prints JSON lines ------------------------------------------------------------------------------
$(O)/bench/traced_call: bench/traced_call.c $(addprefix $(O)/lib/,source.a plan.a probe.a code.a program.a event.a base.a reader.a) \
		$(O)/bench/traced_call_target $(if $(filter x86_64,$(ARCH)),$(O)/bench/traced_call_target.nop5)
	$(call say,BENCH)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

$(O)/bench/handoff_rate: bench/handoff_rate.c $(addprefix $(O)/lib/,record.a source.a file.a event.a base.a)
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

$(O)/bench/capture_rate: bench/capture_rate.c $(addprefix $(O)/lib/,sink.a timeline.a file.a event.a base.a)
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

# A program that uses libscope: with the archive, and with the shared object, whose scopes cost a call through the PLT.
scope_cost_flags := -std=gnu11 -O2 -g -Wall -Wextra -D_GNU_SOURCE -Ilibscope -Ilibscope/include

$(O)/bench/scope_cost $(O)/bench/scope_rings: $(O)/bench/%: bench/%.c bench/scope_harness.c bench/scope_harness.h \
		$(O)/lib/reader.a $(O)/libscope.a
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(scope_cost_flags) $(filter-out %.h,$^) -pthread -o $@

$(O)/bench/scope_cost_shared: bench/scope_cost.c bench/scope_harness.c bench/scope_harness.h $(O)/lib/reader.a $(O)/libscope.so
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(scope_cost_flags) -DSCOPE_COST_SHARED $(filter %.c %.a,$^) -L$(O) -lscope -Wl,-rpath,'$$ORIGIN/..' -pthread -o $@

# The other process of segment_throughput, and the reader that the loader has.
$(O)/bench/segment_writer: bench/segment_writer.c $(O)/libscope.a
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(scope_cost_flags) $^ -pthread -o $@

$(O)/bench/segment_throughput: bench/segment_throughput.c $(addprefix $(O)/lib/,source.a event.a base.a reader.a) \
		$(O)/bench/segment_writer $(O)/scopetrace
	$(call say,BENCH)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

# Watches itself, so it is linked with both sides of libscope.
$(O)/bench/clock_error: bench/clock_error.c $(addprefix $(O)/lib/,source.a timeline.a file.a event.a base.a reader.a) $(O)/libscope.a \
		$(O)/scopetrace $(O)/targets/calls $(if $(filter x86_64,$(ARCH)),$(O)/targets/calls.nop5)
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(loader_includes) $(LDFLAGS) $< $(filter %.a,$^) $(loader_libs) -o $@

# The same scope under the packaged recorders; one that is not installed is told as skipped.
peer_flags          := -std=gnu11 -O2 -g -D_GNU_SOURCE -Ilibscope/include -Ibench/peers
peer_names          := empty libscope uftrace $(if $(wildcard /usr/include/sys/sdt.h /usr/include/*/sys/sdt.h),usdt) \
	$(if $(shell $(PKG_CONFIG) --exists lttng-ust 2>/dev/null && echo yes),lttng)
peer_flags_libscope := -DPEER_LIBSCOPE
peer_libs_libscope  := $(O)/libscope.a -pthread
peer_flags_uftrace  := -DPEER_UFTRACE -pg
peer_flags_usdt     := -DPEER_USDT
peer_flags_lttng    := -DPEER_LTTNG
peer_libs_lttng     := -llttng-ust -ldl

$(O)/bench/peers/scope_%: bench/peers/scope_loop.c bench/peers/lttng_scope.h $(O)/libscope.a
	$(call say,BENCH)
	@mkdir -p $(@D)
	$(Q)$(CC) $(peer_flags) $(peer_flags_$*) $< $(peer_libs_$*) -o $@

$(O)/bench/%_target: bench/%_target.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g $< -o $@

$(O)/bench/%_target.pg: bench/%_target.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -pg $< -o $@

$(O)/bench/%_target.nop5: bench/%_target.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g $(nop5_flags) -c $< -o $@.o
	$(Q)$(CC) -no-pie $@.o -o $@

# ---- installing ------------------------------------------------------------------------------------------------------
# DESTDIR=... stages for a package. `install-libscope` installs the library alone, which needs nothing but a C compiler.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
# Of scope.py. No interpreter looks here by itself: the .pc file tells it as `pythondir`.
PYTHONDIR  ?= $(PREFIX)/share/libscope

so_version := 1.1.0
man_pages   = $(wildcard man/*.[1-9])
man_of_lib  = $(wildcard man/*.3)
install_man = for page in $(1); do install -Dm644 $$page $(DESTDIR)$(MANDIR)/man$${page\#\#*.}/$${page\#\#*/} || exit 1; done

.PHONY: install install-libscope uninstall
install-libscope: $(O)/libscope.a $(O)/libscope.so
	$(call say,INSTALL)
	$(Q)install -Dm644 -t $(DESTDIR)$(INCLUDEDIR) libscope/include/scope.h libscope/include/scope.hpp
	$(Q)install -Dm644 -t $(DESTDIR)$(LIBDIR) $(O)/libscope.a
	$(Q)install -Dm755 $(O)/libscope.so $(DESTDIR)$(LIBDIR)/libscope.so.$(so_version)
	$(Q)ln -sf libscope.so.$(so_version) $(DESTDIR)$(LIBDIR)/libscope.so.1
	$(Q)ln -sf libscope.so.1 $(DESTDIR)$(LIBDIR)/libscope.so
	$(Q)install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@PYTHONDIR@|$(PYTHONDIR)|' \
		-e 's|@VERSION@|$(so_version)|' libscope/libscope.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libscope.pc
	$(Q)install -Dm644 -t $(DESTDIR)$(PYTHONDIR) libscope/scope.py
	$(Q)$(call install_man,$(man_of_lib))

# The object is for `bpftool prog loadall`: attach takes no programs but those of its own build.
install: $(O)/scopetrace $(O)/scopetrace.bpf.o install-libscope
	$(Q)install -Dm755 -t $(DESTDIR)$(BINDIR) $(O)/scopetrace
	$(Q)install -Dm644 -t $(DESTDIR)$(LIBDIR)/scopetrace $(O)/scopetrace.bpf.o
	$(Q)$(call install_man,$(filter-out $(man_of_lib),$(man_pages)))

# What install puts there, and nothing else; folders stay if anything is in them.
uninstall:
	$(Q)rm -f $(DESTDIR)$(BINDIR)/scopetrace $(addprefix $(DESTDIR)$(INCLUDEDIR)/,scope.h scope.hpp) \
		$(addprefix $(DESTDIR)$(LIBDIR)/,libscope.a libscope.so libscope.so.1 libscope.so.$(so_version) \
		pkgconfig/libscope.pc scopetrace/scopetrace.bpf.o) $(DESTDIR)$(PYTHONDIR)/scope.py \
		$(foreach page,$(man_pages),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	$(Q)rmdir --ignore-fail-on-non-empty $(wildcard $(DESTDIR)$(PYTHONDIR) $(DESTDIR)$(LIBDIR)/scopetrace) 2>/dev/null || true

# The library as one source file and its headers, for those who drop sources into another build.
.PHONY: single
single: $(O)/single/scope_single.c

$(O)/single/scope_single.c: libscope/single.sh $(wildcard libscope/*.[ch]) $(wildcard libscope/include/*)
	$(call say,SINGLE)
	$(Q)libscope/single.sh $(@D)

# The self-test of the library on Windows, built with mingw-w64 and run under wine.
.PHONY: wine
wine:
	$(Q)tests/api/windows.sh --wine

# Each bench/NAME.c is a bench of that name, but for these, which others are built of or start.
bench_parts := scope_harness segment_writer traced_call_target
bench_names := scope_cost_shared $(filter-out $(bench_parts),$(sort $(basename $(notdir $(wildcard bench/*.c)))))
peer_programs := $(addprefix $(O)/bench/peers/scope_,$(peer_names)) $(O)/bench/traced_call_target.pg

# All of them built and none run: `make test` does it, so that none stops compiling when what it measures changes.
.PHONY: benches
benches: $(addprefix $(O)/bench/,$(bench_names)) $(peer_programs)

# The long table of segment_throughput: make bench THROUGHPUT=-T.
.PHONY: bench
bench: all $(addprefix $(O)/bench/,$(bench_names))
	$(Q)$(O)/bench/traced_call
	$(Q)$(O)/bench/scope_cost
	$(Q)$(O)/bench/scope_cost_shared
	$(Q)$(O)/bench/scope_rings
	$(Q)$(O)/bench/clock_error
	$(Q)$(O)/bench/segment_throughput $(THROUGHPUT)
	$(Q)$(O)/bench/segment_throughput -l $(THROUGHPUT)
	$(Q)$(O)/bench/handoff_rate
	$(Q)$(O)/bench/capture_rate

.PHONY: bench-peers
bench-peers: all $(peer_programs) $(O)/bench/traced_call
	$(Q)python3 bench/peers/traced_call.py --build $(O)
	$(Q)python3 bench/peers/scope_peers.py --build $(O)

# ---- leaving nothing -------------------------------------------------------------------------------------------------
.PHONY: clean
clean:
	$(Q)rm -rf $(O)

-include $(shell test -d $(O) && find $(O) -name '*.d')
