/*
 * check.c: is this a table? Every byte that a lookup may use later is checked here,
 * once, so that lookups omit checks. docs/phase-table.md has the rules.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* checksum is the CRC-32C of a table with its field taken as zero. */
static uint32_t checksum(const unsigned char *data, size_t length)
{
	static const unsigned char zero[OFF_FLAGS - OFF_CRC];
	uint32_t crc = fors_crc32c_(0, data, OFF_CRC);
	crc = fors_crc32c_(crc, zero, sizeof zero);
	return fors_crc32c_(crc, data + OFF_FLAGS, length - OFF_FLAGS);
}

/* check_header checks the fields on which the meaning of all others depends. */
static int check_header(const struct fors_table *t, struct fors_error *err)
{
	const unsigned char *h = t->data;
	if (t->length < HEADER_SIZE)
		return fors_fail_(err, FORS_ETRUNCATED, "%zu bytes are less than the header of %d", t->length, HEADER_SIZE);
	if (memcmp(h, "FORSDPHT", 8) != 0)
		return fors_fail_(err, FORS_EMAGIC, "this does not begin with FORSDPHT, as a phase table does");
	if (get32(h + OFF_VERSION) != 1 && get32(h + OFF_VERSION) != 2)
		return fors_fail_(err, FORS_EVERSION, "version %" PRIu32 " of the format: this library knows versions 1 and 2", get32(h + OFF_VERSION));
	if (get64(h + OFF_TOTAL) != t->length)
		return fors_fail_(err, FORS_ETRUNCATED, "%zu bytes of the %" PRIu64 " that the header promises", t->length, get64(h + OFF_TOTAL));
	const uint32_t want = get32(h + OFF_CRC), got = checksum(h, t->length);
	if (want != got)
		return fors_fail_(err, FORS_ECHECKSUM, "checksum 0x%08" PRIx32 " of the content is not 0x%08" PRIx32 " as in the header: the table is damaged", got, want);
	if (get32(h + OFF_FLAGS) >> 16 != 0)
		return fors_fail_(err, FORS_EFLAGS, "flags 0x%08" PRIx32 " are unknown and must not be ignored", get32(h + OFF_FLAGS));
	return FORS_OK;
}

/* by_rule reports whether a table is of version 2. */
static bool by_rule(const struct fors_table *t) { return get32(t->data + OFF_VERSION) == 2; }

/* read_header reads the numbers and checks their ranges. */
static int read_header(struct fors_table *t, struct fors_error *err)
{
	const unsigned char *h = t->data;
	struct fors_info *i = &t->info;
	i->epoch = get64(h + OFF_EPOCH);
	i->job = get64(h + OFF_JOB);
	memcpy(i->topology_hash, h + OFF_HASH, sizeof i->topology_hash);
	i->servers = get32(h + OFF_SERVERS);
	i->phases = get32(h + OFF_PHASES);
	i->lanes = get16(h + OFF_LANES);
	i->lmc_max = h[OFF_LMC];
	i->own_cables = get32(h + OFF_FLAGS) & 1;
	i->crc = get32(h + OFF_CRC);
	const uint32_t size = get32(h + OFF_HEADER_SIZE), least = by_rule(t) ? RULES_HEADER_SIZE : HEADER_SIZE;
	if (size < least || size % ALIGN != 0 || (by_rule(t) && size > t->length))
		return fors_fail_(err, FORS_EHEADER, "a header of %" PRIu32 " bytes: want a multiple of %d from %" PRIu32, size, ALIGN, least);
	if (i->servers > MAX_LID)
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " servers: at most %d have a unicast LID", i->servers, MAX_LID);
	if (i->phases > INT32_MAX || (i->servers == 0 && i->phases > 0))
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " phases for %" PRIu32 " servers", i->phases, i->servers);
	if (i->lanes > MAX_LANES)
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " lanes: at most %d are possible", i->lanes, MAX_LANES);
	return by_rule(t) ? fors_rules_header_(t, err) : FORS_OK;
}

/*
 * cut_sections finds the sections. They are aligned, in order and disjoint, and have
 * the length that follows from the numbers of servers and phases.
 */
