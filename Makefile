# forsd. "make test" and "make demo" work on a fresh Debian 12 with Go: they
# say what they need, and install it. Variables: DESTDIR, prefix (install); KEEP=1 (demo);
# FUZZTIME=10m (fuzz); TESTFLAGS (test).

prefix      ?= /usr/local
sysconfdir  ?= /etc
bindir      ?= $(prefix)/bin
libexecdir  ?= $(prefix)/libexec/forsd
unitdir     ?= $(prefix)/lib/systemd/system
sysusersdir ?= $(prefix)/lib/sysusers.d
udevdir     ?= $(prefix)/lib/udev/rules.d
docdir      ?= $(prefix)/share/doc/forsd
bashdir     ?= $(prefix)/share/bash-completion/completions
zshdir      ?= $(prefix)/share/zsh/site-functions
FUZZTIME    ?= 10m
TESTFLAGS   ?= -timeout 20m -vet=off -parallel 8
out         ?= bin

# Go may be where its archive puts it, and OpenSM's tools are in sbin: neither
# need be in the PATH of the caller.
GO    := $(firstword $(shell which go 2>/dev/null) $(wildcard /usr/local/go/bin/go) go)
GOFMT  = $(shell $(GO) env GOROOT)/bin/gofmt
GOARCH = $(shell $(GO) env GOARCH)
export PATH := $(PATH):$(patsubst %/,%,$(dir $(GO))):/usr/sbin:/sbin

# Programs, tests and checks share what is compiled, in any directory.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# git describes the version; a checkout that belongs to someone else builds too.
GOLINK   = -s -w -X main.version=$(VERSION)
GOBUILD  = $(GO) build $(GOMODE) -buildvcs=false -ldflags '$(GOLINK)'

# The engine ilp stands on lp_solve, through cgo, linked from where Debian's lp-solve
# keeps its library. It is in a program of its own, forsd-lpsolve: the others start
# without the library, and do without the engine where that program is not.
# CGO_CFLAGS and CGO_LDFLAGS would have everything that depends on cgo compiled again.
LPSOLVE := CGO_ENABLED=1 CPATH=/usr/include/lpsolve LIBRARY_PATH=/usr/lib/lp_solve
LPLINK   = -extldflags "-L/usr/lib/lp_solve -Wl,-rpath,/usr/lib/lp_solve"
LPTEST   = $(LPSOLVE) $(GO) test $(TESTFLAGS) -tags lpsolve -ldflags '$(LPLINK)'
WITHILP  = $(wildcard /usr/include/lpsolve/lp_lib.h)

# Where libibumad-dev is, forsd reads the switches itself.
WITHUMAD = $(wildcard /usr/include/infiniband/umad.h)
TAGS     = $(if $(WITHUMAD),umad)

# What the packages are built with: compilers, and the headers of verbs, of OpenSM, of both MPIs.
BUILDPACKAGES := ca-certificates gcc git libc6-dev libibumad-dev libibverbs-dev liblpsolve55-dev libmpich-dev libopenmpi-dev libopensm-dev lp-solve make patchelf pkgconf

# What the tests and the demo run beyond that: the subnet manager, its simulated fabric and
# tools, more compilers and checkers for the C libraries, Open MPI, programs that exchange data
# by verbs (ibverbs-utils, perftest), SimGrid, Prometheus and its Alertmanager, a NETCONF server, Slurm,
# systemd's checkers for the units.
PACKAGES := $(filter-out patchelf,$(BUILDPACKAGES)) g++ gfortran ibsim-utils ibutils ibverbs-utils infiniband-diags libsimgrid-dev man-db mpich munge netconfd openmpi-bin opensm perftest prometheus prometheus-alertmanager python3 slurm-client slurmctld slurmd systemd valgrind

# What fuzzing the C libraries takes beyond that.
FUZZPACKAGES := clang libclang-rt-14-dev

# The C libraries are built where there is a C compiler, MPI's, and the headers of verbs and
# of OpenSM.
WITHVERBS = $(wildcard /usr/include/infiniband/verbs.h)
WITHOSM = $(wildcard /usr/include/infiniband/opensm/osm_event_plugin.h)
CLIBS = $(if $(shell which $(CC) 2>/dev/null),mpi/libfors gpu/libforgpu $(if $(shell which mpicc 2>/dev/null),mpi/libforsmpi) $(if $(WITHVERBS),mpi/libforslanes gpu/libforcarry) $(if $(WITHOSM),opensm/plugin))

