/* objects.c: the objects of an adapter. */
#include <sys/mman.h>
#include <unistd.h>

#include "adapter.h"

static void *refused(int why)
{
	errno = why;
	return NULL;
}

VISIBLE struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	struct context *c = context_of(context);
	p->ibv.context = context;
	pthread_mutex_lock(&c->listing);
	p->ibv.handle = ++c->pds;
	pthread_mutex_unlock(&c->listing);
	return &p->ibv;
}

static _Atomic uint32_t *users(struct ibv_pd *pd) { return &CONTAINER(pd, struct pd, ibv)->users; }

VISIBLE int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (*users(pd))
		return EBUSY;
	free(CONTAINER(pd, struct pd, ibv));
	return 0;
}

enum { KNOWN_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
	access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
	if (access & ~(unsigned)KNOWN_ACCESS)
		return refused(EOPNOTSUPP);
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return refused(EINVAL);
	if ((uintptr_t)address + length < (uintptr_t)address || iova + length < iova)
		return refused(EINVAL);
	struct mr *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	struct request r = {.operation = REGISTER};
	r.region.address = (uintptr_t)address;
	r.region.length = length;
	r.region.iova = iova;
	r.region.access = access;
	r.region.pd = pd->handle;
	struct answer a;
	const int failed = ask(context_of(pd->context), &r, &a, -1);
	if (failed) {
		free(m);
		return refused(failed);
	}
	m->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length, .handle = a.handle, .lkey = a.handle, .rkey = a.handle};
	++*users(pd);
	return &m->ibv;
}

VISIBLE struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return reg_mr(pd, address, length, (uintptr_t)address, (unsigned)access);
}

VISIBLE struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access)
{
	return reg_mr(pd, address, length, iova, (unsigned)access);
}

VISIBLE struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
	return reg_mr(pd, address, length, iova, access);
}

VISIBLE int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct answer a;
	(void)ask(context_of(mr->context), &(struct request){.operation = DEREGISTER, .handle = mr->handle}, &a, -1);
	--*users(mr->pd);
	free(CONTAINER(mr, struct mr, ibv));
	return 0;
}

static uint32_t power(uint32_t n)
{
	uint32_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

/* create asks the fabric for an object with its memory, and returns the object's handle. If
 * it is refused, create frees both and returns 0. */
static uint32_t create(struct ibv_context *context, struct request *r, int fd, void *object, void *memory, size_t bytes)
{
	struct answer a;
	const int failed = ask(context_of(context), r, &a, fd);
	close(fd);
	if (!failed)
		return a.handle;
	munmap(memory, bytes);
	free(object);
	errno = failed;
	return 0;
}

VISIBLE struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	if (cqe < 1 || cqe > MAX_CQE || vector < 0)
		return refused(EINVAL);
	struct cq *q = calloc(1, sizeof *q);
	int fd = -1;
	if (!q)
		return NULL;
	const uint32_t size = power((uint32_t)cqe);
	q->bytes = sizeof *q->shared + size * sizeof *q->shared->wc;
	if (!(q->shared = share(q->bytes, &fd))) {
		free(q);
		return NULL;
	}
	q->shared->size = size;
	struct request r = {.operation = CREATE_CQ};
	r.cq.cookie = (uintptr_t)&q->object;
	r.cq.channel = channel ? CONTAINER(channel, struct channel, ibv)->handle : 0;
	const uint32_t handle = create(context, &r, fd, q, q->shared, q->bytes);
	if (!handle)
		return NULL;
	q->handle = handle;
	q->ibv = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .handle = handle, .cqe = (int)size};
	pthread_mutex_init(&q->polling, NULL);
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	if (channel) {
		pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&context->mutex);
	}
	list_object(context_of(context), &q->object, A_CQ);
	return &q->ibv;
}

