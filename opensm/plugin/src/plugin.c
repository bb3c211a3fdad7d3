/*
 * plugin.c: what OpenSM loads, its options, and the events that it reports.
 */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

#include <opensm/osm_event_plugin.h>
#include <opensm/osm_version.h>

#define DEFAULT_SOCKET "/run/forsd/opensm.sock"
#define DEFAULT_USER "forsd"

/* milliseconds */
enum { DEFAULT_DEADLINE = 50, MAX_DEADLINE = 10000, DEFAULT_SETTLE = 2, MAX_SETTLE = 100 };

static void say(void *context, bool trouble, const char *text)
{
	struct plugin *p = context;
	osm_log(&p->osm->log, trouble ? OSM_LOG_ERROR : OSM_LOG_INFO, "libforsosm: %s\n", text);
}

/* resweep does as OpenSM's console does. */
static void resweep(void *context, int how)
{
	osm_opensm_t *osm = ((struct plugin *)context)->osm;
	if (osm->subn.sm_state != IB_SMINFO_STATE_MASTER)
		return;
	if (how == 1)
		osm->subn.force_heavy_sweep = TRUE;
	else
		osm->subn.force_reroute = TRUE;
	osm_opensm_sweep(osm);
}

static enum state state_of(void *context)
{
	const volatile osm_subn_t *subn = &((struct plugin *)context)->osm->subn;
	switch (subn->sm_state) {
	case IB_SMINFO_STATE_MASTER:
		return MASTER;
	case IB_SMINFO_STATE_DISCOVERING:
		return DISCOVERING;
	case IB_SMINFO_STATE_STANDBY:
		return STANDBY;
	default:
		return NOT_ACTIVE;
	}
}

static const struct hooks hooks = {say, resweep, state_of};

/* number reads decimal digits within limits. */
static bool number(const char *text, unsigned least, unsigned most, unsigned *value)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	const unsigned long n = strtoul(text, &end, 10);
	if (*end != 0 || errno != 0 || n < least || n > most)
		return false;
	*value = (unsigned)n;
	return true;
}

/* find_user looks up a user by name or number, and returns false if that user does not exist. */
static bool find_user(const char *name, uid_t *user)
{
	if (number(name, 0, UINT_MAX - 1, user))
		return true;
	char memory[4096];
	struct passwd entry, *found;
	if (getpwnam_r(name, &entry, memory, sizeof memory, &found) != 0 || !found)
		return false;
	*user = found->pw_uid;
	return true;
}

/* value_of is the value of an option that has a name, NULL of another one. */
static const char *value_of(const char *option, const char *name)
{
	const size_t n = strlen(name);
	return strncmp(option, name, n) == 0 && option[n] == '=' ? option + n + 1 : NULL;
}

/* set_option takes one option in; false where it makes no sense. */
static bool set_option(struct settings *s, const char *option)
{
	const char *value;
	if ((value = value_of(option, "socket"))) {
		if (value[0] != '/' || strlen(value) >= sizeof s->address.sun_path)
			return false;
		strcpy(s->address.sun_path, value);
		return true;
	}
	if ((value = value_of(option, "deadline")))
		return number(value, 1, MAX_DEADLINE, &s->deadline);
	if ((value = value_of(option, "settle")))
		return number(value, 0, MAX_SETTLE, &s->settle);
	return (value = value_of(option, "user")) && find_user(value, &s->user);
}

/* set_options reads event_plugin_options; false, and a line in the log, where they make no sense. */
static bool set_options(struct settings *s, osm_opensm_t *osm)
{
	*s = (struct settings){.address = {.sun_family = AF_UNIX, .sun_path = DEFAULT_SOCKET}, .deadline = DEFAULT_DEADLINE, .settle = DEFAULT_SETTLE};
	s->user = geteuid();
	find_user(DEFAULT_USER, &s->user); /* without that user, only root and the own user are trusted */
	char *options = strdup(osm->subn.opt.event_plugin_options ? osm->subn.opt.event_plugin_options : "");
	if (!options)
		return false;
	char *rest, *option = strtok_r(options, ", \t", &rest);
	while (option && set_option(s, option))
		option = strtok_r(NULL, ", \t", &rest);
	if (option)
		osm_log(&osm->log, OSM_LOG_ERROR, "libforsosm: event_plugin_options: cannot use \"%s\": socket=/PATH, deadline=1 to %d, settle=0 to %d and user=NAME are known\n",
			option, MAX_DEADLINE, MAX_SETTLE);
	free(options);
	return !option;
}

