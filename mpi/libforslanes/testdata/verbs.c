/*
 * verbs: a libibverbs of one port, for tests of the contents of address vectors. It
 * prints its arguments. PORT is the port: link layer (1 InfiniBand, 2 Ethernet), LID,
 * LMC and GUID.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port

static struct ibv_ah_attr vector;
static struct ibv_ah ah;

static void port(unsigned *link, unsigned *lid, unsigned *lmc, uint64_t *guid)
{
	const char *text = getenv("PORT");
	if (!text || sscanf(text, "%u %u %u %" SCNx64, link, lid, lmc, guid) != 4)
		abort();
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
	unsigned link, lid, lmc;
	uint64_t guid;
	(void)context, (void)number;
	port(&link, &lid, &lmc, &guid);
	struct ibv_port_attr *a = (struct ibv_port_attr *)attr;
	memset(a, 0, offsetof(struct ibv_port_attr, port_cap_flags2));
	a->link_layer = (uint8_t)link;
	a->lid = (uint16_t)lid;
	a->lmc = (uint8_t)lmc;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	unsigned link, lid, lmc;
	uint64_t guid;
	(void)context, (void)number, (void)index;
	port(&link, &lid, &lmc, &guid);
	gid->global.subnet_prefix = 0;
	gid->global.interface_id = htobe64(guid);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	if (mask & IBV_QP_AV) {
		vector = attr->ah_attr;
		printf("behind %d %d\n", vector.dlid, vector.src_path_bits);
	}
	return mask & IBV_QP_PKEY_INDEX ? EINVAL : 0; /* as a test wants it */
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp, (void)mask, (void)init;
	attr->ah_attr = vector;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	(void)qp;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	printf("behind %d %d\n", attr->dlid, attr->src_path_bits);
	return &ah;
}

int ibv_destroy_ah(struct ibv_ah *a) { return a == &ah ? 0 : EINVAL; }

int ibv_fork_init(void)
{
	printf("fork\n");
	return 0;
}
