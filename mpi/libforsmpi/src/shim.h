/*
 * shim.h: declarations shared by the files of libforsmpi. None of them is exported.
 *
 *	entry.c, fortran.c the MPI functions that programs call, for C and Fortran
 *	wrap.c             what these do under the MPI that this was built with
 *	comm.c             the state of a communicator, and its end
 *	channel.c          communicators of the shim's own, one for each group of processes
 *	exchange.c         an exchange, step by step
 *	clock.c            time that all ranks agree on
 *	choose.c           how an exchange goes: the way that has been fastest
 *	epoch.c            agreement on an epoch, at the boundary of an exchange
 *	draft.c            rank 0 finds the servers' rows in a table
 *	part.c             ... steps of its own for a part of the servers
 *	links.c            ... and who uses a link after whom
 *	schedule.c         each rank gets its rows
 *	table.c            the table of this process, for communicators that it leads
 *	identity.c         the server that a process runs on
 *	settings.c         the environment
 *	log.c              the log of transfers, warnings
 *	notes.c            times of an exchange, for forsd
 *
 * Functions that return int return an MPI error code. "Rank 0" is that of the
 * communicator at hand; only it reads a table.
 */
#ifndef FORSMPI_SHIM_H
#define FORSMPI_SHIM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "entry.h"
#include "fors.h"

enum { TEXT = 256 }; /* bytes of a message for people */

/* Of FORS_SYNC: a transfer begins when those before it on its links have ended. */
enum { BY_LINKS = -1 };

/* How an exchange is carried out. */
enum way { BY_PLAN, AT_ONCE, BY_MPI, BY_CLOCK, WAYS };

/* The environment; docs/mpi.md has the meaning of each variable. */
struct settings {
	int sync;          /* FORS_SYNC: a barrier after that many phases, 0: none, BY_LINKS */
	enum way way;      /* FORS_WAY; WAYS: whichever is fastest */
	bool pinned;       /* FORS_LIDS=pinned: the transport chooses LIDs as the plan has them */
	bool verbose;      /* FORS_VERBOSE */
	const char *log;   /* FORS_LOG: a directory, or NULL */
	int measure;       /* FORS_MEASURE: seconds between exchanges that are noted, 0: none */
	char mistake[TEXT]; /* the setting that could not be understood, or "" */
};
const struct settings *fm_settings(void);

/* What a process knows of its server. It goes to rank 0 as it is. */
enum { MAX_PORTS = 8, MAX_NAME = 176 };
enum known { BY_HOST, BY_NAME, MISTAKEN };
struct identity {
	int32_t rank;     /* in MPI_COMM_WORLD */
	int32_t known;    /* enum known */
	int32_t ports;    /* number of local ports, at most MAX_PORTS */
	int32_t reserved;
	uint64_t guid[MAX_PORTS];
	char name[MAX_NAME]; /* of the host, or as the user named the server, or what is wrong */
};
void fm_identity(struct identity *id);

/* Why a communicator has a plan or not. */
enum reason { PLANNED, NO_TABLE, NO_SERVER, ONE_SERVER, NO_CHANNEL, REASONS };

/*
 * What all know of a schedule. If rank 0's differs from their own state, the rest of a
 * schedule follows.
 */
struct head {
	uint64_t epoch;     /* of the table, 0: no table */
	int32_t reason;     /* enum reason */
	int32_t steps;      /* in which the communicator has transfers */
	int32_t groups;     /* servers */
	int32_t sync;       /* rank 0's setting holds for all */
	int32_t silent;     /* whether the table is missing because forsd did not answer in time */
	int32_t meetings;   /* phases of the table in which it does; there are fewer steps if these are its own */
};

/* Rank 0's message to all before an exchange that may need it. */
struct order {
	struct head head;
	int32_t way;   /* enum way */
	int32_t timed; /* whether rank 0 is told how long it took */
	int32_t skip;  /* so many more of this kind are MPI's own, without an order */
	int32_t clocks; /* BY_CLOCK: whether clocks are compared first */
	double period;  /* BY_CLOCK: seconds from one phase to the next */
	int32_t every;  /* BY_PLAN: of so many steps one is noted, 0: none */
	int32_t reserved;
};

/* A transfer's links that others use too: from its leaf, to its peer's leaf, to its peer. */
enum { LINKS = 3 };

/* The transfers of one server's processes in one step. It is sent as it is. */
struct row {
	int32_t step;  /* 0 … steps − 1 */
	int32_t to;    /* group, or −1 */
	int32_t from;  /* group, or −1 */
	int32_t phase[2], met[2]; /* to, from: where the table has it, and the number of that phase among those that the groups meet in */
	int32_t lane, dlid;
	/* What keeps transfers of different steps apart, see links.c. */
	int32_t tell[LINKS]; /* groups that hear when this one has received, or −1 */
	int32_t heard;       /* whether the group that this one sends to tells others so */
	int32_t wait[LINKS], news[LINKS]; /* groups of which this one awaits that many more news before it sends, or −1 */
};

