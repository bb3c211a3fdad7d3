/*
 * connect.c: connects both ends of every pair of a table by to_rtr, and checks
 * that each end accepts the other's packets.
 */
#include <stdio.h>
#include <stdlib.h>

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	qp->attr = *attr;
	return (mask & IBV_QP_AV) == 0;
}

/* source is the LID from which a port sends: its LMC cuts off higher bits. */
static uint16_t source(const struct fors_server *s, const struct ibv_qp *qp)
{
	return (uint16_t)(s->lid + (qp->attr.ah_attr.src_path_bits & ((1u << s->lmc) - 1)));
}

int main(int argc, char **argv)
{
	struct fors_error err;
	fors_table *t;
	if (argc != 2 || fors_open(argv[1], &t, &err) != FORS_OK)
		return 2;
	const uint32_t n = fors_info(t)->servers, phases = fors_info(t)->phases;
	struct ibv_qp *qps = calloc((size_t)n * n, sizeof *qps); /* [of][towards] */
	if (!qps)
		return 2;
	int connections = 0;
	for (uint32_t s = 0; s < n; s++)
		for (uint32_t p = 0; p < phases; p++) {
			const int peer = fors_entry(t, (int)s, p).send_to;
			if (peer >= 0)
				connections += to_rtr(&qps[s * n + (uint32_t)peer], t, (int)s, p, 1, 0, IBV_MTU_4096, 1) == 0;
		}
	for (uint32_t s = 0; s < n; s++)
		for (uint32_t d = 0; d < n; d++) {
			struct fors_server self;
			if (fors_server(t, (int)s, &self) != FORS_OK)
				return 2;
			const struct ibv_qp *here = &qps[s * n + d], *there = &qps[d * n + s];
			if (s != d && source(&self, here) != there->attr.ah_attr.dlid)
				printf("server %u drops what server %u sends\n", d, s);
		}
	printf("%d connections\n", connections);
	free(qps);
	fors_close(t);
	return 0;
}
