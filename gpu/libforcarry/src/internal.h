/* Declarations shared by the files of the library. */
#ifndef FORCARRY_INTERNAL_H
#define FORCARRY_INTERNAL_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../forcarry.h"

/* Internal result: a NIC has died, and the exchange begins again. */
enum { REPEAT = 1 };

/* The kinds of moves inside a server. */
enum { BEFORE, AFTER, LOCAL, KINDS };

enum {
	BLOBS = 3,	 /* of routing, by exchange: the next may come while that of the last dispatch but one is read */
	WINDOW = 2,	 /* stages of which a NIC sends at a time */
	LONGEST = 1 << 30, /* bytes of a message */
	NO_STAGE = (1 << 20) - 1,
};

/* The state of a rank. Its fields only grow, so any of two messages may come first. */
struct entry {
	_Atomic uint64_t op;	  /* the exchange that it has joined: it has finished all work on those before it */
	_Atomic uint64_t done;	  /* the last exchange whose output it has */
	_Atomic uint64_t routing; /* the last exchange for which its routing is in the board */
	_Atomic uint64_t probed;  /* 1 + the dead NICs with which it has last tried all its connections */
	_Atomic uint32_t failed;  /* 1 if it has */
	uint32_t reserved;
	_Atomic uint64_t dead[]; /* bits by rank: NICs without which it has joined the exchange; then those to which its connection has failed */
};

/* An entry as it is sent. */
struct state {
	uint64_t op, done, probed;
	uint32_t rank, failed;
	uint64_t dead[];
};

struct message {
	uint64_t count;
	char states[];
};

/* A rank's routing for a frame. */
struct blob {
	uint64_t tokens;
	struct choice {
		int32_t expert;
		float weight;
	} of[]; /* [token][choice] */
};

/* A piece that peers of the server take, in bytes of the region. */
struct piece {
	int32_t stage, peer;
	int64_t offset, bytes;
};

/* What a rank tells its server during an attempt. */
struct share {
	_Atomic uint64_t planned; /* the attempt whose lists are here, and whose input is ready */
	_Atomic uint64_t arrived; /* attempt << 20, and the first stage whose data has not arrived */
	_Atomic uint64_t told;	  /* the last exchange after which all servers have its state */
	int64_t first[KINDS + 1]; /* of the lists to send */
	struct piece at[];
};

/* Shared by the ranks of a server. */
struct board {
	_Atomic uint64_t changes;  /* of dead in any entry */
	_Atomic uint64_t failures; /* entries that have failed */
};

/* The regions of a rank's data memory. */
enum region { INPUT, NIC_SEND, NIC_RECEIVE, OUTPUT, COMBINED, REGIONS };

/* A rank of another server, as the rank reaches it. */
struct peer {
	struct ibv_qp *qp;
	uint64_t board, data; /* addresses there */
	uint32_t board_key, data_key;
	bool broken;
};

/* Where states for another server go. */
struct route {
	int32_t to;		 /* rank */
	bool flying;		 /* a message is on the way */
	uint64_t version, acked; /* of the states on the way, and of those there */
	struct ibv_sge sge;
};

/* How far the moves of a kind from a peer of the server have come. */
struct cursor {
	int64_t at, taken;
};

struct forcarry {
	struct forcarry_options o;
	int32_t ranks, server, local, words;
	int64_t stages, pieces; /* capacities */
	forgpu_planner *planner;
	const struct forcarry_inside *inside;

	struct board *board;
	size_t board_bytes, entry_bytes, blob_bytes, share_bytes, state_bytes, message_bytes;
	size_t entries_at, blobs_at, shares_at; /* offsets in the board */
	char **data;				/* [GPU] memory of the ranks of the server */
	char board_handle[64], data_handle[64];
	int64_t region[REGIONS + 1];

	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *board_region, *data_region, *message_region;
	struct ibv_port_attr port;
	struct peer *peers; /* [rank] */
	char *messages;	    /* to send, [server], then to receive, [receives] */
	int32_t receives;
	struct route *routes;	/* [server] */
	uint64_t *blob_version; /* [server][GPU]: routing there; then routing on the way */
	uint64_t *suspects;	/* bits by rank: NICs found dead */
	uint64_t *known;	/* bits: scratch */
	bool suspicious; /* suspects have changed, or connections have failed */
	bool doubt;	 /* connections have failed between NICs that are not known to be dead */
	bool probing;
	int32_t probes;	     /* on the way */
	uint64_t generation; /* of the set of ranks for which the rank speaks */
	bool broken; /* the carrier is of no more use */
	uint32_t polls;
	int spins; /* empty polls until a wait sleeps */

