/*
 * lanes.c: the table, and the lane of a pair of servers.
 *
 * A process keeps the table that it began with. Both ends of a reliable connection must
 * take the lane from the same table, or they drop each other's packets; neither can know
 * when the other changes its table.
 */
#include <endian.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../launch.h"
#include "lanes.h"

enum {
	PATIENCE = 10,         /* seconds to wait for a table that the user named */
	FIRST_MULTICAST = 0xC000,
};

static fors_table *table; /* set once */

void fl_say(const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "libforslanes: %s\n", line);
}

bool fl_verbose(void)
{
	const char *text = getenv("FORS_VERBOSE");
	return text && atoi(text) > 0;
}

/* inert prints why address vectors stay as they are, one line of the job for each reason. */
static void inert(atomic_flag *said, const char *format, ...)
{
	char why[400];
	va_list args;
	if (atomic_flag_test_and_set(said) || !launched_first())
		return;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	fl_say("%s; connections go to the LIDs that the program has", why);
}

/* later reports whether a table that is not available now may come. */
static bool later(int code) { return code == FORS_ECONNECT || code == FORS_ETIMEOUT || code == FORS_ENOPLAN; }

static void open_table(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *named = getenv("FORSD_TABLE");
	struct fors_error err;
	struct timespec now, end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += named && *named ? PATIENCE : 0;
	/* If one process has a table and another has none, the two cannot connect. */
	while (fors_open(NULL, &table, &err) != FORS_OK && later(err.code)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end.tv_sec)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
	}
	if (!table) {
		inert(&said, "%s", err.text);
		return;
	}
	if (fl_verbose() && launched_first())
		fl_say("%s: epoch %" PRIu64 ", %" PRIu32 " servers, %" PRIu32 " lanes", fors_location(table), fors_info(table)->epoch,
			fors_info(table)->servers, fors_info(table)->lanes);
	if (fl_verbose() || launched_first())
		fl_watch(table);
}

/* server is the table's server at a port, or −1. */
static int server(struct ibv_context *context, uint8_t port, struct fors_server *is)
{
	static atomic_flag ethernet = ATOMIC_FLAG_INIT, unknown = ATOMIC_FLAG_INIT, other = ATOMIC_FLAG_INIT;
	const char *device = context->device->name;
	struct ibv_port_attr attr;
	union ibv_gid gid;
	if (fl_query_port(context, port, &attr) || fl_query_gid(context, port, &gid))
		return -1;
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		inert(&ethernet, "port %d of %.64s is Ethernet, where there are no lanes", port, device);
		return -1;
	}
	const uint64_t guid = be64toh(gid.global.interface_id);
	const int me = fors_find_guid(table, guid);
	if (me < 0 || fors_server(table, me, is) < 0) {
		inert(&unknown, "port %d of %.64s, GUID 0x%016" PRIx64 ", is not in the table", port, device, guid);
		return -1;
	}
	if (attr.lid != is->lid || attr.lmc != is->lmc) {
		inert(&other, "port %d of %.64s has LID %d and LMC %d, and in the table LID %d and LMC %d", port, device, attr.lid, attr.lmc, is->lid, is->lmc);
		return -1;
	}
	return me;
}

bool fl_lane(const fors_table *t, struct pair pair, struct lane *lane)
{
	struct fors_server a, b;
	const int me = fors_find_guid(t, pair.me), peer = fors_find_guid(t, pair.peer);
	if (me < 0 || peer < 0 || fors_server(t, me, &a) < 0 || fors_server(t, peer, &b) < 0)
		return false;
	const int there = fors_find_phase(t, me, peer), back = fors_find_phase(t, peer, me);
	if (there >= 0) {
		const struct fors_entry e = fors_entry(t, me, (uint32_t)there);
		*lane = (struct lane){e.dlid, e.src_path_bits};
	} else if (back >= 0) { /* only the peer's message has a lane: mirror it */
		const struct fors_entry e = fors_entry(t, peer, (uint32_t)back);
		*lane = (struct lane){(uint16_t)(b.lid + e.src_path_bits), (uint8_t)(e.dlid - a.lid)};
	}
	return there >= 0 || back >= 0;
}

bool fl_choose(struct ibv_context *context, const struct ibv_ah_attr *vector, struct pair *pair, struct lane *lane)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fors_server a, b;
	if (vector->dlid == 0 || vector->dlid >= FIRST_MULTICAST)
		return false;
	pthread_once(&once, open_table);
	const int me = table ? server(context, vector->port_num, &a) : -1;
	const int peer = me >= 0 ? fors_find_lid(table, vector->dlid) : -1;
	if (peer < 0 || peer == me || fors_server(table, peer, &b) < 0)
		return false;
	if (vector->is_global && be64toh(vector->grh.dgid.global.interface_id) != b.guid)
		return false; /* beyond a router, whose LID it is */
	*pair = (struct pair){a.guid, b.guid};
	return fl_lane(table, *pair, lane);
}
