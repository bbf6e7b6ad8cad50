# assay - wildcards and pattern rules; a new file needs no edit here.
#   make run | check | lint | bench | check-vectors | install | clean | help      SAN=1: sanitizers      V=1: show commands

SAN    ?=
comma  := ,
NVCC   ?= $(shell command -v nvcc 2>/dev/null)
PREFIX ?= /usr/local
BUILD  := build$(if $(SAN),/san)
Q      := $(if $(V),,@)

CC      ?= cc
PKGS    := sqlite3 libzstd jansson libcurl libpcre2-8 libcrypto
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Wno-psabi -Werror -Wno-format-truncation
CFLAGS  ?= -O2 -g
ASAN    := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
CSTD    := -std=c11 -D_GNU_SOURCE -ffp-contract=off -fno-strict-aliasing
ALL_CFLAGS = $(CSTD) $(WARN) $(CFLAGS) $(ASAN) -I. -I$(BUILD) -pthread $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS    = $(shell pkg-config --libs $(PKGS)) -lm -ldl -pthread
LDFLAGS += $(ASAN)

ROOMS   := $(wildcard harness kernels oracle goldens reports tools)
SOURCES := $(filter-out %/test/%.c,$(sort $(shell find $(ROOMS) -name '*.c' -not -path '*/test/*' -not -path '*/examples/*')))
MAIN    := tools/main.c
SCHEMA  := $(BUILD)/gen/goldens_schema.c
PAGE    := $(patsubst reports/page/%,$(BUILD)/gen/%.c,$(wildcard reports/page/*))
OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAIN),$(SOURCES)))
CHECKS  := $(sort $(wildcard $(foreach r,$(ROOMS),$(r)/test/check_*.c)))
CHECK_BINARIES := $(patsubst %.c,$(BUILD)/%,$(CHECKS))
CHECK_HELP := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard $(foreach r,$(ROOMS),$(r)/test/help_*.c))))
SCRIPTS := $(sort $(wildcard $(foreach r,$(ROOMS),$(r)/test/check_*.sh)))

# Open sets: SET:TYPE:PREFIX OF FILES:HEADER. Each file PREFIXname.c defines SET_name; the table is SET_all[].
SETS := command:command:tools/cmd_:tools/command.h \
        engine:engine_ops:harness/engines/engine_:harness/engine.h \
        arch:arch:harness/models/arch_:harness/models/arch.h \
        oracle:oracle_ops:oracle/oracle_:oracle/oracle.h \
        mutant:mutant:kernels/mutants/mutant_:kernels/mutant.h \
        fault:fault:harness/faults/fault_:harness/fault.h \
        form:form:reports/form_:reports/form.h \
        dialect:dialect:harness/engines/dialect_:harness/engines/dialect.h \
        bench_of:command:tools/bench_:tools/bench.h
set_field = $(word $(2),$(subst :, ,$(1)))
TABLES := $(foreach s,$(SETS),$(if $(wildcard $(call set_field,$(s),4)),$(BUILD)/gen/$(call set_field,$(s),1)_all.c))
TABLE_OBJECTS := $(TABLES:.c=.o) $(SCHEMA:.c=.o) $(PAGE:.c=.o)

# Instruction sets are compiled in every build and chosen at run time.
$(BUILD)/kernels/cpu/%_avx2.o: ISA := -mavx2 -mfma -mf16c -mbmi2
$(BUILD)/kernels/cpu/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mbmi2
$(BUILD)/kernels/cpu/%.o: CFLAGS := $(if $(SAN),-O1,-O3) -g

# The CUDA part: a shared object beside the program, found at run time; nothing else of the build knows nvcc.
CUDA_ARCHS ?= 80 90 120
NVCCFLAGS  ?= -O3
CUDA_FLAGS  = -std=c++17 -fmad=false -I. -Xcompiler -fPIC$(comma)-Wall$(comma)-fvisibility=hidden $(NVCCFLAGS)
CUDA_CODE   = $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a)$(comma)code=sm_$(a)) \
              -gencode=arch=compute_$(call cuda_last,$(CUDA_ARCHS))$(comma)code=compute_$(call cuda_last,$(CUDA_ARCHS))
cuda_last   = $(lastword $(shell printf '%s\n' $(1) | sort -n))
CUDA_OBJECTS := $(patsubst %.cu,$(BUILD)/%.o,$(sort $(wildcard kernels/cuda/*.cu)))
CUDA_C      := $(patsubst %,$(BUILD)/pic/%.o,harness/base/err kernels/plan_slices)

.PHONY: all run check lint bench cuda gpu-gate check-vectors check-kill check-slurm install clean help deps
all: $(BUILD)/assay

$(BUILD)/assay: $(BUILD)/$(MAIN:.c=.o) $(BUILD)/libassay.a
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(BUILD)/libassay.a $(LIBS)

$(BUILD)/libassay.a: $(OBJECTS) $(TABLE_OBJECTS)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Rewritten only when the list of files changed, so that a new file is picked up and nothing else is rebuilt.
define TABLE_RULE
$(BUILD)/gen/$(call set_field,$(1),1)_all.c: FORCE
	@mkdir -p $$(@D)
	@{ echo '#include "$(call set_field,$(1),4)"'; \
	   for n in $(patsubst $(call set_field,$(1),3)%.c,%,$(sort $(wildcard $(call set_field,$(1),3)*.c))); do \
	     echo "extern const struct $(call set_field,$(1),2) $(call set_field,$(1),1)_$$$$n;"; done; \
	   echo 'const struct $(call set_field,$(1),2) *const $(call set_field,$(1),1)_all[] = {'; \
	   for n in $(patsubst $(call set_field,$(1),3)%.c,%,$(sort $(wildcard $(call set_field,$(1),3)*.c))); do \
	     echo "    &$(call set_field,$(1),1)_$$$$n,"; done; echo '    0};'; } > $$@.new; \
	 cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
endef
$(foreach s,$(SETS),$(eval $(call TABLE_RULE,$(s))))
FORCE:

$(SCHEMA): goldens/schema.sql
	@mkdir -p $(@D)
	@{ echo 'extern const char goldens_schema_sql[]; const char goldens_schema_sql[] ='; \
	   sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $<; echo ';'; } > $@

# page.css becomes the string page_css, and so on.
$(PAGE): $(BUILD)/gen/%.c: reports/page/%
	@mkdir -p $(@D)
	@{ echo 'extern const char $(subst .,_,$*)[]; const char $(subst .,_,$*)[] ='; \
	   sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $<; echo ';'; } > $@

$(CHECK_BINARIES): $(BUILD)/%: $(BUILD)/%.o $(CHECK_HELP) $(BUILD)/libassay.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(CHECK_HELP) $(BUILD)/libassay.a $(LIBS) $$(pkg-config --libs check)

ifeq ($(NVCC),)
cuda:
	@echo 'make cuda: nvcc is not here. Install the CUDA toolkit (13.0 or later), or name it: make cuda NVCC=/usr/local/cuda/bin/nvcc' >&2; exit 4
else
cuda: all $(BUILD)/libassay-cuda.so
endif

$(BUILD)/libassay-cuda.so: $(CUDA_OBJECTS) $(CUDA_C)
	@echo "  LINK    $@"
	$(Q)$(NVCC) -shared -cudart static -Xlinker -z,defs -o $@ $^

$(BUILD)/kernels/cuda/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	@echo "  NVCC    $<"
	$(Q)$(NVCC) $(CUDA_FLAGS) $(CUDA_CODE) -MD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

deps:
	@tools/install-deps.sh

run: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/assay demo

check: deps
	@$(MAKE) --no-print-directory -s all $(BUILD)/check-all
	@tools/run-checks.sh $(BUILD) $(CHECK_BINARIES) $(SCRIPTS)

$(BUILD)/check-all: $(CHECK_BINARIES)
	@touch $@

# All moments; make check has a few of them.
check-kill: all
	@KILLS=$${KILLS:-200} ASSAY=$(BUILD)/assay tools/test/check_kill.sh
	@folder=$$(mktemp -d); EVERY=1 ASSAY_TEST_TMP=$$folder ASSAY=$(BUILD)/assay tools/test/check_kill_ratify.sh; \
	    rc=$$?; rm -rf $$folder; exit $$rc

# A real Slurm on this machine; status 77 and NO_EVIDENCE where there is none.
check-slurm: all
	@ASSAY=$(BUILD)/assay tools/slurm/test/check_slurm.sh

lint:
	@tools/lint.sh

bench: all
	@$(BUILD)/assay bench kernels --cpu

check-vectors: all
	@tools/check-vectors.sh $(BUILD)/assay

gpu-gate: cuda
	@tools/gpu-gate.sh

install: all
	install -D $(BUILD)/assay $(DESTDIR)$(PREFIX)/bin/assay
	test ! -f $(BUILD)/libassay-cuda.so || install -D $(BUILD)/libassay-cuda.so $(DESTDIR)$(PREFIX)/lib/assay/libassay-cuda.so
	mkdir -p $(DESTDIR)$(PREFIX)/share/assay/kernels/cuda
	cp -r batteries goldens $(DESTDIR)$(PREFIX)/share/assay/
	cp -r kernels/tables $(DESTDIR)$(PREFIX)/share/assay/kernels/
	cp -r kernels/cuda/results kernels/cuda/*.cu kernels/cuda/*.cuh $(DESTDIR)$(PREFIX)/share/assay/kernels/cuda/
	find $(DESTDIR)$(PREFIX)/share/assay/batteries $(DESTDIR)$(PREFIX)/share/assay/goldens \
	    \( -name test -o -name '*.[ch]' \) -prune -exec rm -r {} +

clean:
	rm -rf build

help:
	@sed -n '1,2p' Makefile | sed 's/^# //'
	@echo 'run            install what is missing, build, run the shipped batteries and print the verdict table'
	@echo 'check          every test; check SAN=1 under AddressSanitizer and UBSan'
	@echo 'check-vectors  the whole set of recorded kernel outputs (VECTORS=DIR)'
	@echo 'check-kill     runs killed at 200 random moments (KILLS=N SEED=N), ratify and unratify at every step'
	@echo 'check-slurm    strict on every shipped model under a Slurm started here, against one process'
	@echo 'lint           include rules, size limits, banned words, formatting'
	@echo 'bench          assay bench kernels --cpu'
	@echo 'cuda           the GPU part, build/libassay-cuda.so (needs nvcc, no GPU; CUDA_ARCHS="80 90 120")'
	@echo 'install        PREFIX=/usr/local, DESTDIR='

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
