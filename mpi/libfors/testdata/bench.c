/*
 * bench.c: how long it takes to open a table, and to look a phase up in it. It
 * prints names and figures: ms to open, GB/s of the checksum within it, ns for a
 * phase of one's own row, and of any server in any phase.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/internal.h"

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* least returns the shortest of ten runs, in seconds. */
static double least(void (*body)(const fors_table *), const fors_table *table)
{
	double best = 1e9;
	for (int i = 0; i < 10; i++) {
		const double start = now();
		body(table);
		const double took = now() - start;
		best = took < best ? took : best;
	}
	return best;
}

static volatile uint64_t sink;
enum { LOOKUPS = 1 << 21 };

static void rows(const fors_table *t)
{
	const struct fors_info *i = fors_info(t);
	uint64_t sum = 0;
	for (uint32_t n = 0, p = 0; n < LOOKUPS; n++, p = p + 1 == i->phases ? 0 : p + 1) {
		const struct fors_entry e = fors_entry(t, 7, p);
		sum += (uint64_t)(e.send_to + e.recv_from + e.dlid + e.lane + e.src_path_bits);
	}
	sink = sum;
}

/* anywhere has each lookup depend on the one before, so that nothing is overlapped. */
static void anywhere(const fors_table *t)
{
	const struct fors_info *i = fors_info(t);
	uint64_t random = 1;
	for (uint32_t n = 0; n < LOOKUPS; n++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		const struct fors_entry e = fors_entry(t, (int)((random >> 32) * i->servers >> 32), (uint32_t)((random & 0xFFFFFFFF) * i->phases >> 32));
		random += (uint64_t)e.dlid + e.src_path_bits;
	}
	sink = random;
}

static void reopen(const fors_table *t)
{
	size_t length;
	const void *data = fors_bytes(t, &length);
	fors_table *again;
	if (fors_open_memory(data, length, &again, NULL) != FORS_OK)
		abort();
	fors_close(again);
}

static void checksum(const fors_table *t)
{
	size_t length;
	const void *data = fors_bytes(t, &length);
	sink = fors_crc32c_(0, data, length);
}

int main(int argc, char **argv)
{
	struct fors_error err;
	fors_table *t;
	size_t length;
	if (argc != 2 || fors_open(argv[1], &t, &err) != FORS_OK) {
		fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: bench LOCATION");
		return 1;
	}
	fors_bytes(t, &length);
	printf("ms/open %.3f\n", least(reopen, t) * 1e3);
	printf("GB/s-of-checksum %.1f\n", (double)length / least(checksum, t) / 1e9);
	printf("ns/phase-of-own-row %.2f\n", least(rows, t) / LOOKUPS * 1e9);
	printf("ns/phase-anywhere %.2f\n", least(anywhere, t) / LOOKUPS * 1e9);
	fors_close(t);
	return 0;
}
