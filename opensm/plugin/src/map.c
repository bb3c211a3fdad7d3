/*
 * map.c: the fabric in OpenSM's memory as mend.c needs it.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static uint64_t guid_of(osm_node_t *node) { return cl_ntoh64(osm_node_get_node_guid(node)); }

static int by_guid(const void *a, const void *b)
{
	const uint64_t x = ((const struct node *)a)->guid, y = ((const struct node *)b)->guid;
	return (x > y) - (x < y);
}

static int by_place(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;
	return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : x->lid - y->lid;
}

/* index_of returns a switch's index in the map, or the map's count if it is missing. */
static uint32_t index_of(const struct map *m, osm_node_t *node)
{
	const struct node key = {.guid = guid_of(node)}, *found = bsearch(&key, m->nodes, m->count, sizeof key, by_guid);
	return found ? (uint32_t)(found - m->nodes) : m->count;
}

/* add_switches appends a node for every switch that has room for its entries. */
static bool add_switches(struct map *m, osm_subn_t *subn, uint32_t *end)
{
	const cl_qmap_t *switches = &subn->sw_guid_tbl;
	m->nodes = calloc(cl_qmap_count(switches) + 1, sizeof *m->nodes);
	if (!m->nodes)
		return false;
	for (cl_map_item_t *i = cl_qmap_head(switches); i != cl_qmap_end(switches); i = cl_qmap_next(i)) {
		osm_switch_t *s = (osm_switch_t *)i;
		const uint32_t room = !s->new_lft ? 0 : s->lft_size < s->max_lid_ho + 1u ? s->lft_size : s->max_lid_ho + 1u;
		*end = room < *end ? room : *end;
		m->nodes[m->count++] = (struct node){.guid = guid_of(s->p_node), .out = s->new_lft};
	}
	qsort(m->nodes, m->count, sizeof *m->nodes, by_guid);
	return true;
}

/* add_cables finds what is plugged into a switch. */
static bool add_cables(struct map *m, osm_switch_t *s)
{
	struct node *at = &m->nodes[index_of(m, s->p_node)];
	at->cables = calloc(s->num_ports + 1u, sizeof *at->cables);
	if (!at->cables)
		return false;
	for (unsigned i = 1; i < s->num_ports && i < osm_node_get_num_physp(s->p_node) && i < NO_PATH; i++) {
		const osm_physp_t *port = osm_node_get_physp_ptr(s->p_node, i), *far = port ? forsosm_far_end_(port) : NULL;
		if (!far || !forsosm_works_(port) || !forsosm_works_(far))
			continue;
		const uint32_t to = far->p_node->sw ? index_of(m, far->p_node) : m->count;
		if (to == m->count)
			at->hosts++;
		else if (&m->nodes[to] != at)
			at->cables[at->count++] = (struct cable){.to = to, .rate = forsosm_rate_(port), .port = (uint8_t)i};
	}
	return true;
}

/* add_owner appends a port's LIDs below end that no one before has. */
static void add_owner(struct map *m, const osm_port_t *port, uint32_t end, bool *taken)
{
	const osm_physp_t *own = port->p_physp, *out = own;
	uint16_t first, last;
	if (!port->p_node->sw)
		out = own ? forsosm_far_end_(own) : NULL;
	osm_port_get_lid_range_ho(port, &first, &last);
	if (!out || !out->p_node->sw || first == 0 || last < first || last >= end)
		return;
	const uint32_t node = index_of(m, out->p_node);
	if (node == m->count || !(own == out || forsosm_works_(out)))
		return;
	for (uint32_t lid = first; lid <= last; lid++) {
		if (taken[lid])
			return;
		taken[lid] = true;
	}
	m->owners[m->owned++] = (struct owner){.node = node, .lid = first, .lids = (uint16_t)(last - first + 1), .port = own == out ? 0 : out->port_num};
}

/*
 * add_unseen appends LIDs that OpenSM has not found, where the tables held deliver
 * them by a port that is up: a fabric may be discovered by half.
 */
static void add_unseen(struct map *m, osm_subn_t *subn, const struct tables *held, uint32_t end, bool *taken)
{
	const cl_qmap_t *switches = &subn->sw_guid_tbl;
	for (cl_map_item_t *i = cl_qmap_head(switches); i != cl_qmap_end(switches); i = cl_qmap_next(i)) {
		osm_switch_t *s = (osm_switch_t *)i;
		const struct table *t = forsosm_find_(held, guid_of(s->p_node));
		for (uint32_t lid = 1; t && lid < t->blocks * BLOCK && lid < end; lid++) {
			const uint8_t p = t->entries[lid];
			const osm_physp_t *port = p > 0 && p < s->num_ports ? osm_node_get_physp_ptr(s->p_node, p) : NULL;
			if (taken[lid] || !port || port->p_remote_physp || !forsosm_works_(port))
				continue;
			taken[lid] = true;
			m->owners[m->owned++] = (struct owner){.node = index_of(m, s->p_node), .lid = (uint16_t)lid, .lids = 1, .port = p};
		}
	}
}

bool forsosm_map_(struct map *m, osm_subn_t *subn, const struct tables *held)
{
	uint32_t end = MAX_LID + 1;
	*m = (struct map){0};
	bool fine = add_switches(m, subn, &end);
	bool *taken = calloc(MAX_LID + 1, sizeof *taken);
	m->owners = calloc(MAX_LID + 1, sizeof *m->owners); /* no LID is there twice */
	const cl_qmap_t *all = &subn->sw_guid_tbl;
	for (cl_map_item_t *i = cl_qmap_head(all); fine && i != cl_qmap_end(all); i = cl_qmap_next(i))
		fine = add_cables(m, (osm_switch_t *)i);
	fine = fine && taken && m->owners;
	all = &subn->port_guid_tbl;
	for (cl_map_item_t *i = cl_qmap_head(all); fine && i != cl_qmap_end(all); i = cl_qmap_next(i))
		add_owner(m, (osm_port_t *)i, end, taken);
	if (fine)
		add_unseen(m, subn, held, end, taken);
	free(taken);
	if (fine)
		qsort(m->owners, m->owned, sizeof *m->owners, by_place);
	else
		forsosm_unmap_(m);
	return fine;
}

void forsosm_unmap_(struct map *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		free(m->nodes[i].cables);
	free(m->nodes);
	free(m->owners);
	*m = (struct map){0};
}