.PHONY: build lab path cover page-test test check docs-check vet demo dumps testbed simgrid cells bench bench-opensm figures fuzz fuzz-c soak world planted-world mpi-suites mutants planted lint race vulns release packages packages-test vm-test newcomer install uninstall clean deps

build:
	$(if $(TAGS),CGO_ENABLED=1 $(GOBUILD) -tags $(TAGS),CGO_ENABLED=0 $(GOBUILD)) -o $(out)/ ./cmd/forsd ./cmd/forsctl ./cmd/forsplan ./cmd/forsd-rehearsal
	$(if $(WITHILP),$(LPSOLVE) $(GOBUILD) -ldflags '$(GOLINK) $(LPLINK)' -tags lpsolve -o $(out)/ ./cmd/forsd-lpsolve)
	$(foreach lib,$(CLIBS),$(MAKE) -C $(lib) out=$(abspath $(out)) all &&) true

# The laboratory: it measures what the papers show, and no operator needs it.
lab:
	$(GOBUILD) -o $(out)/ ./cmd/forslab

# Tests that bring up whole sites run two packages at a time; those of one package that mostly
# wait run four at a time.
SITES := cmd/forsd-rehearsal mpi/libforslanes mpi/libforsmpi testbed/adapter testbed/dumps testbed/e2e testbed/soak testbed/traffic

# What is not of forsd and forsctl: the other tiers' planners, the C libraries of ranks, the
# laboratory, the test bed and the manual. Its tests take a few minutes.
SLOW := cmd/forsd-rehearsal cmd/forslab cmd/forsplan gpu internal/forsplan lab liquid mpi optical packaging testbed

# Units and properties of forsd and forsctl, and one run on a real OpenSM; vetting is left to
# make vet. Some packages and tests mostly wait: four and eight run at a time.
test: deps
	$(GO) test -p 4 $(TESTFLAGS) $$($(GO) list ./... | grep -v $(SLOW:%=-e '/%\(/\|$$\)'))
	$(GO) test $(TESTFLAGS) -run '^TestPlugin$$' ./testbed/e2e
	@echo 'test: not run: what is in $(SLOW). make check runs all tests.'

# Every test. Those of make test do not run again where nothing has changed.
check: test vet
	$(GO) test -p 4 $(TESTFLAGS) $$($(GO) list ./... | grep -v $(SITES:%=-e '/%$$'))
	$(GO) test $(TESTFLAGS) -p 2 -parallel 4 $(SITES:%=./%)
	$(LPTEST) ./ilp
	$(LPTEST) -run 'Verified|Engines' ./planner
	$(LPTEST) -run AmidILP ./internal/daemon
	$(GO) test $(TESTFLAGS) -tags umad ./opensm/umad ./opensm
	@echo 'check: not run: packages-test, page-test, dumps, lint, vm-test, newcomer, mpi-suites, soak, mutants, planted, fuzz, race, FORS_LONG=1.'

# README and docs: links, command lines, settings, targets, warnings, words.
docs-check:
	$(GO) test -count 1 -run 'Links|Words|SettingsExist|TargetsExist|Document|Manual|Advice|Named' ./internal/archtest ./internal/cli ./internal/forsplan ./internal/daemon ./lab/forslab

vet:
	@bad=$$($(GOFMT) -l .) && if [ -n "$$bad" ]; then echo "gofmt these: $$bad" >&2; exit 1; fi
	$(GO) vet ./...
	$(if $(WITHUMAD),$(GO) vet -tags umad ./opensm/...)

demo: deps build
	$(GO) run ./testbed/demo $(if $(KEEP),-keep)

# Unmodified Open MPI on a simulated fabric that carries data: throughputs beside what the
# tables allow. Some ten minutes; the machine should have nothing else to do. TESTBEDFLAGS
# are those of testbed/traffic.
testbed: deps build
	$(GO) run ./testbed/traffic -forsd $(out)/forsd -shim $(out)/libforsmpi.so -lanes $(out)/libforslanes.so $(TESTBEDFLAGS)