/* await waits until as many events are acknowledged as were handed out. */
static void await(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t want)
{
	pthread_mutex_lock(mutex);
	while (*done != want)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

/* destroy asks the fabric to forget an object. A fabric that has ended has forgotten it. */
static int destroy(struct ibv_context *context, enum operation what, uint32_t handle)
{
	struct answer a;
	const int failed = ask(context_of(context), &(struct request){.operation = what, .handle = handle}, &a, -1);
	return failed == EIO ? 0 : failed;
}

VISIBLE int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *q = cq_of(ibv);
	const int failed = destroy(ibv->context, DESTROY_CQ, q->handle);
	if (failed)
		return failed;
	unlist_object(context_of(ibv->context), &q->object);
	await(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed, q->object.completions);
	await(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, q->object.events);
	if (ibv->channel) {
		pthread_mutex_lock(&ibv->context->mutex);
		ibv->channel->refcnt--;
		pthread_mutex_unlock(&ibv->context->mutex);
	}
	munmap(q->shared, q->bytes);
	free(q);
	return 0;
}

VISIBLE int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq, (void)cqe;
	return EOPNOTSUPP;
}

/* place gives a queue its part of a shared memory, and returns the end of that part. */
static size_t place(struct queue *q, size_t from_queue, uint32_t wr, uint32_t stride)
{
	q->limit = wr;
	q->size = power(wr ? wr : 1);
	q->stride = (stride + 15U) & ~15U;
	q->offset = (uint32_t)from_queue;
	return from_queue + (size_t)q->size * q->stride;
}

/* make_pair makes the memory of a queue pair, or of a shared receive queue. */
static struct pair *make_pair(const struct ibv_qp_cap *cap, size_t *bytes, int *fd)
{
	uint32_t payload = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);
	if (payload < cap->max_inline_data)
		payload = cap->max_inline_data;
	struct pair plan = {0};
	const size_t begin = (sizeof plan + 63) & ~(size_t)63;
	const size_t middle = offsetof(struct pair, sq) + place(&plan.sq, begin - offsetof(struct pair, sq), cap->max_send_wr,
		(uint32_t)offsetof(struct send_slot, sge) + (payload < 16 ? 16 : payload));
	*bytes = offsetof(struct pair, rq) + place(&plan.rq, middle - offsetof(struct pair, rq), cap->max_recv_wr,
		(uint32_t)sizeof(struct recv_slot) + cap->max_recv_sge * (uint32_t)sizeof(struct ibv_sge));
	struct pair *p = share(*bytes, fd);
	if (p)
		memcpy(p, &plan, sizeof plan);
	return p;
}

VISIBLE struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (attr->attr.max_wr < 1 || attr->attr.max_wr > MAX_WR || attr->attr.max_sge > MAX_SGE)
		return refused(EINVAL);
	struct srq *q = calloc(1, sizeof *q);
	int fd = -1;
	if (!q)
		return NULL;
	q->attr = attr->attr;
	if (!(q->shared = make_pair(&(struct ibv_qp_cap){.max_recv_wr = q->attr.max_wr, .max_recv_sge = q->attr.max_sge}, &q->bytes, &fd))) {
		free(q);
		return NULL;
	}
	struct request r = {.operation = CREATE_SRQ};
	r.pair.cookie = (uintptr_t)&q->object;
	r.pair.pd = pd->handle;
	const uint32_t handle = create(pd->context, &r, fd, q, q->shared, q->bytes);
	if (!handle)
		return NULL;
	q->handle = handle;
	q->ibv = (struct ibv_srq){.context = pd->context, .srq_context = attr->srq_context, .pd = pd, .handle = handle};
	pthread_mutex_init(&q->posting, NULL);
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	++*users(pd);
	list_object(context_of(pd->context), &q->object, A_SRQ);
	return &q->ibv;
}

VISIBLE int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq, (void)attr;
	return mask ? EOPNOTSUPP : 0;
}

VISIBLE int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	*attr = srq_of(srq)->attr;
	return 0;
}

