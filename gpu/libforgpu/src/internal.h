/* Declarations shared by the files of the library. The algorithms are explained in the Go
 * packages bipartite and gpu, whose results the library reproduces exactly. */
#ifndef FORGPU_INTERNAL_H
#define FORGPU_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../forgpu.h"

/* Memory that is kept from call to call. */
struct memory {
	void *at;
	size_t size;
};

/* Make room for elements; room discards those in m, more keeps them. NULL: no memory. */
void *room(struct memory *m, size_t count, size_t size);
void *more(struct memory *m, size_t count, size_t size);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* v/m rounded up. */
static inline int64_t over(int64_t v, int64_t m) { return (v + m - 1) / m; }

/* A part, by its index, of v divided into parts as equal as possible. */
static inline int64_t evenly(int64_t v, int64_t parts, int64_t part) { return (v + parts - 1 - part) / parts; }

/* A matrix as matchings with weights: see bipartite.Decomposer. */
struct decomposer {
	int32_t n;
	size_t words;
	int64_t *x, *idle_r, *idle_c;
	uint64_t *near, *free, *fresh;
	int32_t *of_row, *of_col, *from, *queue, *open;
	int32_t queued, opened;
	int64_t threshold, low;
	int64_t *weights; /* [stage] */
	int32_t *match;	  /* [stage][row] */
	size_t stages, most;
	struct memory square, lines, bits, partners, weight_memory, match_memory;
};

enum { ESTAGES = 1, EDEADLINE = 2 }; /* internal results of decompose */

/* Limits of decompose. */
struct limits {
	bool longest;	  /* make each stage as long as possible */
	int64_t stages;	  /* at most, or any number if 0 or less */
	int64_t deadline; /* nanoseconds of the monotonic clock, or 0 */
};

int decompose(struct decomposer *d, int32_t n, const int64_t *x, struct limits limits);
int reserve_stages(struct decomposer *d, int32_t n, size_t stages);
int64_t now(void);

/* Largest row or column sum of n rows. columns are n elements of scratch. */
int64_t longest(int32_t n, const int64_t *x, int64_t *columns);

/* A stage of servers: a matching and its length in bytes. */
struct stint {
	int32_t turn;
	int64_t length;
};

/* Part of a message that travels over one NIC of each side. */
struct segment {
	int32_t source, destination; /* GPUs, numbered in their servers */
	int32_t nic;
	int64_t offset, bytes;
};

/* A list of the program while it is written. */
struct list {
	struct forgpu_piece *at;
	size_t count;
};

struct forgpu_planner {
	struct decomposer decomposer;

	/* The request. */
	int32_t n, m, ranks, rank, own;
	const int64_t *bytes;
	struct forgpu_options o;
	double latency; /* seconds */

	/* Servers. */
	int64_t *pairs, *share, *rounded, *left; /* [source][destination] */
	const int64_t *ask;			  /* the matrix to decompose: share or rounded */
	int64_t *out, *in;			  /* [rank] */
	int64_t *columns;			  /* [server] scratch */
	int64_t grain;

	/* The order of the stages. */
	struct stint *falling, *rising, *hill, *scratch, *order;
	size_t stints;

	/* The assignment of bytes to streams. A stream is a pair of servers and a NIC; pair j is
	 * from the own server to j, pair n + i from i to it. */
	int32_t *by_out, *by_in;		      /* [rank] GPUs of each server, the busiest first */
	int64_t *unassigned, *capacity, *stream_left; /* [GPU][GPU], [NIC], [stream] */
	struct segment *segments, *unsorted;
	size_t segment_count;
	struct stream { size_t segment; int64_t done; } *streams; /* the current segment */

	/* Stages of the own server: -1 and 0 if it does not send. */
	int64_t *lengths;	       /* [stage] */
	int32_t *to, *from;	       /* [stage] servers */
	int64_t *out_bytes, *in_bytes; /* [stage][NIC] */
	size_t stages;

	/* The moves of the own server's GPUs, and the bytes that wait. */
	int64_t *loads[3]; /* [GPU] sent, then received */
	struct local { int32_t source, destination; int64_t offset, bytes; } *waiting;
	size_t waits;

	/* The program. */
	int64_t *input, *output; /* [rank] offsets of messages */
	struct list before_send, before_receive, after_send, after_receive, local_send, local_receive, send, receive;

	struct memory servers_memory, stints_memory, ride_memory, segments_memory, stage_memory, turns_memory, loads_memory,
		places_memory, lists_memory;
};

/* Room for so many stages, or for a number that plans rarely exceed. */
static inline size_t ample(const struct forgpu_planner *p, size_t stages)
{
	size_t usual = 16 * (size_t)p->n + 64;
	return stages > usual ? stages : usual;
}

/* A segment uses up a message or the room of a NIC. */
static inline size_t most_segments(const struct forgpu_planner *p)
{
	size_t m = (size_t)p->m;
	return 2 * (size_t)p->n * (m * m + m);
}

int fail(struct forgpu_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

int search_options(struct forgpu_planner *p, int64_t budget, struct forgpu_options *chosen, struct forgpu_outlook *outlook,
		   struct forgpu_error *err);
int survey(struct forgpu_planner *p, struct forgpu_error *err);
void round_up(struct forgpu_planner *p);
int server_stages(struct forgpu_planner *p, struct limits limits, struct forgpu_error *err);
int arrange(struct forgpu_planner *p, int64_t longest_stage, double *seconds);
int ride(struct forgpu_planner *p, bool stay);
int follow(struct forgpu_planner *p, struct forgpu_error *err);
int write_program(struct forgpu_planner *p, struct forgpu_program *program);

#endif
