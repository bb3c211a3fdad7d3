/*
 * engine.c: the routing engine "fors". OpenSM calls it with the lock of its
 * database held, so the fabric cannot change while it is routed.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "plugin.h"

#define FILE_ENGINE "file"
#define LAST ".last" /* at the end of the name of a table file that forsd has withdrawn */

enum { FAILED = -1, DONE = 0, AS_USUAL = 1 }; /* what an engine's functions return */

/*
 * ask sends the request before OpenSM computes its hop counts, which multicast
 * needs, and has it do so: forsd works at the same time.
 */
static int ask(void *context)
{
	struct plugin *p = context;
	struct buffer fabric = {0};
	forsosm_fabric_(&p->osm->subn, &fabric);
	forsosm_send_fabric_(&p->link, &fabric, REQUEST);
	const size_t lids = cl_ptr_vector_get_size(&p->osm->subn.port_lid_tbl);
	p->asked = forsosm_ask_(&p->link, lids > MAX_LID ? MAX_LID : lids > 0 ? (unsigned)lids - 1 : 0);
	return AS_USUAL;
}

/* The ports of a switch that a table may name. */
struct exits {
	bool joined[256]; /* has a cable */
	uint16_t own;     /* the switch's LID, for port 0 */
	uint32_t end;     /* the first LID beyond the table */
};

static void find_exits(osm_switch_t *s, struct exits *e)
{
	memset(e, 0, sizeof *e);
	for (unsigned i = 1; i < s->num_ports && i < osm_node_get_num_physp(s->p_node) && i < NO_PATH; i++) {
		const osm_physp_t *port = osm_node_get_physp_ptr(s->p_node, i);
		e->joined[i] = port && port->p_remote_physp;
	}
	e->own = cl_ntoh16(osm_node_get_base_lid(s->p_node, 0));
	e->end = s->new_lft ? s->lft_size : 0;
	if (e->end > s->max_lid_ho + 1u)
		e->end = s->max_lid_ho + 1u;
}

/* fits reports whether a switch can hold a table. If not, text has the reason. */
static bool fits(osm_switch_t *s, const struct table *t, char *text, size_t size)
{
	struct exits e;
	find_exits(s, &e);
	const uint64_t guid = cl_ntoh64(osm_node_get_node_guid(s->p_node));
	const uint32_t entries = t->blocks * BLOCK;
	for (uint32_t lid = 0; lid < entries; lid++) {
		const uint8_t port = t->entries[lid];
		if (port == NO_PATH)
			continue;
		if (lid == 0 || lid >= e.end) {
			snprintf(text, size, "switch 0x%016" PRIx64 " LID %u: the LIDs of the fabric are 1 to %u", guid, lid, e.end - 1);
			return false;
		}
		if (port == 0 ? lid != e.own : !e.joined[port]) {
			snprintf(text, size, "switch 0x%016" PRIx64 " LID %u: port %u %s", guid, lid, port,
				port == 0 ? "stands for another LID than the switch's" : "has no cable");
			return false;
		}
	}
	return true;
}

/* count_paths counts a switch's entries: multicast prefers ports that few paths use. */
static void count_paths(osm_switch_t *s)
{
	for (uint32_t lid = 0; lid < s->lft_size && lid <= s->max_lid_ho; lid++)
		if (s->new_lft[lid] != NO_PATH)
			osm_switch_count_path(s, s->new_lft[lid]);
}

/* install gives a switch its table, which fits. */
static void install(osm_switch_t *s, const struct table *t)
{
	memset(s->new_lft, NO_PATH, s->lft_size);
	const uint32_t entries = t->blocks * BLOCK;
	const uint32_t end = entries < s->max_lid_ho + 1u ? entries : s->max_lid_ho + 1u;
	memcpy(s->new_lft, t->entries, end < s->lft_size ? end : s->lft_size);
	count_paths(s);
}

