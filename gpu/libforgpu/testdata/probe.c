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
	int32_t choose, servers, gpus, rank, again; /* again: how many more times, timed */
	int32_t parts; /* of the fastest NIC, with speeds after the bytes; 0 if all NICs are well */
	int32_t each, choices; /* of tokens, which come in place of bytes if there are choices */
	int64_t budget, token;
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
	static int64_t bytes[2048 * 2048], speeds[2048], times[10000];
	static int32_t ranks[1 << 20];
	for (;;) {
		struct request q;
		struct answer a = {0};
		struct forgpu_program programs[2];
		struct forgpu_error err = {0};
		get(&q, sizeof q);
		struct forgpu_tokens tokens = {q.token, q.each, q.choices, ranks};
		if (q.choices)
			get(ranks, sizeof *ranks * (size_t)(q.servers * q.gpus * q.each * q.choices));
		else
			get(bytes, sizeof *bytes * (size_t)(q.servers * q.gpus) * (size_t)(q.servers * q.gpus));
		if (q.parts)
			get(speeds, sizeof *speeds * (size_t)(q.servers * q.gpus));
		a.options = q.options;
		uint64_t before = asked;
		for (int32_t i = 0; i <= q.again; i++) {
			int64_t start = now();
			if ((a.code = forgpu_nics(planner, q.servers, q.gpus, q.parts ? speeds : NULL, q.parts, NULL, &err)) < 0)
				break;
			if (q.choices)
				a.code = q.choose ? forgpu_choose_tokens(planner, q.servers, q.gpus, &tokens, q.budget, &a.options, &a.outlook, &err)
						  : forgpu_plan_tokens(planner, q.servers, q.gpus, &tokens, q.rank, &q.options, &programs[0], &programs[1], &err);
			else
				a.code = q.choose ? forgpu_choose(planner, q.servers, q.gpus, bytes, q.budget, &a.options, &a.outlook, &err)
						  : forgpu_plan(planner, q.servers, q.gpus, bytes, q.rank, &q.options, &programs[0], &err);
			if (i > 0)
				times[i - 1] = now() - start;
		}
		a.asked = (int64_t)(asked - before);
		qsort(times, (size_t)q.again, sizeof *times, rising);
		a.least = times[0];
		a.median = times[q.again / 2];
		memcpy(a.text, err.text, sizeof err.text);
		int count = a.code < 0 || q.choose ? 0 : q.choices ? 2 : 1;
		void *sections[2] = {NULL, NULL};
		size_t sizes[2] = {0, 0};
		for (int i = 0; i < count; i++) {
			sizes[i] = forgpu_encode(&programs[i], NULL, 0);
			sections[i] = malloc(sizes[i]);
			forgpu_encode(&programs[i], sections[i], sizes[i]);
			a.stages += (int64_t)programs[i].stages;
			a.section += (int64_t)sizes[i];
		}
		put(&a, sizeof a);
		for (int i = 0; i < count; i++)
			put(programs[i].lengths, programs[i].stages * sizeof *programs[i].lengths);
		for (int i = 0; i < count; i++) {
			put(sections[i], sizes[i]);
			free(sections[i]);
		}
		fflush(stdout);
		if (q.servers == 0)
			break;
	}
	forgpu_close(planner);
	return 0;
}
