/* Jobs, programs, and the contents of buffers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <forgpu.h>

#include "carry.h"

const enum buffer buffer_of[KINDS][SIDES] = {
	[BEFORE] = {INPUT, NIC_SEND}, [AFTER] = {NIC_RECEIVE, OUTPUT}, [LOCAL] = {INPUT, OUTPUT}, [STAGE] = {NIC_SEND, NIC_RECEIVE}};

void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void *take(size_t size)
{
	void *at = calloc(1, size + 1);
	if (!at)
		die("no memory for %zu bytes", size);
	return at;
}

static unsigned char *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0)
		die("%s cannot be read", path);
	*size = (size_t)ftell(file);
	rewind(file);
	unsigned char *data = take(*size);
	if (fread(data, 1, *size, file) != *size)
		die("%s cannot be read", path);
	fclose(file);
	return data;
}

static void read_epoch(struct epoch *e, char *argument)
{
	char *rounds = strrchr(argument, '=');
	if (!rounds || (e->rounds = atoi(rounds + 1)) < 1)
		die("plan %s: want PLAN=ROUNDS", argument);
	*rounds = 0;
	e->plan = argument;
	if (strncmp(argument, "own:", 4) == 0 && (e->gpus = atoi(argument + 4)) < 1)
		die("plan %s: want own:GPUS", argument);
	if (!e->gpus)
		e->data = read_file(argument, &e->size);
}

void read_job(struct job *job, int count, char **arguments)
{
	size_t size;
	int at = 1;
	*job = (struct job){.dead = -1};
	if (count > 3 && strcmp(arguments[1], "-d") == 0) {
		if (sscanf(arguments[2], "%d:%d", &job->dead, &job->dies) != 2)
			die("-d %s: want RANK:STAGE", arguments[2]);
		at = 3;
	}
	if (count < at + 2 || count > at + 9)
		die("usage: %s [-d RANK:STAGE] MATRIX PLAN=ROUNDS...", arguments[0]);
	job->bytes = (const int64_t *)read_file(arguments[at++], &size);
	while ((size_t)job->ranks * (size_t)job->ranks * sizeof *job->bytes < size)
		job->ranks++;
	if (job->ranks == 0 || (size_t)job->ranks * (size_t)job->ranks * sizeof *job->bytes != size)
		die("the matrix has %zu bytes: want a square of numbers of 8", size);
	for (; at < count; at++)
		read_epoch(&job->epochs[job->count++], arguments[at]);
}

/* A reader of a section. */
struct reader {
	const unsigned char *at, *end;
};

static uint64_t number(struct reader *r)
{
	uint64_t v = 0;
	for (int shift = 0; r->at < r->end && shift < 64; shift += 7) {
		v |= (uint64_t)(*r->at & 0x7f) << shift;
		if (!(*r->at++ & 0x80))
			return v;
	}
	die("a section ends early");
}

