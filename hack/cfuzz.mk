# Fuzz targets of a C library: fuzz/X.c for every folder fuzz/corpus/X, which has its seeds. The
# Makefile sets library, fuzzed, the sources, and fuzzflags. A target that includes a source is
# not linked with it. Variables: out; FUZZTIME=10m, FUZZCC=clang, logs.

FUZZTIME ?= 10m
logs     ?= ../../fuzz-logs
FUZZCC   ?= clang

fuzzbuild = -std=c11 -D_GNU_SOURCE -O1 -g -pthread $(fuzzflags) -fno-sanitize-recover=all
fuzzwith  = $(filter-out $(shell sed -n 's|^#include "\.\./\(src/[a-z]*\.c\)".*|\1|p' fuzz/$*.c),$(fuzzed))

# Every target in turn, from its seeds, under libFuzzer and the sanitizers. What a run finds new
# goes to $(out) and not to the seeds.
targets := $(patsubst fuzz/corpus/%/,%,$(wildcard fuzz/corpus/*/))
seconds  = $$(($(shell echo $(FUZZTIME) | sed -e 's/h/*3600+/' -e 's/m/*60+/' -e 's/s$$//' -e 's/+$$//')))

.PHONY: fuzz
fuzz: $(targets:%=$(out)/.$(library)/fuzz-%)
	@mkdir -p $(logs)
	@for t in $(targets); do \
		mkdir -p $(out)/.$(library)/corpus-$$t; \
		$(out)/.$(library)/fuzz-$$t -max_total_time=$(seconds) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=$(logs)/$(library).$$t. \
			$(out)/.$(library)/corpus-$$t fuzz/corpus/$$t 2>$(logs)/$(library).$$t.log || { echo "FAIL  $(library).$$t, see $(logs)/$(library).$$t.log" >&2; exit 1; }; \
		awk -v t=$$t '/number_of_executed_units/ { printf "ok    $(library).%s  %d inputs\n", t, $$2 }' $(logs)/$(library).$$t.log; \
	done

$(out)/.$(library)/fuzz-%: fuzz/%.c $(fuzzed) $(wildcard src/*.h) $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	$(FUZZCC) $(fuzzbuild) -fsanitize=fuzzer,address,undefined -o $@ $< $(fuzzwith)

# The same without a fuzzer, for the seeds.
$(out)/.$(library)/replay-%: fuzz/%.c ../../hack/replay.c $(fuzzed) $(wildcard src/*.h) $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	$(CC) $(fuzzbuild) -fsanitize=address,undefined -o $@ $< ../../hack/replay.c $(fuzzwith)
