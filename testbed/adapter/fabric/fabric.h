/*
 * fabric.h: the process that has the nodes and links of a simulated fabric, moves
 * packets over them in scaled time, and does the work of the adapters.
 *
 * All of it is one thread. Times are nanoseconds of the monotonic clock. Events are
 * handled in the order of their times, however late; a link that is free at a time
 * sends at that time, so that lateness delays packets and costs no bandwidth. The
 * lateness is counted.
 */
#ifndef FABRIC_H
#define FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../include/shared.h"

typedef uint64_t ns;

enum {
	MTU_BYTES = 4096,
	HEADER_BYTES = 30,   /* of a packet on the wire: LRH, BTH, both CRCs, and some */
	PORT_LATENCY = 500,  /* ns from the beginning of a packet at one port to that at the next */
	MAX_HOPS = 64,	     /* then a packet is dropped; hardware does so by the time in a queue */
	FLOW_PACKETS = 8,    /* of a queue pair on the way at a time */
	ACK_EVERY = 32,	     /* packets, where a message is longer */
	LIDS = 0xC000,
	NO_PORT = 255,
};

/* A node: an adapter or a switch. */
struct node {
	uint64_t guid;
	char name[64];
	bool is_switch;
	unsigned ports; /* the largest number of a port */
	struct port *port; /* [number], 0 unused */
	uint8_t out[LIDS]; /* of a switch */
};

struct fifo {
	struct packet *first, **last;
};

/* A port, and the link out of it. */
struct port {
	struct node *node;
	struct port *peer; /* NULL: without a cable */
	unsigned number;
	bool up;
	uint16_t lid; /* of an adapter */
	uint8_t lmc;
	unsigned longer; /* percent: a packet takes longer by that on the link from here */

	ns free_at;	   /* when the packet on the link has left */
	bool woken;	   /* an event at free_at is due */
	struct fifo *from; /* [number of the port where they came in] packets that wait */
	unsigned waiting, turn;
	ns waits_since; /* while packets wait */
	struct pair_list {
		struct qp *first, **last;
	} ready; /* of an adapter: queue pairs that may have something to send */
	struct context *contexts; /* of an adapter: programs that have opened it */

	uint64_t xmit_bytes, xmit_packets, rcv_bytes, rcv_packets, discards;
	ns wait;
};

enum kind { SEND, WRITE, READ, ATOMIC, ACK, NAK, READ_ANSWER, ATOMIC_ANSWER, DATAGRAM };

enum nak { OUT_OF_ORDER, NOT_READY, BAD_REQUEST, BAD_ACCESS, BAD_OPERATION };

struct packet {
	struct packet *next;
	struct port *at; /* where it arrives next */
	uint32_t origin; /* the queue pair that sent it */
	uint32_t qpn;	 /* to which it goes */
	uint32_t psn, length;
	uint16_t slid, dlid;
	uint8_t kind, hops, sl;
	bool first, last, solicited, with_immediate, swaps, global;
	uint8_t syndrome, timer; /* of a NAK */
	uint32_t immediate, rkey, qkey, total;
	uint64_t remote, compare, swap; /* swap is also the value that an atomic operation found */
	uint8_t data[MTU_BYTES];
};

/* clock.c */
typedef void action(void *, ns);
ns now(void);
void at(ns, action *, void *);
ns next_event(void); /* UINT64_MAX if there is none */
unsigned run_events(ns until, unsigned most);
struct lateness {
	uint64_t events;
	ns sum, most, behind; /* behind: for how long it was late by more than 5 ms */
};
extern struct lateness lateness;

/* net.c */
extern uint64_t bytes_per_second;
extern uint64_t lost[4];
/* Packets that adapters have sent, by LIDs. */
struct flow {
	uint16_t slid, dlid;
	uint64_t packets;
};
enum { FLOWS = 1 << 17 };
extern struct flow flows[FLOWS]; /* packets 0: unused */
enum loss { DEAD_PORT, NO_ENTRY, TOO_MANY_HOPS, WRONG_LID };
struct packet *new_packet(void);
void free_packet(struct packet *);
void drop(struct packet *, struct port *);
void pump(struct port *, ns);
void link_up(struct port *, bool, ns);

