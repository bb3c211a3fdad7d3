/*
 * tables.c: a fuzz target. The bytes are the switches and blocks of whole tables
 * and of a change of them, each with the sum that it must have, so that what
 * comes after the sum's check is reached as well. The first two bytes are the
 * length of the whole tables, then comes the number of switches of either.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/tables.c" /* for sum_of */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

/* read_set applies switches of given bytes to t, with the base and the sum that fit. */
static bool read_set(struct tables *t, uint64_t base, unsigned count, const uint8_t *data, size_t size)
{
	struct buffer body = {0};
	forsosm_put64_(&body, base);
	forsosm_put64_(&body, 0); /* no tables have this sum: a first reading finds theirs */
	forsosm_put32_(&body, count);
	forsosm_put_(&body, data, size);
	struct cursor c = {.at = body.data, .left = body.length};
	const char *what = apply(t, &c);
	require(what != NULL);
	const bool whole = strstr(what, "sum") != NULL;
	if (whole) {
		const uint64_t sum = sum_of(t);
		for (int i = 0; i < 8; i++)
			body.data[8 + i] = (unsigned char)(sum >> 8 * i);
		c = (struct cursor){.at = body.data, .left = body.length};
		require(apply(t, &c) == NULL && t->sum == sum); /* again, which changes nothing */
	} else {
		forsosm_drop_(t);
	}
	forsosm_free_(&body);
	return whole;
}

/* check looks at every entry. */
static void check(const struct tables *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		const struct table *s = &t->switches[i];
		require(i == 0 || s[-1].guid < s->guid);
		require(forsosm_find_(t, s->guid) == s && s->blocks <= MAX_LID / BLOCK + 1);
		unsigned last = 0;
		for (uint32_t lid = 0; lid < s->blocks * BLOCK; lid++)
			last |= s->entries[lid];
		require(last <= 0xFF);
	}
	require(t->count == UINT32_MAX || !forsosm_find_(t, UINT64_MAX) || t->switches[t->count - 1].guid == UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t first = get16(data);
	const unsigned count = data[2], changes = data[3];
	data += 4;
	size -= 4;
	if (first > size)
		first = size;
	struct tables t = {0};
	if (read_set(&t, 0, count, data, first)) {
		check(&t);
		if (read_set(&t, t.sum, changes, data + first, size - first))
			check(&t);
	}
	forsosm_drop_(&t);
	return 0;
}
