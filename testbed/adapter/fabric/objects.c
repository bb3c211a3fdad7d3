/* objects.c: the objects of programs: regions, queues, queue pairs; and their requests on
 * the socket. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric.h"

enum { QP_NUMBERS = 1 << 24, FIRST_QP = 0x100, OBJECTS = 1 << 20 };

struct qp **qps;
struct context *contexts;
int beacon_fd, bell_fd;
struct beacon *beacon;
static uint32_t next_number = FIRST_QP;

/* A table of objects by number, from 1 on. */
struct table {
	void **object;
	uint32_t size, free_from;
};
static struct table regions, channels, cqs, srqs;

static uint32_t add(struct table *t, void *object)
{
	for (uint32_t i = t->free_from; i < t->size; i++)
		if (!t->object[i]) {
			t->object[i] = object;
			t->free_from = i + 1;
			return i + 1;
		}
	if (t->size == OBJECTS)
		return 0;
	const uint32_t was = t->size;
	t->size = was ? 2 * was : 256;
	t->object = realloc(t->object, t->size * sizeof *t->object);
	if (!t->object)
		abort();
	memset(t->object + was, 0, (t->size - was) * sizeof *t->object);
	t->object[was] = object;
	t->free_from = was + 1;
	return was + 1;
}

static void *get(const struct table *t, uint32_t number) { return number && number <= t->size ? t->object[number - 1] : NULL; }

static void take_out(struct table *t, uint32_t number)
{
	t->object[number - 1] = NULL;
	if (number - 1 < t->free_from)
		t->free_from = number - 1;
}

/* own is an object of this context's own. All objects begin with their context. */
static void *own(const struct table *t, const struct context *c, uint32_t number)
{
	struct region *o = get(t, number);
	return o && o->context == c ? o : NULL;
}

struct qp *qp_by_number(uint32_t n) { return n < QP_NUMBERS ? qps[n] : NULL; }

/* Keys are the number of the region and eight bits that change. */
struct region *region_by_key(uint32_t key)
{
	struct region *r = get(&regions, key >> 8);
	return r && r->key == key ? r : NULL;
}

void event(struct context *c, enum ibv_event_type type, uint64_t element)
{
	const uint64_t e[2] = {type, element};
	if (c->events >= 0)
		(void)!write(c->events, e, sizeof e); /* a pipe; if it is full, the event is lost, as on hardware */
}

/* complete adds a completion, and reports it on the channel if that is armed. */
void complete(struct cq *q, const struct ibv_wc *wc, bool solicited)
{
	struct completions *s = q->shared;
	const uint32_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	if (q->overrun || head - atomic_load(&s->tail) >= s->size) {
		if (!q->overrun)
			event(q->context, IBV_EVENT_CQ_ERR, q->cookie);
		q->overrun = true;
		return;
	}
	s->wc[head & (s->size - 1)] = *wc;
	atomic_store(&s->head, head + 1);
	struct bells *b = q->context->bells;
	atomic_fetch_add(&b->news, 1);
	if (atomic_load(&b->waiting))
		syscall(SYS_futex, &b->news, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	const uint32_t armed = atomic_load(&s->armed);
	if (armed == 1 || (armed == 2 && (solicited || wc->status != IBV_WC_SUCCESS))) {
		atomic_store(&s->armed, 0);
		if (q->channel)
			(void)!write(q->channel->fd, &q->cookie, sizeof q->cookie);
	}
}

static void *mapped(int fd, size_t *bytes)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct pair))
		return NULL;
	void *m = mmap(NULL, *bytes = (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return m == MAP_FAILED ? NULL : m;
}

/* sound reports whether a queue lies in its memory. */
static bool sound(const struct pair *p, const struct queue *q, size_t bytes)
{
	const size_t from = (size_t)((const char *)q - (const char *)p) + q->offset;
	return q->size > 0 && (q->size & (q->size - 1)) == 0 && q->size <= 2 * MAX_WR && q->stride >= sizeof(struct recv_slot) &&
	       q->stride <= 4096 && from + (size_t)q->size * q->stride <= bytes;
}

static void free_pair(struct qp *q)
{
	for (struct pair_list *l = (void *)&q->port->ready; q->listed;) {
		struct qp **at = &l->first;
		while (*at != q)
			at = &(*at)->next;
		if (!(*at = q->next))
			l->last = at;
		q->listed = false;
	}
	reset_pair(q);
	qps[q->number] = NULL;
	munmap(q->shared, q->bytes);
	free(q->posted);
	free(q->taken);
	free(q);
}

static int create_pair(struct context *c, const struct request *r, int fd, struct answer *a)
{
	struct qp *q = calloc(1, sizeof *q);
	if (!q)
		abort();
	q->owed_last = &q->owed;
	q->context = c;
	q->port = c->port;
	q->cookie = r->pair.cookie;
	q->pd = r->pair.pd;
	q->type = r->pair.type;
	q->signal_all = r->pair.signal_all;
	q->send_cq = own(&cqs, c, r->pair.send_cq);
	q->recv_cq = own(&cqs, c, r->pair.recv_cq);
	q->srq = own(&srqs, c, r->pair.srq);
	q->mtu = MTU_BYTES;
	q->shared = mapped(fd, &q->bytes);
	const bool good = q->send_cq && q->recv_cq && (q->srq || !r->pair.srq) && q->shared && sound(q->shared, &q->shared->sq, q->bytes) &&
		sound(q->shared, &q->shared->rq, q->bytes) && q->shared->sq.stride >= sizeof(struct send_slot);
	for (unsigned i = 0; good && i < QP_NUMBERS && qps[next_number]; i++)
		if (++next_number == QP_NUMBERS)
			next_number = FIRST_QP;
	if (!good || qps[next_number]) {
		if (q->shared)
			munmap(q->shared, q->bytes);
		free(q);
		return good ? ENOMEM : EINVAL;
	}
	q->posted = calloc(q->shared->sq.size, sizeof *q->posted);
	q->taken = calloc(1, sizeof *q->taken + MAX_SGE * sizeof *q->taken->sge);
	if (!q->posted || !q->taken)
		abort();
	qps[q->number = next_number] = q;
	if (++next_number == QP_NUMBERS)
		next_number = FIRST_QP;
	a->handle = q->number;
	return 0;
}

/* modify_pair sets attributes; the adapter has checked that they may be set. */
static int modify_pair(struct qp *q, uint32_t mask, const struct ibv_qp_attr *attr, ns t)
{
	struct ibv_qp_attr *own_attr = &q->attr;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own_attr->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		own_attr->qkey = attr->qkey;
	if (mask & IBV_QP_AV)
		own_attr->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		q->mtu = 128U << attr->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		own_attr->timeout = attr->timeout & 31;
	if (mask & IBV_QP_RETRY_CNT)
		q->retries = own_attr->retry_cnt = attr->retry_cnt & 7;
	if (mask & IBV_QP_RNR_RETRY)
		q->rnr_retries = own_attr->rnr_retry = attr->rnr_retry & 7;
	if (mask & IBV_QP_RQ_PSN)
		q->expected = attr->rq_psn & 0xffffff;
	if (mask & IBV_QP_SQ_PSN) {
		q->next_psn = attr->sq_psn & 0xffffff;
		q->acked = q->next_psn - 1;
	}
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own_attr->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own_attr->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_DEST_QPN)
		own_attr->dest_qp_num = attr->dest_qp_num;
	if (!(mask & IBV_QP_STATE))
		return 0;
	if (attr->qp_state == IBV_QPS_ERR) {
		fail_pair(q, IBV_WC_SUCCESS, t);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_RESET)
		reset_pair(q);
	atomic_store(&q->shared->state, attr->qp_state);
	if (attr->qp_state == IBV_QPS_RTS)
		activate(q, t);
	return 0;
}

