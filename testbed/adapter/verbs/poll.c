/* poll.c: completions and their events. */
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "adapter.h"

enum {
	LOOK_EVERY = 100,   /* empty polls until one checks that the fabric is there */
	PATIENCE = 100,	    /* empty polls until one waits */
	LONGEST = 1000000, /* ns that it waits */
};

/* rest waits a little for a completion, after a hundred empty polls. Programs poll without a
 * pause; if many share few processors, this would delay those that have something to do. */
static void rest(struct context *c)
{
	struct bells *b = c->bells;
	const uint32_t news = atomic_load(&b->news);
	if (news != atomic_load_explicit(&c->news, memory_order_relaxed)) {
		atomic_store_explicit(&c->news, news, memory_order_relaxed);
		atomic_store_explicit(&c->idle, 0, memory_order_relaxed);
	} else if (atomic_fetch_add_explicit(&c->idle, 1, memory_order_relaxed) >= PATIENCE) {
		atomic_fetch_add(&b->waiting, 1);
		(void)syscall(SYS_futex, &b->news, FUTEX_WAIT, news, &(struct timespec){.tv_nsec = LONGEST}, NULL, 0);
		atomic_fetch_sub(&b->waiting, 1);
	}
}

/* flush_queue completes the remaining requests of a queue when the fabric has gone. */
static int flush_queue(struct queue *w, bool sends, uint32_t qpn, int room, struct ibv_wc *wc)
{
	int n = 0;
	for (uint32_t i; n < room && (i = atomic_load(&w->tail)) != atomic_load(&w->head); n++) {
		wc[n] = (struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR, .opcode = sends ? IBV_WC_SEND : IBV_WC_RECV, .qp_num = qpn};
		const struct send_slot *s = slot_at(w, i);
		const struct recv_slot *r = slot_at(w, i);
		wc[n].wr_id = sends ? s->wr_id : r->wr_id;
		atomic_store(&w->tail, i + 1);
	}
	return n;
}

static int flush_all(struct cq *q, int room, struct ibv_wc *wc)
{
	struct context *c = context_of(q->ibv.context);
	int n = 0;
	pthread_mutex_lock(&c->listing);
	for (struct object *o = c->objects; o; o = o->next) {
		if (o->kind != A_QP)
			continue;
		struct qp *p = CONTAINER(o, struct qp, object);
		atomic_store(&p->shared->state, IBV_QPS_ERR);
		if (p->ibv.send_cq == &q->ibv)
			n += flush_queue(&p->shared->sq, true, p->ibv.qp_num, room - n, wc + n);
		if (p->ibv.recv_cq == &q->ibv && !p->ibv.srq)
			n += flush_queue(&p->shared->rq, false, p->ibv.qp_num, room - n, wc + n);
	}
	pthread_mutex_unlock(&c->listing);
	return n;
}

int poll_cq(struct ibv_cq *ibv, int room, struct ibv_wc *wc)
{
	struct cq *q = cq_of(ibv);
	struct completions *s = q->shared;
	uint32_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	if (tail == atomic_load(&s->head)) {
		rest(context_of(ibv->context));
		if (++q->empty % LOOK_EVERY || !gone(context_of(ibv->context)))
			return 0;
		q->empty--; /* look again next time */
		return flush_all(q, room, wc);
	}
	int n = 0;
	pthread_mutex_lock(&q->polling);
	tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	for (const uint32_t head = atomic_load(&s->head); n < room && tail != head; n++)
		wc[n] = s->wc[tail++ & (s->size - 1)];
	atomic_store(&s->tail, tail);
	pthread_mutex_unlock(&q->polling);
	return n;
}

int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct completions *s = cq_of(ibv)->shared;
	const uint32_t want = solicited_only ? 2 : 1;
	uint32_t was = atomic_load(&s->armed);
	while (was != 1 && was != want && !atomic_compare_exchange_weak(&s->armed, &was, want))
		;
	return 0;
}

/* forget_completions drops the completions of a queue pair that no longer exists. */
void forget_completions(struct cq *q, uint32_t qpn)
{
	struct completions *s = q->shared;
	pthread_mutex_lock(&q->polling);
	const uint32_t tail = atomic_load(&s->tail);
	uint32_t to = atomic_load(&s->head);
	for (uint32_t from = to; from != tail;) {
		from--;
		if (s->wc[from & (s->size - 1)].qp_num != qpn)
			s->wc[--to & (s->size - 1)] = s->wc[from & (s->size - 1)];
	}
	atomic_store(&s->tail, to);
	pthread_mutex_unlock(&q->polling);
}

