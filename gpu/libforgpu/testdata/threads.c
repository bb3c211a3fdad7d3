/* Planners in several threads make the same plans as one in a single thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forgpu.h"

enum { THREADS = 4, SERVERS = 6, GPUS = 4, RANKS = SERVERS * GPUS, SIZE = 1 << 16 };

static int64_t bytes[RANKS * RANKS];
static unsigned char want[RANKS][SIZE];
static size_t sizes[RANKS];

static void plan(forgpu_planner *planner, int32_t rank, unsigned char *section, size_t *size)
{
	struct forgpu_program program;
	struct forgpu_error err;
	if (forgpu_plan(planner, SERVERS, GPUS, bytes, rank, NULL, &program, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	*size = forgpu_encode(&program, section, SIZE);
}

static void *run(void *first)
{
	forgpu_planner *planner = forgpu_open();
	unsigned char *section = malloc(SIZE);
	for (int32_t round = 0; round < 50; round++) {
		int32_t rank = (*(int32_t *)first + 7 * round) % RANKS;
		size_t size;
		plan(planner, rank, section, &size);
		if (size != sizes[rank] || memcmp(section, want[rank], size) != 0) {
			fprintf(stderr, "rank %d has another program\n", rank);
			exit(1);
		}
	}
	free(section);
	forgpu_close(planner);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int32_t firsts[THREADS];
	for (int at = 0; at < RANKS * RANKS; at++)
		bytes[at] = at * 7919 % 10007;
	forgpu_planner *planner = forgpu_open();
	for (int32_t rank = 0; rank < RANKS; rank++)
		plan(planner, rank, want[rank], &sizes[rank]);
	forgpu_close(planner);
	for (int32_t t = 0; t < THREADS; t++) {
		firsts[t] = 5 * t;
		if (pthread_create(&threads[t], NULL, run, &firsts[t]) != 0)
			return 1;
	}
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	puts("the same");
	return 0;
}