/* feed.c */
extern struct node **nodes;
extern unsigned node_count;
extern uint16_t manager_lid;
extern uint32_t mtu; /* of all links */
bool feed(ns); /* reads the available standard input; false at its end */
struct port *find_host(const char *);

/* objects.c */
struct context {
	struct context *next, *next_at_port;
	int socket, events, pid;
	struct port *port;
	struct bells *bells;
};

struct region {
	struct context *context;
	uint64_t address, length, iova;
	uint32_t access, pd, key;
};

struct channel {
	struct context *context;
	int fd;
};

struct cq {
	struct context *context;
	struct completions *shared;
	size_t bytes;
	uint64_t cookie;
	struct channel *channel;
	bool overrun;
};

struct srq {
	struct context *context;
	struct pair *shared;
	size_t bytes;
	uint64_t cookie;
	uint32_t pd;
};

/* An answer that a queue pair owes, in the order of the requests. */
struct owed {
	struct owed *next;
	uint8_t kind, syndrome, timer;
	uint32_t psn, left, rkey;
	uint64_t remote, value;
	bool first;
};

/* The state of a work request under way, in addition to its slot. */
struct posted {
	uint32_t psn, packets, length, got; /* got: bytes of a read that have come */
};

struct qp {
	struct context *context;
	struct port *port;
	struct pair *shared;
	size_t bytes;
	uint64_t cookie;
	uint32_t number, pd, type;
	bool signal_all, listed, timed;
	struct qp *next; /* in its port's list */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct ibv_qp_attr attr;
	uint32_t mtu, on_the_way;

	/* As a requester. Indices of slots: una is the oldest that is not done, cur is
	 * being sent, fresh has no PSN yet. */
	uint32_t una, cur, fresh, offset;
	uint32_t next_psn, acked;
	struct posted *posted; /* [slot] */
	uint32_t reading;      /* reads and atomics between una and cur */
	bool missing; /* an answer is, and has been requested again */
	ns deadline, not_before;
	uint8_t retries, rnr_retries;

	/* As a responder. */
	uint32_t expected, since_ack;
	bool naked, receiving;
	bool answered; /* its last packet was an answer */
	uint32_t filled; /* bytes of the message that is being received */
	struct recv_slot *taken; /* room for one */
	struct owed *owed, **owed_last;
	struct {
		uint32_t psn;
		uint64_t value;
	} atomics[2 * MAX_RD_ATOMIC];
	uint32_t atomic_count;
};

extern struct qp **qps; /* [number] */
extern struct context *contexts;
struct qp *qp_by_number(uint32_t);
struct region *region_by_key(uint32_t);
void complete(struct cq *, const struct ibv_wc *, bool solicited);
void event(struct context *, enum ibv_event_type, uint64_t element);
void serve(struct context *); /* a request on its socket */
struct context *accept_context(int fd);
void close_context(struct context *);
extern int beacon_fd, bell_fd;
extern struct beacon *beacon;

/* A part of a program's memory that a request names. */
bool within(const struct region *, const struct context *, uint32_t pd, uint64_t at, uint64_t length, uint32_t access);
bool fetch(struct qp *, const struct ibv_sge *, unsigned count, uint64_t offset, void *, size_t);
bool store(struct qp *, const struct ibv_sge *, unsigned count, uint64_t offset, const void *, size_t);
bool fetch_remote(struct qp *, uint32_t rkey, uint64_t from, void *, size_t);
bool store_remote(struct qp *, uint32_t rkey, uint64_t to, const void *, size_t);

/* pair.c */
void activate(struct qp *, ns);
struct packet *next_packet(struct qp *, ns, bool *blocked);
void deliver(struct packet *, ns);
void arrived(struct packet *, ns); /* it is no longer on the way: delivered or lost */
void rung(struct qp *, ns);
void reset_pair(struct qp *);
void fail_pair(struct qp *, enum ibv_wc_status, ns);
void flush(struct qp *);

/* requester.c */
struct packet *next_request(struct qp *, ns, bool *blocked);
void answered(struct qp *, struct packet *, ns);
void start_over(struct qp *);

/* responder.c */
struct packet *next_answer(struct qp *);
void requested(struct qp *, struct packet *, ns);
bool take_receive(struct qp *);

#endif