static int register_region(struct context *c, const struct request *r, struct answer *a)
{
	static uint8_t salt;
	struct region *m = calloc(1, sizeof *m);
	if (!m)
		abort();
	*m = (struct region){c, r->region.address, r->region.length, r->region.iova, r->region.access, r->region.pd, 0};
	const uint32_t n = add(&regions, m);
	if (!n) {
		free(m);
		return ENOMEM;
	}
	a->handle = m->key = n << 8 | ++salt;
	return 0;
}

/* used reports whether a queue pair has a queue. */
static bool used(const struct context *c, const void *queue)
{
	for (uint32_t i = 0; i < QP_NUMBERS && i < next_number; i++)
		if (qps[i] && qps[i]->context == c && (qps[i]->send_cq == queue || qps[i]->recv_cq == queue || (const void *)qps[i]->srq == queue))
			return true;
	return false;
}

static int create_queue(struct context *c, const struct request *r, int fd, struct answer *a)
{
	if (r->operation == CREATE_CQ) {
		struct cq *q = calloc(1, sizeof *q);
		if (!q)
			abort();
		q->context = c;
		q->cookie = r->cq.cookie;
		q->channel = own(&channels, c, r->cq.channel);
		q->shared = mapped(fd, &q->bytes);
		if (q->shared && q->shared->size <= 2 * MAX_CQE && sizeof *q->shared + q->shared->size * sizeof *q->shared->wc <= q->bytes &&
		    (a->handle = add(&cqs, q)))
			return 0;
		if (q->shared)
			munmap(q->shared, q->bytes);
		free(q);
		return ENOMEM;
	}
	struct srq *q = calloc(1, sizeof *q);
	if (!q)
		abort();
	q->context = c;
	q->shared = mapped(fd, &q->bytes);
	q->pd = r->pair.pd;
	q->cookie = r->pair.cookie;
	if (q->shared && sound(q->shared, &q->shared->rq, q->bytes) && (a->handle = add(&srqs, q)))
		return 0;
	if (q->shared)
		munmap(q->shared, q->bytes);
	free(q);
	return EINVAL;
}

static void destroy(struct table *t, uint32_t number)
{
	void *o = get(t, number);
	if (t == &cqs)
		munmap(((struct cq *)o)->shared, ((struct cq *)o)->bytes);
	else if (t == &srqs)
		munmap(((struct srq *)o)->shared, ((struct srq *)o)->bytes);
	else if (t == &channels)
		close(((struct channel *)o)->fd);
	take_out(t, number);
	free(o);
}

