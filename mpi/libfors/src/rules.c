/*
 * rules.c: tables of version 2. They hold a rule, and an entry is worked out on request.
 * docs/phase-table.md has the format.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { UNIT_SIZE = 6, GROUP_SIZE = 8, PLACE_SIZE = 12, FORM_BLOCKS = 1, FORM_SHIFT = 2 };

static const uint32_t NONE = 0xFFFFFFFF; /* no slot, no server */
static const uint32_t MOST = 1 << 24;    /* of groups, blocks and phases of a block: their products fit 64 bits */

static inline uint32_t leaf_of(const struct fors_table *t, uint32_t s) { return get16(server_at(t, s) + SRV_LEAF); }
static inline uint32_t lid_of(const struct fors_table *t, uint32_t s) { return get16(server_at(t, s) + SRV_LID); }
static inline const unsigned char *unit_at(const struct rules *r, uint64_t slot, uint32_t block) { return r->units + (slot * r->blocks + block) * UNIT_SIZE; }
static inline uint32_t received_at(const struct rules *r, uint32_t s, uint32_t block) { return get32(r->received + 4 * ((uint64_t)s * r->blocks + block)); }
static inline const unsigned char *place_at(const struct rules *r, uint32_t s) { return r->units + (size_t)s * PLACE_SIZE; }
static inline uint32_t on_place(const struct rules *r, uint64_t place) { return get32(r->received + 4 * place); }

int fors_rules_header_(struct fors_table *t, struct fors_error *err)
{
	struct rules *r = &t->rules;
	const unsigned char *h = t->data;
	r->form = get32(h + OFF_FORM);
	r->group = get32(h + OFF_GROUP);
	r->blocks = get32(h + OFF_BLOCKS);
	r->groups = get32(h + OFF_GROUPS);
	if (r->form != FORM_BLOCKS && r->form != FORM_SHIFT)
		return fors_fail_(err, FORS_EHEADER, "form %" PRIu32 ": this library knows %d, blocks, and %d, shift", r->form, FORM_BLOCKS, FORM_SHIFT);
	if (r->group > MOST || r->blocks > MOST || r->groups > MOST || (r->form == FORM_BLOCKS && r->group < 1))
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " blocks of %" PRIu32 " phases for %" PRIu32 " groups", r->blocks, r->group, r->groups);
	const uint64_t phases = r->form == FORM_BLOCKS ? (uint64_t)r->group * r->blocks : r->groups > 0 ? r->groups - 1 : 0;
	if (phases != t->info.phases)
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " phases: the rule has %" PRIu64, t->info.phases, phases);
	return FORS_OK;
}

void fors_rules_lengths_(const struct fors_table *t, uint64_t length[4])
{
	const struct rules *r = &t->rules;
	const uint64_t n = t->info.servers;
	memset(length, 0, 4 * sizeof *length);
	if (r->form == FORM_SHIFT) {
		length[0] = n * PLACE_SIZE;
		length[1] = (uint64_t)r->groups * 4;
		return;
	}
	/* Each factor is below 2^24 and n below 2^16: only the first product may not fit. */
	const uint64_t slots = (uint64_t)r->groups * r->group;
	length[0] = r->blocks > 0 && slots > UINT64_MAX / 8 / r->blocks ? UINT64_MAX : slots * r->blocks * UNIT_SIZE;
	length[1] = n * r->blocks * 4;
	length[2] = (uint64_t)r->groups * GROUP_SIZE;
	length[3] = n * 4;
}

/* check_transfer checks the transfers of the servers from `first` on to d, in any phase. */
static int check_transfer(const struct fors_table *t, uint32_t block, uint32_t first, uint32_t d, const unsigned char *unit, struct fors_error *err)
{
	const uint32_t dlid = get16(unit + 2), lid = lid_of(t, d);
	const int lane = (int16_t)get16(unit + 4);
	const bool local = t->info.lanes == 0 || leaf_of(t, first) == leaf_of(t, d);
	if (local ? lane == -1 && dlid == lid : lane >= 0 && (uint32_t)lane < t->info.lanes && dlid >= lid && dlid - lid < 1u << server_at(t, d)[SRV_LMC])
		return FORS_OK;
	return fors_fail_(err, FORS_ETRANSFER, "block %" PRIu32 ", server %" PRIu32 " to %" PRIu32 ": lane %d and LID %" PRIu32 " do not fit the two", block, first, d, lane, dlid);
}

