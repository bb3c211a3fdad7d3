/*
 * adapter.h: libibverbs.so.1 of the test bed: verbs on adapters of a simulated fabric.
 * Programs find it by LD_LIBRARY_PATH; include/shared.h has the division of work between
 * it and datafabric.
 */
#ifndef ADAPTER_H
#define ADAPTER_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/shared.h"

/* Macros of the header, which call functions that are here. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define VISIBLE __attribute__((visibility("default")))

struct device {
	struct ibv_device ibv;
	const void *operations; /* drivers look here whether a device is theirs */
	unsigned lists;		/* that have it */
	bool opened;
	char host[128];
	struct answer about;
};

enum object_kind { A_CQ, A_SRQ, A_QP };

/* Objects that events name: an event may come when its object has gone. */
struct object {
	struct object *next;
	enum object_kind kind;
	uint32_t events; /* that were handed out */
	uint32_t completions;
};

struct context {
	struct device *device;
	int socket, bell, events_writer;
	uint32_t pds;
	bool dead, fatal_told; /* the fabric has gone */
	pthread_mutex_t asking; /* one request at a time */
	pthread_mutex_t ringing;
	pthread_mutex_t listing; /* guards objects */
	struct object *objects;
	struct bells *bells;
	struct beacon *beacon;
	_Atomic uint32_t news, idle; /* completions so far; polls that have found nothing since */
	struct verbs_context verbs; /* its last part is the program's */
};

struct pd {
	struct ibv_pd ibv;
	_Atomic uint32_t users;
};

struct mr {
	struct ibv_mr ibv;
};

struct channel {
	struct ibv_comp_channel ibv;
	uint32_t handle;
};

struct cq {
	struct object object;
	struct ibv_cq ibv;
	uint32_t handle, empty; /* polls that found nothing */
	pthread_mutex_t polling;
	struct completions *shared;
	size_t bytes;
};

struct srq {
	struct object object;
	struct ibv_srq ibv;
	uint32_t handle;
	struct ibv_srq_attr attr;
	pthread_mutex_t posting;
	struct pair *shared;
	size_t bytes;
};

struct qp {
	struct object object;
	struct ibv_qp ibv;
	pthread_mutex_t sending, receiving;
	struct pair *shared;
	size_t bytes;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
};

struct ah {
	struct ibv_ah ibv;
	struct ibv_ah_attr attr;
};

#define CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

static inline struct context *context_of(struct ibv_context *c) { return CONTAINER(c, struct context, verbs.context); }
static inline struct cq *cq_of(struct ibv_cq *q) { return CONTAINER(q, struct cq, ibv); }
static inline struct srq *srq_of(struct ibv_srq *q) { return CONTAINER(q, struct srq, ibv); }
static inline struct qp *qp_of(struct ibv_qp *q) { return CONTAINER(q, struct qp, ibv); }

/* ask.c */
int reach(void); /* a socket to the fabric, −1 if there is none */
int ask_on(int socket, const struct request *, struct answer *, const int *given, unsigned n, int *got);
int ask(struct context *, struct request *, struct answer *, int fd); /* an errno */
bool gone(struct context *);
void *share(size_t bytes, int *fd);
void list_object(struct context *, struct object *, enum object_kind);
void unlist_object(struct context *, struct object *);

/* post.c */
void ring(struct context *, struct qp *);
int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);

/* poll.c */
int poll_cq(struct ibv_cq *, int, struct ibv_wc *);
int req_notify_cq(struct ibv_cq *, int);
void forget_completions(struct cq *, uint32_t qpn);

#endif
