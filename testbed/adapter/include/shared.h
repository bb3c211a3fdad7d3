/*
 * shared.h: the interface between the adapter (libibverbs.so.1 of the test bed) and the process
 * with the links: the requests on their socket, and the queues in shared memory.
 *
 * A program posts work into queues in memory that both see, and rings a bell; the process
 * reads and writes the program's memory as an adapter does by DMA, and puts completions
 * into the program's completion queues. All other requests go over the socket.
 */
#ifndef SHARED_H
#define SHARED_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* The path of the fabric's socket, and the hosts whose adapters a process has: descriptions
 * or node GUIDs with commas between them. %r is its rank, %4r with leading zeros. */
#define SOCKET_VAR "FORS_FABRIC"
#define HOST_VAR "FORS_HOST"

enum {
	MAX_SGE = 16,
	MAX_INLINE = 512,
	MAX_WR = 16384,
	MAX_CQE = 1 << 20,
	MAX_QPS = 1 << 16, /* of a context, a power of two */
	MAX_RD_ATOMIC = 16,
	MAX_MESSAGE = 1 << 30,
	GRH_BYTES = 40,
};

/* A queue of work requests: a program puts them in at head, the fabric takes them, and
 * tail follows when it is done with them. */
struct queue {
	_Atomic uint32_t head, tail;
	uint32_t size; /* slots, a power of two */
	uint32_t limit; /* how many may be in it */
	uint32_t stride; /* bytes of a slot */
	uint32_t offset; /* of the first slot, from the queue's beginning */
};

/* The shared memory of a queue pair, and of a shared receive queue, whose sq is unused. */
struct pair {
	_Atomic uint32_t state; /* enum ibv_qp_state: the fabric may set an error */
	_Atomic uint32_t rung;	/* its bell has been rung and not been heard */
	struct queue sq, rq;
};

struct completions {
	_Atomic uint32_t head, tail;
	_Atomic uint32_t armed; /* 1: the next completion makes an event; 2: the next solicited one, or error */
	uint32_t size;		/* a power of two */
	struct ibv_wc wc[];
};

/* Bells that a context has rung: numbers of queue pairs; and for the context, news of
 * completions. */
struct bells {
	_Atomic uint32_t head, tail;
	_Atomic uint32_t news;	  /* completions so far, in any queue: a futex */
	_Atomic uint32_t waiting; /* threads that wait for more */
	uint32_t number[MAX_QPS];
};

/* Of the whole fabric. */
struct beacon {
	_Atomic uint32_t asleep; /* a program that rings must wake it */
};

/* A work request in a queue. */
struct send_slot {
	uint64_t wr_id, remote, compare, swap;
	uint32_t opcode, flags, immediate, rkey;
	uint32_t count; /* of sge; of bytes if the data are inline */
	uint32_t qpn, qkey;
	uint16_t dlid;
	uint8_t sl, path_bits, global;
	union {
		struct ibv_sge sge[1];
		uint8_t data[1];
	};
};

struct recv_slot {
	uint64_t wr_id;
	uint32_t count, unused;
	struct ibv_sge sge[];
};

static inline void *slot_at(struct queue *q, uint32_t i)
{
	return (char *)q + q->offset + (size_t)(i & (q->size - 1)) * q->stride;
}

enum operation {
	LOOK_UP, /* an adapter by its host */
	ENTER,	 /* opens it; comes with bells and a pipe for events, answered by the beacon and its bell */
	QUERY_PORT,
	REGISTER,
	DEREGISTER,
	CREATE_CHANNEL, /* comes with a pipe */
	DESTROY_CHANNEL,
	CREATE_CQ, /* comes with its memory, like those of queue pairs */
	DESTROY_CQ,
	CREATE_SRQ,
	DESTROY_SRQ,
	CREATE_QP,
	MODIFY_QP,
	DESTROY_QP,
};

struct request {
	uint32_t operation;
	uint32_t handle; /* of the object; of MODIFY_QP and DESTROY_QP the number of the queue pair */
	union {
		struct {
			uint32_t pid;
			char host[128];
		} enter;
		struct {
			uint64_t address, length, iova;
			uint32_t access, pd;
		} region;
		struct {
			uint64_t cookie;
			uint32_t channel;
		} cq; /* channel 0 is none */
		struct {
			uint64_t cookie;
			uint32_t pd, send_cq, recv_cq, srq, type, signal_all;
		} pair;
		struct {
			uint32_t mask;
			struct ibv_qp_attr attr;
		} modify;
	};
};

struct answer {
	int32_t error;
	uint32_t handle; /* of a region: its key; of a queue pair: its number */
	struct {
		uint64_t node, guid, prefix;
		uint32_t number; /* of the switch port or, here, the adapter's */
		uint16_t lid, sm;
		uint8_t lmc, up, mtu; /* enum ibv_mtu */
		char name[64];
	} port;
};

/* pass sends data with up to two descriptors. */
static inline int pass(int socket, const void *data, size_t size, const int *fds, unsigned n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec v = {(void *)(uintptr_t)data, size};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	if (n > 0) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	}
	ssize_t done;
	while ((done = sendmsg(socket, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	return done == (ssize_t)size ? 0 : -1;
}

#endif
