/*
 * table.c: a table in memory, and the lookups in it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/*
 * find_path_bits fills t->path_bits: for each message the place, among its sender's
 * LIDs, of the destination of the receiver's own message to it. In the row of
 * server s, recv_from gives the phase in which its peer sends to it.
 */
static int find_path_bits(struct fors_table *t, struct fors_error *err)
{
	const uint32_t n = t->info.servers, phases = t->info.phases;
	t->path_bits = calloc((size_t)n * phases + 1, 1);
	uint32_t *when = calloc((size_t)n + 1, sizeof *when); /* [peer] 1 + the phase in which it sends to s, 0: never */
	t->rows.path_bits = t->path_bits;
	if (!t->path_bits || !when) {
		free(when);
		return fors_fail_(err, FORS_ENOMEM, "out of memory for a table of %" PRIu32 " servers and %" PRIu32 " phases", n, phases);
	}
	for (uint32_t s = 0; s < n; s++) {
		const uint32_t lid = get16(server_at(t, s) + SRV_LID);
		for (uint32_t p = phases; p-- > 0;) {
			const uint32_t from = get16(cell_at(t, s, p) + 2);
			if (from != NOBODY)
				when[from] = p + 1;
		}
		for (uint32_t p = 0; p < phases; p++) {
			const uint32_t to = get16(cell_at(t, s, p));
			if (to != NOBODY && when[to] != 0)
				t->path_bits[(size_t)s * phases + p] = (unsigned char)(get16(cell_at(t, to, when[to] - 1) + 4) - lid);
		}
		for (uint32_t p = 0; p < phases; p++) {
			const uint32_t from = get16(cell_at(t, s, p) + 2);
			if (from != NOBODY)
				when[from] = 0;
		}
	}
	free(when);
	return FORS_OK;
}

int fors_make_(const unsigned char *data, size_t length, unsigned char *owned, struct source *source,
	struct fors_table **table, struct fors_error *err)
{
	struct fors_table *t = calloc(1, sizeof *t);
	if (!t) {
		free(owned);
		if (source)
			fors_source_free_(source);
		return fors_fail_(err, FORS_ENOMEM, "out of memory for a table");
	}
	t->data = data;
	t->length = length;
	t->owned = owned;
	t->watch.http.fd = -1;
	if (source)
		t->source = *source;
	int failed = fors_check_(t, err);
	if (!failed)
		failed = t->rows.cells ? find_path_bits(t, err) : fors_rules_bits_(t, err);
	if (failed) {
		if (source)
			fors_fail_where_(err, t->source.where);
		fors_close(t);
		return failed;
	}
	*table = t;
	return FORS_OK;
}

int fors_open_memory(const void *data, size_t length, fors_table **table, struct fors_error *err)
{
	if (!table)
		return fors_fail_(err, FORS_EINVAL, "fors_open_memory: table is NULL");
	*table = NULL;
	if (!data)
		return fors_fail_(err, FORS_EINVAL, "fors_open_memory: data is NULL");
	return fors_make_(data, length, NULL, NULL, table, err);
}

void fors_close(fors_table *t)
{
	if (!t)
		return;
	fors_watch_free_(&t->watch);
	fors_source_free_(&t->source);
	free(t->path_bits);
	free(t->owned);
	free(t);
}

extern inline struct fors_entry fors_entry(const fors_table *table, int server, uint32_t phase);

int fors_find_phase(const fors_table *t, int server, int peer)
{
	if (server < 0 || (uint32_t)server >= t->info.servers || peer < 0 || (uint32_t)peer >= t->info.servers)
		return FORS_ENOTFOUND;
	for (uint32_t p = 0; p < t->info.phases; p++)
		if (fors_entry(t, server, p).send_to == peer)
			return (int)p;
	return FORS_ENOTFOUND;
}

/* counterpart is the number that a server of one table has in another. */
static int counterpart(const fors_table *t, const fors_table *in, int server)
{
	return fors_find_guid(in, get64(server_at(t, (uint32_t)server) + SRV_GUID));
}

int fors_changed(const fors_table *old, const fors_table *t, int server, int *peers, int size)
{
	if (server < 0 || (uint32_t)server >= t->info.servers)
		return FORS_EINVAL;
	const int before = counterpart(t, old, server);
	if (before < 0)
		return 0;
	const uint32_t lid = get16(server_at(t, (uint32_t)server) + SRV_LID);
	const uint32_t old_lid = get16(server_at(old, (uint32_t)before) + SRV_LID);
	int changed = 0;
	for (uint32_t p = 0; p < t->info.phases; p++) {
		const struct fors_entry e = fors_entry(t, server, p);
		const int peer = e.send_to < 0 ? -1 : counterpart(t, old, e.send_to);
		const int phase = peer < 0 ? -1 : fors_find_phase(old, before, peer);
		if (phase < 0)
			continue;
		const struct fors_entry was = fors_entry(old, before, (uint32_t)phase);
		if (was.dlid == e.dlid && old_lid + was.src_path_bits == lid + e.src_path_bits)
			continue;
		if (changed < size)
			peers[changed] = e.send_to;
		changed++;
	}
	return changed;
}

