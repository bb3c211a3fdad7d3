/*
 * location.c: a fuzz target. Any text for a location is understood or refused, and
 * the text of fors_location means the same as the first.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	struct source a, b;
	struct fors_error err;
	if (fors_source_(text, &a, &err) == FORS_OK) {
		if (fors_source_(a.where, &b, &err) != FORS_OK || a.kind != b.kind || !same(a.job, b.job) || a.epoch != b.epoch ||
		    a.timeout != b.timeout || !same(a.path, b.path) || !same(a.host, b.host) || !same(a.port, b.port))
			abort();
		fors_source_free_(&a);
		fors_source_free_(&b);
	} else if (err.code != FORS_ELOCATION) {
		abort();
	}
	free(text);
	return 0;
}
