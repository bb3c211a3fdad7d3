/* responder.c: the side of a reliable connection that carries requests out. */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

/* owe adds an answer to those that will be sent. */
static struct owed *owe(struct qp *q, enum kind kind, uint32_t psn)
{
	struct owed *o = calloc(1, sizeof *o);
	if (!o)
		abort();
	o->kind = (uint8_t)kind;
	o->psn = psn;
	o->first = true;
	*q->owed_last = o;
	q->owed_last = &o->next;
	return o;
}

static void owe_ack(struct qp *q, uint32_t psn)
{
	q->since_ack = 0;
	for (struct owed *o = q->owed; o; o = o->next)
		if (!o->next && o->kind == ACK) { /* a waiting ACK covers this one */
			if ((int32_t)(psn - o->psn) > 0)
				o->psn = psn;
			return;
		}
	owe(q, ACK, psn);
}

static void owe_nak(struct qp *q, enum nak why, uint32_t psn)
{
	struct owed *o = owe(q, NAK, psn);
	o->syndrome = (uint8_t)why;
	o->timer = q->attr.min_rnr_timer;
}

/* next_answer is the packet of the oldest answer that is owed. Reads are answered
 * packet by packet. */
struct packet *next_answer(struct qp *q)
{
	struct owed *o = q->owed;
	if (!o)
		return NULL;
	if (o->kind == READ_ANSWER && q->on_the_way >= FLOW_PACKETS)
		return NULL;
	struct packet *p = new_packet();
	p->kind = o->kind;
	p->psn = o->psn;
	p->syndrome = o->syndrome;
	p->timer = o->timer;
	p->swap = o->value;
	p->first = o->first;
	if (o->kind == READ_ANSWER) {
		p->length = o->left < q->mtu ? o->left : q->mtu;
		if (!fetch_remote(q, o->rkey, o->remote, p->data, p->length)) {
			p->kind = NAK;
			p->syndrome = BAD_ACCESS;
			p->length = 0;
			o->left = 0;
		}
		o->remote += p->length;
		o->left -= p->length;
		o->psn++;
		o->first = false;
		if (o->left > 0)
			return p;
	} else if (o->kind == ATOMIC_ANSWER)
		p->length = 8;
	if (!(q->owed = o->next))
		q->owed_last = &q->owed;
	free(o);
	return p;
}

/* take_receive takes the next receive request, from the shared queue if there is one. */
bool take_receive(struct qp *q)
{
	struct queue *rq = q->srq ? &q->srq->shared->rq : &q->shared->rq;
	const uint32_t i = atomic_load(&rq->tail);
	if (i == atomic_load(&rq->head))
		return false;
	const struct recv_slot *r = slot_at(rq, i);
	const uint32_t count = r->count < MAX_SGE ? r->count : MAX_SGE;
	memcpy(q->taken, r, sizeof *r + count * sizeof *r->sge);
	q->taken->count = count;
	atomic_store(&rq->tail, i + 1);
	return true;
}

/* refuse sends the reason why a request cannot be carried out, and ends the connection. */
static void refuse(struct qp *q, enum nak why, enum ibv_wc_status here, const struct packet *p, ns t)
{
	if (q->receiving) {
		q->receiving = false;
		const struct ibv_wc wc = {.wr_id = q->taken->wr_id, .status = here, .opcode = IBV_WC_RECV, .qp_num = q->number};
		complete(q->recv_cq, &wc, false);
	}
	/* earlier requests are answered first, in order */
	struct owed *const owed = q->owed, **last = q->owed_last;
	q->owed = NULL;
	fail_pair(q, IBV_WC_SUCCESS, t);
	if (owed) {
		q->owed = owed;
		q->owed_last = last;
	}
	event(q->context, why == BAD_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR, q->cookie);
	owe_nak(q, why, p->psn);
	activate(q, t);
}

/* tell_received reports a received message to the program. */
static void tell_received(struct qp *q, const struct packet *p)
{
	struct ibv_wc wc = {.wr_id = q->taken->wr_id, .opcode = IBV_WC_RECV, .byte_len = q->filled, .qp_num = q->number,
		.src_qp = q->attr.dest_qp_num, .slid = p->slid, .sl = p->sl, .dlid_path_bits = (uint8_t)(p->dlid - q->port->lid)};
	if (p->kind == WRITE) {
		wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		wc.byte_len = p->total;
	}
	if (p->with_immediate) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = p->immediate;
	}
	q->receiving = false;
	complete(q->recv_cq, &wc, p->solicited);
}

static bool not_ready(struct qp *q, const struct packet *p, ns t)
{
	owe_nak(q, NOT_READY, p->psn);
	activate(q, t);
	return false;
}

/* take_data carries out a packet of a send or write; false if it must be repeated, or
 * the connection has ended. */
