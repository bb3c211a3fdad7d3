/* requester.c: the side of a reliable connection that sends requests. */
#include <string.h>

#include "fabric.h"

/* The values of RNR timers by their codes, in units of 10 µs (table 45 of the InfiniBand
 * Architecture, volume 1, section 9.7.5.2.8). */
static const uint32_t rnr_timers[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static bool is_read(const struct send_slot *s) { return s->opcode == IBV_WR_RDMA_READ; }

static bool is_atomic(const struct send_slot *s)
{
	return s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static struct posted *posted_at(struct qp *q, uint32_t i) { return &q->posted[i & (q->shared->sq.size - 1)]; }

static struct send_slot *request_at(struct qp *q, uint32_t i) { return slot_at(&q->shared->sq, i); }

static bool outstanding(const struct qp *q) { return q->una != q->cur || q->offset > 0; }

static void expire(void *argument, ns t)
{
	struct qp *q = qp_by_number((uint32_t)(uintptr_t)argument);
	if (!q)
		return;
	q->timed = false;
	if (!q->deadline || !outstanding(q) || atomic_load(&q->shared->state) != IBV_QPS_RTS)
		return;
	/* Links are slow for the timers of programs, which do not know the scale. As long as
	 * packets of the connection are on their way, none has been lost. */
	const struct qp *peer = qp_by_number(q->attr.dest_qp_num);
	if (t >= q->deadline && (q->on_the_way > 0 || (peer && peer != q && (peer->on_the_way > 0 || peer->owed))))
		q->deadline = t + ((ns)4096 << q->attr.timeout);
	if (t < q->deadline) {
		q->timed = true;
		at(q->deadline, expire, argument);
	} else if (q->retries == 0)
		fail_pair(q, IBV_WC_RETRY_EXC_ERR, t);
	else {
		q->retries--;
		q->deadline = 0;
		q->missing = false;
		start_over(q);
		activate(q, t);
	}
}

/* await begins the time in which an answer must come. */
static void await(struct qp *q, ns t)
{
	if (q->attr.timeout == 0)
		return;
	q->deadline = t + ((ns)4096 << q->attr.timeout);
	if (!q->timed)
		at(q->deadline, expire, (void *)(uintptr_t)q->number);
	q->timed = true;
}

static void resume(void *argument, ns t)
{
	struct qp *q = qp_by_number((uint32_t)(uintptr_t)argument);
	if (q && atomic_load(&q->shared->state) == IBV_QPS_RTS)
		activate(q, t);
}

/* start_over sends everything again that is not acknowledged. */
void start_over(struct qp *q)
{
	q->cur = q->una;
	q->offset = q->reading = 0;
	if (q->una == q->fresh || is_read(request_at(q, q->una)) || is_atomic(request_at(q, q->una)))
		return;
	const struct posted *m = posted_at(q, q->una);
	const int32_t done = (int32_t)(q->acked + 1 - m->psn);
	if (done > 0 && done < (int32_t)m->packets)
		q->offset = (uint32_t)done * q->mtu;
}

/* begin gives a request its PSNs; false if it cannot be carried out. */
static bool begin(struct qp *q, struct send_slot *s, ns t)
{
	uint64_t length = s->count;
	if (!(s->flags & IBV_SEND_INLINE)) {
		length = 0;
		for (uint32_t i = 0; i < s->count; i++)
			length += s->sge[i].length;
	}
	if (length > MAX_MESSAGE || (is_atomic(s) && length != 8)) {
		if (q->una != q->cur)
			return false; /* when those before it are done */
		fail_pair(q, IBV_WC_LOC_LEN_ERR, t);
		return false;
	}
	const uint32_t packets = is_atomic(s) || length == 0 ? 1 : (uint32_t)((length + q->mtu - 1) / q->mtu);
	*posted_at(q, q->cur) = (struct posted){q->next_psn, packets, (uint32_t)length, 0};
	q->next_psn += packets;
	q->fresh++;
	return true;
}

/* fill_request makes the packet of a request at q->offset. */
static bool fill_request(struct qp *q, const struct send_slot *s, const struct posted *m, struct packet *p)
{
	p->psn = m->psn + q->offset / q->mtu;
	p->rkey = s->rkey;
	p->total = m->length;
	p->solicited = s->flags & IBV_SEND_SOLICITED;
	if (is_read(s)) {
		p->kind = READ;
		p->psn = m->psn + m->got / q->mtu;
		p->remote = s->remote + m->got;
		p->total = m->length - m->got;
		p->first = p->last = true;
		return true;
	}
	if (is_atomic(s)) {
		p->kind = ATOMIC;
		p->remote = s->remote;
		p->compare = s->compare;
		p->swap = s->swap;
		p->swaps = s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
		p->first = p->last = true;
		return true;
	}
	p->kind = s->opcode == IBV_WR_SEND || s->opcode == IBV_WR_SEND_WITH_IMM ? SEND : WRITE;
	p->length = m->length - q->offset < q->mtu ? m->length - q->offset : q->mtu;
	p->remote = s->remote + q->offset;
	p->first = q->offset == 0;
	p->last = q->offset + p->length == m->length;
	if (p->last && (s->opcode == IBV_WR_SEND_WITH_IMM || s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)) {
		p->with_immediate = true;
		p->immediate = s->immediate;
	}
	if (!(s->flags & IBV_SEND_INLINE))
		return fetch(q, s->sge, s->count, q->offset, p->data, p->length);
	memcpy(p->data, s->data + q->offset, p->length);
	return true;
}

struct packet *next_request(struct qp *q, ns t, bool *blocked)
{
	struct queue *sq = &q->shared->sq;
	if (atomic_load(&q->shared->state) != IBV_QPS_RTS || q->cur == atomic_load(&sq->head) || q->not_before > t)
		return NULL;
	if (q->on_the_way >= FLOW_PACKETS) {
		*blocked = true;
		return NULL;
	}
	struct send_slot *s = request_at(q, q->cur);
	const bool reads = is_read(s) || is_atomic(s);
	if ((reads && q->reading >= q->attr.max_rd_atomic) || (s->flags & IBV_SEND_FENCE && q->reading > 0))
		return NULL;
	if (q->cur == q->fresh && !begin(q, s, t))
		return NULL;
	struct packet *p = new_packet();
	const struct posted *m = posted_at(q, q->cur);
	if (!fill_request(q, s, m, p)) {
		free_packet(p);
		if (q->una == q->cur)
			fail_pair(q, IBV_WC_LOC_PROT_ERR, t);
		return NULL; /* else when those before it are done */
	}
	if (!outstanding(q) || !q->deadline)
		await(q, t);
	if (p->last) {
		q->cur++;
		q->offset = 0;
		q->reading += reads;
	} else
		q->offset += p->length;
	return p;
}

static enum ibv_wc_opcode completed_as(const struct send_slot *s)
{
	switch (s->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	default: return IBV_WC_SEND;
	}
}

/* finish completes the oldest request. */
static void finish(struct qp *q)
{
	const struct send_slot *s = request_at(q, q->una);
	const struct posted *m = posted_at(q, q->una);
	const struct ibv_wc wc = {.wr_id = s->wr_id, .opcode = completed_as(s), .qp_num = q->number, .byte_len = m->length};
	const bool told = q->signal_all || s->flags & IBV_SEND_SIGNALED;
	q->acked = m->psn + m->packets - 1;
	if (q->cur == q->una) { /* a late answer, after starting over */
		q->cur++;
		q->offset = 0;
	} else if (q->reading > 0 && (is_read(s) || is_atomic(s)))
		q->reading--;
	q->una++;
	atomic_store(&q->shared->sq.tail, q->una);
	if (told)
		complete(q->send_cq, &wc, false);
}

/* acknowledge records that everything up to psn has arrived. It returns false if an answer
 * before that is missing. */
static bool acknowledge(struct qp *q, uint32_t psn)
{
	while (q->una != q->fresh) {
		const struct send_slot *s = request_at(q, q->una);
		const struct posted *m = posted_at(q, q->una);
		if ((int32_t)(psn - m->psn) < 0)
			return true;
		if (is_read(s) || is_atomic(s))
			return false;
		if ((int32_t)(psn - (m->psn + m->packets - 1)) < 0) {
			if ((int32_t)(psn - q->acked) > 0)
				q->acked = psn;
			return true;
		}
		finish(q);
	}
	return true;
}

static void negative(struct qp *q, const struct packet *p, ns t)
{
	static const enum ibv_wc_status status[] = {[BAD_REQUEST] = IBV_WC_REM_INV_REQ_ERR, [BAD_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[BAD_OPERATION] = IBV_WC_REM_OP_ERR};
	acknowledge(q, p->psn - 1);
	switch (p->syndrome) {
	case OUT_OF_ORDER: break;
	case NOT_READY:
		if (q->rnr_retries == 0) {
			fail_pair(q, IBV_WC_RNR_RETRY_EXC_ERR, t);
			return;
		}
		if (q->attr.rnr_retry != 7)
			q->rnr_retries--;
		q->not_before = t + (ns)rnr_timers[p->timer & 31] * 10000;
		at(q->not_before, resume, (void *)(uintptr_t)q->number);
		break;
	default: fail_pair(q, status[p->syndrome], t); return;
	}
	start_over(q);
	if (q->una != q->fresh)
		await(q, q->not_before > t ? q->not_before : t);
}

/* read_answer stores the data of a read or an atomic operation in its buffers. */
static bool read_answer(struct qp *q, const struct packet *p, ns t)
{
	const struct send_slot *s;
	struct posted *m;
	for (;; finish(q)) { /* requests before it have been carried out */
		if (q->una == q->fresh)
			return true;
		s = request_at(q, q->una);
		m = posted_at(q, q->una);
		if (is_read(s) || is_atomic(s))
			break;
		if ((int32_t)(p->psn - (m->psn + m->packets - 1)) <= 0)
			return true; /* an old one */
	}
	if ((p->kind == READ_ANSWER) != is_read(s))
		return (int32_t)(p->psn - m->psn) < 0; /* an old one, or one that skips a request */
	if (p->psn != m->psn + m->got / q->mtu)
		return (int32_t)(p->psn - (m->psn + m->got / q->mtu)) < 0;
	const void *data = p->kind == READ_ANSWER ? (const void *)p->data : &p->swap;
	const uint32_t size = p->kind == READ_ANSWER ? p->length : 8;
	if (!store(q, s->sge, s->count, m->got, data, size)) {
		fail_pair(q, IBV_WC_LOC_PROT_ERR, t);
		return true;
	}
	m->got += size;
	if (m->got >= m->length)
		finish(q);
	return true;
}

/* answered handles an acknowledgement, or the data of a read. */
void answered(struct qp *q, struct packet *p, ns t)
{
	if (atomic_load(&q->shared->state) != IBV_QPS_RTS || (int32_t)(p->psn - q->next_psn) >= 0)
		return;
	const uint32_t una = q->una, acked = q->acked;
	const uint32_t got = q->una != q->fresh ? posted_at(q, q->una)->got : 0;
	if (p->kind == NAK) {
		negative(q, p, t);
	} else {
		const bool whole = p->kind == ACK ? acknowledge(q, p->psn) : read_answer(q, p, t);
		if (atomic_load(&q->shared->state) != IBV_QPS_RTS)
			return;
		if (q->una != una || q->acked != acked || (q->una != q->fresh && posted_at(q, q->una)->got != got)) {
			q->retries = q->attr.retry_cnt;
			q->rnr_retries = q->attr.rnr_retry;
			q->deadline = 0;
			q->missing = false;
			if (outstanding(q))
				await(q, t);
		}
		if (!whole && !q->missing) { /* once: the packets before the repeated ones are as far ahead */
			q->missing = true;
			start_over(q);
		}
	}
	if (atomic_load(&q->shared->state) == IBV_QPS_RTS)
		activate(q, t);
}
