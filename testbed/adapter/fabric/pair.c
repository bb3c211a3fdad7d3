/* pair.c: queue pairs: the common part of both sides, and datagrams. */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

/* activate puts a queue pair into its port's list, and makes the port send, unless t is
 * UINT64_MAX. */
void activate(struct qp *q, ns t)
{
	if (!q->listed) {
		q->listed = true;
		q->next = NULL;
		*q->port->ready.last = q;
		q->port->ready.last = &q->next;
	}
	if (t != UINT64_MAX)
		pump(q->port, t);
}

static uint32_t state(const struct qp *q) { return atomic_load(&q->shared->state); }

static void complete_send(struct qp *q, const struct send_slot *s, enum ibv_wc_status status)
{
	const struct ibv_wc wc = {.wr_id = s->wr_id, .status = status, .opcode = IBV_WC_SEND, .qp_num = q->number};
	if (q->signal_all || s->flags & IBV_SEND_SIGNALED || status != IBV_WC_SUCCESS)
		complete(q->send_cq, &wc, false);
}

/* next_datagram is the packet of the oldest request of an unreliable queue pair, which
 * completes the request. */
static struct packet *next_datagram(struct qp *q, ns t)
{
	struct queue *sq = &q->shared->sq;
	if (state(q) != IBV_QPS_RTS || q->cur == atomic_load(&sq->head))
		return NULL;
	const struct send_slot *s = slot_at(sq, q->cur);
	uint64_t length = s->count;
	if (!(s->flags & IBV_SEND_INLINE)) {
		length = 0;
		for (uint32_t i = 0; i < s->count; i++)
			length += s->sge[i].length;
	}
	if (length > mtu) {
		fail_pair(q, IBV_WC_LOC_LEN_ERR, t);
		return NULL;
	}
	struct packet *p = new_packet();
	p->kind = DATAGRAM;
	p->origin = q->number;
	p->qpn = s->qpn;
	p->qkey = s->qkey & 0x80000000 ? q->attr.qkey : s->qkey;
	p->dlid = s->dlid;
	p->slid = (uint16_t)(q->port->lid | s->path_bits);
	p->sl = s->sl;
	p->global = s->global;
	p->length = (uint32_t)length;
	p->solicited = s->flags & IBV_SEND_SOLICITED;
	p->with_immediate = s->opcode == IBV_WR_SEND_WITH_IMM;
	p->immediate = s->immediate;
	if (s->flags & IBV_SEND_INLINE)
		memcpy(p->data, s->data, s->count);
	else if (!fetch(q, s->sge, s->count, 0, p->data, length)) {
		free_packet(p);
		fail_pair(q, IBV_WC_LOC_PROT_ERR, t);
		return NULL;
	}
	complete_send(q, s, IBV_WC_SUCCESS);
	q->una = q->fresh = ++q->cur;
	atomic_store(&sq->tail, q->una);
	q->on_the_way++;
	return p;
}

static void deliver_datagram(struct qp *q, struct packet *p)
{
	if (p->qkey != q->attr.qkey || !take_receive(q))
		return;
	uint8_t grh[GRH_BYTES] = {0x60};
	grh[4] = (uint8_t)(p->length >> 8);
	grh[5] = (uint8_t)p->length;
	grh[6] = 0x1b;
	struct ibv_wc wc = {.wr_id = q->taken->wr_id, .opcode = IBV_WC_RECV, .byte_len = p->length + GRH_BYTES, .qp_num = q->number,
		.src_qp = p->origin, .slid = p->slid, .sl = p->sl, .dlid_path_bits = (uint8_t)(p->dlid - q->port->lid)};
	if (p->with_immediate) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = p->immediate;
	}
	if (p->global)
		wc.wc_flags |= IBV_WC_GRH;
	uint64_t room = 0;
	for (uint32_t i = 0; i < q->taken->count; i++)
		room += q->taken->sge[i].length;
	if (room < p->length + GRH_BYTES)
		wc.status = IBV_WC_LOC_LEN_ERR;
	else if ((p->global && !store(q, q->taken->sge, q->taken->count, 0, grh, GRH_BYTES)) ||
		 !store(q, q->taken->sge, q->taken->count, GRH_BYTES, p->data, p->length))
		wc.status = IBV_WC_LOC_PROT_ERR;
	complete(q->recv_cq, &wc, p->solicited);
}

/* next_packet is the next packet of a queue pair; blocked is set if too many of its packets
 * are on the way to send one. */