# An MPI program by SimGrid on FT(2;20,18), next to what packages packets and sim give for the
# same tables. Each of 40 exchanges takes half a minute of processor time or
# more. SIMGRIDFLAGS are those of testbed/simgrid.
simgrid: deps
	$(GO) run ./testbed/simgrid $(SIMGRIDFLAGS)

# The packets of exchanges as programs make them, each way in which libforsmpi can carry them
# out, and as it chooses; a quarter of an hour on two cores. CELLSFLAGS are those of testbed/cells.
cells: deps
	$(GO) run ./testbed/cells $(CELLSFLAGS)

bench:
	$(GO) run ./lab/bench
	$(GO) test -run '^$$' -bench '^BenchmarkJob$$' -benchtime 20x ./internal/daemon
	$(GO) test -run '^$$' -bench . -benchtime 3x ./mpi/libfors ./mpi/libforsmpi ./gpu/libforgpu

# What follows on a pulled cable under min-hop, with forsd watching files, and with
# its plugin in OpenSM.
bench-opensm: deps build
	$(GO) run ./lab/benchopensm

# The pictures of docs/figures.md, drawn from new measurements on a simulated fabric.
figures: deps
	$(GO) run ./cmd/forslab draw --out docs/figures

# Every fuzz target of the module in turn, then those of the C libraries; the logs
# are in fuzz-logs.
fuzz:
	$(GO) run ./lab/fuzzall -time $(FUZZTIME) -logs fuzz-logs
	$(MAKE) fuzz-c

fuzz-c:
	@hack/deps.sh 'fuzzing the C libraries takes clang' $(FUZZPACKAGES)
	$(foreach lib,mpi/libfors mpi/libforslanes opensm/plugin,$(MAKE) -C $(lib) out=$(abspath $(out)) logs=$(abspath fuzz-logs) FUZZTIME=$(FUZZTIME) fuzz &&) true

# The page in Debian's Chromium, against a forsd beside OpenSM on a simulated fabric: each
# view, changes while it is open, orders, the keyboard, axe. Only this target takes Node.js,
# which runs the browser's driver (Playwright) and axe at the versions of package-lock.json;
# nothing of it is in a program or a package. PAGEFLAGS are those of testbed/page: -shots
# docs/figures makes the documents' pictures anew, -large tries one more large fabric.
page-test: deps build
	@hack/deps.sh 'the page is tried in a browser' chromium $(if $(shell which npm 2>/dev/null),,nodejs npm)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo 'page-test: the browser driver takes Node.js 20 or later, and this is older' >&2; exit 1; }
	cd testbed/page && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --loglevel=error
	$(GO) run ./testbed/page $(PAGEFLAGS)

# Random faults and repairs on a real OpenSM over a simulated fabric, each plan walked on
# tables read back. FABRIC is spines x leaves, or 4-ary for three levels; SOAKFLAGS='-replay soak.log' repeats a run from
# its log. It needs root, for small file systems of its own.
SEED ?= 1
EVENTS ?= 1000
MODE ?= plugin
FABRIC ?= 6x6
soak: deps build
	$(GO) run ./testbed/soak -seed $(SEED) -events $(EVENTS) -mode $(MODE) -fabric $(FABRIC) -plugin $(abspath $(out))/libforsosm.so $(SOAKFLAGS)

# Random faults on the daemon's own code beside models of OpenSM and of switches, in one process
# and in virtual time: the same SEED, the same bytes. RUNS histories of about FAULTS events each are
# played; one that fails is shrunk. FABRIC=any has the seed draw the fabric. WORLDFLAGS=-world.show prints the transcripts.
FAULTS ?= 40
RUNS ?= 100
world:
	$(GO) test -count 1 -timeout 0 -v -run '^TestWorld$$' ./internal/daemon -world.seed $(SEED) -world.runs $(RUNS) -world.faults $(FAULTS) -world.fabric $(FABRIC) -world.cover -world.shrink $(WORLDFLAGS)

