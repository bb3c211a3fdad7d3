/*
 * entry.h: declarations without MPI's header, for entry.c, which must not include it.
 */
#ifndef FORSMPI_ENTRY_H
#define FORSMPI_ENTRY_H

#include <stdbool.h>

#define EXPORTED __attribute__((visibility("default")))

/* The MPI that the shim was built with, and whether an MPI's version is of another kind. */
extern const char *const fm_built_for;
bool fm_other_mpi(const char *version);

/* fm_foreign reports whether the program runs under another MPI, and prints it once. */
bool fm_foreign(void);

/* fm_say prints a line on standard error. */
void fm_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