VISIBLE struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *ch = calloc(1, sizeof *ch);
	int fds[2];
	if (!ch || pipe2(fds, O_CLOEXEC) < 0) {
		free(ch);
		return NULL;
	}
	(void)fcntl(fds[1], F_SETFL, O_NONBLOCK); /* the fabric does not wait for programs */
	struct answer a;
	const int failed = ask(context_of(context), &(struct request){.operation = CREATE_CHANNEL}, &a, fds[1]);
	close(fds[1]);
	if (failed) {
		close(fds[0]);
		free(ch);
		errno = failed;
		return NULL;
	}
	ch->handle = a.handle;
	ch->ibv.context = context;
	ch->ibv.fd = fds[0];
	return &ch->ibv;
}

VISIBLE int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct channel *ch = CONTAINER(ibv, struct channel, ibv);
	struct context *c = context_of(ibv->context);
	struct answer a;
	pthread_mutex_lock(&ibv->context->mutex);
	const bool busy = ibv->refcnt > 0;
	pthread_mutex_unlock(&ibv->context->mutex);
	if (busy)
		return EBUSY;
	(void)ask(c, &(struct request){.operation = DESTROY_CHANNEL, .handle = ch->handle}, &a, -1);
	close(ibv->fd);
	free(ch);
	return 0;
}

/* find is the object that an event names, if it is still there; it counts the event. */
static struct object *find(struct context *c, uint64_t cookie, bool completion)
{
	pthread_mutex_lock(&c->listing);
	struct object *o = c->objects;
	while (o && (uint64_t)(uintptr_t)o != cookie)
		o = o->next;
	if (o && completion)
		o->completions++;
	else if (o)
		o->events++;
	pthread_mutex_unlock(&c->listing);
	return o;
}

VISIBLE int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	for (;;) {
		uint64_t cookie;
		const ssize_t n = read(ch->fd, &cookie, sizeof cookie);
		if (n != sizeof cookie) {
			if (n >= 0)
				errno = EIO; /* the fabric has gone */
			return -1;
		}
		struct object *o = find(context_of(ch->context), cookie, true);
		if (!o)
			continue;
		*cq = &CONTAINER(o, struct cq, object)->ibv;
		*cq_context = (*cq)->cq_context;
		return 0;
	}
}

VISIBLE void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* The end of a silent pipe takes the place of an end that has been closed. */
static void silence(int fd)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	(void)fcntl(fds[0], F_SETFL, fcntl(fd, F_GETFL));
	(void)dup2(fds[0], fd);
	close(fds[0]); /* the other end stays open as long as the process lives */
}

VISIBLE int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = context_of(context);
	for (;;) {
		uint64_t e[2];
		const ssize_t n = read(context->async_fd, e, sizeof e);
		if (n == 0 && !c->fatal_told) {
			c->fatal_told = true;
			silence(context->async_fd);
			*event = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
			return 0;
		}
		if (n != sizeof e)
			return -1;
		*event = (struct ibv_async_event){.event_type = (enum ibv_event_type)e[0]};
		if (e[0] >= IBV_EVENT_DEVICE_FATAL && e[0] <= IBV_EVENT_SM_CHANGE) {
			event->element.port_num = (int)e[1];
			return 0;
		}
		struct object *o = find(c, e[1], false);
		if (!o)
			continue;
		switch (o->kind) {
		case A_CQ: event->element.cq = &CONTAINER(o, struct cq, object)->ibv; break;
		case A_SRQ: event->element.srq = &CONTAINER(o, struct srq, object)->ibv; break;
		case A_QP: event->element.qp = &CONTAINER(o, struct qp, object)->ibv; break;
		}
		return 0;
	}
}

VISIBLE void ibv_ack_async_event(struct ibv_async_event *event)
{
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *done;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		mutex = &event->element.cq->mutex, cond = &event->element.cq->cond, done = &event->element.cq->async_events_completed;
		break;
	case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR: case IBV_EVENT_QP_LAST_WQE_REACHED:
		mutex = &event->element.qp->mutex, cond = &event->element.qp->cond, done = &event->element.qp->events_completed;
		break;
	case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED:
		mutex = &event->element.srq->mutex, cond = &event->element.srq->cond, done = &event->element.srq->events_completed;
		break;
	default: return;
	}
	pthread_mutex_lock(mutex);
	++*done;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}
