/*
 * fors.h: read the phase tables of forsd.
 *
 * A phase table tells every server of a fabric, for every phase of an
 * all-to-all exchange, to whom it sends, from whom it receives, and which
 * destination LID carries the message over the lane that was planned for it.
 * docs/phase-table.md describes the file, docs/mpi.md how programs use it.
 *
 *	struct fors_error err;
 *	fors_table *table;
 *	if (fors_open(NULL, &table, &err) < 0) {
 *		fprintf(stderr, "%s\n", err.text);
 *		return;
 *	}
 *	int me = fors_find_guid(table, port_guid);
 *	for (uint32_t p = 0; me >= 0 && p < fors_info(table)->phases; p++) {
 *		struct fors_entry e = fors_entry(table, me, p);
 *		...
 *	}
 *	fors_close(table);
 *
 * Results: a value below zero is one of FORS_E…, any other is success. Functions
 * that take a struct fors_error fill it on failure; it may be NULL. Nothing here
 * prints, exits, starts a thread or installs a handler.
 *
 * Threads: a table does not change, and any number of threads may look things
 * up in it. Calls of fors_newer, fors_refresh and fors_close for one table must
 * not overlap; the caller ensures that. Different tables are independent.
 */
#ifndef FORS_H
#define FORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FORS_API __attribute__((visibility("default")))
#else
#define FORS_API
#endif

/* The version of this interface: it grows with every addition to it. */
#define FORS_VERSION_MAJOR 1
#define FORS_VERSION_MINOR 5

/* A table, read and checked from end to end. */
typedef struct fors_table fors_table;

/* What can go wrong. fors_strerror has a sentence for each. */
enum fors_code {
	FORS_OK = 0,
	FORS_EINVAL = -1,      /* an argument is NULL or out of range */
	FORS_ENOMEM = -2,      /* no memory */
	FORS_ELOCATION = -3,   /* this library does not understand the location */
	FORS_ESYSTEM = -4,     /* a system call failed on a file: see errnum */
	FORS_ECONNECT = -5,    /* forsd cannot be reached: see errnum */
	FORS_ETIMEOUT = -6,    /* forsd did not answer in time */
	FORS_EHTTP = -7,       /* the answer is not HTTP as forsd speaks it */
	FORS_ESTATUS = -8,     /* forsd refused: see status */
	FORS_ENOPLAN = -9,     /* no plan is in force yet (status 503) */
	FORS_ENOJOB = -10,     /* forsd knows no such job (status 404), or the table is another job's */
	FORS_ETOOBIG = -11,    /* more than FORS_MAX_BYTES */
	FORS_ETRUNCATED = -12, /* fewer or more bytes than the header promises */
	FORS_EMAGIC = -13,     /* not a phase table */
	FORS_EVERSION = -14,   /* a version of the format that this library does not know */
	FORS_ECHECKSUM = -15,  /* the CRC-32C is wrong: the table is damaged */
	FORS_EFLAGS = -16,     /* unknown flags that a reader must not ignore */
	FORS_EHEADER = -17,    /* impossible numbers in the header */
	FORS_ESECTION = -18,   /* a section leaves the file, overlaps, or has a wrong length */
	FORS_ESERVER = -19,    /* an entry of the directory is wrong */
	FORS_EINDEX = -20,     /* an index by GUID or LID is out of order or range */
	FORS_ETRANSFER = -21,  /* a row has an impossible server, lane or LID */
	FORS_ESTALE = -22,     /* the table of the epoch asked for is not available */
	FORS_ENOTFOUND = -23,  /* no server of the table matches */
	FORS_EAMBIGUOUS = -24, /* several servers match: ask by port GUID */
	FORS_ENOSOURCE = -25,  /* the table came from memory: newer ones have no source */
	FORS_EPINNED = -26     /* the plan sends to LIDs of lanes, and base LIDs were asked for */
};

/* The largest table that is read: with rows, 11,500 servers have one of this size; by a rule, more than there are LIDs. */
#define FORS_MAX_BYTES ((uint64_t)1 << 30)

/* What went wrong, where, and what to do. */
struct fors_error {
	int code;       /* FORS_E… */
	int errnum;     /* errno of the system call that failed, or 0 */
	int status;     /* status of the HTTP answer, or 0 */
	char text[244]; /* a sentence */
};