static int cut_sections(struct fors_table *t, struct fors_error *err)
{
	static const char *const names[] = {"server directory", "index by GUID", "index by LID", "string table", "rows"};
	static const char *const by_rules[] = {"units or places", "slots received from, or servers on places", "groups", "groups of servers"};
	struct rules *r = &t->rules;
	const uint64_t n = t->info.servers;
	uint64_t want[8] = {n * SERVER_SIZE, n * 4, n * 4, 0, n * t->info.phases * CELL_SIZE};
	const unsigned char **at[8] = {&t->dir, &t->by_guid, &t->by_lid, &t->names, &t->rows.cells};
	int sections = 5;
	if (by_rule(t)) {
		const unsigned char **const rules[] = {&r->units, &r->received, &r->members, &r->group_of};
		sections = 8;
		memcpy(at + 4, rules, sizeof rules);
		fors_rules_lengths_(t, want + 4);
	}
	uint64_t end = get32(t->data + OFF_HEADER_SIZE);
	for (int i = 0; i < sections; i++) {
		const char *const name = i >= 4 && by_rule(t) ? by_rules[i - 4] : names[i];
		const uint64_t off = get64(t->data + OFF_SECTIONS + 16 * i), length = get64(t->data + OFF_SECTIONS + 16 * i + 8);
		if (off % ALIGN != 0 || off < end || off > t->length || length > t->length - off)
			return fors_fail_(err, FORS_ESECTION, "%s: offset %" PRIu64 " and length %" PRIu64 " in a table of %zu bytes: want an offset of at least %" PRIu64 ", a multiple of %d",
				name, off, length, t->length, end, ALIGN);
		if (i != 3 && length != want[i])
			return fors_fail_(err, FORS_ESECTION, "%s: %" PRIu64 " bytes for %" PRIu64 " servers and %" PRIu32 " phases: want %" PRIu64,
				name, length, n, t->info.phases, want[i]);
		if (i == 3)
			t->names_length = length;
		*at[i] = t->data + off;
		end = off + length;
	}
	t->rows.servers = t->info.servers;
	t->rows.phases = t->info.phases;
	return FORS_OK;
}

/* is_utf8 reports whether bytes are UTF-8, without surrogates and overlong forms. */
static bool is_utf8(const unsigned char *p, uint64_t n)
{
	for (uint64_t i = 0; i < n;) {
		const unsigned char c = p[i++];
		if (c < 0x80)
			continue;
		/* The second byte's range excludes overlong forms, surrogates and values over U+10FFFF. */
		const unsigned more = c >= 0xC2 && c <= 0xDF ? 1 : (c & 0xF0) == 0xE0 ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
		const unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80, high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
		if (more == 0 || n - i < more || p[i] < low || p[i] > high)
			return false;
		for (uint64_t k = 1; k < more; k++)
			if ((p[i + k] & 0xC0) != 0x80)
				return false;
		i += more;
	}
	return true;
}

/* check_servers checks the directory and its names. */
static int check_servers(const struct fors_table *t, struct fors_error *err)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < t->info.servers; i++) {
		const unsigned char *s = server_at(t, i);
		const uint64_t off = get32(s + SRV_NAME_OFF), length = get32(s + SRV_NAME_LEN);
		const uint32_t lid = get16(s + SRV_LID), lmc = s[SRV_LMC];
		if (off + length >= t->names_length)
			return fors_fail_(err, FORS_ESERVER, "server %" PRIu32 ": a name of %" PRIu64 " bytes at %" PRIu64 " in a string table of %" PRIu64, i, length, off, t->names_length);
		if (t->names[off + length] != 0 || !is_utf8(t->names + off, length))
			return fors_fail_(err, FORS_ESERVER, "server %" PRIu32 ": its name is not UTF-8 with a zero byte after it", i);
		if (get64(s + SRV_GUID) == 0)
			return fors_fail_(err, FORS_ESERVER, "server %" PRIu32 " has no port GUID", i);
		if (lmc > MAX_LMC)
			return fors_fail_(err, FORS_ESERVER, "server %" PRIu32 ": LMC %" PRIu32 " is over %d", i, lmc, MAX_LMC);
		if (lid == 0 || lid + (1u << lmc) - 1 > MAX_LID)
			return fors_fail_(err, FORS_ESERVER, "server %" PRIu32 ": LID %" PRIu32 " with LMC %" PRIu32 " is not in the unicast range, 1 to %d", i, lid, lmc, MAX_LID);
		if (lmc > most)
			most = lmc;
	}
	if (most != t->info.lmc_max)
		return fors_fail_(err, FORS_EHEADER, "the largest LMC is %" PRIu32 ": the header says %" PRIu32, most, t->info.lmc_max);
	return FORS_OK;
}

/*
 * check_indexes checks that both indexes are in range and in strictly ascending
 * order. Order alone implies that no server is named twice, so all of them are.
 */
static int check_indexes(const struct fors_table *t, struct fors_error *err)
{
	uint64_t guid = 0;
	uint32_t next = 0;
	for (uint32_t i = 0; i < t->info.servers; i++) {
		const uint32_t a = get32(t->by_guid + 4 * (size_t)i), b = get32(t->by_lid + 4 * (size_t)i);
		if (a >= t->info.servers || b >= t->info.servers)
			return fors_fail_(err, FORS_EINDEX, "place %" PRIu32 " of an index names a server beyond the %" PRIu32 " there are", i, t->info.servers);
		const uint64_t g = get64(server_at(t, a) + SRV_GUID);
		if (g <= guid)
			return fors_fail_(err, FORS_EINDEX, "index by GUID, place %" PRIu32 ": 0x%016" PRIx64 " does not follow 0x%016" PRIx64, i, g, guid);
		guid = g;
		const uint32_t lid = get16(server_at(t, b) + SRV_LID);
		if (lid < next)
			return fors_fail_(err, FORS_EINDEX, "index by LID, place %" PRIu32 ": LID %" PRIu32 " of server %" PRIu32 " does not follow LID %" PRIu32, i, lid, b, next - 1);
		next = lid + (1u << server_at(t, b)[SRV_LMC]);
	}
	return FORS_OK;
}

