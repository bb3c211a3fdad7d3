/* modify.c: the states of queue pairs, and the attributes of each change of state (table 96
 * of the InfiniBand Architecture, volume 1, section 11.2.5.2). */
#include "adapter.h"

struct change {
	enum ibv_qp_state from, to;
	int rc, rc_may, ud, ud_may;
};

enum { PATH = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE }; /* asked for and refused */

static const struct change changes[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

/* allowed returns 0 if attributes may be set and none is missing, or an errno. */
static int allowed(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask & ~IBV_QP_CUR_STATE ? EINVAL : 0;
	if (to == IBV_QPS_SQD || mask & (PATH | IBV_QP_RATE_LIMIT | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_CAP))
		return EOPNOTSUPP;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		const struct change *c = &changes[i];
		const int must = type == IBV_QPT_RC ? c->rc : c->ud, may = type == IBV_QPT_RC ? c->rc_may : c->ud_may;
		if (c->from == from && c->to == to)
			return (mask & must) == must && !(mask & ~(must | may)) ? 0 : EINVAL;
	}
	return EINVAL;
}

/* sensible reports whether attributes have valid values. */
static bool sensible(const struct context *c, const struct ibv_qp_attr *a, int mask)
{
	const struct ibv_ah_attr *v = &a->ah_attr;
	return !((mask & IBV_QP_PORT && a->port_num != 1) || (mask & IBV_QP_PKEY_INDEX && a->pkey_index != 0) ||
		 (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > (int)c->device->about.port.mtu)) ||
		 (mask & IBV_QP_DEST_QPN && a->dest_qp_num >> 24) || (mask & IBV_QP_TIMEOUT && a->timeout > 31) ||
		 (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) || (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) ||
		 (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) || (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > MAX_RD_ATOMIC) ||
		 (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > MAX_RD_ATOMIC) ||
		 (mask & IBV_QP_AV && (v->port_num != 1 || v->sl > 15 || v->dlid == 0 || v->src_path_bits >> c->device->about.port.lmc ||
				       (v->is_global && v->grh.sgid_index))));
}

/* keep stores attributes, for queries. */
static void keep(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define KEEP(bit, field) \
	if (mask & (bit)) \
		to->field = a->field
	KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IBV_QP_PKEY_INDEX, pkey_index);
	KEEP(IBV_QP_PORT, port_num);
	KEEP(IBV_QP_QKEY, qkey);
	KEEP(IBV_QP_AV, ah_attr);
	KEEP(IBV_QP_PATH_MTU, path_mtu);
	KEEP(IBV_QP_TIMEOUT, timeout);
	KEEP(IBV_QP_RETRY_CNT, retry_cnt);
	KEEP(IBV_QP_RNR_RETRY, rnr_retry);
	KEEP(IBV_QP_RQ_PSN, rq_psn);
	KEEP(IBV_QP_SQ_PSN, sq_psn);
	KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	KEEP(IBV_QP_DEST_QPN, dest_qp_num);
#undef KEEP
}

VISIBLE int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct qp *q = qp_of(ibv);
	struct context *c = context_of(ibv->context);
	const enum ibv_qp_state from = atomic_load(&q->shared->state), to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int failed = allowed(ibv->qp_type, from, to, mask);
	if (failed)
		return failed;
	if (!sensible(c, attr, mask) || (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from))
		return EINVAL;
	struct request r = {.operation = MODIFY_QP, .handle = ibv->qp_num};
	r.modify.mask = (uint32_t)mask;
	r.modify.attr = *attr;
	struct answer a;
	if ((failed = ask(c, &r, &a, -1)))
		return failed;
	if (to == IBV_QPS_RESET) {
		forget_completions(cq_of(ibv->send_cq), ibv->qp_num);
		forget_completions(cq_of(ibv->recv_cq), ibv->qp_num);
		memset(&q->attr, 0, sizeof q->attr);
	}
	keep(&q->attr, attr, mask);
	ibv->state = to;
	return 0;
}

VISIBLE int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *q = qp_of(ibv);
	(void)mask;
	*attr = q->attr;
	attr->qp_state = attr->cur_qp_state = ibv->state = atomic_load(&q->shared->state);
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->cap = q->init.cap;
	*init = q->init;
	return 0;
}

VISIBLE int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}
