/*
 * tables.c: the tables that forsd has sent, kept so that it need only send what
 * changes, and those of its file.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
	MAX_MEMORY = 64 << 20, /* bytes of all tables together */
	SWITCH_HEAD = 10,      /* bytes of a switch without its blocks */
};

void forsosm_drop_(struct tables *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->switches[i].entries);
	free(t->switches);
	*t = (struct tables){0};
}

/* place is where a switch is, or would be. */
static uint32_t place(const struct tables *t, uint64_t guid)
{
	uint32_t low = 0, high = t->count;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (t->switches[middle].guid < guid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct table *forsosm_find_(const struct tables *t, uint64_t guid)
{
	const uint32_t i = place(t, guid);
	return i < t->count && t->switches[i].guid == guid ? &t->switches[i] : NULL;
}

struct table *forsosm_add_(struct tables *t, uint64_t guid)
{
	const uint32_t i = place(t, guid);
	if (i < t->count && t->switches[i].guid == guid)
		return &t->switches[i];
	struct table *more = realloc(t->switches, (t->count + 1) * sizeof *more);
	if (!more)
		return NULL;
	t->switches = more;
	memmove(&more[i + 1], &more[i], (t->count++ - i) * sizeof *more);
	more[i] = (struct table){.guid = guid};
	return &more[i];
}

bool forsosm_copy_(struct tables *to, const struct tables *from)
{
	forsosm_drop_(to);
	bool fine = true;
	for (uint32_t i = 0; i < from->count && fine; i++) {
		const struct table *s = &from->switches[i];
		struct table *copy = forsosm_add_(to, s->guid);
		fine = copy && (s->blocks == 0 || forsosm_reach_(copy, s->blocks - 1));
		if (fine && s->blocks > 0)
			memcpy(copy->entries, s->entries, (size_t)s->blocks * BLOCK);
	}
	to->sum = from->sum;
	if (!fine)
		forsosm_drop_(to);
	return fine;
}

bool forsosm_reach_(struct table *s, uint32_t block)
{
	if (block < s->blocks)
		return true;
	unsigned char *entries = realloc(s->entries, (size_t)(block + 1) * BLOCK);
	if (!entries)
		return false;
	memset(entries + (size_t)s->blocks * BLOCK, NO_PATH, (size_t)(block + 1 - s->blocks) * BLOCK);
	s->entries = entries;
	s->blocks = block + 1;
	return true;
}

/* fill takes the blocks of a switch in; *memory is what all tables take. */
static const char *fill(struct table *s, struct cursor *c, unsigned blocks, size_t *memory)
{
	for (unsigned i = 0; i < blocks; i++) {
		const unsigned block = forsosm_take16_(c);
		const unsigned char *ports = forsosm_take_(c, BLOCK);
		if (!ports)
			return "a table that ends early";
		if (block > MAX_LID / BLOCK)
			return "a block beyond the last unicast LID";
		const uint32_t before = s->blocks;
		if (!forsosm_reach_(s, block))
			return "tables that memory does not hold";
		*memory += (size_t)(s->blocks - before) * BLOCK;
		if (*memory > MAX_MEMORY)
			return "tables of more than 64 MiB";
		memcpy(s->entries + (size_t)block * BLOCK, ports, BLOCK);
	}
	return NULL;
}

/* begin makes a set of count tables, whose switches are yet to be named. */
static bool begin(struct tables *t, uint32_t count)
{
	forsosm_drop_(t);
	t->switches = calloc(count ? count : 1, sizeof *t->switches);
	return t->switches != NULL;
}

/* sum_of is the sum as the protocol defines it. */
static uint64_t sum_of(const struct tables *t)
{
	const uint64_t prime = 0x100000001B3u;
	uint64_t sum = 0xCBF29CE484222325u;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct table *s = &t->switches[i];
		sum = (sum ^ s->guid) * prime;
		for (uint32_t b = 0; b < s->blocks; b++) {
			const unsigned char *ports = s->entries + (size_t)b * BLOCK;
			uint64_t words[BLOCK / 8], all = UINT64_MAX;
			for (int w = 0; w < BLOCK / 8; w++) {
				words[w] = get64(ports + 8 * w);
				all &= words[w];
			}
			if (all == UINT64_MAX)
				continue;
			sum = (sum ^ b) * prime;
			for (int w = 0; w < BLOCK / 8; w++)
				sum = (sum ^ words[w]) * prime;
		}
	}
	return sum ? sum : 1;
}

/* apply does what forsosm_apply_ does, and leaves t as it is after an error. */
static const char *apply(struct tables *t, struct cursor *c)
{
	const uint64_t base = forsosm_take64_(c), sum = forsosm_take64_(c);
	const uint32_t count = forsosm_take32_(c);
	if (base != 0 && base != t->sum)
		return "changes of tables that are not held here";
	if (c->ended || count > c->left / SWITCH_HEAD)
		return "tables that end early";
	if (count > MAX_LID) /* every switch has a LID */
		return "tables of more switches than there are LIDs";
	if (base == 0 && !begin(t, count))
		return "tables that memory does not hold";
	size_t memory = 0;
	for (uint32_t i = 0; base != 0 && i < t->count; i++)
		memory += (size_t)t->switches[i].blocks * BLOCK;
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t guid = forsosm_take64_(c);
		const unsigned blocks = forsosm_take16_(c);
		struct table *at = (struct table *)forsosm_find_(t, guid);
		if (base == 0) {
			if (i > 0 && t->switches[i - 1].guid >= guid)
				return "tables that are not in ascending order of GUID";
			at = &t->switches[t->count++];
			at->guid = guid;
		}
		if (!at)
			return "a change of a table that is not held here";
		const char *why = fill(at, c, blocks, &memory);
		if (why)
			return why;
	}
	if (c->ended || c->left > 0)
		return "tables that do not end where they should";
	if (sum_of(t) != sum)
		return "tables that do not give their sum";
	t->sum = sum;
	return NULL;
}

const char *forsosm_apply_(struct tables *t, struct cursor *c)
{
	const char *why = apply(t, c);
	if (why)
		forsosm_drop_(t);
	return why;
}

void forsosm_read_(struct tables *t, FILE *file)
{
	char line[1024];
	struct table *at = NULL;
	size_t memory = 0;
	while (fgets(line, sizeof line, file)) {
		const char *guid = strncmp(line, "Unicast lids", 12) == 0 ? strstr(line, " guid 0x") : NULL;
		unsigned lid, port;
		if (guid)
			at = t->count < MAX_LID ? forsosm_add_(t, strtoull(guid + 6, NULL, 16)) : NULL;
		else if (at && sscanf(line, "0x%4x %3u", &lid, &port) == 2 && lid <= MAX_LID && port < NO_PATH) {
			const uint32_t before = at->blocks;
			if (memory > MAX_MEMORY || !forsosm_reach_(at, lid / BLOCK))
				return;
			memory += (size_t)(at->blocks - before) * BLOCK;
			at->entries[lid] = (unsigned char)port;
		}
	}
}