/* check_send checks the message of server s in phase p, a cell that names a receiver. */
static int check_send(const struct fors_table *t, uint32_t s, uint32_t p, const unsigned char *cell, struct fors_error *err)
{
	const uint32_t d = get16(cell), dlid = get16(cell + 4);
	const int lane = (int16_t)get16(cell + 6);
	if (d >= t->info.servers || d == s)
		return fors_fail_(err, FORS_ETRANSFER, "phase %" PRIu32 ": server %" PRIu32 " sends to server %" PRIu32 " of %" PRIu32, p, s, d, t->info.servers);
	const uint32_t back = get16(cell_at(t, d, p) + 2);
	if (back != s)
		return fors_fail_(err, FORS_ETRANSFER, "phase %" PRIu32 ": server %" PRIu32 " sends to server %" PRIu32 ", which receives from %" PRIu32, p, s, d, back);
	const unsigned char *to = server_at(t, d);
	const uint32_t lid = get16(to + SRV_LID);
	if (t->info.lanes == 0 || get16(server_at(t, s) + SRV_LEAF) == get16(to + SRV_LEAF)) {
		if (lane == -1 && dlid == lid)
			return FORS_OK;
		return fors_fail_(err, FORS_ETRANSFER, "phase %" PRIu32 ", server %" PRIu32 " to %" PRIu32 ": lane %d and LID %" PRIu32 " on one leaf or without lanes: want lane -1 and the base LID %" PRIu32,
			p, s, d, lane, dlid, lid);
	}
	if (lane >= 0 && (uint32_t)lane < t->info.lanes && dlid >= lid && dlid - lid < 1u << to[SRV_LMC])
		return FORS_OK;
	return fors_fail_(err, FORS_ETRANSFER, "phase %" PRIu32 ", server %" PRIu32 " to %" PRIu32 ": lane %d and LID %" PRIu32 ": want one of %" PRIu32 " lanes and of the LIDs %" PRIu32 " to %" PRIu32,
		p, s, d, lane, dlid, t->info.lanes, lid, lid + (1u << to[SRV_LMC]) - 1);
}

/*
 * check_rows checks every transfer, and that there are as many receivers as senders:
 * since each sender's receiver names it, no others receive. It goes through all
 * servers for the phases that share a cache line.
 */
static int check_rows(struct fors_table *t, struct fors_error *err)
{
	const uint32_t tile = ALIGN / CELL_SIZE, phases = t->info.phases;
	bool base = true;
	for (uint32_t first = 0; first < phases; first += tile) {
		const uint32_t last = phases - first < tile ? phases : first + tile;
		int64_t spare = 0;
		for (uint32_t s = 0; s < t->info.servers; s++)
			for (uint32_t p = first; p < last; p++) {
				const unsigned char *cell = cell_at(t, s, p);
				spare += get16(cell + 2) != NOBODY;
				if (get16(cell) != NOBODY) {
					const int failed = check_send(t, s, p, cell, err);
					if (failed)
						return failed;
					base = base && get16(cell + 4) == get16(server_at(t, get16(cell)) + SRV_LID);
					spare--;
				} else if (get32(cell + 4) != 0xFFFF0000) {
					return fors_fail_(err, FORS_ETRANSFER, "phase %" PRIu32 ": server %" PRIu32 " does not send, yet has LID %" PRIu32 " and lane %d", p, s, get16(cell + 4), (int16_t)get16(cell + 6));
				}
			}
		if (spare != 0)
			return fors_fail_(err, FORS_ETRANSFER, "phases %" PRIu32 " to %" PRIu32 ": %" PRId64 " more servers receive than send", first, last - 1, spare);
	}
	t->info.base_lids = base;
	return FORS_OK;
}

int fors_check_(struct fors_table *t, struct fors_error *err)
{
	static int (*const reads[])(struct fors_table *, struct fors_error *) = {read_header, cut_sections};
	static int (*const checks[])(const struct fors_table *, struct fors_error *) = {check_servers, check_indexes};
	int failed = check_header(t, err);
	for (size_t i = 0; !failed && i < sizeof reads / sizeof *reads; i++)
		failed = reads[i](t, err);
	for (size_t i = 0; !failed && i < sizeof checks / sizeof *checks; i++)
		failed = checks[i](t, err);
	if (failed)
		return failed;
	return by_rule(t) ? fors_rules_check_(t, err) : check_rows(t, err);
}