VISIBLE int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *q = srq_of(ibv);
	const int failed = destroy(ibv->context, DESTROY_SRQ, q->handle);
	if (failed)
		return failed;
	unlist_object(context_of(ibv->context), &q->object);
	await(&ibv->mutex, &ibv->cond, &ibv->events_completed, q->object.events);
	--*users(ibv->pd);
	munmap(q->shared, q->bytes);
	free(q);
	return 0;
}

VISIBLE struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_cap *cap = &init->cap;
	if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UD)
		return refused(EOPNOTSUPP);
	if (!init->send_cq || !init->recv_cq || cap->max_send_wr > MAX_WR || cap->max_send_sge > MAX_SGE || cap->max_recv_sge > MAX_SGE ||
	    cap->max_inline_data > MAX_INLINE || (!init->srq && cap->max_recv_wr > MAX_WR))
		return refused(EINVAL);
	if (init->srq)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (cap->max_inline_data < cap->max_send_sge * sizeof(struct ibv_sge))
		cap->max_inline_data = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge); /* the room is there */
	struct qp *q = calloc(1, sizeof *q);
	int fd = -1;
	if (!q)
		return NULL;
	if (!(q->shared = make_pair(cap, &q->bytes, &fd))) {
		free(q);
		return NULL;
	}
	q->init = *init;
	struct request r = {.operation = CREATE_QP};
	r.pair.cookie = (uintptr_t)&q->object;
	r.pair.pd = pd->handle;
	r.pair.send_cq = cq_of(init->send_cq)->handle;
	r.pair.recv_cq = cq_of(init->recv_cq)->handle;
	r.pair.srq = init->srq ? srq_of(init->srq)->handle : 0;
	r.pair.type = init->qp_type;
	r.pair.signal_all = (uint32_t)init->sq_sig_all;
	const uint32_t handle = create(pd->context, &r, fd, q, q->shared, q->bytes);
	if (!handle)
		return NULL;
	q->ibv = (struct ibv_qp){.context = pd->context, .qp_context = init->qp_context, .pd = pd, .send_cq = init->send_cq, .recv_cq = init->recv_cq,
		.srq = init->srq, .handle = handle, .qp_num = handle, .state = IBV_QPS_RESET, .qp_type = init->qp_type};
	pthread_mutex_init(&q->sending, NULL);
	pthread_mutex_init(&q->receiving, NULL);
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	++*users(pd);
	list_object(context_of(pd->context), &q->object, A_QP);
	return &q->ibv;
}

VISIBLE int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *q = qp_of(ibv);
	const int failed = destroy(ibv->context, DESTROY_QP, ibv->qp_num);
	if (failed)
		return failed;
	unlist_object(context_of(ibv->context), &q->object);
	forget_completions(cq_of(ibv->send_cq), ibv->qp_num);
	forget_completions(cq_of(ibv->recv_cq), ibv->qp_num);
	await(&ibv->mutex, &ibv->cond, &ibv->events_completed, q->object.events);
	--*users(ibv->pd);
	munmap(q->shared, q->bytes);
	free(q);
	return 0;
}

VISIBLE struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const struct answer *about = &context_of(pd->context)->device->about;
	if (attr->port_num != 1 || attr->sl > 15 || attr->dlid == 0 || attr->src_path_bits >> about->port.lmc || (attr->is_global && attr->grh.sgid_index))
		return refused(EINVAL);
	struct ah *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	h->ibv.context = pd->context;
	h->ibv.pd = pd;
	h->attr = *attr;
	++*users(pd);
	return &h->ibv;
}

VISIBLE int ibv_destroy_ah(struct ibv_ah *ah)
{
	--*users(ah->pd);
	free(CONTAINER(ah, struct ah, ibv));
	return 0;
}

VISIBLE int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)context;
	*attr = (struct ibv_ah_attr){.dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port};
	if (wc->wc_flags & IBV_WC_GRH) {
		attr->is_global = 1;
		attr->grh.dgid = grh->sgid;
	}
	return 0;
}

VISIBLE struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}