# Faults planted in forsd one at a time: how soon the world finds each, within FIND of processor
# time.
FIND ?= 60s
planted-world:
	$(GO) test -count 1 -timeout 0 -v -run '^TestWorldFinds$$' ./lab/planted -find $(FIND)

# The files and packages of forsd that run from a dead cable, or a drain, to tables read back.
path:
	$(GO) test -count 1 -v -run '^TestPath$$' -coverpkg "$$($(GO) list -deps ./cmd/forsd | grep '^github.com/forsd/' | paste -sd,)" ./internal/daemon

# What part of each package below internal/ its own tests run: 70 % or more.
cover:
	@$(GO) test $(TESTFLAGS) -cover ./internal/... | awk '{ print } /^FAIL/ { bad = 1 } \
		match($$0, /coverage: [0-9.]+%/) && substr($$0, RSTART + 10, RLENGTH - 11) + 0 < 70 { low = low $$0 "\n" } END { printf "\nbelow 70 %%:\n%s", low; exit bad || low != "" }'

# Every dump of a fabric below DUMPS through read, plan, verify and failures, and through
# OpenSM on a simulated fabric: one table of forsd beside OpenSM's engines.
dumps: deps
	@[ -d '$(DUMPS)' ] || { echo 'dumps: give a directory of dumps: make dumps DUMPS=DIR' >&2; exit 1; }
	FORS_DUMPS=$(abspath $(DUMPS)) $(GO) test -count 1 -v -timeout 30m $(DUMPSFLAGS) -run TestDumps ./testbed/dumps

# Tests of others that exchange all to all, with libforsmpi as without, under both MPIs:
# MPICH's, FFTW's, mpi4py's, HPC Challenge. Their sources are Debian's, and do not stay.
mpi-suites: deps
	@hack/deps.sh 'programs of others are tried with the shim' hpcc python3-mpi4py
	GO=$(GO) hack/mpi-suites

# Mistakes in the pure state machines, the verifier, tables, what is stored and the planners'
# checks that their own tests do not find.
mutants:
	$(foreach package,controller internal/delivery internal/linkstate internal/standby,$(GO) run ./lab/mutate -min 90 ./$(package) -rapid.checks=300 &&) true
	$(GO) run ./lab/mutate -min 95 ./verify -rapid.checks=60
	$(GO) run ./lab/mutate -min 90 ./phasetable -rapid.checks=50
	$(GO) run ./lab/mutate -min 90 ./internal/store
	$(GO) run ./lab/mutate -min 90 ./lft -rapid.checks=30
	$(GO) run ./lab/mutate -min 90 -files '^(check|limit|unreachable)\.go$$' -run 'MayLeaveOut|LaneLess|Unreachable|Check|Verified' ./planner
	$(GO) run ./lab/mutate -min 90 -files '^check\.go$$' -run 'MayPlan|Check|VerifyBase' ./podplan

# Faults planted in forsd, and which nets catch them: each is caught by two or more.
# PLANTEDFLAGS are those of lab/planted; -without judge takes a net away.
planted: deps
	$(GO) run ./lab/planted $(PLANTEDFLAGS)

# Tools at fixed versions, from the Go module proxy; the first run builds them.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0
VULNS    := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Whether the packages are the same bytes each time, what lintian says of them, and what a
# fresh Debian makes of them. It needs root, for a chroot.
again = $(abspath $(pkgdir))/again
packages-test: packages
	@hack/deps.sh 'packages are installed in a fresh Debian, in a directory' debootstrap gnupg lintian rpm
	umask 077 && TZ=Asia/Tokyo $(MAKE) packages pkgdir=$(again)
	packaging/same $(pkgdir) $(again)
	rm -rf $(again)
	packaging/lint $(pkgdir)
	packaging/test $(pkgdir)

# The packages on a Debian of their own, with a live systemd, in a virtual machine. VMFLAGS
# are those of testbed/vm; -previous names a directory with packages to upgrade from.
vm-test: packages
	@hack/deps.sh 'the packages are tried in a virtual machine' debootstrap qemu-system-x86 e2fsprogs
	$(GO) run ./testbed/vm $(VMFLAGS)

