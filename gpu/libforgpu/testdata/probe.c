/* Executes binary requests from its standard input: see probe_test.go. It counts the
 * library's memory allocations, and measures its time. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "forgpu.h"

static uint64_t asked;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_malloc(size_t size) { return asked++, __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return asked++, __real_calloc(count, size); }
void *__wrap_realloc(void *at, size_t size) { return asked++, __real_realloc(at, size); }

struct request {
	int32_t choose, servers, gpus, rank, again, reserved; /* again: how many more times, timed */
	int64_t budget;
	struct forgpu_options options;
};

struct answer {
	int64_t code, asked, least, median; /* asked, in all calls; times of the further ones in nanoseconds */
	int64_t stages, section;
	struct forgpu_options options;
	struct forgpu_outlook outlook;
	char text[256];
};

static void get(void *at, size_t size)
{
	if (fread(at, 1, size, stdin) != size)
		exit(feof(stdin) ? 0 : 1);
}

static void put(const void *at, size_t size)
{
	if (size > 0 && fwrite(at, 1, size, stdout) != size)
		exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int rising(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

int main(void)
{
	forgpu_planner *planner = forgpu_open();
	static int64_t bytes[2048 * 2048], times[10000];
	for (;;) {
		struct request q;
		struct answer a = {0};
		struct forgpu_program program;
		struct forgpu_error err = {0};
		get(&q, sizeof q);
		get(bytes, sizeof *bytes * (size_t)(q.servers * q.gpus) * (size_t)(q.servers * q.gpus));
		a.options = q.options;
		uint64_t before = asked;
		for (int32_t i = 0; i <= q.again; i++) {
			int64_t start = now();
			a.code = q.choose ? forgpu_choose(planner, q.servers, q.gpus, bytes, q.budget, &a.options, &a.outlook, &err)
					  : forgpu_plan(planner, q.servers, q.gpus, bytes, q.rank, &q.options, &program, &err);
			if (i > 0)
				times[i - 1] = now() - start;
		}
		a.asked = (int64_t)(asked - before);
		qsort(times, (size_t)q.again, sizeof *times, rising);
		a.least = times[0];
		a.median = times[q.again / 2];
		memcpy(a.text, err.text, sizeof err.text);
		void *section = NULL;
		bool planned = a.code == 0 && !q.choose;
		if (planned) {
			a.stages = (int64_t)program.stages;
			a.section = (int64_t)forgpu_encode(&program, NULL, 0);
			section = malloc((size_t)a.section);
			forgpu_encode(&program, section, (size_t)a.section);
		}
		put(&a, sizeof a);
		if (planned) {
			put(program.lengths, program.stages * sizeof *program.lengths);
			put(section, (size_t)a.section);
		}
		free(section);
		fflush(stdout);
		if (q.servers == 0)
			break;
	}
	forgpu_close(planner);
	return 0;
}
