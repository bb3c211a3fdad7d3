/*
 * http.c: a fuzz target. The first byte says into which pieces the rest, an answer
 * of a server, is cut; the result must not depend on the pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* read_in_pieces feeds an answer in pieces of a size. */
static int read_in_pieces(struct http *h, bool head, const uint8_t *data, size_t size, size_t piece)
{
	memset(h, 0, sizeof *h);
	h->fd = -1;
	h->head = head;
	h->state = STATUS_LINE;
	int result = 0;
	for (size_t at = 0; at < size && result == 0; at += piece) {
		const size_t n = size - at < piece ? size - at : piece;
		unsigned char *exact = malloc(n); /* so that a read beyond it is detected */
		if (!exact)
			abort();
		memcpy(exact, data + at, n);
		result = fors_http_feed_(h, exact, n, NULL);
		free(exact);
	}
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct http whole, cut;
	struct source source = {.kind = FROM_UNIX, .where = "fuzz", .job = {data[0] & 2 ? '7' : 0}};
	struct fors_error err;
	const bool head = data[0] & 1;
	const int a = read_in_pieces(&whole, head, data + 1, size - 1, size);
	const int b = read_in_pieces(&cut, head, data + 1, size - 1, 1 + (data[0] >> 2));
	if (a != b || whole.status != cut.status || whole.body_length != cut.body_length || whole.has_etag != cut.has_etag ||
	    (whole.has_etag && whole.etag != cut.etag) || (whole.body_length > 0 && memcmp(whole.body, cut.body, whole.body_length) != 0))
		abort();
	if (fors_http_refusal_(&whole, &source, &err) >= 0 || err.text[0] == 0)
		abort();
	fors_http_free_(&whole);
	fors_http_free_(&cut);
	return 0;
}
