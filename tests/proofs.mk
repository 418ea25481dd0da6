# The proofs of the ring and of the hand-off. Of the ring: the model and the stress test compile libscope's own producer and reader with hooks
# (tests/model/hooks.h), each also as mutants under which it must fail. Fuzz targets need clang.
proof_flags := $(filter-out -MMD -MP -Wmissing-prototypes -Wshadow,$(CPPFLAGS) $(CFLAGS)) -Ilibscope -Ilibscope/include -Itests/model
proof_sides := tests/model/producer.c tests/model/reader.c
model_sources  := tests/model/model.c tests/model/coroutine.c $(proof_sides)
stress_sources := tests/stress/stress.c $(proof_sides)
proof_headers  := $(wildcard tests/model/*.h libscope/*.h libscope/include/*.h) libscope/producer.c libscope/reader.c
proof_libs     := $(O)/libscope.a $(O)/lib/reader.a

# NAME, sources, flags
define proof_rule
$(O)/proofs/$(1): $(2) $$(proof_headers) $$(proof_libs)
	$$(call say,PROOF)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(proof_flags) $(3) $$(LDFLAGS) $(2) $$(proof_libs) -pthread -o $$@
endef
$(eval $(call proof_rule,model,$(model_sources),-DFIXED_TICKS -DHOLES_MAX))
$(eval $(call proof_rule,model_plain_stamp,$(model_sources),-DFIXED_TICKS -DHOLES_MAX -DPLAIN_STAMP))
$(eval $(call proof_rule,stress,$(stress_sources),))
$(eval $(call proof_rule,stress_tsan,$(stress_sources),-fsanitize=thread))
$(eval $(call proof_rule,stress_plain_stamp,$(stress_sources),-DPLAIN_STAMP))
$(eval $(call proof_rule,stress_plain_increment,$(stress_sources),-DPLAIN_INCREMENT))

# The hand-off buffer between two threads, with hooks of its own, and its mutants. (Its model, tests/model/handoff.pml, is
# compiled by the test that runs it.)
handoff_sources := tests/stress/handoff.c tests/stress/handoff_side.c loader/base/log.c
handoff_flags   := $(filter-out -MMD -MP -Wmissing-prototypes -Wshadow,$(CPPFLAGS) $(CFLAGS)) -Iloader -I. -Itests/stress
handoff_headers := tests/stress/handoff_hooks.h $(addprefix loader/record/,handoff.h handoff.c pending.h pending.c)

# NAME, flags
define handoff_rule
$(O)/proofs/$(1): $$(handoff_sources) $$(handoff_headers)
	$$(call say,PROOF)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(handoff_flags) $(2) $$(LDFLAGS) $$(handoff_sources) -pthread -o $$@
endef
$(eval $(call handoff_rule,handoff,))
$(eval $(call handoff_rule,handoff_tsan,-fsanitize=thread))
$(eval $(call handoff_rule,handoff_plain_exchange,-DPLAIN_EXCHANGE))
$(eval $(call handoff_rule,handoff_unordered,-DUNORDERED -fsanitize=thread))

proof_programs := $(addprefix $(O)/proofs/,model model_plain_stamp stress stress_tsan stress_plain_stamp stress_plain_increment \
	handoff handoff_tsan handoff_plain_exchange handoff_unordered)

# Compiled anew by clang, with its coverage and with sanitizers: all that the target runs. A null pointer + 0, as in an
# empty array, is no error (C2y says so too).
fuzz_flags := -std=c11 -D_GNU_SOURCE -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
	-fno-sanitize-recover=all -fno-sanitize=pointer-overflow -Iloader -I. -Ilibscope -Ilibscope/include
fuzz_sources_segment  := $(reader_sources) libscope/clock.c libscope/clock_tsc.c libscope/clock_cntvct.c \
	libscope/platform_linux.c
fuzz_sources_capture  := $(foreach r,timeline file event base,$(call room_sources,$(r)))
fuzz_sources_selector := $(filter-out %/libeu_static.c,$(foreach r,plan code program base,$(call room_sources,$(r))))
fuzz_targets  := segment capture selector
fuzz_programs := $(addprefix $(O)/fuzz/,$(fuzz_targets))
FUZZ_SECONDS ?= 60

$(O)/fuzz/%: tests/fuzz/%.c $$(fuzz_sources_$$*) $(wildcard loader/*/*.h libscope/*.h)
	$(call say,FUZZ)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(fuzz_flags) $(filter %.c,$^) -lelf -ldw -lcapstone -liberty -lz -lpthread -lm -o $@

# The unit tests again with AddressSanitizer and UndefinedBehaviorSanitizer, in a build of its own: libscope's, in
# `make check-long` all.
.PHONY: sanitized-%
sanitized-%:
	$(Q)$(MAKE) --no-print-directory O=$(O)/san SAN=address,undefined $(O)/san/unit/$*

.PHONY: proofs
proofs: $(proof_programs) $(fuzz_programs) $(addprefix sanitized-,$(if $(SCOPETRACE_LONG),$(unit_rooms),libscope))

# Each target for FUZZ_SECONDS, from the corpus of tests/fuzz/corpus on; what it finds is kept in $(O)/fuzz.
.PHONY: fuzz
fuzz: $(fuzz_programs)
	$(Q)O=$(O) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/fuzz.sh