static bool take_data(struct qp *q, const struct packet *p, ns t)
{
	if (p->kind == SEND) {
		if (p->first) {
			if (!take_receive(q))
				return not_ready(q, p, t);
			q->receiving = true;
			q->filled = 0;
		}
		uint64_t room = 0;
		for (uint32_t i = 0; i < q->taken->count; i++)
			room += q->taken->sge[i].length;
		if (!q->receiving || q->filled + p->length > room) {
			refuse(q, BAD_REQUEST, IBV_WC_LOC_LEN_ERR, p, t);
			return false;
		}
		if (!store(q, q->taken->sge, q->taken->count, q->filled, p->data, p->length)) {
			refuse(q, BAD_OPERATION, IBV_WC_LOC_PROT_ERR, p, t);
			return false;
		}
		q->filled += p->length;
	} else {
		const bool may = q->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE;
		if (p->first && p->total > 0 && (!may || !within(region_by_key(p->rkey), q->context, q->pd, p->remote, p->total, IBV_ACCESS_REMOTE_WRITE))) {
			refuse(q, BAD_ACCESS, IBV_WC_REM_ACCESS_ERR, p, t);
			return false;
		}
		if (p->with_immediate) {
			if (!take_receive(q))
				return not_ready(q, p, t);
			q->receiving = true;
		}
		if (!store_remote(q, p->rkey, p->remote, p->data, p->length)) {
			refuse(q, BAD_ACCESS, IBV_WC_REM_ACCESS_ERR, p, t);
			return false;
		}
	}
	if (p->last && q->receiving)
		tell_received(q, p);
	return true;
}

static bool read_allowed(struct qp *q, const struct packet *p)
{
	return p->total == 0 || (q->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ &&
		within(region_by_key(p->rkey), q->context, q->pd, p->remote, p->total, IBV_ACCESS_REMOTE_READ));
}

static void owe_read(struct qp *q, const struct packet *p)
{
	struct owed *o = owe(q, READ_ANSWER, p->psn);
	o->remote = p->remote;
	o->left = p->total;
	o->rkey = p->rkey;
}

/* do_atomic carries out an atomic operation, and keeps the value that it found, in case it
 * is requested again. */
static bool do_atomic(struct qp *q, const struct packet *p, ns t)
{
	uint64_t found;
	const bool may = q->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC && p->remote % 8 == 0 &&
		within(region_by_key(p->rkey), q->context, q->pd, p->remote, 8, IBV_ACCESS_REMOTE_ATOMIC);
	if (!may || !fetch_remote(q, p->rkey, p->remote, &found, 8)) {
		refuse(q, may || p->remote % 8 == 0 ? BAD_ACCESS : BAD_REQUEST, IBV_WC_REM_ACCESS_ERR, p, t);
		return false;
	}
	const uint64_t value = p->swaps ? (found == p->compare ? p->swap : found) : found + p->compare;
	if (!store_remote(q, p->rkey, p->remote, &value, 8)) {
		refuse(q, BAD_ACCESS, IBV_WC_REM_ACCESS_ERR, p, t);
		return false;
	}
	const unsigned i = q->atomic_count++ % (2 * MAX_RD_ATOMIC);
	q->atomics[i].psn = p->psn;
	q->atomics[i].value = found;
	owe(q, ATOMIC_ANSWER, p->psn)->value = found;
	return true;
}

/* give_up drops the answers to reads from a PSN on: they are asked for again. */
static void give_up(struct qp *q, uint32_t psn)
{
	for (struct owed **at = &q->owed, *o; (o = *at);) {
		if (o->kind == READ_ANSWER && (int32_t)(o->psn - psn) >= 0) {
			*at = o->next;
			free(o);
		} else
			at = &o->next;
	}
	for (q->owed_last = &q->owed; *q->owed_last;)
		q->owed_last = &(*q->owed_last)->next;
}

/* again answers a request that has been carried out before. */
static void again(struct qp *q, const struct packet *p)
{
	if (p->kind == READ) {
		give_up(q, p->psn);
		if (read_allowed(q, p))
			owe_read(q, p);
	} else if (p->kind == ATOMIC) {
		for (unsigned i = 0; i < q->atomic_count && i < 2 * MAX_RD_ATOMIC; i++)
			if (q->atomics[i].psn == p->psn)
				owe(q, ATOMIC_ANSWER, p->psn)->value = q->atomics[i].value;
	} else if (p->last)
		owe_ack(q, q->expected - 1);
}

/* requested handles a packet of a request. */
void requested(struct qp *q, struct packet *p, ns t)
{
	const int32_t ahead = (int32_t)(p->psn - q->expected);
	if (ahead < 0) {
		again(q, p);
		activate(q, t);
		return;
	}
	if (ahead > 0) {
		if (!q->naked) {
			q->naked = true;
			owe_nak(q, OUT_OF_ORDER, q->expected);
			activate(q, t);
		}
		return;
	}
	q->naked = false;
	switch (p->kind) {
	case READ:
		if (!read_allowed(q, p)) {
			refuse(q, BAD_ACCESS, IBV_WC_REM_ACCESS_ERR, p, t);
			return;
		}
		q->expected += p->total == 0 ? 1 : (p->total + q->mtu - 1) / q->mtu;
		owe_read(q, p);
		break;
	case ATOMIC:
		if (!do_atomic(q, p, t))
			return;
		q->expected++;
		break;
	default:
		if (!take_data(q, p, t))
			return;
		q->expected++;
		if (p->last || ++q->since_ack >= ACK_EVERY)
			owe_ack(q, p->psn);
	}
	activate(q, t);
}