/* on_trap reports a notice. OpenSM holds the lock of its memory. */
static void on_trap(struct plugin *p, const ib_mad_notice_attr_t *n)
{
	if (!n || !ib_notice_is_generic(n))
		return;
	const unsigned trap = cl_ntoh16(n->g_or_v.generic.trap_num);
	uint64_t guid = cl_ntoh64(n->issuer_gid.unicast.interface_id);
	unsigned lid = cl_ntoh16(n->issuer_lid), port = 0;
	switch (trap) {
	case 64:
	case 65:
		guid = cl_ntoh64(n->data_details.ntc_64_67.gid.unicast.interface_id);
		lid = 0;
		break;
	case 128:
		forsosm_trapped_(&p->link);
		lid = cl_ntoh16(n->data_details.ntc_128.sw_lid);
		break;
	case 129:
	case 130:
	case 131:
		lid = cl_ntoh16(n->data_details.ntc_129_131.lid);
		port = n->data_details.ntc_129_131.port_num;
		break;
	case 144:
		lid = cl_ntoh16(n->data_details.ntc_144.lid);
		break;
	case 145:
		lid = cl_ntoh16(n->data_details.ntc_145.lid);
		break;
	default: /* multicast groups come and go all the time */
		return;
	}
	struct buffer body = {0};
	forsosm_put16_(&body, trap);
	forsosm_put16_(&body, lid);
	forsosm_put8_(&body, port);
	forsosm_put8_(&body, ib_notice_get_type(n));
	forsosm_put16_(&body, 0);
	forsosm_put64_(&body, guid);
	if (!body.failed)
		forsosm_send_(&p->link, TRAP, body.data, body.length);
	forsosm_free_(&body);
}

/* on_fabric reads the fabric, under the lock of OpenSM's memory, and reports it. */
static void on_fabric(struct plugin *p, enum message named)
{
	struct buffer fabric = {0};
	cl_plock_acquire(&p->osm->lock);
	forsosm_fabric_(&p->osm->subn, &fabric);
	cl_plock_release(&p->osm->lock);
	forsosm_send_fabric_(&p->link, &fabric, named);
}

/* on_routed reports that the switches have confirmed their tables. */
static void on_routed(struct plugin *p, const void *why)
{
	const struct osm_routing_engine *used = p->osm->routing_engine_used;
	const char *name = used && used->name ? used->name : "";
	struct buffer body = {0};
	forsosm_put8_(&body, (uintptr_t)why == UCAST_ROUTING_REROUTE ? 2 : 1);
	forsosm_put8_(&body, p->own && strcmp(name, ENGINE_NAME) == 0);
	forsosm_put_text_(&body, name);
	if (!body.failed)
		forsosm_send_(&p->link, ROUTED, body.data, body.length);
	forsosm_free_(&body);
}

/* report is called by OpenSM's threads, at the same time or not. */
static void report(void *context, osm_epi_event_id_t event, void *data)
{
	struct plugin *p = context;
	const enum state state = state_of(p);
	forsosm_send_state_(&p->link, state);
	if (state != MASTER && state != DISCOVERING)
		return;
	switch (event) {
	case OSM_EVENT_ID_TRAP:
		on_trap(p, data);
		break;
	case OSM_EVENT_ID_HEAVY_SWEEP_START:
		/* The trap from the cable's other end would interrupt OpenSM's discovery and restart it. The first trap
		   may be unreported, because OpenSM starts the sweep first. No lock of OpenSM is held here. */
		forsosm_settle_(&p->link);
		forsosm_send_(&p->link, SWEEP, NULL, 0);
		break;
	case OSM_EVENT_ID_HEAVY_SWEEP_DONE:
		on_fabric(p, DISCOVERED);
		break;
	case OSM_EVENT_ID_UCAST_ROUTING_DONE:
		on_routed(p, data);
		break;
	case OSM_EVENT_ID_SUBNET_UP:
		on_fabric(p, UP);
		break;
	default:
		break;
	}
}

static void *create(osm_opensm_t *osm)
{
	static const external_routing_engine_module_t engine = {ENGINE_NAME, forsosm_engine_, NULL};
	struct settings settings;
	if (!set_options(&settings, osm))
		return NULL;
	struct plugin *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->osm = osm;
	int failed = forsosm_link_init_(&p->link, &settings, &hooks, p);
	if (failed) {
		osm_log(&osm->log, OSM_LOG_ERROR, "libforsosm: cannot start: %s\n", strerror(failed));
		free(p);
		return NULL;
	}
	p->link.port = cl_ntoh64(osm->subn.sm_port_guid);
	strncpy(p->link.version, osm->osm_version, sizeof p->link.version - 1);
	failed = forsosm_link_start_(&p->link);
	if (failed || osm_register_external_routing_engine(osm, &engine, p) != CL_SUCCESS) {
		osm_log(&osm->log, OSM_LOG_ERROR, "libforsosm: cannot start: %s\n", failed ? strerror(failed) : "there is a routing engine " ENGINE_NAME);
		forsosm_link_stop_(&p->link, !failed);
		free(p);
		return NULL;
	}
	return p;
}

static void destroy(void *context)
{
	struct plugin *p = context;
	forsosm_link_stop_(&p->link, true);
	forsosm_drop_(&p->held);
	forsosm_drop_(&p->wish);
	free(p);
}

__attribute__((visibility("default"))) osm_event_plugin_t osm_event_plugin = {OSM_VERSION, create, destroy, report};
