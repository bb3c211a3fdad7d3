/*
 * lanes.h: declarations shared by the files of libforslanes. None of them is exported.
 *
 *	verbs.c  the verbs that programs call, and those behind them
 *	lanes.c  the table, and the lane of a pair of servers
 *	notes.c  what was put where the program wanted something else; new epochs
 */
#ifndef FORSLANES_H
#define FORSLANES_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "fors.h"

/* The part of an address vector that makes a lane. */
struct lane {
	uint16_t dlid;
	uint8_t bits; /* source path bits */
};

/* A pair of servers, by the GUIDs of their ports: their numbers are each table's own. */
struct pair {
	uint64_t me, peer;
};

/* lanes.c */

/*
 * fl_choose finds the lane of the pair that an address vector joins. It returns false
 * if the vector must stay as it is: no table is open, the table does not have the port,
 * or the destination is none of its servers, or another one on this port. The first
 * call opens the table.
 */
bool fl_choose(struct ibv_context *context, const struct ibv_ah_attr *vector, struct pair *pair, struct lane *lane);

/* fl_lane is the lane of a pair in a table; false: the table has none for it. */
bool fl_lane(const fors_table *table, struct pair pair, struct lane *lane);

/* fl_say prints a line on standard error. */
void fl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fl_verbose is FORS_VERBOSE. */
bool fl_verbose(void);

/* notes.c */

/* What was put into an address vector. */
struct note {
	struct pair pair;
	struct lane wanted, put; /* by the program, by us */
};

/* An object, a queue pair or an address handle, has one note or none. */
void fl_note(const void *object, const struct note *note);
/* fl_noted returns the note of an object in *note. */
bool fl_noted(const void *object, struct note *note);
/* fl_forget does the same, and drops the note. */
bool fl_forget(const void *object, struct note *note);

/* fl_watch begins to look for epochs after a table's, and to report their effect on the
 * objects with notes. */
void fl_watch(fors_table *table);

/* verbs.c: the library behind. They return an errno. */
int fl_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int fl_query_gid(struct ibv_context *context, uint8_t port, union ibv_gid *gid);

#endif