	/* The exchange, and the attempt at it. */
	uint64_t op, attempt, seen; /* seen: changes of the board that the attempt knows */
	struct forgpu_program program;
	int64_t unit, row;	/* bytes of a token in the program, and here */
	enum region out;
	int64_t *slot;		/* [stage] offset in NIC_SEND and NIC_RECEIVE */
	int64_t *came;		/* [stage] bytes received, or -1 */
	struct cursor *cursors; /* [kind][GPU] */
	size_t ready, posted, sent, received;
	int32_t flying;		/* data messages */
	int64_t since;		/* the wait under way began */

	/* Tokens. */
	uint64_t dispatch;	    /* the exchange of the last dispatch, or 0 */
	int32_t tokens;		    /* of the rank in it */
	int32_t each;		    /* the most of any rank */
	int32_t *needs;		    /* [token][choice] ranks */
	int64_t *speeds;	    /* [rank] */
	int64_t *counts;	    /* [rank] rows that it receives */
	uint64_t routed;	    /* the exchange whose needs these are */
	struct forgpu_program back; /* the way back, with so many NICs dead */
	int32_t back_dead;
	forcarry_plan *given; /* of forcarry_exchange */
	void *given_context;
	int64_t given_bytes[2];
	struct forcarry_received got;
	int32_t *idx, *source, *token, *per_expert;
	float *weights;

	struct forcarry_counts count;
};

int set_error(struct forcarry_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int64_t nanoseconds(void);

static inline bool bit(const uint64_t *bits, int32_t at) { return bits[at / 64] >> at % 64 & 1; }
static inline struct entry *entry_of(const struct forcarry *c, int32_t rank)
{
	return (struct entry *)((char *)c->board + c->entries_at + (size_t)rank * c->entry_bytes);
}
static inline struct blob *blob_of(const struct forcarry *c, int32_t rank, uint64_t op)
{
	return (struct blob *)((char *)c->board + c->blobs_at + ((size_t)rank * BLOBS + op % BLOBS) * c->blob_bytes);
}
static inline struct share *share_of(const struct forcarry *c, int32_t gpu)
{
	return (struct share *)((char *)c->board + c->shares_at + (size_t)gpu * c->share_bytes);
}
static inline struct state *state_at(const struct forcarry *c, const struct message *m, uint64_t at)
{
	return (struct state *)((uintptr_t)m->states + at * c->state_bytes);
}
static inline char *region_of(const struct forcarry *c, int32_t gpu, enum region region) { return c->data[gpu] + c->region[region]; }
/* Reports whether the connection of a rank with another has failed, as the first has found. */
static inline bool has_failed(const struct forcarry *c, int32_t rank, int32_t other)
{
	return atomic_load(&entry_of(c, rank)->dead[c->words + other / 64]) >> other % 64 & 1;
}
static inline bool is_dead(const struct forcarry *c, int32_t rank)
{
	return atomic_load(&entry_of(c, c->o.rank)->dead[rank / 64]) >> rank % 64 & 1;
}

/* verbs.c */
struct address {
	uint64_t board, data;
	uint32_t board_key, data_key;
	uint16_t lid;
	uint8_t gid[16], mtu;
	uint32_t numbers[]; /* [rank] queue pairs */
};
int open_device(struct forcarry *c, struct forcarry_error *err);
void write_address(struct forcarry *c, struct address *to);
int connect_all(struct forcarry *c, const char *addresses, size_t size, struct forcarry_error *err);
void close_device(struct forcarry *c);
void break_pair(struct forcarry *c, int32_t rank);
void send_states(struct forcarry *c, int32_t server);
void send_stage(struct forcarry *c, const struct forgpu_piece *x);
int take_completions(struct forcarry *c);
void suspect(struct forcarry *c, int32_t rank);
void probe(struct forcarry *c, int32_t rank);
void look_at_port(struct forcarry *c);

/* agree.c */
int progress(struct forcarry *c);
/* Makes progress. What a rank has waits for is named if it takes too long. */
int rest(struct forcarry *c, int *idle, const char *what, int32_t rank, struct forcarry_error *err);
void begin_wait(struct forcarry *c);
void take_states(struct forcarry *c, const struct message *m);
void acknowledged(struct forcarry *c, int32_t server);
int32_t count_dead(const struct forcarry *c);
int give_up(struct forcarry *c, int code);
int carry_out(struct forcarry *c, int (*plan)(struct forcarry *, struct forcarry_error *), struct forcarry_error *err);

bool grow(_Atomic uint64_t *to, uint64_t value);
void route_states(struct forcarry *c);

/* blame.c */
bool changed(struct forcarry *c);

/* attempt.c */
void expect(struct forcarry *c);
void stage_came(struct forcarry *c, uint32_t immediate, uint32_t bytes);
void send_more(struct forcarry *c);
int attempt(struct forcarry *c, bool output, struct forcarry_error *err);

/* tokens.c. reserve allocates all that plans take. */
int reserve(struct forcarry *c, struct forcarry_error *err);

#endif
