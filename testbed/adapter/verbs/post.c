/* post.c: work requests. */
#include <unistd.h>

#include "adapter.h"

/* ring tells the fabric that a queue pair has work. */
void ring(struct context *c, struct qp *q)
{
	if (atomic_exchange(&q->shared->rung, 1))
		return;
	pthread_mutex_lock(&c->ringing);
	const uint32_t head = atomic_load(&c->bells->head);
	c->bells->number[head & (MAX_QPS - 1)] = q->ibv.qp_num;
	atomic_store(&c->bells->head, head + 1);
	pthread_mutex_unlock(&c->ringing);
	if (atomic_load(&c->beacon->asleep) && atomic_exchange(&c->beacon->asleep, 0))
		(void)!write(c->bell, &(uint64_t){1}, sizeof(uint64_t));
}

/* fill copies a request into its slot; an errno if it cannot be carried out. */
static int fill(struct qp *q, struct send_slot *s, const struct ibv_send_wr *wr)
{
	const bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	const bool sends = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->init.cap.max_send_sge)
		return EINVAL;
	*s = (struct send_slot){.wr_id = wr->wr_id, .opcode = wr->opcode, .flags = wr->send_flags, .immediate = wr->imm_data, .count = (uint32_t)wr->num_sge};
	if (q->ibv.qp_type == IBV_QPT_UD) {
		if (!sends || !wr->wr.ud.ah)
			return EINVAL;
		const struct ibv_ah_attr *a = &CONTAINER(wr->wr.ud.ah, struct ah, ibv)->attr;
		s->qpn = wr->wr.ud.remote_qpn;
		s->qkey = wr->wr.ud.remote_qkey;
		s->dlid = a->dlid;
		s->sl = a->sl;
		s->path_bits = a->src_path_bits;
		s->global = a->is_global;
	} else if (atomic) {
		s->remote = wr->wr.atomic.remote_addr;
		s->rkey = wr->wr.atomic.rkey;
		s->compare = wr->wr.atomic.compare_add;
		s->swap = wr->wr.atomic.swap;
	} else if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_RDMA_READ) {
		s->remote = wr->wr.rdma.remote_addr;
		s->rkey = wr->wr.rdma.rkey;
	} else if (!sends)
		return wr->opcode <= IBV_WR_ATOMIC_WRITE ? EOPNOTSUPP : EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		memcpy(s->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *s->sge);
		return 0;
	}
	if (atomic || wr->opcode == IBV_WR_RDMA_READ)
		return EINVAL;
	s->count = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *g = &wr->sg_list[i];
		if (g->length > q->init.cap.max_inline_data - s->count)
			return EINVAL;
		memcpy(s->data + s->count, (const void *)(uintptr_t)g->addr, g->length);
		s->count += g->length;
	}
	return 0;
}

int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *q = qp_of(ibv);
	struct queue *sq = &q->shared->sq;
	int failed = 0;
	pthread_mutex_lock(&q->sending);
	const uint32_t s = atomic_load(&q->shared->state);
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	for (; wr && !failed; wr = failed ? wr : wr->next) {
		if (s == IBV_QPS_RESET || s == IBV_QPS_INIT || s == IBV_QPS_RTR)
			failed = EINVAL;
		else if (head - atomic_load(&sq->tail) >= sq->limit)
			failed = ENOMEM;
		else if (!(failed = fill(q, slot_at(sq, head), wr)))
			atomic_store(&sq->head, ++head);
	}
	pthread_mutex_unlock(&q->sending);
	ring(context_of(ibv->context), q);
	if (failed)
		*bad = wr;
	return failed;
}

static int fill_receives(struct queue *rq, uint32_t max_sge, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	for (; wr; wr = wr->next) {
		const bool full = head - atomic_load(&rq->tail) >= rq->limit;
		if (full || wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge) {
			*bad = wr;
			return full ? ENOMEM : EINVAL;
		}
		struct recv_slot *r = slot_at(rq, head);
		r->wr_id = wr->wr_id;
		r->count = (uint32_t)wr->num_sge;
		memcpy(r->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *r->sge);
		atomic_store(&rq->head, ++head);
	}
	return 0;
}

int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *q = qp_of(ibv);
	if (ibv->srq || atomic_load(&q->shared->state) == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	pthread_mutex_lock(&q->receiving);
	const int failed = fill_receives(&q->shared->rq, q->init.cap.max_recv_sge, wr, bad);
	pthread_mutex_unlock(&q->receiving);
	if (atomic_load(&q->shared->state) == IBV_QPS_ERR)
		ring(context_of(ibv->context), q);
	return failed;
}

int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *q = srq_of(ibv);
	pthread_mutex_lock(&q->posting);
	const int failed = fill_receives(&q->shared->rq, q->attr.max_sge, wr, bad);
	pthread_mutex_unlock(&q->posting);
	return failed;
}