/*
 * The part of a table that a rank needs. Processes of one server are a group;
 * groups are numbered by their first rank.
 */
struct schedule {
	struct head head;
	int mine;        /* this rank's group */
	int *group;      /* [rank] */
	int *first;      /* [group] its first place in member; one more at the end */
	int *member;     /* [place] ranks, group by group, ascending */
	uint64_t *guid;  /* [group] port GUID of the server */
	int rows;
	struct row *row; /* [rows] in order of steps */
	bool *to, *from; /* [group] a phase sends there, receives from there */
};

/*
 * A communicator of our own, for messages that no receive of the program can take.
 * Communicators are scarce (2048 contexts under MPICH), so all of the program's
 * communicators of one group share a channel, and have different tags.
 */
struct channel {
	MPI_Comm comm;
	MPI_Group group;
	uint64_t id;  /* the same on all its ranks, unique in the job */
	int users;    /* communicators, and those that are about to be */
	int tag;      /* on rank 0: the last that was given */
	struct channel *next;
};

/*
 * fm_channel finds or makes the channel of a communicator, all its processes together.
 * *channel is NULL if none is available. *tag and the next one are the communicator's own.
 */
int fm_channel(MPI_Comm user, int rank, struct channel **channel, int *tag);
void fm_channel_release(struct channel *channel);

/* Sizes of an exchange are told apart by powers of two of bytes. */
enum { SIZES = 64 };

/* The state of a communicator. */
struct comm {
	MPI_Comm user;          /* collective calls of the shim go here, in the order of the program's */
	struct channel *channel; /* messages go here; NULL: none was available */
	int tag;                /* of data; the next one is that of news of links */
	int rank, size;
	uint64_t id;            /* the same on all its ranks, unique in the job */
	uint64_t exchange;      /* exchanges begun */
	int calls;              /* exchanges before it was joined */
	bool joined;            /* fm_join was called */
	double ahead;           /* seconds by which this process's clock is ahead of rank 0's */
	double compared;        /* on rank 0: when that was found */
	bool off;               /* exchanges are MPI's own, and stay so: no table, or no channel */
	struct identity *who;   /* [rank] on rank 0 */
	struct schedule plan;
	struct choice *choice;  /* [choices] on rank 0: what it knows of each kind of exchange */
	int choices;
	uint8_t skip[SIZES];    /* MPI_Alltoall by size, and last all others: so many are MPI's own, without an order */
	int64_t *notes;         /* [3·noted steps] of an exchange that is noted: phase + 1, sent, received; on rank 0 with room as in notes.c */
	int every;              /* of so many steps one is noted, 0: none */
	double noted_at;        /* on rank 0: when an exchange was last noted, INFINITY: none is any more */
	bool warm;              /* on rank 0: an exchange went by this plan */
	MPI_Request *requests;  /* [5·size]: those of a step */
	MPI_Status *statuses;   /* [5·size] */
	struct comm *next, *before; /* all of this process */
};

/*
 * fm_comm finds the state of a communicator, or makes it. It is NULL for communicators that
 * the shim leaves alone.
 */
int fm_comm(MPI_Comm user, struct comm **c);

/* fm_join gets a communicator ready for exchanges, which all its processes do together. */
int fm_join(struct comm *c);

/* MPI 4 has functions of large counts, which take all others as well. */
#if MPI_VERSION >= 4
#define COUNTED(function) function##_c
typedef MPI_Count amount;
#else
#define COUNTED(function) function
typedef int amount;
#endif

/* One side of an exchange, as passed to MPI's functions. */
enum shape { UNIFORM, COUNTS, TYPES }; /* of MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw */
struct side {
	enum shape shape;
	void *buffer;
	amount count;              /* UNIFORM */
	const int *counts, *displs; /* COUNTS, TYPES; NULL if these are large */
	const MPI_Count *large_counts;
	const MPI_Aint *large_displs;
	MPI_Datatype type;         /* UNIFORM, COUNTS */
	const MPI_Datatype *types; /* TYPES */
	MPI_Aint extent;           /* of type; fm_exchange sets it */
};

/* fm_exchange runs an exchange as ordered: by the communicator's plan, whose epoch is agreed, or all at once. */
int fm_exchange(struct comm *c, const struct order *order, struct side *send, struct side *recv, bool in_place);

