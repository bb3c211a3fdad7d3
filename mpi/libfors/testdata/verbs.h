/*
 * verbs.h: as much of the verbs interface as docs/mpi.md uses.
 */
#include <stdint.h>

enum ibv_mtu { IBV_MTU_4096 = 5 };
enum ibv_qp_state { IBV_QPS_RTR = 2 };
enum {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_DEST_QPN = 1 << 20,
};

struct ibv_ah_attr {
	uint16_t dlid;
	uint8_t sl, src_path_bits, port_num;
};

struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_mtu path_mtu;
	uint32_t rq_psn, dest_qp_num;
	struct ibv_ah_attr ah_attr;
	uint8_t max_dest_rd_atomic, min_rnr_timer;
};

/* A queue pair has the attributes last set. */
struct ibv_qp {
	struct ibv_qp_attr attr;
};

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