static int check_groups(const struct fors_table *t, struct fors_error *err)
{
	const struct rules *r = &t->rules;
	uint32_t next = 0;
	for (uint32_t k = 0; k < r->groups; k++) {
		const uint32_t first = get32(r->members + (size_t)k * GROUP_SIZE), count = get32(r->members + (size_t)k * GROUP_SIZE + 4);
		if ((count > 0 && first != next) || count > r->group || (uint64_t)next + count > t->info.servers)
			return fors_fail_(err, FORS_ETRANSFER, "group %" PRIu32 " has %" PRIu32 " members from server %" PRIu32 " on: want at most %" PRIu32 " from %" PRIu32 " on", k, count, first, r->group, next);
		for (uint32_t s = next; s < next + count; s++)
			if (get32(r->group_of + 4 * (size_t)s) != k || leaf_of(t, s) != leaf_of(t, next))
				return fors_fail_(err, FORS_ETRANSFER, "server %" PRIu32 " is not of group %" PRIu32 ", or not on its leaf", s, k);
		next += count;
	}
	if (next != t->info.servers)
		return fors_fail_(err, FORS_ETRANSFER, "%" PRIu32 " of %" PRIu32 " servers are in groups", next, t->info.servers);
	return FORS_OK;
}

/* check_block checks the units of a block, and that as many servers receive as are sent to. */
static int check_block(struct fors_table *t, uint32_t block, struct fors_error *err)
{
	const struct rules *r = &t->rules;
	int64_t spare = 0;
	for (uint32_t slot = 0; slot < r->group * r->groups; slot++) {
		const unsigned char *unit = unit_at(r, slot, block);
		const uint32_t d = get16(unit);
		if (d == NOBODY) {
			if (get32(unit + 2) != 0xFFFF0000)
				return fors_fail_(err, FORS_ETRANSFER, "block %" PRIu32 ": slot %" PRIu32 " has no destination, yet an LID or a lane", block, slot);
			continue;
		}
		if (d >= t->info.servers || received_at(r, d, block) != slot)
			return fors_fail_(err, FORS_ETRANSFER, "block %" PRIu32 ": slot %" PRIu32 " leads to server %" PRIu32 ", which does not receive from it", block, slot, d);
		const unsigned char *group = r->members + (size_t)(slot / r->group) * GROUP_SIZE;
		const int failed = get32(group + 4) > 0 ? check_transfer(t, block, get32(group), d, unit, err) : FORS_OK;
		if (failed)
			return failed;
		if (get32(group + 4) > 0 && get16(unit + 2) != lid_of(t, d))
			t->info.base_lids = 0;
		spare--;
	}
	for (uint32_t s = 0; s < t->info.servers; s++)
		spare += received_at(r, s, block) != NONE;
	if (spare != 0)
		return fors_fail_(err, FORS_ETRANSFER, "block %" PRIu32 ": %" PRId64 " more servers receive than are sent to", block, spare);
	return FORS_OK;
}

static int check_shift(const struct fors_table *t, struct fors_error *err)
{
	const struct rules *r = &t->rules;
	uint32_t on = 0;
	for (uint32_t place = 0; place < r->groups; place++) {
		const uint32_t s = on_place(r, place);
		if (s == NONE)
			continue;
		if (s >= t->info.servers || get32(place_at(r, s)) != place)
			return fors_fail_(err, FORS_ETRANSFER, "server %" PRIu32 " is on place %" PRIu32 ", and has another", s, place);
		on++;
	}
	if (on != t->info.servers)
		return fors_fail_(err, FORS_ETRANSFER, "%" PRIu32 " of %" PRIu32 " servers are on places", on, t->info.servers);
	for (uint32_t s = 0; s < t->info.servers && t->info.lanes > 0; s++)
		for (int k = 0; k < 2; k++)
			if (get16(place_at(r, s) + 8 + 2 * k) >= t->info.lanes)
				return fors_fail_(err, FORS_ETRANSFER, "server %" PRIu32 " is sent to over lane %d: there are %" PRIu32, s, (int16_t)get16(place_at(r, s) + 8 + 2 * k), t->info.lanes);
	return FORS_OK;
}

