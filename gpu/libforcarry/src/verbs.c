/* The NIC: its device, queue pairs to all ranks of other servers, and what goes over them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Kinds of work requests; the rest of a wr_id is the rank to which it goes, or a buffer to receive. */
enum { DATA = 1, STATES, ROUTING, PROBE, RECEIVE };

static uint64_t request_id(int kind, int32_t number) { return (uint64_t)kind << 32 | (uint32_t)number; }

static char *send_buffer(const struct forcarry *c, int32_t server) { return c->messages + (size_t)server * c->message_bytes; }

static char *receive_buffer(const struct forcarry *c, int32_t number) { return send_buffer(c, c->o.servers + number); }

static int post_receive(struct forcarry *c, int32_t number)
{
	struct ibv_sge sge = {(uintptr_t)receive_buffer(c, number), (uint32_t)c->message_bytes, c->message_region->lkey};
	struct ibv_recv_wr wr = {.wr_id = request_id(RECEIVE, number), .sg_list = &sge, .num_sge = 1}, *bad;
	return ibv_post_srq_recv(c->srq, &wr, &bad);
}

static struct ibv_context *find_device(const struct forcarry_options *o, struct forcarry_error *err)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count), *found = NULL;
	for (int i = 0; list && i < count && !found; i++)
		if (!o->device || strcmp(ibv_get_device_name(list[i]), o->device) == 0)
			found = list[i];
	struct ibv_context *context = found ? ibv_open_device(found) : NULL;
	if (!found)
		set_error(err, FORCARRY_EVERBS, "rank %d has no verbs device %s: ibv_devices lists %d", o->rank, o->device ? o->device : "at all", count);
	else if (!context)
		set_error(err, FORCARRY_EVERBS, "rank %d: the verbs device %s cannot be opened: %s", o->rank, ibv_get_device_name(found), strerror(errno));
	if (list)
		ibv_free_device_list(list);
	return context;
}

static struct ibv_qp *make_pair(struct forcarry *c)
{
	struct ibv_qp_init_attr init = {.send_cq = c->cq, .recv_cq = c->cq, .srq = c->srq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = (uint32_t)c->o.gpus + 3 + WINDOW, .max_send_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = (uint8_t)c->o.port, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(c->pd, &init);
	int why = qp ? ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) : errno;
	if (qp && why) {
		ibv_destroy_qp(qp);
		qp = NULL;
	}
	errno = why;
	return qp;
}

int open_device(struct forcarry *c, struct forcarry_error *err)
{
	const struct forcarry_options *o = &c->o;
	enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_device_attr limits;
	if (!(c->context = find_device(o, err)))
		return FORCARRY_EVERBS;
	if (ibv_query_device(c->context, &limits) || ibv_query_port(c->context, (uint8_t)o->port, &c->port))
		return set_error(err, FORCARRY_EVERBS, "rank %d: port %d of the verbs device is not there", o->rank, o->port);
	if (c->port.state != IBV_PORT_ACTIVE)
		return set_error(err, FORCARRY_EVERBS, "rank %d: port %d of the verbs device is not active", o->rank, o->port);
	c->receives = 2 * c->ranks + 64;
	if (c->receives > limits.max_srq_wr)
		c->receives = limits.max_srq_wr;
	size_t bytes = c->message_bytes * (size_t)(o->servers + c->receives);
	if (!(c->messages = calloc(1, bytes)))
		return set_error(err, FORCARRY_ENOMEM, "rank %d has no memory for %zu bytes", o->rank, bytes);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = (uint32_t)c->receives, .max_sge = 1}};
	int completions = c->receives + o->servers * (o->gpus + 1) + c->ranks + WINDOW + 64;
	bool made = (c->pd = ibv_alloc_pd(c->context)) && (c->cq = ibv_create_cq(c->context, completions, NULL, NULL, 0)) && (c->srq = ibv_create_srq(c->pd, &srq)) &&
		    (c->board_region = ibv_reg_mr(c->pd, c->board, c->board_bytes, ACCESS)) &&
		    (c->data_region = ibv_reg_mr(c->pd, c->data[c->local], (size_t)c->region[REGIONS], ACCESS)) &&
		    (c->message_region = ibv_reg_mr(c->pd, c->messages, bytes, ACCESS));
	for (int32_t r = 0; made && r < c->ranks; r++)
		if (r / o->gpus != c->server)
			made = (c->peers[r].qp = make_pair(c));
	for (int32_t i = 0; made && i < c->receives; i++)
		made = !post_receive(c, i);
	if (!made)
		return set_error(err, FORCARRY_EVERBS, "rank %d: the verbs device refuses queues for %d ranks, or %lld bytes of memory: %s", o->rank, c->ranks,
			    (long long)(c->region[REGIONS] + (int64_t)c->board_bytes), strerror(errno));
	(void)fcntl(c->context->async_fd, F_SETFL, fcntl(c->context->async_fd, F_GETFL) | O_NONBLOCK);
	return FORCARRY_OK;
}