/* install_all installs tables if they fit every switch, and otherwise none. */
static bool install_all(osm_subn_t *subn, const struct tables *t, char *text, size_t size)
{
	const cl_qmap_t *switches = &subn->sw_guid_tbl;
	for (cl_map_item_t *i = cl_qmap_head(switches); i != cl_qmap_end(switches); i = cl_qmap_next(i)) {
		osm_switch_t *s = (osm_switch_t *)i;
		const uint64_t guid = cl_ntoh64(osm_node_get_node_guid(s->p_node));
		const struct table *table = forsosm_find_(t, guid);
		if (!table) {
			snprintf(text, size, "switch 0x%016" PRIx64 " has no table", guid);
			return false;
		}
		if (!fits(s, table, text, size))
			return false;
	}
	for (cl_map_item_t *i = cl_qmap_head(switches); i != cl_qmap_end(switches); i = cl_qmap_next(i)) {
		osm_switch_t *s = (osm_switch_t *)i;
		install(s, forsosm_find_(t, cl_ntoh64(osm_node_get_node_guid(s->p_node))));
	}
	return true;
}

/* hold keeps the tables that are installed. */
static void hold(struct plugin *p, const struct tables *t)
{
	if (t->sum == p->held.sum)
		return;
	struct map m;
	if (!forsosm_copy_(&p->held, t) || !forsosm_map_(&m, &p->osm->subn, &p->held))
		return;
	forsosm_wish_(&m, &p->held, &p->wish);
	forsosm_unmap_(&m);
}

/* read_file replaces the held tables by those of a table file. */
static void read_file(struct plugin *p, const char *path, const char *suffix)
{
	char name[PATH_MAX];
	if (p->held.count > 0 || !path || snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
		return;
	FILE *file = fopen(name, "re");
	if (!file)
		return;
	forsosm_read_(&p->held, file);
	fclose(file);
}

/* another reports whether OpenSM has a further engine that makes its own tables. */
static bool another(const osm_opensm_t *osm)
{
	const struct osm_routing_engine *e = osm->routing_engine_list;
	while (e && strcmp(e->name ? e->name : "", ENGINE_NAME) != 0)
		e = e->next;
	return e && e->next && strcmp(e->next->name ? e->next->name : "", FILE_ENGINE) != 0;
}

/* do_without makes tables without forsd. An engine of OpenSM's own has its turn where forsd wants that, or there is nothing to mend. */
static int do_without(struct plugin *p, bool declined)
{
	osm_subn_t *subn = &p->osm->subn;
	if (another(p->osm)) {
		if (declined) {
			forsosm_drop_(&p->held);
			forsosm_drop_(&p->wish);
		}
		if (p->held.count == 0)
			return FAILED;
	}
	read_file(p, subn->opt.lfts_file, "");
	read_file(p, subn->opt.lfts_file, LAST);
	struct map m;
	if (!forsosm_map_(&m, subn, &p->held))
		return AS_USUAL;
	const int64_t changed = forsosm_mend_(&m, &p->held, &p->wish);
	forsosm_unmap_(&m);
	if (changed < 0)
		return AS_USUAL;
	const cl_qmap_t *switches = &subn->sw_guid_tbl;
	for (cl_map_item_t *i = cl_qmap_head(switches); i != cl_qmap_end(switches); i = cl_qmap_next(i))
		count_paths((osm_switch_t *)i);
	char text[160];
	snprintf(text, sizeof text, "the tables held are mended without forsd: %lld entries are others", (long long)changed);
	forsosm_complain_(&p->link, IS_MENDED, text);
	return DONE;
}

/* route waits for the tables and installs them, or does without. */
static int route(void *context)
{
	struct plugin *p = context;
	char text[160] = "";
	enum result result = p->asked ? forsosm_await_(&p->link) : LATE;
	if (result == INSTALLED) {
		if (install_all(&p->osm->subn, &p->link.tables, text, sizeof text))
			hold(p, &p->link.tables);
		else
			result = WRONG;
		pthread_mutex_unlock(&p->link.lock);
	}
	if (p->asked)
		forsosm_conclude_(&p->link, result, text);
	p->own = result == INSTALLED;
	return p->own ? DONE : do_without(p, result == DECLINED);
}

int forsosm_engine_(struct osm_routing_engine *engine, osm_opensm_t *osm)
{
	(void)osm;
	engine->build_lid_matrices = ask;
	engine->ucast_build_fwd_tables = route;
	return 0;
}
