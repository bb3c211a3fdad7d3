/* Jobs, programs, and the contents of buffers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	e->data = read_file(argument, &e->size);
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

void read_job(struct job *job, int count, char **arguments)
{
	size_t size;
	int at = 1;
	*job = (struct job){0};
	bool tokens = count > 3 && strcmp(arguments[1], "-t") == 0;
	if (tokens)
		at = 2;
	if (count < at + 2 || count > at + 9)
		die("usage: %s MATRIX PLAN=ROUNDS... or -t NEEDS PLAN=ROUNDS...", arguments[0]);
	unsigned char *data = read_file(arguments[at++], &size);
	for (; at < count; at++)
		read_epoch(&job->epochs[job->count++], arguments[at]);
	if (tokens) {
		size_t ranks = fixed(&job->epochs[0], 8, 4) * fixed(&job->epochs[0], 12, 4);
		if (ranks == 0 || size % (ranks * ranks) != 0)
			die("the needs of tokens have %zu bytes: want a multiple of %zu", size, ranks * ranks);
		job->needs = data;
		job->ranks = (int32_t)ranks;
		job->tokens = (int32_t)(size / ranks / ranks);
		return;
	}
	job->bytes = (const int64_t *)data;
	while ((size_t)job->ranks * (size_t)job->ranks * sizeof *job->bytes < size)
		job->ranks++;
	if (job->ranks == 0 || (size_t)job->ranks * (size_t)job->ranks * sizeof *job->bytes != size)
		die("the matrix has %zu bytes: want a square of numbers of 8", size);
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

static void read_list(struct reader *r, struct list *list, int32_t step, int32_t after, int32_t first, bool adds)
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
		x->add = adds && number(r);
		step = x->step + after;
		end = x->offset + x->bytes;
	}
}

/* Reads a program from a section. */
static struct program *decode(struct reader r, struct program header, int32_t ranks, int32_t first)
{
	struct program *p = take(sizeof *p);
	int32_t stages = header.stages;
	*p = header;
	for (int b = 0; b < BUFFERS; b++)
		p->size[b] = (int64_t)number(&r);
	for (int kind = BEFORE; kind < KINDS; kind++)
		for (int side = 0; side < SIDES; side++)
			read_list(&r, &p->list[kind][side], kind == STAGE ? 0 : -1, kind == STAGE, kind == STAGE ? 0 : first,
				  p->returns && kind != STAGE && side == RECEIVE);
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

struct program *read_program(const struct job *job, const struct epoch *e, int32_t rank)
{
	if (e->size < 64 || memcmp(e->data, job->needs ? "FORSGPU\3" : "FORSGPU\2", 8) != 0)
		die("%s is not an exchange of version %d", e->plan, job->needs ? 3 : 2);
	size_t servers = fixed(e, 8, 4), gpus = fixed(e, 12, 4), stages = fixed(e, 16, 4), index = (job->needs ? 64 : 56) + 8 * stages + 8 * (size_t)rank;
	struct program header = {.stages = (int32_t)stages};
	if (job->needs) {
		header.token = (int64_t)fixed(e, 56, 4);
		header.returns = fixed(e, 60, 4);
	}
	if (servers * gpus != (size_t)job->ranks)
		die("%s is for %zu ranks, and the matrix has %d", e->plan, servers * gpus, job->ranks);
	size_t begin = fixed(e, index, 8), end = fixed(e, index + 8, 8);
	if (begin > end || end > e->size)
		die("%s: the section of rank %d is not in it", e->plan, rank);
	return decode((struct reader){e->data + begin, e->data + end}, header, job->ranks, rank - rank % (int32_t)gpus);
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

/* Writes bytes, or adds them to those that are there. */
void put(unsigned char *to, const unsigned char *from, int64_t bytes, bool add)
{
	for (int64_t i = 0; i < bytes; i++)
		to[i] = (unsigned char)(add ? to[i] + from[i] : from[i]);
}

static bool needs(const struct job *job, int32_t token, int32_t rank)
{
	return job->needs[(size_t)token * (size_t)job->ranks + (size_t)rank];
}

/* A byte of a token at its source, or of its result at a rank that needs it. */
static unsigned char of_token(const struct job *job, bool returns, int32_t rank, int32_t token, int64_t offset, int round)
{
	return content(returns ? rank : token / job->tokens, token, offset, round);
}

void fill_input(const struct job *job, const struct program *program, int32_t rank, int round, unsigned char *input)
{
	for (int32_t token = 0; token < job->ranks * job->tokens; token++)
		if (program->returns ? needs(job, token, rank) : token / job->tokens == rank)
			for (int64_t offset = 0; offset < program->token; offset++)
				*input++ = of_token(job, program->returns, rank, token, offset, round);
	for (int32_t to = 0; to < job->ranks && !job->needs; to++)
		for (int64_t offset = 0; offset < job->bytes[(size_t)rank * (size_t)job->ranks + (size_t)to]; offset++)
			*input++ = content(rank, to, offset, round);
}

/* Checks the tokens that the rank needs or, on the way back, the sums of its tokens. A token
 * that no rank needs has no sum. */
static int64_t check_tokens(const struct job *job, const struct program *program, int32_t rank, int round, const unsigned char *output)
{
	int64_t checked = 0;
	for (int32_t token = 0; token < job->ranks * job->tokens; token++) {
		if (program->returns ? token / job->tokens != rank : !needs(job, token, rank))
			continue;
		int count = 0;
		for (int32_t r = 0; r < job->ranks; r++)
			count += needs(job, token, r);
		for (int64_t offset = 0; offset < program->token; offset++, output++) {
			unsigned char want = 0;
			for (int32_t r = 0; r < job->ranks; r++)
				if (program->returns ? needs(job, token, r) : r == rank)
					want = (unsigned char)(want + of_token(job, program->returns, r, token, offset, round));
			if (count > 0 && *output != want)
				die("round %d: byte %lld of token %d is wrong at rank %d", round, (long long)offset, token, rank);
			checked += count > 0;
		}
	}
	return checked;
}

int64_t check_output(const struct job *job, const struct program *program, int32_t rank, int round, const unsigned char *output)
{
	const unsigned char *first = output;
	if (job->needs)
		return check_tokens(job, program, rank, round, output);
	for (int32_t from = 0; from < job->ranks; from++)
		for (int64_t offset = 0; offset < job->bytes[(size_t)from * (size_t)job->ranks + (size_t)rank]; offset++)
			if (*output++ != content(from, rank, offset, round))
				die("round %d: byte %lld of the message from rank %d to rank %d is wrong", round, (long long)offset, from, rank);
	return output - first;
}
