/*
 * fabric.c: the fabric in OpenSM's memory.
 */
#include "plugin.h"

/* seen reports whether a node answered in the latest discovery. */
static bool seen(const osm_node_t *node)
{
	return node && node->discovery_count > 0 && node->node_info.num_ports > 0 && node->node_info.num_ports < 255;
}

const osm_physp_t *forsosm_far_end_(const osm_physp_t *port)
{
	const osm_physp_t *far = port->p_remote_physp;
	if (!far || far == port || far->p_remote_physp != port || !seen(far->p_node))
		return NULL;
	return far->port_num > 0 && far->port_num <= far->p_node->node_info.num_ports ? far : NULL;
}

enum wire_speed { UNKNOWN, SDR, DDR, QDR, FDR_10, FDR, EDR, HDR, NDR };

enum wire_state { DOWN, INIT, ARMED, ACTIVE };

static enum wire_state state_of(const osm_physp_t *port)
{
	switch (ib_port_info_get_port_state(&port->port_info)) {
	case IB_LINK_ACTIVE:
		return ACTIVE;
	case IB_LINK_ARMED:
		return ARMED;
	case IB_LINK_INIT:
		return INIT;
	default:
		return DOWN;
	}
}

bool forsosm_works_(const osm_physp_t *port) { return state_of(port) != DOWN && osm_link_is_healthy(port); }

/* width_of is the number of physical lanes, 0 where not known. */
static unsigned width_of(const osm_physp_t *port)
{
	switch (port->port_info.link_width_active) {
	case 1:
		return 1;
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 0;
	}
}

/*
 * speed_of is the generation. own is the port whose capabilities count: of a
 * switch, port 0.
 */
static enum wire_speed speed_of(const osm_physp_t *port, const osm_physp_t *own)
{
	if (own->port_info.capability_mask & IB_PORT_CAP_HAS_EXT_SPEEDS) {
		switch (ib_port_info_get_link_speed_ext_active(&port->port_info)) {
		case IB_LINK_SPEED_EXT_ACTIVE_NONE:
			break;
		case IB_LINK_SPEED_EXT_ACTIVE_14:
			return FDR;
		case IB_LINK_SPEED_EXT_ACTIVE_25:
			return EDR;
		case IB_LINK_SPEED_EXT_ACTIVE_50:
			return HDR;
		case 8: /* OpenSM 3.3.23 has no name for it */
			return NDR;
		default:
			return UNKNOWN;
		}
	}
	if (port->ext_port_info.link_speed_active & FDR10)
		return FDR_10;
	switch (ib_port_info_get_link_speed_active(&port->port_info)) {
	case IB_LINK_SPEED_ACTIVE_2_5:
		return SDR;
	case IB_LINK_SPEED_ACTIVE_5:
		return DDR;
	case IB_LINK_SPEED_ACTIVE_10:
		return QDR;
	default:
		return UNKNOWN;
	}
}

uint16_t forsosm_rate_(const osm_physp_t *port)
{
	static const uint8_t weight[] = {[SDR] = 1, [DDR] = 2, [QDR] = 4, [FDR_10] = 4, [FDR] = 6, [EDR] = 10, [HDR] = 20, [NDR] = 40};
	return (uint16_t)(width_of(port) * weight[speed_of(port, osm_node_get_physp_ptr(port->p_node, 0))]);
}

/* put_lids appends the addresses of a port that has some. */
static void put_lids(const osm_physp_t *port, bool has, struct buffer *b)
{
	forsosm_put16_(b, has ? cl_ntoh16(port->port_info.base_lid) : 0);
	forsosm_put64_(b, has ? cl_ntoh64(port->port_guid) : 0);
}

/* put_own appends the record of a switch's port 0. */
static void put_own(const osm_physp_t *port, struct buffer *b)
{
	const unsigned head[] = {0, ACTIVE, 0, 0, ib_port_info_get_lmc(&port->port_info), 0};
	for (unsigned i = 0; i < sizeof head / sizeof head[0]; i++)
		forsosm_put8_(b, head[i]);
	put_lids(port, true, b);
	forsosm_put64_(b, 0);
}

/* put_port appends the record of a port with a cable. */
static void put_port(const osm_physp_t *port, const osm_physp_t *own, const osm_physp_t *far, struct buffer *b)
{
	const bool has = port == own;
	forsosm_put8_(b, port->port_num);
	forsosm_put8_(b, state_of(port));
	forsosm_put8_(b, width_of(port));
	forsosm_put8_(b, speed_of(port, own));
	forsosm_put8_(b, has ? ib_port_info_get_lmc(&port->port_info) : 0);
	forsosm_put8_(b, far->port_num);
	put_lids(port, has, b);
	forsosm_put64_(b, cl_ntoh64(osm_node_get_node_guid(far->p_node)));
}

/* put_ports appends a node's port records and returns how many they are. */
static unsigned put_ports(osm_node_t *node, struct buffer *b)
{
	unsigned records = 0;
	const bool is_switch = node->node_info.node_type == IB_NODE_TYPE_SWITCH;
	const osm_physp_t *zero = is_switch ? osm_node_get_physp_ptr(node, 0) : NULL;
	if (zero) {
		put_own(zero, b);
		records++;
	}
	for (unsigned i = 1; i < osm_node_get_num_physp(node) && i <= node->node_info.num_ports; i++) {
		const osm_physp_t *port = osm_node_get_physp_ptr(node, i);
		const osm_physp_t *far = port ? forsosm_far_end_(port) : NULL;
		if (!far || (is_switch && !zero))
			continue;
		put_port(port, is_switch ? zero : port, far, b);
		records++;
	}
	return records;
}

static void put_node(osm_node_t *node, struct buffer *ports, struct buffer *b)
{
	ports->length = 0;
	const unsigned records = put_ports(node, ports);
	forsosm_put64_(b, cl_ntoh64(node->node_info.node_guid));
	forsosm_put64_(b, cl_ntoh64(node->node_info.sys_guid));
	forsosm_put8_(b, node->node_info.node_type == IB_NODE_TYPE_SWITCH ? 1 : node->node_info.node_type == IB_NODE_TYPE_CA ? 2 : 3);
	forsosm_put8_(b, node->node_info.num_ports);
	forsosm_put16_(b, records);
	forsosm_put32_(b, cl_ntoh32(ib_node_info_get_vendor_id(&node->node_info)));
	forsosm_put16_(b, cl_ntoh16(node->node_info.device_id));
	forsosm_put16_(b, 0);
	forsosm_put_text_(b, node->print_desc ? node->print_desc : "");
	forsosm_put_(b, ports->data, ports->length);
}

void forsosm_fabric_(osm_subn_t *subn, struct buffer *b)
{
	const cl_qmap_t *nodes = &subn->node_guid_tbl;
	struct buffer ports = {0};
	uint32_t count = 0;
	for (cl_map_item_t *i = cl_qmap_head(nodes); i != cl_qmap_end(nodes); i = cl_qmap_next(i))
		count += seen((osm_node_t *)i);
	forsosm_put64_(b, cl_ntoh64(subn->sm_port_guid));
	forsosm_put32_(b, count);
	for (cl_map_item_t *i = cl_qmap_head(nodes); i != cl_qmap_end(nodes); i = cl_qmap_next(i))
		if (seen((osm_node_t *)i))
			put_node((osm_node_t *)i, &ports, b);
	b->failed |= ports.failed;
	forsosm_free_(&ports);
}
