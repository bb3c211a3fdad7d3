/*
 * puppet: does verbs as it is told, a line of standard input each, and answers with a
 * line each: what was asked for, or "error" and an errno. Queue pairs are numbered from
 * 0; all have one completion queue, one protection domain and one region of memory.
 *
 *	memory BYTES			its address and key
 *	pair rc|ud WRS srq|own		its number, and the port's LID
 *	connect I QPN DLID PATH_BITS TIMEOUT RETRIES RNR_RETRIES MAX_READS
 *	send I ID FROM LENGTH inline|plain|loud KEY	loud: signaled; the others are not
 *	write|read I ID AT LENGTH REMOTE RKEY KEY
 *	add|swap I ID AT REMOTE RKEY VALUE WITH
 *	receive I ID AT LENGTH
 *	poll N MS			N completions, as many lines, or fewer after MS, then "end"
 *	peek AT LENGTH			in hexadecimal
 *	poke AT HEX
 *	fail I, reset I, destroy I, state I
 *	event				an asynchronous event
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 100000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_qp *pairs[PAIRS];
static int count;
static char *memory;
static size_t bytes;
static struct ibv_port_attr port;

static void answer(int failed)
{
	if (failed)
		printf("error %d\n", failed);
	else
		printf("ok\n");
}

static void make_pair(const char *type, int wrs, const char *own)
{
	const int shared = !strcmp(own, "srq");
	if (shared && !srq)
		srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 256, .max_sge = 1}});
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = shared ? srq : NULL, .qp_type = !strcmp(type, "rc") ? IBV_QPT_RC : IBV_QPT_UD,
		.cap = {(uint32_t)wrs, (uint32_t)wrs, 2, 2, 64}};
	struct ibv_qp *q = ibv_create_qp(pd, &init);
	if (!q || count == PAIRS) {
		answer(errno);
		return;
	}
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	const int failed = ibv_modify_qp(q, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (init.qp_type == IBV_QPT_RC ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
	if (failed) {
		answer(failed);
		return;
	}
	pairs[count++] = q;
	(void)ibv_query_port(context, 1, &port);
	printf("%d %u %u\n", count - 1, q->qp_num, port.lid);
}

static int connect_pair(struct ibv_qp *q, unsigned qpn, unsigned dlid, unsigned bits, unsigned timeout, unsigned retries, unsigned rnr, unsigned reads)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .rq_psn = 0xfffff0, .max_dest_rd_atomic = 16,
		.min_rnr_timer = 1, .ah_attr = {.dlid = (uint16_t)dlid, .src_path_bits = (uint8_t)bits, .port_num = 1}};
	int failed = ibv_modify_qp(q, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (failed)
		return failed;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 0xfffff0, .timeout = (uint8_t)timeout, .retry_cnt = (uint8_t)retries, .rnr_retry = (uint8_t)rnr,
		.max_rd_atomic = (uint8_t)reads};
	return ibv_modify_qp(q, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post(struct ibv_qp *q, enum ibv_wr_opcode opcode, uint64_t id, uint64_t at, unsigned length, unsigned flags, uint64_t remote, unsigned rkey, unsigned key,
		uint64_t value, uint64_t with)
{
	struct ibv_sge sge = {(uintptr_t)memory + at, length, key ? key : mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = value;
		wr.wr.atomic.swap = with;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(q, &wr, &bad);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void await(int n, int ms)
{
	const double end = seconds() + 1e-3 * ms;
	struct ibv_wc wc;
	while (n > 0) {
		const int got = ibv_poll_cq(cq, 1, &wc);
		if (got > 0) {
			n--;
			printf("wc %" PRIu64 " %d %d %u %u\n", wc.wr_id, wc.status, wc.status ? 0 : wc.opcode, wc.status || !(wc.opcode & IBV_WC_RECV) ? 0 : wc.byte_len, wc.qp_num);
		} else if (got < 0 || seconds() > end)
			break;
	}
	printf("end\n");
}

static void tell_event(void)
{
	struct ibv_async_event e;
	struct pollfd p = {context->async_fd, POLLIN, 0};
	if (poll(&p, 1, 5000) != 1 || ibv_get_async_event(context, &e)) {
		answer(errno ? errno : ETIME);
		return;
	}
	printf("%d\n", e.event_type);
	ibv_ack_async_event(&e);
}

static void obey(const char *line)
{
	char word[16] = "", text[16] = "", hex[4096];
	int i, n, ms;
	unsigned a, b, c, d, e, f, length, key;
	uint64_t id, at, remote, value, with;
	if (sscanf(line, "memory %zu", &bytes) == 1) {
		memory = calloc(1, bytes);
		mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
		if (mr)
			printf("%" PRIuPTR " %u\n", (uintptr_t)memory, mr->rkey);
		else
			answer(errno);
	} else if (sscanf(line, "pair %15s %d %15s", word, &n, text) == 3)
		make_pair(word, n, text);
	else if (sscanf(line, "connect %d %u %u %u %u %u %u %u", &i, &a, &b, &c, &d, &e, &f, &key) == 8)
		answer(connect_pair(pairs[i], a, b, c, d, e, f, key));
	else if (sscanf(line, "send %d %" SCNu64 " %" SCNu64 " %u %15s %u", &i, &id, &at, &length, text, &key) == 6)
		answer(post(pairs[i], IBV_WR_SEND, id, at, length, !strcmp(text, "inline") ? IBV_SEND_INLINE : !strcmp(text, "loud") ? IBV_SEND_SIGNALED : 0, 0, 0, key, 0, 0));
	else if (sscanf(line, "%15s %d %" SCNu64 " %" SCNu64 " %u %" SCNu64 " %u %u", word, &i, &id, &at, &length, &remote, &a, &key) == 8 &&
		 (!strcmp(word, "write") || !strcmp(word, "read")))
		answer(post(pairs[i], *word == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, id, at, length, IBV_SEND_SIGNALED, remote, a, key, 0, 0));
	else if (sscanf(line, "%15s %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %" SCNu64 " %" SCNu64, word, &i, &id, &at, &remote, &a, &value, &with) == 8)
		answer(post(pairs[i], *word == 'a' ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP, id, at, 8, IBV_SEND_SIGNALED, remote, a, 0, value, with));
	else if (sscanf(line, "receive %d %" SCNu64 " %" SCNu64 " %u", &i, &id, &at, &length) == 4) {
		struct ibv_sge sge = {(uintptr_t)memory + at, length, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
		answer(pairs[i]->srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(pairs[i], &wr, &bad));
	} else if (sscanf(line, "poll %d %d", &n, &ms) == 2)
		await(n, ms);
	else if (sscanf(line, "peek %" SCNu64 " %u", &at, &length) == 2) {
		for (unsigned k = 0; k < length; k++)
			printf("%02x", (unsigned char)memory[at + k]);
		printf("\n");
	} else if (sscanf(line, "poke %" SCNu64 " %4095s", &at, hex) == 2) {
		for (char *h = hex; h[0] && sscanf(h, "%2x", &a) == 1; h += 2)
			memory[at++] = (char)a;
		answer(0);
	} else if (sscanf(line, "fail %d", &i) == 1)
		answer(ibv_modify_qp(pairs[i], &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE));
	else if (sscanf(line, "reset %d", &i) == 1)
		answer(ibv_modify_qp(pairs[i], &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE));
	else if (sscanf(line, "destroy %d", &i) == 1) {
		answer(ibv_destroy_qp(pairs[i]));
		pairs[i] = NULL;
	}
	else if (sscanf(line, "state %d", &i) == 1) {
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;
		(void)ibv_query_qp(pairs[i], &attr, IBV_QP_STATE, &init);
		printf("%d\n", attr.qp_state);
	} else if (!strcmp(line, "event\n"))
		tell_event();
	else
		printf("not understood: %s", line);
}

int main(void)
{
	static char line[8192];
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list || !*list || !(context = ibv_open_device(*list)))
		return 1;
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	if (!pd || !cq)
		return 1;
	while (fgets(line, sizeof line, stdin)) {
		obey(line);
		fflush(stdout);
	}
	int failed = 0;
	for (int i = 0; i < count; i++)
		failed |= pairs[i] ? ibv_destroy_qp(pairs[i]) : 0;
	failed |= srq ? ibv_destroy_srq(srq) : 0;
	failed |= mr ? ibv_dereg_mr(mr) : 0;
	free(memory);
	failed |= ibv_destroy_cq(cq);
	failed |= ibv_dealloc_pd(pd);
	return failed | ibv_close_device(context);
}