# README's commands in a fresh Debian, as root; those that take systemd are in vm-test.
# NEWCOMERFLAGS are those of testbed/newcomer: -test runs make test, too.
newcomer:
	@hack/deps.sh 'README is followed in a fresh Debian, in a directory' debootstrap
	$(GO) run ./testbed/newcomer $(NEWCOMERFLAGS)

# What the linter finds by .golangci.yml, and functions that nobody calls, not even a test,
# neither with the C libraries nor without. Everything builds without cgo.
lint:
	CGO_ENABLED=0 $(GO) build ./...
	@echo 'lint: golangci-lint and deadcode check the code; where they are not in the build cache, they come from the Go module proxy and are built, some minutes: $(GOLANGCI) $(DEADCODE)'
	$(GO) run $(GOLANGCI) run ./...
	@a=$$($(GO) run $(DEADCODE) -test ./...) && b=$$($(CGO) $(GO) run $(DEADCODE) -test -tags '$(TAGS)' ./...) && \
		dead=$$(printf '%s\n' "$$a" "$$b" | sed '/^$$/d' | sort | uniq -d) && if [ -n "$$dead" ]; then echo "$$dead" >&2; exit 1; fi

race: deps
	$(GO) test -race -short -timeout 40m ./...

# Its database is at vuln.go.dev.
vulns:
	$(GO) run $(VULNS) ./...

# The files of a release, of a commit: source, packages, bill of materials, a static forsctl,
# the recipe of an image that watches, and checksums signed by gpg's key KEY. See CONTRIBUTING.md.
release: VERSION = $(RELEASE)
release:
	@[ -z "$$(git status --porcelain)" ] || { echo 'release: commit your changes first: a release is of a commit' >&2; exit 1; }
	@[ -n '$(KEY)' ] || { echo 'release: name the key that signs: make release KEY=maintainer@example.org' >&2; exit 1; }
	rm -rf $(pkgdir) && $(MAKE) packages
	git archive --format=tar.gz --prefix=forsd-$(RELEASE)/ -o $(pkgdir)/forsd-$(RELEASE).tar.gz HEAD
	CGO_ENABLED=0 $(GOBUILD) -o $(pkgdir)/forsctl-$(RELEASE)-linux-$(GOARCH) ./cmd/forsctl
	cp packaging/Containerfile $(pkgdir)
	packaging/sign $(pkgdir) '$(KEY)'

