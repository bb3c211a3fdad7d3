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

/* NICs of a server that send together, one after the other in planner.nics. */
struct group { int32_t server, first, width; };

/* Traffic from one NIC to another, two ranks. */
struct stream {
	int32_t out, in, from, to; /* from, to: the GPUs of both NICs, by their first places in their servers */
	int64_t room, left; /* bytes without a message, and not sent */
	size_t segment;	     /* the current one */
	int64_t done;	     /* bytes of it */
};

/* Part of a message that travels over a stream. */
struct segment {
	int32_t source, destination; /* GPUs, numbered in their servers */
	int32_t stream;
	int64_t offset, bytes;
};

/* Bytes that a stream of the own server carries in a stage. */
struct turn {
	int32_t stream;
	int64_t bytes;
};

/* A list of the program while it is written. */
struct list {
	struct forgpu_piece *at;
	size_t count;
};

/* Tokens that are sent once to each server. A batch is those from one rank to another. */
struct tokens {
	bool given; /* or messages */
	int64_t bytes;
	int32_t each;
	int64_t *units;		/* [source][destination] tokens of a batch */
	int64_t *copies;	/* [server] that its ranks hand on */
	int32_t *needs, *rows;	/* by token: ranks, and rows of their outputs */
	int32_t *first;		/* [token] its needs */
	int32_t *list, *begins; /* tokens by batch; [source][destination] */
	int32_t *next, *load;	/* scratch */
	int32_t *count;		/* [rank] tokens that it needs */
	struct memory memory, back_memory;
};

struct forgpu_planner {
	struct decomposer decomposer;
	struct tokens tokens;
	size_t reserve;	  /* moves of tokens in the server for which there is room: see forgpu_reserve */
	size_t list_room; /* pieces */

	/* The NICs: see forgpu_nics. The arrays of places are NULL if all are well. */
	int32_t servers, gpus, each; /* each: places per server */
	int64_t unit, speed;	     /* of a channel, and of the fastest NIC */
	struct forgpu_place *places; /* [place] */
	int32_t *first;		     /* [GPU] its first place */

	/* The request. Ranks are places. */
	int32_t n, m, ranks, rank, own;
	const int64_t *bytes;
	struct forgpu_options o;
	double latency; /* seconds */

	/* Servers. */
	int64_t *pairs;	   /* [source][destination] */
	int64_t *out, *in; /* [rank] */
	int64_t *working;  /* [rank] working NICs of the GPU */
	int64_t *channels; /* [server] working NICs */
	int64_t bound;
	int32_t *nics; /* the ranks with a working NIC */

	/* Groups of NICs. */
	struct group *groups;
	int32_t group_count, *first_group;	/* [server] its first group, and that after the last */
	int64_t *load, *share, *rounded, *left; /* [group][group] */
	const int64_t *ask;			/* the matrix to decompose: share or rounded */
	int64_t *columns;			/* [group] scratch */
	struct filler { int64_t total, used; int32_t at, nics; } *fillers; /* [server] that sends, then that receives */

	/* The order of the stages. */
	struct stint *falling, *rising, *hill, *scratch, *order;
	size_t stints;

	/* The assignment of bytes to streams. */
	int32_t *by_out, *by_in; /* [rank] GPUs of each server, the busiest first */
	int64_t *unassigned;	 /* [GPU][GPU] */
	struct segment *segments, *unsorted;
	struct stream *streams;
	int32_t *first_stream; /* [group][group] */
	size_t segment_count, stream_count;

	/* Stages of the own server's NICs, in the order of groups. */
	int64_t *lengths;      /* [stage] */
	struct turn *sends, *receives; /* [stage][turn] */
	int32_t *sent, *received;      /* [stage] how many turns */
	size_t stages;

	/* The moves of the own server's GPUs, and the bytes that wait. */
	int64_t *loads[3]; /* [GPU] sent, then received */
	struct local { int32_t source, destination; int64_t offset, bytes; } *waiting;
	size_t waits;

	/* The program. */
	int64_t *input, *output; /* [rank] offsets of messages */
	struct list before_send, before_receive, after_send, after_receive, local_send, local_receive, send, receive;

	struct memory site_memory, traffic_memory, servers_memory, groups_memory, stints_memory, ride_memory, segments_memory,
		stage_memory, turns_memory, loads_memory, places_memory, lists_memory;
};

/* Room for so many stages, or for a number that plans rarely exceed. */
static inline size_t ample(const struct forgpu_planner *p, size_t stages)
{
	size_t usual = 16 * (size_t)p->group_count + 64;
	return stages > usual ? stages : usual;
}

/* A segment uses up a message or the room of a stream, of which two servers have at most two for
 * each NIC. */
static inline size_t most_streams(const struct forgpu_planner *p) { return 4 * (size_t)p->n * (size_t)p->m; }
static inline size_t most_segments(const struct forgpu_planner *p)
{
	size_t m = (size_t)p->m;
	return 2 * (size_t)p->n * m * m + most_streams(p);
}

static inline bool works(const struct forgpu_planner *p, int32_t rank) { return !p->places || p->places[rank].nic >= 0; }

/* The GPU of a rank of a server, by its first place there. */
static inline int32_t home(const struct forgpu_planner *p, int32_t server, int32_t rank)
{
	return (p->places ? p->places[rank].home : rank) - server * p->m;
}

int fail(struct forgpu_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

int check_cluster(int32_t servers, int32_t gpus, struct forgpu_error *err);
int search_options(struct forgpu_planner *p, int64_t budget, struct forgpu_options *chosen, struct forgpu_outlook *outlook,
		   struct forgpu_error *err);
int survey(struct forgpu_planner *p, struct forgpu_error *err);
bool alike(const struct forgpu_planner *p);
int32_t most_channels(const struct forgpu_planner *p);
int divide(struct forgpu_planner *p, int32_t count);
int32_t width(const struct forgpu_planner *p, size_t at);
void add_streams(struct forgpu_planner *p, size_t at);
void round_up(struct forgpu_planner *p);
int server_stages(struct forgpu_planner *p, struct limits limits, struct forgpu_error *err);
int arrange(struct forgpu_planner *p, int64_t longest_stage, double *seconds);
int ride(struct forgpu_planner *p, bool stay);
int follow(struct forgpu_planner *p, struct forgpu_error *err);
int write_program(struct forgpu_planner *p, struct forgpu_program *program);

/* tokens.c. begin_tokens makes batches, and puts the options into tokens. */
int begin_tokens(struct forgpu_planner *p, const struct forgpu_tokens *given, struct forgpu_error *err);
int64_t copies(const struct forgpu_planner *p);	   /* that a rank of the busiest server hands on */
size_t own_copies(const struct forgpu_planner *p); /* pieces of a list of the rank at most, besides those of its turns */
const int32_t *stretch(const struct forgpu_planner *p, int32_t source, int32_t destination, int64_t offset);
int32_t row_of(const struct forgpu_planner *p, int32_t rank, int32_t token); /* or -1 if it does not need it */
int write_tokens(struct forgpu_planner *p, struct forgpu_program *there, struct forgpu_program *back);

#endif