/* Returns a sentence for a code; never NULL. */
FORS_API const char *fors_strerror(int code);

/*
 * Opens the table at a location and checks all of it: magic, version, length,
 * CRC-32C, flags, every section, every server, both indexes and every transfer.
 * The table is held in memory; later changes to the file do not affect it.
 * Returns FORS_OK and sets *table, or FORS_E… and sets it to NULL. Locations:
 *
 *	/path/phases.bin               a file; file:/path for a name with a colon
 *	unix:/run/forsd/forsd.sock     forsd on this host
 *	http://host:7480               forsd on another host; [address] for IPv6
 *	NULL or ""                     $FORSD_TABLE, or unix:/run/forsd/forsd.sock
 *
 * The last three may end in ?job=JOB&lids=LIDS&epoch=N&timeout=MS, each part optional
 * and in any order: the table of a job, by number or name; the plan for "base" LIDs or
 * the "pinned" one, which forsd gives unless told otherwise; the plan of this epoch
 * only, or FORS_ESTALE if forsd does not have it (any more), so that processes that
 * start one after the other hold the same table; the time for the whole request in
 * milliseconds (5000). If NULL or "" leads to forsd and names no job, $FORSD_JOB
 * applies. TLS is not supported: ask a forsd near you.
 */
FORS_API int fors_open(const char *where, fors_table **table, struct fors_error *err);

/*
 * The same for a program that sends to the base LIDs of its peers, as MPI libraries do:
 * asks forsd for the base plan, unless the location has lids= of its own, and fails with
 * FORS_EPINNED for a table whose plan is for other LIDs.
 */
FORS_API int fors_open_base(const char *where, fors_table **table, struct fors_error *err);

/*
 * Checks a table of length bytes in memory and uses it in place: data must stay
 * there, unchanged, until fors_close. It may be unaligned.
 */
FORS_API int fors_open_memory(const void *data, size_t length, fors_table **table, struct fors_error *err);

/* Frees a table and ends its connection. NULL is allowed. */
FORS_API void fors_close(fors_table *table);

/* A table's header. Fields may be added at its end. */
struct fors_info {
	uint64_t epoch;            /* number of the plan; it only grows */
	uint64_t job;              /* 0 is the whole fabric */
	uint8_t topology_hash[32]; /* SHA-256 of the fabric; zero if unknown */
	uint32_t servers;          /* n, at most 49151 */
	uint32_t phases;           /* P */
	uint32_t lanes;            /* K */
	uint32_t lmc_max;          /* the largest LMC of a server */
	uint32_t crc;              /* CRC-32C of the table */
	uint32_t base_lids;        /* 1: every message goes to the base LID of its destination; else 0. Since 1.1 */
	uint32_t own_cables;       /* 1: a lane is a cable of its own of each leaf, and a message takes no others; else 0. Since 1.5 */
};

/* Returns a table's header; it lives as long as the table. */
FORS_API const struct fors_info *fors_info(const fors_table *table);

/*
 * Returns the table's bytes, unchanged, and sets *length, so that the table can be
 * handed to other processes, which open it with fors_open_memory.
 */
FORS_API const void *fors_bytes(const fors_table *table, size_t *length);

/* Where the table came from, with the defaults filled in; "" for memory. */
FORS_API const char *fors_location(const fors_table *table);

/* A server of the table's directory. */
struct fors_server {
	uint64_t guid;    /* port GUID: the lower half of GID 0 */
	uint16_t lid;     /* base LID; the port answers to lid … lid + 2^lmc − 1 */
	uint16_t leaf;    /* index of its leaf, the switch that it is on */
	uint8_t lmc;
	uint32_t name_length; /* bytes, without the zero byte */
	const char *name; /* host description, UTF-8; as long as the table lives */
};

/* Fills *server for a server's number, 0 … servers − 1; FORS_EINVAL beyond. */
FORS_API int fors_server(const fors_table *table, int number, struct fors_server *server);

/* These return a server's number, or FORS_ENOTFOUND. */

/* The server with a port GUID (host byte order). */
FORS_API int fors_find_guid(const fors_table *table, uint64_t guid);

/* The server that answers to a LID, its base LID or any other of its LIDs. */
FORS_API int fors_find_lid(const fors_table *table, uint16_t lid);