# Packages of this commit in dist/, for Debian and for distributions with rpm. They are
# the same bytes each time: files are of the commit's date. The version is the tag's, or
# what the CHANGELOG says of the next release, with the commit behind it.
NFPM    := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.1
RELEASE  = $(shell packaging/version)
pkgdir  ?= dist
FORMATS ?= deb rpm
STAGE    = $(abspath $(pkgdir))/stage
packages: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
packages:
	@hack/deps.sh 'packages are built and packed' $(BUILDPACKAGES)
	rm -rf $(STAGE) $(addprefix $(pkgdir)/*.,deb rpm cdx.json) && mkdir -p $(pkgdir)
	$(MAKE) install GOMODE=-buildmode=pie VERSION=$(RELEASE) out=$(abspath $(pkgdir))/bin prefix=/usr DESTDIR=$(STAGE)
	packaging/stage $(STAGE) $(RELEASE)
	FORMATS='$(FORMATS)' packaging/pack $(STAGE) $(RELEASE) $(GOARCH) $(pkgdir) $(NFPM)
	$(GO) run ./packaging/sbom $(RELEASE) $$(date -u -d @$$SOURCE_DATE_EPOCH +%Y-%m-%d) $(addprefix $(STAGE)/usr/,bin/forsd bin/forsctl bin/forsplan libexec/forsd/forsd-lpsolve libexec/forsd/forsd-rehearsal lib/libforsosm.so lib/libfors.so.1 lib/libforgpu.so.1 lib/libforcarry.so.1 lib/libforsmpi.so lib/libforsmpi-mpich.so lib/libforslanes.so lib/libforslanes-nccl.so) >$(pkgdir)/forsd-$(RELEASE).cdx.json
	rm -rf $(STAGE) $(pkgdir)/bin
	cd $(pkgdir) && sha256sum $(addprefix *.,$(FORMATS) cdx.json) >SHA256SUMS

deps:
	@hack/deps.sh 'tests and demo run OpenSM on simulated fabrics, and the C libraries under Open MPI and Valgrind' $(PACKAGES)

# An existing configuration stays.
install: build
	install -d $(addprefix $(DESTDIR),$(bindir) $(libexecdir) $(unitdir)/opensm@.service.d $(sysusersdir) $(udevdir) $(docdir)/figures $(docdir)/examples $(docdir)/slurm $(docdir)/prometheus $(docdir)/alertmanager $(docdir)/grafana $(bashdir) $(zshdir) $(sysconfdir)/forsd)
	install -m 755 $(out)/forsd $(out)/forsctl $(out)/forsplan $(DESTDIR)$(bindir)
	install -m 755 $(out)/forsd-rehearsal $(if $(WITHILP),$(out)/forsd-lpsolve) $(DESTDIR)$(libexecdir)
	sed -e 's|/usr/bin/|$(bindir)/|' -e 's|/etc/forsd|$(sysconfdir)/forsd|' -e 's|/usr/share/doc/forsd|$(docdir)|' -e '1,3d' \
		systemd/forsd.service >$(DESTDIR)$(unitdir)/forsd.service
	chmod 644 $(DESTDIR)$(unitdir)/forsd.service
	install -m 644 systemd/opensm@.service.d/forsd.conf $(DESTDIR)$(unitdir)/opensm@.service.d
	install -m 644 systemd/sysusers.d/forsd.conf $(DESTDIR)$(sysusersdir)
	install -m 644 systemd/udev/70-forsd.rules $(DESTDIR)$(udevdir)
	install -m 644 LICENSE configs/opensm.conf.fragment configs/forsd.yaml $(wildcard docs/*.md docs/*.yaml) $(DESTDIR)$(docdir)
	sed -i -e 's|](\.\./configs/|](|g' -e 's|](\.\./examples/|](examples/|g' -e 's|\[\([^]]*\)\](\.\./[^)]*)|\1|g' $(DESTDIR)$(docdir)/*.md
	install -m 644 $(wildcard docs/figures/*) $(DESTDIR)$(docdir)/figures
	install -m 755 $(wildcard configs/slurm/*.sh) $(DESTDIR)$(docdir)/slurm
	for d in prometheus alertmanager grafana; do install -m 644 configs/$$d/* $(DESTDIR)$(docdir)/$$d || exit 1; done
	install -m 644 $(wildcard examples/*.c examples/*.py) $(DESTDIR)$(docdir)/examples
	test -e $(DESTDIR)$(sysconfdir)/forsd/forsd.yaml || install -m 644 configs/forsd.yaml $(DESTDIR)$(sysconfdir)/forsd
	$(foreach lib,$(CLIBS),$(MAKE) -C $(lib) out=$(abspath $(out)) prefix=$(prefix) DESTDIR=$(DESTDIR) install &&) true
	umask 022 && for p in forsctl forsplan; do $(out)/$$p completion bash >$(DESTDIR)$(bashdir)/$$p && $(out)/$$p completion zsh >$(DESTDIR)$(zshdir)/_$$p || exit 1; done
	@echo 'Next: append $(docdir)/opensm.conf.fragment to opensm.conf, then'
	@echo '  ldconfig && systemd-sysusers && udevadm control --reload && udevadm trigger -s infiniband_mad &&'
	@echo '  systemctl daemon-reload && systemctl restart opensm && systemctl enable --now forsd'

# The configuration and the state stay.
uninstall:
	rm -f $(addprefix $(DESTDIR),$(bindir)/forsd $(bindir)/forsctl $(bindir)/forsplan $(unitdir)/forsd.service $(unitdir)/opensm@.service.d/forsd.conf \
		$(sysusersdir)/forsd.conf $(udevdir)/70-forsd.rules $(bashdir)/forsctl $(bashdir)/forsplan $(zshdir)/_forsctl $(zshdir)/_forsplan)
	$(foreach lib,$(CLIBS),$(MAKE) -C $(lib) prefix=$(prefix) DESTDIR=$(DESTDIR) uninstall &&) true
	rm -rf $(DESTDIR)$(docdir) $(DESTDIR)$(libexecdir)

clean:
	rm -rf $(out) fuzz-logs dist