const struct fors_info *fors_info(const fors_table *t) { return &t->info; }

const void *fors_bytes(const fors_table *t, size_t *length)
{
	*length = t->length;
	return t->data;
}

const char *fors_location(const fors_table *t) { return t->source.where ? t->source.where : ""; }

int fors_server(const fors_table *t, int number, struct fors_server *server)
{
	if (number < 0 || (uint32_t)number >= t->info.servers || !server)
		return FORS_EINVAL;
	const unsigned char *s = server_at(t, (uint32_t)number);
	memset(server, 0, sizeof *server);
	server->guid = get64(s + SRV_GUID);
	server->lid = (uint16_t)get16(s + SRV_LID);
	server->leaf = (uint16_t)get16(s + SRV_LEAF);
	server->lmc = s[SRV_LMC];
	server->name = (const char *)t->names + get32(s + SRV_NAME_OFF);
	server->name_length = get32(s + SRV_NAME_LEN);
	return FORS_OK;
}

int fors_find_guid(const fors_table *t, uint64_t guid)
{
	uint32_t low = 0, high = t->info.servers;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2, s = get32(t->by_guid + 4 * (size_t)middle);
		const uint64_t g = get64(server_at(t, s) + SRV_GUID);
		if (g == guid)
			return (int)s;
		if (g < guid)
			low = middle + 1;
		else
			high = middle;
	}
	return FORS_ENOTFOUND;
}

int fors_find_lid(const fors_table *t, uint16_t lid)
{
	uint32_t low = 0, high = t->info.servers;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2, s = get32(t->by_lid + 4 * (size_t)middle);
		const uint32_t base = get16(server_at(t, s) + SRV_LID);
		if (lid < base)
			high = middle;
		else if (lid - base >= 1u << server_at(t, s)[SRV_LMC])
			low = middle + 1;
		else
			return (int)s;
	}
	return FORS_ENOTFOUND;
}

int fors_find_name(const fors_table *t, const char *name, int after)
{
	const size_t length = name ? strlen(name) : 0;
	for (uint32_t s = (uint32_t)after + 1; name && after >= -1 && s < t->info.servers; s++) {
		const unsigned char *e = server_at(t, s);
		if (get32(e + SRV_NAME_LEN) == length && memcmp(t->names + get32(e + SRV_NAME_OFF), name, length) == 0)
			return (int)s;
	}
	return FORS_ENOTFOUND;
}

/* same_host compares two host names of given lengths as fors_find_host does. */
static bool same_host(const char *a, size_t a_length, const char *b, size_t b_length)
{
	const char *a_dot = memchr(a, '.', a_length), *b_dot = memchr(b, '.', b_length);
	if (a_dot && !b_dot)
		a_length = (size_t)(a_dot - a);
	if (b_dot && !a_dot)
		b_length = (size_t)(b_dot - b);
	return a_length == b_length && a_length > 0 && strncasecmp(a, b, a_length) == 0;
}

int fors_find_host(const fors_table *t, const char *host, int after)
{
	const size_t length = host ? strlen(host) : 0;
	for (uint32_t s = (uint32_t)after + 1; host && after >= -1 && s < t->info.servers; s++) {
		const char *name = (const char *)t->names + get32(server_at(t, s) + SRV_NAME_OFF);
		if (same_host(name, strcspn(name, " \t"), host, length))
			return (int)s;
	}
	return FORS_ENOTFOUND;
}

/* unique is the only server that a search finds; *found is the number of those it finds, up to 2. */
static int unique(const fors_table *t, int (*search)(const fors_table *, const char *, int), const char *text, int *found)
{
	const int first = search(t, text, -1);
	*found = first >= 0;
	if (first >= 0)
		*found += search(t, text, first) >= 0;
	return first;
}

/* hexadecimal reads the digits after "0x" in a GUID. */
static bool hexadecimal(const char *text, uint64_t *guid)
{
	const size_t digits = strspn(text, "0123456789abcdefABCDEF");
	*guid = strtoull(text, NULL, 16);
	return digits > 0 && digits <= 16 && text[digits] == 0;
}

int fors_find(const fors_table *t, const char *text, struct fors_error *err)
{
	if (!text)
		return fors_fail_(err, FORS_EINVAL, "fors_find: text is NULL");
	int found = 0, s = unique(t, fors_find_name, text, &found);
	uint64_t value;
	if (found == 0 && strncmp(text, "0x", 2) == 0 && hexadecimal(text + 2, &value))
		found = (s = fors_find_guid(t, value)) >= 0;
	if (found == 0 && fors_number_(text, strlen(text), MAX_LID, &value))
		found = (s = fors_find_lid(t, (uint16_t)value)) >= 0;
	if (found == 0)
		s = unique(t, fors_find_host, text, &found);
	if (found == 0)
		return fors_fail_(err, FORS_ENOTFOUND, "no server of epoch %" PRIu64 " has the name, port GUID or LID \"%.100s\"", t->info.epoch, text);
	if (found > 1)
		return fors_fail_(err, FORS_EAMBIGUOUS, "several servers of epoch %" PRIu64 " are called \"%.100s\": name one by its port GUID", t->info.epoch, text);
	return s;
}