/*
 * The first server after number `after` (−1: from the first) with a description,
 * compared byte by byte. Ports of one adapter share theirs:
 *
 *	for (int s = -1; (s = fors_find_name(table, "node7 mlx5_0", s)) >= 0;)
 */
FORS_API int fors_find_name(const fors_table *table, const char *name, int after);

/*
 * The same for a host: its name is the description's first word ("node7" of
 * "node7 mlx5_0"), compared without regard to case, and without the domain if
 * either name has none.
 */
FORS_API int fors_find_host(const fors_table *table, const char *host, int after);

/*
 * The server that a text names: a description, a port GUID ("0x" in front), a LID
 * (decimal) or a host, in this order. FORS_EAMBIGUOUS if several share it.
 */
FORS_API int fors_find(const fors_table *table, const char *text, struct fors_error *err);

/*
 * The first phase in which a server sends to a peer, or FORS_ENOTFOUND if it never
 * does; fors_entry has its DLID, lane and src_path_bits. It reads the server's row:
 * keep the result for each pair.
 */
FORS_API int fors_find_phase(const fors_table *table, int server, int peer);

/*
 * The peers to which a server must reconnect after a new plan: those to which it sends
 * by both tables, at another destination LID or from another source LID than before.
 * server and the peers are numbers in table; the first `size` of them go to peers, in
 * the order of its phases. It returns their number, 0 also if the old table does not
 * have the server, or FORS_EINVAL for a server that table does not have. It reads both
 * tables' rows for the server, and allocates nothing.
 */
FORS_API int fors_changed(const fors_table *old, const fors_table *table, int server, int *peers, int size);

/* A server's part in a phase. */
struct fors_entry {
	int32_t send_to;       /* number of a server, or −1: it does not send */
	int32_t recv_from;     /* number of a server, or −1: it does not receive */
	uint16_t dlid;         /* destination LID of the message; 0 when it does not send */
	int16_t lane;          /* −1: the message stays on its leaf, without lanes, or it does not send */
	uint8_t src_path_bits; /* source LID − base LID, below 2^lmc: see below */
	uint8_t reserved[3];   /* zero */
};

/*
 * src_path_bits names the LID of the sender at which it receives from its peer: the
 * destination of the peer's own message to it in this table (0 if the peer sends none,
 * between servers of one leaf, and without lanes). So the two ends of a connection
 * mirror each other, as reliable connections require,
 *
 *	a.dlid = b.lid + b.src_path_bits   and   b.dlid = a.lid + a.src_path_bits,
 *
 * one connection serves a pair both ways, and acknowledgements and responses also keep
 * to a verified path. If the peer sends nothing back, it can still mirror the sender's
 * entry e: its dlid is a.lid + e.src_path_bits, and its own path bits are
 * e.dlid − b.lid.
 */

/*
 * The part of a table that fors_entry reads. It comes first in every fors_table;
 * only fors_entry may use it.
 */
struct fors_rows_ {
	const unsigned char *cells;     /* servers × phases entries of 8 bytes; NULL for a table that holds a rule */
	const unsigned char *path_bits; /* servers × phases */
	uint32_t servers, phases;
};

/* Works out an entry of a table that holds a rule; only fors_entry may call it. Since 1.2. */
FORS_API struct fors_entry fors_entry_by_rule(const fors_table *table, uint32_t server, uint32_t phase);

/*
 * Returns a server's entry for a phase by one read from memory, or a few for a table
 * that holds a rule (docs/phase-table.md). For a server or phase that the table does not
 * have, the entry does nothing. C and C++ read it in place; other languages call it.
 */
FORS_API inline struct fors_entry fors_entry(const fors_table *table, int server, uint32_t phase)
{
	const struct fors_rows_ *rows = (const struct fors_rows_ *)(const void *)table;
	struct fors_entry e = {-1, -1, 0, -1, 0, {0, 0, 0}};
	if ((uint32_t)server >= rows->servers || phase >= rows->phases)
		return e;
	if (!rows->cells)
		return fors_entry_by_rule(table, (uint32_t)server, phase);
	const size_t at = (size_t)(uint32_t)server * rows->phases + phase;
	const unsigned char *c = rows->cells + 8 * at;
	const uint32_t to = c[0] | (uint32_t)c[1] << 8, from = c[2] | (uint32_t)c[3] << 8;
	e.send_to = to == 0xFFFF ? -1 : (int32_t)to;
	e.recv_from = from == 0xFFFF ? -1 : (int32_t)from;
	e.dlid = (uint16_t)(c[4] | c[5] << 8);
	e.lane = (int16_t)(uint16_t)(c[6] | c[7] << 8);
	e.src_path_bits = rows->path_bits[at];
	return e;
}