static void describe(struct port *p, struct answer *a)
{
	a->port.node = p->node->guid;
	a->port.guid = p->node->guid + p->number;
	a->port.prefix = 0xfe80000000000000;
	a->port.number = p->number;
	a->port.lid = p->lid;
	a->port.lmc = p->lmc;
	a->port.sm = manager_lid;
	a->port.up = p->up;
	for (a->port.mtu = IBV_MTU_256; 128U << a->port.mtu < mtu;)
		a->port.mtu++;
	memcpy(a->port.name, p->node->name, sizeof a->port.name);
}

static int enter(struct context *c, struct request *r, const int *fds, struct answer *a)
{
	struct port *p;
	r->enter.host[sizeof r->enter.host - 1] = 0;
	if (!(p = find_host(r->enter.host)))
		return ENODEV;
	describe(p, a);
	if (r->operation == LOOK_UP)
		return 0;
	size_t bytes;
	if (c->port || fds[1] < 0 || !(c->bells = mapped(fds[0], &bytes)))
		return EINVAL;
	if (bytes < sizeof *c->bells)
		return EINVAL;
	c->events = dup(fds[1]);
	c->port = p;
	c->next_at_port = p->contexts;
	p->contexts = c;
	return 0;
}

static int carry_out(struct context *c, struct request *r, const int *fds, struct answer *a, ns t)
{
	struct table *t_of[] = {[DESTROY_CHANNEL] = &channels, [DESTROY_CQ] = &cqs, [DESTROY_SRQ] = &srqs};
	struct qp *q;
	if (!c->port && r->operation != LOOK_UP && r->operation != ENTER)
		return EINVAL;
	switch (r->operation) {
	case LOOK_UP:
	case ENTER: return enter(c, r, fds, a);
	case QUERY_PORT: describe(c->port, a); return 0;
	case REGISTER: return register_region(c, r, a);
	case DEREGISTER:
		if (!own(&regions, c, r->handle >> 8))
			return EINVAL;
		destroy(&regions, r->handle >> 8);
		return 0;
	case CREATE_CHANNEL: {
		struct channel *ch = calloc(1, sizeof *ch);
		if (!ch)
			abort();
		*ch = (struct channel){c, dup(fds[0])};
		a->handle = add(&channels, ch);
		return 0;
	}
	case CREATE_CQ:
	case CREATE_SRQ: return create_queue(c, r, fds[0], a);
	case DESTROY_CQ:
	case DESTROY_SRQ:
		if (own(t_of[r->operation], c, r->handle) && used(c, own(t_of[r->operation], c, r->handle)))
			return EBUSY;
		/* fall through */
	case DESTROY_CHANNEL:
		if (!own(t_of[r->operation], c, r->handle))
			return EINVAL;
		destroy(t_of[r->operation], r->handle);
		return 0;
	case CREATE_QP: return create_pair(c, r, fds[0], a);
	case MODIFY_QP:
	case DESTROY_QP:
		q = qp_by_number(r->handle);
		if (!q || q->context != c)
			return EINVAL;
		if (r->operation == MODIFY_QP)
			return modify_pair(q, r->modify.mask, &r->modify.attr, t);
		free_pair(q);
		return 0;
	default: return EOPNOTSUPP;
	}
}

void serve(struct context *c)
{
	struct request r;
	int fds[2] = {-1, -1};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof fds)];
	} control;
	struct iovec v = {&r, sizeof r};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control};
	const ssize_t n = recvmsg(c->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len <= CMSG_LEN(sizeof fds))
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	if (n != sizeof r) {
		close_context(c);
	} else {
		struct answer a = {0};
		a.error = carry_out(c, &r, fds, &a, now());
		const int given[] = {beacon_fd, bell_fd};
		if (pass(c->socket, &a, sizeof a, given, r.operation == ENTER && !a.error ? 2 : 0) < 0)
			close_context(c);
	}
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct context *accept_context(int fd)
{
	const int s = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	struct ucred who;
	if (s < 0 || getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &(socklen_t){sizeof who}) < 0)
		return NULL;
	struct context *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	c->socket = s;
	c->events = -1;
	c->pid = who.pid;
	c->next = contexts;
	contexts = c;
	return c;
}

/* close_context forgets a program that has gone, and all its objects. */
void close_context(struct context *c)
{
	for (uint32_t i = 0; i < next_number; i++)
		if (qps[i] && qps[i]->context == c)
			free_pair(qps[i]);
	struct table *all[] = {&cqs, &srqs, &regions, &channels};
	for (unsigned k = 0; k < sizeof all / sizeof *all; k++)
		for (uint32_t i = 1; i <= all[k]->size; i++)
			if (own(all[k], c, i))
				destroy(all[k], i);
	struct context **at = &contexts;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->port) {
		for (at = &c->port->contexts; *at != c;)
			at = &(*at)->next_at_port;
		*at = c->next_at_port;
		munmap(c->bells, sizeof *c->bells);
		close(c->events);
	}
	close(c->socket);
	free(c);
}