static int64_t signed_number(struct reader *r)
{
	uint64_t v = number(r);
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static uint64_t fixed(const struct epoch *e, size_t at, int size)
{
	uint64_t v = 0;
	if (at + (size_t)size > e->size)
		die("%s ends early", e->plan);
	for (int i = size; i-- > 0;)
		v = v << 8 | e->data[at + (size_t)i];
	return v;
}

static void read_list(struct reader *r, struct list *list, int32_t step, int32_t after, int32_t first)
{
	int64_t end = 0;
	list->count = (int32_t)number(r);
	if (list->count < 0 || list->count > r->end - r->at)
		die("a list has %d pieces", list->count);
	list->at = take((size_t)list->count * sizeof *list->at);
	for (struct piece *x = list->at; x < list->at + list->count; x++) {
		x->step = step + (int32_t)number(r);
		x->peer = first + (int32_t)number(r);
		x->offset = end + signed_number(r);
		x->bytes = (int64_t)number(r);
		step = x->step + after;
		end = x->offset + x->bytes;
	}
}

/* Reads a program from a section, as forgpu_encode writes it. */
static struct program *decode(struct reader r, int32_t stages, int32_t ranks, int32_t first)
{
	struct program *p = take(sizeof *p);
	p->stages = stages;
	for (int b = 0; b < BUFFERS; b++)
		p->size[b] = (int64_t)number(&r);
	for (int kind = BEFORE; kind < KINDS; kind++)
		for (int side = 0; side < SIDES; side++)
			read_list(&r, &p->list[kind][side], kind == STAGE ? 0 : -1, kind == STAGE, kind == STAGE ? 0 : first);
	for (int kind = BEFORE; kind < KINDS; kind++)
		for (int side = 0; side < SIDES; side++)
			for (int32_t i = 0; i < p->list[kind][side].count; i++) {
				struct piece x = p->list[kind][side].at[i];
				if (x.offset < 0 || x.bytes < 1 || x.offset + x.bytes > p->size[buffer_of[kind][side]])
					die("a piece of %lld bytes at %lld is not in its buffer", (long long)x.bytes, (long long)x.offset);
				if (x.peer < 0 || x.peer >= ranks || x.step < -1 || x.step > stages)
					die("rank %d or step %d does not exist", x.peer, x.step);
			}
	return p;
}

/* Plans for the rank with libforgpu. */
static struct program *plan(const struct job *job, const struct epoch *e, int32_t rank)
{
	static forgpu_planner *planner;
	struct forgpu_options options = {.max_stretch = 1.05};
	struct forgpu_program own;
	struct forgpu_error err;
	if (!planner)
		planner = forgpu_open();
	if (forgpu_plan(planner, job->ranks / e->gpus, e->gpus, job->bytes, rank, &options, &own, &err) < 0)
		die("rank %d: %s", rank, err.text);
	size_t size = forgpu_encode(&own, NULL, 0);
	unsigned char *section = take(size);
	forgpu_encode(&own, section, size);
	struct program *p = decode((struct reader){section, section + size}, (int32_t)own.stages, job->ranks, rank - rank % e->gpus);
	free(section);
	return p;
}

struct program *read_program(const struct job *job, const struct epoch *e, int32_t rank)
{
	if (e->gpus)
		return plan(job, e, rank);
	if (e->size < 56 || memcmp(e->data, "FORSGPU\2", 8) != 0)
		die("%s is not an exchange of version 2", e->plan);
	size_t servers = fixed(e, 8, 4), gpus = fixed(e, 12, 4), stages = fixed(e, 16, 4), index = 56 + 8 * stages + 8 * (size_t)rank;
	if (servers * gpus != (size_t)job->ranks)
		die("%s is for %zu ranks, and the matrix has %d", e->plan, servers * gpus, job->ranks);
	size_t begin = fixed(e, index, 8), end = fixed(e, index + 8, 8);
	if (begin > end || end > e->size)
		die("%s: the section of rank %d is not in it", e->plan, rank);
	return decode((struct reader){e->data + begin, e->data + end}, (int32_t)stages, job->ranks, rank - rank % (int32_t)gpus);
}

void forget(struct program *p)
{
	for (int kind = BEFORE; kind < KINDS; kind++)
		for (int side = 0; side < SIDES; side++)
			free(p->list[kind][side].at);
	free(p);
}

/* The pieces of a list in a step; lists are in the order of steps. */
struct list of_step(const struct program *p, enum kind kind, int side, int32_t step)
{
	struct list list = p->list[kind][side];
	while (list.count > 0 && list.at->step < step)
		list.at++, list.count--;
	int32_t count = 0;
	while (count < list.count && list.at[count].step == step)
		count++;
	return (struct list){list.at, count};
}

/* A byte of a message in a round: all bits depend on all arguments. */
static unsigned char content(int32_t source, int32_t destination, int64_t offset, int round)
{
	uint64_t x = ((uint64_t)source << 48 ^ (uint64_t)destination << 32 ^ (uint64_t)round << 24 ^ (uint64_t)offset) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	return (unsigned char)(x >> 56);
}

void fill_input(const struct job *job, int32_t rank, int round, unsigned char *input)
{
	for (int32_t to = 0; to < job->ranks; to++)
		for (int64_t offset = 0; offset < job->bytes[(size_t)rank * (size_t)job->ranks + (size_t)to]; offset++)
			*input++ = content(rank, to, offset, round);
}

int64_t check_output(const struct job *job, int32_t rank, int round, const unsigned char *output)
{
	const unsigned char *first = output;
	for (int32_t from = 0; from < job->ranks; from++)
		for (int64_t offset = 0; offset < job->bytes[(size_t)from * (size_t)job->ranks + (size_t)rank]; offset++)
			if (*output++ != content(from, rank, offset, round))
				die("round %d: byte %lld of the message from rank %d to rank %d is wrong", round, (long long)offset, from, rank);
	return output - first;
}
