/*
 * file.c: a fuzz target. Whatever a table file has in it, its tables are in order, and in
 * bounds; a second reading changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static void read_into(struct tables *t, const uint8_t *data, size_t size)
{
	FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
	require(file != NULL);
	forsosm_read_(t, file);
	fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct tables t = {0}, copy = {0};
	read_into(&t, data, size);
	require(forsosm_copy_(&copy, &t));
	read_into(&t, data, size);
	require(t.count == copy.count);
	for (uint32_t i = 0; i < t.count; i++) {
		const struct table *s = &t.switches[i], *c = &copy.switches[i];
		require(i == 0 || s[-1].guid < s->guid);
		require(forsosm_find_(&t, s->guid) == s && s->blocks <= MAX_LID / BLOCK + 1);
		require(s->blocks == c->blocks && s->guid == c->guid && (s->blocks == 0 || memcmp(s->entries, c->entries, (size_t)s->blocks * BLOCK) == 0));
	}
	forsosm_drop_(&t);
	forsosm_drop_(&copy);
	return 0;
}