void write_address(struct forcarry *c, struct address *to)
{
	union ibv_gid gid = {0};
	(void)ibv_query_gid(c->context, (uint8_t)c->o.port, c->o.gid, &gid);
	*to = (struct address){(uintptr_t)c->board, (uintptr_t)c->data[c->local], c->board_region->rkey, c->data_region->rkey, c->port.lid, {0}, (uint8_t)c->port.active_mtu};
	memcpy(to->gid, gid.raw, sizeof to->gid);
	for (int32_t r = 0; r < c->ranks; r++)
		to->numbers[r] = c->peers[r].qp ? c->peers[r].qp->qp_num : 0;
}

static int connect_pair(struct forcarry *c, int32_t rank, const struct address *to)
{
	struct peer *p = &c->peers[rank];
	uint8_t mtu = to->mtu < (uint8_t)c->port.active_mtu ? to->mtu : (uint8_t)c->port.active_mtu;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = to->numbers[c->o.rank], .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.dlid = to->lid, .sl = (uint8_t)c->o.level, .port_num = (uint8_t)c->o.port}};
	if (c->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.sgid_index = (uint8_t)c->o.gid;
		memcpy(attr.ah_attr.grh.dgid.raw, to->gid, sizeof to->gid);
	}
	int why = ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (why)
		return why;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = (uint8_t)c->o.retry, .retry_cnt = (uint8_t)c->o.retries, .rnr_retry = 7, .max_rd_atomic = 1};
	p->board = to->board;
	p->data = to->data;
	p->board_key = to->board_key;
	p->data_key = to->data_key;
	return ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int connect_all(struct forcarry *c, const char *addresses, size_t size, struct forcarry_error *err)
{
	for (int32_t r = 0; r < c->ranks; r++) {
		int why = c->peers[r].qp ? connect_pair(c, r, (const struct address *)(uintptr_t)(addresses + (size_t)r * size)) : 0;
		if (why)
			return set_error(err, FORCARRY_EVERBS, "rank %d cannot connect with rank %d: %s", c->o.rank, r, strerror(why));
	}
	return FORCARRY_OK;
}

void close_device(struct forcarry *c)
{
	for (int32_t r = 0; c->peers && r < c->ranks; r++)
		if (c->peers[r].qp)
			ibv_destroy_qp(c->peers[r].qp);
	struct ibv_mr *regions[] = {c->board_region, c->data_region, c->message_region};
	for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
		if (regions[i])
			ibv_dereg_mr(regions[i]);
	if (c->srq)
		ibv_destroy_srq(c->srq);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
	if (c->context)
		ibv_close_device(c->context);
	free(c->messages);
}

/* Ends the connection with a rank: late packets from it are dropped, and all work for it ends. */
void break_pair(struct forcarry *c, int32_t rank)
{
	struct peer *p = &c->peers[rank];
	if (!p->qp || p->broken)
		return;
	p->broken = true;
	(void)ibv_modify_qp(p->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE);
}

/* Notes that the rank's NIC is dead. */
void suspect(struct forcarry *c, int32_t rank)
{
	c->suspects[rank / 64] |= (uint64_t)1 << rank % 64;
	c->suspicious = true;
}

/* Notes that the connection with a rank has failed: by the own port, if that has failed. */
static void pair_failed(struct forcarry *c, int32_t rank)
{
	look_at_port(c);
	if (!c->count.own && !has_failed(c, c->o.rank, rank)) {
		atomic_fetch_or(&entry_of(c, c->o.rank)->dead[c->words + rank / 64], (uint64_t)1 << rank % 64);
		atomic_fetch_add(&c->board->changes, 1);
	}
	c->suspicious = true;
}

/* Looks for events of the own port. */
void look_at_port(struct forcarry *c)
{
	struct ibv_async_event event;
	while (c->context && ibv_get_async_event(c->context, &event) == 0) {
		if (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_DEVICE_FATAL)
			c->count.own = 1;
		ibv_ack_async_event(&event);
	}
	if (c->count.own && !bit(c->suspects, c->o.rank))
		suspect(c, c->o.rank);
}

