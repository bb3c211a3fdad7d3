/* strings.c: names, rates, and functions that the adapter does not support. */
#include "adapter.h"

#define NAME(list, i) ((unsigned)(i) < sizeof list / sizeof *list && list[i] ? list[i] : "unknown")

VISIBLE const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {"success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error", "local access error",
		"remote invalid request error", "remote access error", "remote operation error", "transport retry counter exceeded",
		"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error", "invalid EE context number",
		"invalid EE context state", "fatal error", "response timeout error", "general error", "TM error", "TM software rendezvous"};
	return NAME(names, status);
}

VISIBLE const char *ibv_node_type_str(enum ibv_node_type type)
{
	static const char *const names[] = {[IBV_NODE_CA] = "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router"};
	return NAME(names, type);
}

VISIBLE const char *ibv_port_state_str(enum ibv_port_state state)
{
	static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active deferred"};
	return NAME(names, state);
}

VISIBLE const char *ibv_event_type_str(enum ibv_event_type type)
{
	static const char *const names[] = {"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated", "path migration request error",
		"local catastrophic error", "port active", "port error", "LID change", "P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached",
		"last WQE reached", "client reregistration", "GID table change", "WQ fatal"};
	return NAME(names, type);
}

static const struct {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {{IBV_RATE_2_5_GBPS, 1, 2500}, {IBV_RATE_5_GBPS, 2, 5000}, {IBV_RATE_10_GBPS, 4, 10000}, {IBV_RATE_20_GBPS, 8, 20000},
	{IBV_RATE_30_GBPS, 12, 30000}, {IBV_RATE_40_GBPS, 16, 40000}, {IBV_RATE_60_GBPS, 24, 60000}, {IBV_RATE_80_GBPS, 32, 80000},
	{IBV_RATE_120_GBPS, 48, 120000}, {IBV_RATE_14_GBPS, 5, 14062}, {IBV_RATE_56_GBPS, 22, 56250}, {IBV_RATE_112_GBPS, 45, 112500},
	{IBV_RATE_168_GBPS, 67, 168750}, {IBV_RATE_25_GBPS, 10, 25781}, {IBV_RATE_100_GBPS, 41, 103125}, {IBV_RATE_200_GBPS, 82, 206250},
	{IBV_RATE_300_GBPS, 123, 309375}, {IBV_RATE_28_GBPS, 11, 28125}, {IBV_RATE_50_GBPS, 20, 53125}, {IBV_RATE_400_GBPS, 160, 425000},
	{IBV_RATE_600_GBPS, 240, 637500}, {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000}};

enum { RATES = sizeof rates / sizeof *rates };

VISIBLE int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (int i = 0; i < RATES; i++)
		if (rates[i].rate == rate)
			return rates[i].mult;
	return -1;
}

VISIBLE enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (int i = 0; i < RATES; i++)
		if (rates[i].mult == mult)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

VISIBLE int ibv_rate_to_mbps(enum ibv_rate rate)
{
	for (int i = 0; i < RATES; i++)
		if (rates[i].rate == rate)
			return rates[i].mbps;
	return -1;
}

VISIBLE enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (int i = 0; i < RATES; i++)
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

/* Functions that it does not support. */

VISIBLE int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return EOPNOTSUPP;
}

VISIBLE int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return EINVAL;
}

VISIBLE int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
{
	(void)mr, (void)flags, (void)pd, (void)address, (void)length, (void)access;
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

VISIBLE struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

VISIBLE struct ibv_context *ibv_import_device(int fd)
{
	(void)fd;
	errno = EOPNOTSUPP;
	return NULL;
}

VISIBLE struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

VISIBLE void ibv_unimport_pd(struct ibv_pd *pd) { (void)pd; }

VISIBLE struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

VISIBLE void ibv_unimport_mr(struct ibv_mr *mr) { (void)mr; }

VISIBLE struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

VISIBLE void ibv_unimport_dm(struct ibv_dm *dm) { (void)dm; }

VISIBLE struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL; /* none was made with such operations */
}

VISIBLE int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id ? EOPNOTSUPP : 0;
}

VISIBLE int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof *ece);
	return 0;
}

VISIBLE int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context, (void)attr, (void)mac, (void)vid;
	return EOPNOTSUPP;
}

/* For librdmacm, which asks the kernel. */
#define KERNEL(name) VISIBLE void name(void *, void *); void name(void *to, void *from) { (void)to, (void)from; }
KERNEL(ibv_copy_ah_attr_from_kern)
KERNEL(ibv_copy_qp_attr_from_kern)
KERNEL(ibv_copy_path_rec_from_kern)
KERNEL(ibv_copy_path_rec_to_kern)