/* fm_clock compares the clocks of all ranks with rank 0's; fm_start gives all the same start by them. */
int fm_clock(struct comm *c);
int fm_start(struct comm *c, double period, double *start);
double fm_now(void);

/*
 * A kind of exchange: those that take about as long. Blocks of MPI_Alltoall are as large on
 * all ranks; of others what rank 0 sends or receives counts, whichever is more.
 */
struct kind {
	bool uniform, in_place;
	int size; /* 2^size bytes or less, 0 … SIZES − 2 */
};
enum {
	LARGE = 19, /* equal blocks of this size go by the plan until more is known */
	FEW = 4,    /* other exchanges on a new communicator that are MPI's own */
};

/*
 * fm_agree makes all ranks use the same epoch, and adopts a new one. Rank 0 also decides
 * how the exchange is carried out.
 */
int fm_agree(struct comm *c, const struct kind *kind, struct order *order);

/* fm_choose decides on rank 0 how an exchange is carried out. */
void fm_choose(struct comm *c, const struct kind *kind, struct order *order);

/* fm_skip is how many exchanges of a kind are MPI's own without an order. */
uint8_t *fm_skip(struct comm *c, const struct kind *kind);

/* fm_skips reports whether an exchange is MPI's own without an order, and counts it. */
bool fm_skips(struct comm *c, const struct kind *kind);

/* fm_took tells rank 0 how long an exchange took by this rank's clock, INFINITY if it failed; all ranks call it. */
int fm_took(struct comm *c, const struct kind *kind, enum way way, double seconds);

/* fm_doubt has rank 0 measure again, after a change of the plan. */
void fm_doubt(struct comm *c);

/* fm_choices_free frees what rank 0 knows, and prints it if FORS_VERBOSE is set. */
void fm_choices_free(struct comm *c);

/*
 * Rank 0's draft of a schedule: the head, each rank's group, and the rows of all
 * groups, one after the other.
 */
struct draft {
	struct head head;
	int *group;      /* [rank] */
	uint64_t *guid;  /* [group] */
	struct row *row;
	int *first;      /* [group] its first row; one more at the end */
	char text[TEXT]; /* why the plan is missing */
};
/* fm_part gives the transfers other steps, if these are fewer; without memory it returns false. */
bool fm_part(struct draft *d, const uint16_t *leaf, uint32_t lanes);
/* fm_links fills in which transfers wait for each other; leaf is the leaf of each group. */
bool fm_links(struct draft *d, const uint16_t *leaf, uint32_t lanes);
/* fm_draft plans for processes by a table; head.reason has the result. */
void fm_draft(struct draft *d, const fors_table *table, const struct identity *who, int size);
void fm_draft_free(struct draft *d);

/* fm_share hands rank 0's draft to all; next is its head, and d matters on rank 0 alone. */
int fm_share(struct comm *c, const struct head *next, const struct draft *d);
void fm_schedule_free(struct schedule *s);

/*
 * fm_table_draft looks, without waiting, for another epoch than a known one, and
 * fetches and plans it. It returns false if there is none.
 */
bool fm_table_draft(uint64_t known, struct draft *d, const struct identity *who, int size);

/*
 * fm_table_silent is given the message of another process that has waited for forsd without
 * an answer. A process that has not asked yet then does not ask. Otherwise each process that
 * leads a communicator would wait as long.
 */
void fm_table_silent(const char *text);
void fm_table_close(void);

/*
 * fm_log writes a line into the log of this process, if it has one: what happened, and
 * the transfer or NULL.
 */
struct transfer {
	int phase, step;
	int src, dst; /* ranks */
	int lane, dlid;
	long long bytes;
};
void fm_log(struct comm *c, const char *what, const struct transfer *t);
void fm_log_close(void);

/*
 * fm_notes_choose decides on rank 0 whether an exchange is noted. fm_notes_begin makes room for
 * the notes of this process, fm_note notes the time of a row, and fm_notes_end has rank 0 give
 * all notes to forsd; bytes are those of a block.
 */
enum note { SENT = 1, RECEIVED };
void fm_notes_choose(struct comm *c, struct order *order);
void fm_notes_begin(struct comm *c, const struct order *order);
void fm_note(struct comm *c, const struct row *row, enum note what);
int fm_notes_end(struct comm *c, MPI_Count bytes);

/* fm_table_times gives the times of an exchange to forsd. */
int fm_table_times(const char *json, struct fors_error *err);

/* fm_warn prints once why a communicator has no plan, if this process is to print it. */
void fm_warn(const struct comm *c, enum reason reason, const char *text);

/* The functions behind those that programs call. */
int fm_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int fm_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm);
int fm_alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
#if MPI_VERSION >= 4
int fm_alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
	void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int fm_alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm);
int fm_alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
#endif

#endif