/*
 * Reports whether an epoch other than the table's is in force, without blocking.
 * Returns 1 and sets *epoch (unless it is NULL), 0 if it knows of none, or FORS_E….
 *
 * The first call leaves a request with forsd that is answered when the epoch
 * changes; later calls only check for the answer, so that they may precede every
 * exchange. A request is answered after five minutes in any case: if calls are
 * further apart, it may take two of them to learn of a change. If the connection
 * breaks, a call reports this, and a later one connects again, at most once a
 * second. For a file it checks whether the file was replaced. FORS_ENOSOURCE for a
 * table from memory. After a fork, only one of the processes may ask: they share
 * the connection.
 */
FORS_API int fors_newer(fors_table *table, uint64_t *epoch, struct fors_error *err);

/*
 * Fetches the table again, and waits for it. Returns 1 and the new table in
 * *newer if another epoch is in force, 0 and NULL if not, or FORS_E… and NULL.
 * The old table stays valid: close it when it is no longer used. Server numbers
 * belong to a table: look yourself up again in the new one, and never mix two
 * epochs in one exchange.
 */
FORS_API int fors_refresh(fors_table *table, fors_table **newer, struct fors_error *err);

/*
 * Asks forsd to plan the rest of an exchange of which `done` phases are done, on
 * the fabric without the elements named in `fail`: nodes ("Spine010"), or one of
 * their ports ("Leaf007/31"); the list ends with NULL, and may be NULL. Waits for
 * the plan, and sets *left to its table: the same epoch, and phases for the pairs
 * that the phases from `done` on have and the fabric still joins. Returns FORS_OK,
 * or FORS_E… and sets *left to NULL. forsd accepts this on its Unix socket only,
 * and publishes nothing: all servers must be given the same table. In it a pair
 * may occur one way only; see src_path_bits.
 */
FORS_API int fors_remaining(const fors_table *table, uint32_t done, const char *const *fail, fors_table **left, struct fors_error *err);

/*
 * Gives forsd the times of an exchange by the table, a JSON object as POST /v1/plan/times
 * takes it (docs/api.md), by which it finds slow cables, and waits for its answer, which
 * takes about a second. Returns FORS_OK, or FORS_E… . One process calls it for all. Since
 * 1.3.
 */
FORS_API int fors_measured(const fors_table *table, const char *times, struct fors_error *err);

/*
 * Phases by a clock. Instead of waiting for each other's messages, senders begin phase p at
 * start + p·period by clocks that agree. All receives are posted before. Since 1.4.
 */

/* By how much this process's clock is ahead of another one's, in seconds; zero at first. */
struct fors_clock {
	double ahead; /* found so far */
	double trip;  /* of the quickest answer, which bounds the error: half of it at most */
};

/*
 * Adds a comparison: when this process asked, what the other one's clock said, and when the
 * answer was here, in seconds. The quickest of some trips counts; a clock drifts by some
 * microseconds a second, so begin again twice a second.
 */
FORS_API void fors_clock_add(struct fors_clock *clock, double asked, double theirs, double answered);

/* The search for the best period; zero at first. One process searches, and tells all others. */
struct fors_pace {
	double period, took, step; /* seconds of a phase and of an exchange; a share */
	uint32_t measured;
	uint8_t trial, turn, reserved[2];
};

/*
 * Returns the period of the next exchange, in seconds. guess is the first: somewhat less than
 * an exchange without a clock takes for each of its phases, or than a block takes. If the
 * exchange will be measured, every other one tries another period.
 */
FORS_API double fors_pace_next(struct fors_pace *pace, double guess, int measured);

/*
 * Tells how many seconds the exchange took on the slowest process, if it was measured. Returns 1
 * if it was a trial, which pace->took leaves out, and 0 otherwise.
 */
FORS_API int fors_pace_took(struct fors_pace *pace, double seconds);

/* Reports whether the period may still be far from the best: measure every exchange then. */
FORS_API int fors_pace_seeks(const struct fors_pace *pace);

#ifdef __cplusplus
}
#endif

#endif