int fors_rules_check_(struct fors_table *t, struct fors_error *err)
{
	t->info.base_lids = 1;
	if (t->rules.form == FORM_SHIFT)
		return check_shift(t, err);
	/* Every slot has units in the file; without blocks there are none to look at. */
	if (t->rules.blocks > 0 && (uint64_t)t->rules.group * t->rules.groups > UINT32_MAX)
		return fors_fail_(err, FORS_EHEADER, "%" PRIu32 " groups of %" PRIu32, t->rules.groups, t->rules.group);
	int failed = check_groups(t, err);
	for (uint32_t block = 0; !failed && block < t->rules.blocks; block++)
		failed = check_block(t, block, err);
	return failed;
}

/*
 * fors_rules_bits_ fills path_bits, [server·groups + group]: the place, among the LIDs of a
 * server, of the LID at which it receives from a group.
 */
int fors_rules_bits_(struct fors_table *t, struct fors_error *err)
{
	struct rules *r = &t->rules;
	if (r->form == FORM_SHIFT || t->info.base_lids)
		return FORS_OK;
	t->path_bits = calloc((size_t)t->info.servers * r->groups + 1, 1);
	if (!t->path_bits)
		return fors_fail_(err, FORS_ENOMEM, "out of memory for a table of %" PRIu32 " servers and %" PRIu32 " groups", t->info.servers, r->groups);
	for (uint32_t s = 0; s < t->info.servers; s++)
		for (uint32_t block = r->blocks; block-- > 0;) {
			const uint32_t slot = received_at(r, s, block);
			if (slot != NONE)
				t->path_bits[(size_t)s * r->groups + slot / r->group] = (unsigned char)(get16(unit_at(r, slot, block) + 2) - lid_of(t, s));
		}
	return FORS_OK;
}

static struct fors_entry shift_entry(const struct fors_table *t, uint32_t s, uint32_t phase)
{
	const struct rules *r = &t->rules;
	struct fors_entry e = {-1, -1, 0, -1, 0, {0, 0, 0}};
	const uint64_t place = get32(place_at(r, s));
	const uint32_t to = on_place(r, (place + phase + 1) % r->groups), from = on_place(r, (place + r->groups - phase - 1) % r->groups);
	if (from != NONE)
		e.recv_from = (int32_t)from;
	if (to == NONE)
		return e;
	e.send_to = (int32_t)to;
	e.dlid = (uint16_t)lid_of(t, to);
	if (t->info.lanes > 0 && leaf_of(t, s) != leaf_of(t, to)) {
		const bool same_pod = get32(place_at(r, s) + 4) == get32(place_at(r, to) + 4);
		e.lane = (int16_t)get16(place_at(r, to) + (same_pod ? 10 : 8));
	}
	return e;
}

struct fors_entry fors_entry_by_rule(const fors_table *t, uint32_t s, uint32_t phase)
{
	const struct rules *r = &t->rules;
	if (r->form == FORM_SHIFT)
		return shift_entry(t, s, phase);
	struct fors_entry e = {-1, -1, 0, -1, 0, {0, 0, 0}};
	const uint32_t block = phase / r->group, turn = phase % r->group, k = get32(r->group_of + 4 * (size_t)s);
	const uint32_t member = s - get32(r->members + (size_t)k * GROUP_SIZE);
	const unsigned char *unit = unit_at(r, (uint64_t)k * r->group + (member + turn) % r->group, block);
	const uint32_t to = get16(unit), slot = received_at(r, s, block);
	if (to != NOBODY && to != s) {
		e.send_to = (int32_t)to;
		e.dlid = (uint16_t)get16(unit + 2);
		e.lane = (int16_t)(uint16_t)get16(unit + 4);
		if (t->path_bits)
			e.src_path_bits = t->path_bits[(size_t)s * r->groups + get32(r->group_of + 4 * (size_t)to)];
	}
	if (slot != NONE) {
		const unsigned char *group = r->members + (size_t)(slot / r->group) * GROUP_SIZE;
		const uint32_t i = (slot % r->group + r->group - turn) % r->group, from = get32(group) + i;
		if (i < get32(group + 4) && from != s)
			e.recv_from = (int32_t)from;
	}
	return e;
}
