# What the Makefiles of C libraries have in common. They set name, which is that of the header
# and what the library's follows lib with, data, what programs find beside it, and may set
# libraries, what it is linked with. Variables:
# out, CC, CFLAGS; prefix, DESTDIR (install).

out        ?= ../../bin
prefix     ?= /usr/local
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
pcdir      ?= $(libdir)/pkgconfig
mandir     ?= $(prefix)/share/man
datadir    ?= $(prefix)/share/$(name)
CFLAGS     ?= -O2 -g
lib        := lib$(name)

override CFLAGS += -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wconversion -fPIC -fvisibility=hidden

# The interface's version, and the major number that the shared library's name has.
LIBVERSION := $(shell awk '/define [A-Z]+_VERSION_/ { v = v sep $$3; sep = "." } END { print v }' $(name).h)
SONAME  := $(lib).so.$(firstword $(subst ., ,$(LIBVERSION)))

sources := $(wildcard src/*.c)
headers := $(name).h src/internal.h
objects := $(sources:src/%.c=$(out)/.$(lib)/%.o)

.PHONY: all install uninstall clean

all: $(out)/$(lib).so $(out)/$(lib).a

$(out)/.$(lib)/%.o: src/%.c $(headers) $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(out)/$(SONAME): $(objects) $(name).map
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(name).map -Wl,-z,defs -o $@ $(objects) $(libraries)

$(out)/$(lib).so: $(out)/$(SONAME)
	ln -sf $(SONAME) $@

$(out)/$(lib).a: $(objects)
	rm -f $@
	$(AR) rcs $@ $(objects)

install: all
	install -d $(addprefix $(DESTDIR),$(libdir) $(includedir) $(pcdir) $(mandir)/man3 $(datadir))
	install -m 644 $(out)/$(SONAME) $(DESTDIR)$(libdir)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/$(lib).so
	install -m 644 $(out)/$(lib).a $(DESTDIR)$(libdir)
	install -m 644 $(name).h $(DESTDIR)$(includedir)
	install -m 644 $(name).3 $(DESTDIR)$(mandir)/man3
	install -m 644 $(data) $(DESTDIR)$(datadir)
	sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' -e 's|@version@|$(LIBVERSION)|' \
		$(name).pc.in >$(DESTDIR)$(pcdir)/$(name).pc
	chmod 644 $(DESTDIR)$(pcdir)/$(name).pc

uninstall:
	rm -f $(addprefix $(DESTDIR),$(libdir)/$(SONAME) $(libdir)/$(lib).so $(libdir)/$(lib).a $(includedir)/$(name).h $(mandir)/man3/$(name).3 $(pcdir)/$(name).pc $(datadir)/$(data))

clean:
	rm -rf $(out)/.$(lib) $(out)/$(lib).so* $(out)/$(lib).a
