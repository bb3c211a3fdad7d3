/* private.c: symbols that hardware drivers link with. None of them is ever called: drivers
 * find no hardware of theirs. */
#include "adapter.h"

#define UNUSED(name) VISIBLE int name(void); int name(void) { return EOPNOTSUPP; }

UNUSED(ibv_cmd_advise_mr)
UNUSED(ibv_cmd_alloc_dm)
UNUSED(ibv_cmd_alloc_mw)
UNUSED(ibv_cmd_alloc_pd)
UNUSED(ibv_cmd_attach_mcast)
UNUSED(ibv_cmd_close_xrcd)
UNUSED(ibv_cmd_create_ah)
UNUSED(ibv_cmd_create_counters)
UNUSED(ibv_cmd_create_cq)
UNUSED(ibv_cmd_create_cq_ex)
UNUSED(ibv_cmd_create_flow)
UNUSED(ibv_cmd_create_flow_action_esp)
UNUSED(ibv_cmd_create_qp)
UNUSED(ibv_cmd_create_qp_ex)
UNUSED(ibv_cmd_create_qp_ex2)
UNUSED(ibv_cmd_create_rwq_ind_table)
UNUSED(ibv_cmd_create_srq)
UNUSED(ibv_cmd_create_srq_ex)
UNUSED(ibv_cmd_create_wq)
UNUSED(ibv_cmd_dealloc_mw)
UNUSED(ibv_cmd_dealloc_pd)
UNUSED(ibv_cmd_dereg_mr)
UNUSED(ibv_cmd_destroy_ah)
UNUSED(ibv_cmd_destroy_counters)
UNUSED(ibv_cmd_destroy_cq)
UNUSED(ibv_cmd_destroy_flow)
UNUSED(ibv_cmd_destroy_flow_action)
UNUSED(ibv_cmd_destroy_qp)
UNUSED(ibv_cmd_destroy_rwq_ind_table)
UNUSED(ibv_cmd_destroy_srq)
UNUSED(ibv_cmd_destroy_wq)
UNUSED(ibv_cmd_detach_mcast)
UNUSED(ibv_cmd_free_dm)
UNUSED(ibv_cmd_get_context)
UNUSED(ibv_cmd_modify_cq)
UNUSED(ibv_cmd_modify_flow_action_esp)
UNUSED(ibv_cmd_modify_qp)
UNUSED(ibv_cmd_modify_qp_ex)
UNUSED(ibv_cmd_modify_srq)
UNUSED(ibv_cmd_modify_wq)
UNUSED(ibv_cmd_open_qp)
UNUSED(ibv_cmd_open_xrcd)
UNUSED(ibv_cmd_poll_cq)
UNUSED(ibv_cmd_post_recv)
UNUSED(ibv_cmd_post_send)
UNUSED(ibv_cmd_post_srq_recv)
UNUSED(ibv_cmd_query_context)
UNUSED(ibv_cmd_query_device_any)
UNUSED(ibv_cmd_query_mr)
UNUSED(ibv_cmd_query_port)
UNUSED(ibv_cmd_query_qp)
UNUSED(ibv_cmd_query_srq)
UNUSED(ibv_cmd_read_counters)
UNUSED(ibv_cmd_reg_dm_mr)
UNUSED(ibv_cmd_reg_dmabuf_mr)
UNUSED(ibv_cmd_reg_mr)
UNUSED(ibv_cmd_req_notify_cq)
UNUSED(ibv_cmd_rereg_mr)
UNUSED(ibv_cmd_resize_cq)
UNUSED(execute_ioctl)
UNUSED(verbs_init_cq)
UNUSED(verbs_set_ops)
UNUSED(verbs_uninit_context)
UNUSED(__verbs_log)

VISIBLE void *_verbs_init_and_alloc_context(void);
void *_verbs_init_and_alloc_context(void) { return NULL; }
VISIBLE void *verbs_open_device(void);
void *verbs_open_device(void) { return NULL; }
VISIBLE void verbs_register_driver_34(const void *);
void verbs_register_driver_34(const void *driver) { (void)driver; }
VISIBLE unsigned __ioctl_final_num_attrs(unsigned, void *);
unsigned __ioctl_final_num_attrs(unsigned n, void *link) { (void)link; return n; }
VISIBLE extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;