struct packet *next_packet(struct qp *q, ns t, bool *blocked)
{
	if (q->type == IBV_QPT_UD) {
		*blocked = q->on_the_way >= FLOW_PACKETS;
		return *blocked ? NULL : next_datagram(q, t);
	}
	/* Requests and answers take turns: the answer to a long read holds up no request. */
	struct packet *p = q->answered ? next_request(q, t, blocked) : next_answer(q);
	if (!p)
		p = q->answered ? next_answer(q) : next_request(q, t, blocked);
	if (!p)
		return NULL;
	q->answered = p->kind >= ACK;
	p->origin = q->number;
	p->qpn = q->attr.dest_qp_num;
	p->dlid = q->attr.ah_attr.dlid;
	p->slid = (uint16_t)(q->port->lid | q->attr.ah_attr.src_path_bits);
	p->sl = q->attr.ah_attr.sl;
	q->on_the_way++;
	return p;
}

void arrived(struct packet *p, ns t)
{
	struct qp *q = qp_by_number(p->origin);
	if (!q || q->on_the_way == 0)
		return;
	q->on_the_way--;
	activate(q, t);
}

void deliver(struct packet *p, ns t)
{
	struct qp *q = qp_by_number(p->qpn);
	if (!q || q->port != p->at)
		return;
	const uint32_t s = state(q);
	if (s != IBV_QPS_RTR && s != IBV_QPS_RTS && s != IBV_QPS_SQD && s != IBV_QPS_SQE)
		return;
	if ((p->kind == DATAGRAM) != (q->type == IBV_QPT_UD))
		return;
	if (p->kind == DATAGRAM)
		deliver_datagram(q, p);
	else if (p->slid != q->attr.ah_attr.dlid || p->origin != q->attr.dest_qp_num)
		return; /* not from this connection's peer */
	else if (p->kind == SEND || p->kind == WRITE || p->kind == READ || p->kind == ATOMIC)
		requested(q, p, t);
	else
		answered(q, p, t);
}

/* rung: a program has posted work. */
void rung(struct qp *q, ns t)
{
	const uint32_t s = state(q);
	if (s == IBV_QPS_ERR)
		flush(q);
	else if (s == IBV_QPS_RTS)
		activate(q, t);
}

/* flush completes the remaining requests of a queue pair that has failed. */
void flush(struct qp *q)
{
	struct queue *sq = &q->shared->sq, *rq = &q->shared->rq;
	for (; q->una != atomic_load(&sq->head); q->una++)
		complete_send(q, slot_at(sq, q->una), IBV_WC_WR_FLUSH_ERR);
	q->cur = q->fresh = q->una;
	atomic_store(&sq->tail, q->una);
	if (q->receiving) {
		q->receiving = false;
		const struct ibv_wc wc = {.wr_id = q->taken->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = q->number};
		complete(q->recv_cq, &wc, false);
	}
	while (!q->srq && atomic_load(&rq->tail) != atomic_load(&rq->head)) {
		const struct recv_slot *r = slot_at(rq, atomic_load(&rq->tail));
		const struct ibv_wc wc = {.wr_id = r->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = q->number};
		atomic_fetch_add(&rq->tail, 1);
		complete(q->recv_cq, &wc, false);
	}
}

/* fail_pair completes the oldest request with an error, unless status is success, and
 * all others as flushed. */
void fail_pair(struct qp *q, enum ibv_wc_status status, ns t)
{
	(void)t;
	struct queue *sq = &q->shared->sq;
	const bool was = state(q) == IBV_QPS_ERR;
	atomic_store(&q->shared->state, IBV_QPS_ERR);
	if (status != IBV_WC_SUCCESS && q->una != atomic_load(&sq->head))
		complete_send(q, slot_at(sq, q->una++), status);
	for (struct owed *o; (o = q->owed);) {
		q->owed = o->next;
		free(o);
	}
	q->owed_last = &q->owed;
	flush(q);
	if (!was && q->srq)
		event(q->context, IBV_EVENT_QP_LAST_WQE_REACHED, q->cookie);
}

/* reset_pair forgets all work. */
void reset_pair(struct qp *q)
{
	struct queue *sq = &q->shared->sq, *rq = &q->shared->rq;
	q->una = q->cur = q->fresh = atomic_load(&sq->head);
	atomic_store(&sq->tail, q->una);
	if (!q->srq)
		atomic_store(&rq->tail, atomic_load(&rq->head));
	for (struct owed *o; (o = q->owed);) {
		q->owed = o->next;
		free(o);
	}
	q->owed_last = &q->owed;
	q->offset = q->reading = q->since_ack = q->filled = q->atomic_count = 0;
	q->naked = q->receiving = q->missing = false;
	q->deadline = q->not_before = 0;
}