static void post(struct forcarry *c, int32_t rank, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	if (!c->peers[rank].broken && ibv_post_send(c->peers[rank].qp, wr, &bad))
		pair_failed(c, rank);
}

/* Tries the connection with a rank. */
void probe(struct forcarry *c, int32_t rank)
{
	struct ibv_send_wr wr = {.wr_id = request_id(PROBE, rank), .opcode = IBV_WR_RDMA_WRITE}, *bad;
	wr.wr.rdma.remote_addr = c->peers[rank].board;
	wr.wr.rdma.rkey = c->peers[rank].board_key;
	if (ibv_post_send(c->peers[rank].qp, &wr, &bad))
		pair_failed(c, rank);
	else
		c->probes++;
}

/* Sends the states for which the rank speaks, that are in the server's buffer, and behind the
 * routings that are not there. */
void send_states(struct forcarry *c, int32_t server)
{
	struct route *route = &c->routes[server];
	struct message *m = (struct message *)(uintptr_t)send_buffer(c, server);
	struct peer *p = &c->peers[route->to];
	uint64_t *there = c->blob_version + (size_t)server * (size_t)c->o.gpus, *flying = there + (size_t)c->ranks;
	for (uint64_t i = 0; i < m->count; i++) {
		int32_t rank = (int32_t)state_at(c, m, i)->rank;
		uint64_t op = atomic_load(&entry_of(c, rank)->routing);
		if (op <= there[rank % c->o.gpus])
			continue;
		flying[rank % c->o.gpus] = op;
		const struct blob *b = blob_of(c, rank, op);
		struct ibv_sge sge = {(uintptr_t)b, (uint32_t)(sizeof *b + (size_t)b->tokens * (size_t)c->o.choices * sizeof *b->of), c->board_region->lkey};
		struct ibv_send_wr wr = {.wr_id = request_id(ROUTING, route->to), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
		wr.wr.rdma.remote_addr = p->board + (uint64_t)((const char *)b - (const char *)c->board);
		wr.wr.rdma.rkey = p->board_key;
		post(c, route->to, &wr);
	}
	struct ibv_sge sge = {(uintptr_t)m, (uint32_t)(sizeof *m + m->count * c->state_bytes), c->message_region->lkey};
	struct ibv_send_wr wr = {.wr_id = request_id(STATES, route->to), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	post(c, route->to, &wr);
}

/* Sends the data of a stage to its slot at the peer. */
void send_stage(struct forcarry *c, const struct forgpu_piece *x)
{
	struct peer *p = &c->peers[x->peer];
	int64_t slot = c->slot[x->stage], bytes = x->bytes / c->unit * c->row;
	struct ibv_sge sge = {(uintptr_t)region_of(c, c->local, NIC_SEND) + (uint64_t)slot, (uint32_t)bytes, c->data_region->lkey};
	struct ibv_send_wr wr = {.wr_id = request_id(DATA, x->peer), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
	wr.imm_data = (uint32_t)(c->attempt & 0xfff) << 20 | (uint32_t)x->stage;
	wr.wr.rdma.remote_addr = p->data + (uint64_t)(c->region[NIC_RECEIVE] + slot);
	wr.wr.rdma.rkey = p->data_key;
	c->count.sent += bytes;
	if (p->broken)
		return;
	c->flying++;
	struct ibv_send_wr *bad;
	if (ibv_post_send(p->qp, &wr, &bad) == 0)
		return;
	c->flying--;
	pair_failed(c, x->peer);
}

static void completed(struct forcarry *c, const struct ibv_wc *wc)
{
	int kind = (int)(wc->wr_id >> 32);
	int32_t number = (int32_t)(wc->wr_id & UINT32_MAX);
	bool well = wc->status == IBV_WC_SUCCESS;
	if (kind == RECEIVE) {
		if (well && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			stage_came(c, wc->imm_data, wc->byte_len);
		else if (well)
			take_states(c, (const struct message *)(uintptr_t)receive_buffer(c, number));
		if (post_receive(c, number))
			c->broken = true;
		return;
	}
	if (!well && !c->peers[number].broken)
		pair_failed(c, number);
	c->probes -= kind == PROBE;
	if (kind == DATA) {
		c->flying--;
		c->sent += well;
	} else if (kind == STATES && well && c->routes[number / c->o.gpus].to == number)
		acknowledged(c, number / c->o.gpus);
}

int take_completions(struct forcarry *c)
{
	struct ibv_wc wc[16];
	int n = c->cq ? ibv_poll_cq(c->cq, 16, wc) : 0;
	for (int i = 0; i < n; i++)
		completed(c, &wc[i]);
	return n;
}
