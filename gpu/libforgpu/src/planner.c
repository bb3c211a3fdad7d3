/* The public functions, and memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int fail(struct forgpu_error *err, int code, const char *format, ...)
{
	if (err) {
		va_list args;
		va_start(args, format);
		err->code = code;
		vsnprintf(err->text, sizeof err->text, format, args);
		va_end(args);
	}
	return code;
}

void *room(struct memory *m, size_t count, size_t size)
{
	if (count * size + 1 > m->size) {
		free(m->at);
		m->size = count * size + 1;
		if (!(m->at = malloc(m->size)))
			m->size = 0;
	}
	return m->at;
}

void *more(struct memory *m, size_t count, size_t size)
{
	if (count * size + 1 > m->size) {
		void *at = realloc(m->at, count * size + 1);
		if (!at)
			return NULL;
		m->at = at;
		m->size = count * size + 1;
	}
	return m->at;
}

forgpu_planner *forgpu_open(void) { return calloc(1, sizeof(forgpu_planner)); }

void forgpu_close(forgpu_planner *p)
{
	if (!p)
		return;
	struct decomposer *d = &p->decomposer;
	struct memory *all[] = {&d->square, &d->lines, &d->bits, &d->partners, &d->weight_memory, &d->match_memory,
				&p->servers_memory, &p->stints_memory, &p->ride_memory, &p->segments_memory, &p->stage_memory,
				&p->turns_memory, &p->loads_memory, &p->places_memory, &p->lists_memory};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]->at);
	free(p);
}

/* Checks the options. */
static int check_options(const struct forgpu_options *o, struct forgpu_error *err)
{
	if (o->grain < 0 || o->grain > FORGPU_MAX_BYTES)
		return fail(err, FORGPU_EINVAL, "grain %lld: want 0 to %lld bytes", (long long)o->grain, (long long)FORGPU_MAX_BYTES);
	if (o->max_stretch != 0 && !(o->max_stretch >= 1 && o->max_stretch <= 1000))
		return fail(err, FORGPU_EINVAL, "stretch %g: want 1 to 1000 times the least length", o->max_stretch);
	if (o->max_stage < 0 || o->max_stage > FORGPU_MAX_BYTES)
		return fail(err, FORGPU_EINVAL, "stages of at most %lld bytes: want 1 to %lld, or 0 for any length", (long long)o->max_stage, (long long)FORGPU_MAX_BYTES);
	if (o->grain > 1 && o->max_stretch > 1)
		return fail(err, FORGPU_EINVAL, "grain and stretch both say how much lengths may be rounded up: give one of them");
	if (!(o->b1 >= 1 && o->b1 <= 1e18) || !(o->b2 >= 1 && o->b2 <= 1e18) || o->latency < 0)
		return fail(err, FORGPU_EINVAL, "bandwidths of %g and %g bytes/s and a latency of %lld ns: want bandwidths of 1 to 1e18 and no negative latency", o->b1, o->b2, (long long)o->latency);
	if (o->reserved != 0)
		return fail(err, FORGPU_EINVAL, "the reserved field of the options is not 0");
	return FORGPU_OK;
}

static int lay_out(struct forgpu_planner *p)
{
	size_t n = (size_t)p->n, ranks = (size_t)p->ranks, pairs = n * n;
	p->streams = room(&p->servers_memory, 1, 2 * ranks * sizeof *p->streams + (4 * pairs + 2 * ranks + n) * sizeof *p->pairs + 2 * ranks * sizeof *p->by_out);
	if (!p->streams || reserve_stages(&p->decomposer, p->n, ample(p, 0)) < 0)
		return FORGPU_ENOMEM;
	p->pairs = (int64_t *)(p->streams + 2 * ranks);
	p->share = p->pairs + pairs;
	p->rounded = p->share + pairs;
	p->left = p->rounded + pairs;
	p->out = p->left + pairs;
	p->in = p->out + ranks;
	p->columns = p->in + ranks;
	p->by_out = (int32_t *)(p->columns + n);
	p->by_in = p->by_out + ranks;
	return FORGPU_OK;
}

/* Stores the request, and sums its traffic by servers. */
static int begin_plan(struct forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, int32_t rank,
		      const struct forgpu_options *options, struct forgpu_error *err)
{
	if (!p || !bytes)
		return fail(err, FORGPU_EINVAL, "the planner or the traffic is NULL");
	if (servers < 1 || gpus < 1 || servers > FORGPU_MAX_RANKS || gpus > FORGPU_MAX_RANKS / servers)
		return fail(err, FORGPU_EINVAL, "a cluster of %d servers with %d GPUs each: want at least one of each and at most %d GPUs in all", servers, gpus, FORGPU_MAX_RANKS);
	if (rank < 0 || rank >= servers * gpus)
		return fail(err, FORGPU_EINVAL, "rank %d: want 0 to %d", rank, servers * gpus - 1);
	p->o = options ? *options : (struct forgpu_options){0};
	if (p->o.b1 == 0 && p->o.b2 == 0 && p->o.latency == 0) {
		p->o.b1 = 450e9;
		p->o.b2 = 50e9;
		p->o.latency = 10000;
	}
	if (check_options(&p->o, err) < 0)
		return FORGPU_EINVAL;
	p->n = servers;
	p->m = gpus;
	p->ranks = servers * gpus;
	p->rank = rank;
	p->own = rank / gpus;
	p->bytes = bytes;
	p->latency = (double)(p->o.latency / 1000000000) + (double)(p->o.latency % 1000000000) / 1e9;
	if (lay_out(p) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	return survey(p, err);
}

int forgpu_plan(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, int32_t rank,
		const struct forgpu_options *options, struct forgpu_program *program, struct forgpu_error *err)
{
	if (!program)
		return fail(err, FORGPU_EINVAL, "the program is NULL");
	double seconds;
	int code = begin_plan(p, servers, gpus, bytes, rank, options, err);
	if (code < 0)
		return code;
	round_up(p);
	if ((code = server_stages(p, (struct limits){.longest = p->o.fewest}, err)) < 0)
		return code;
	if ((code = arrange(p, p->o.max_stage, &seconds)) < 0)
		return fail(err, code, code == FORGPU_ENOMEM ? "no memory" : "stages of at most %lld bytes are too many", (long long)p->o.max_stage);
	if ((code = follow(p, err)) < 0)
		return code;
	return write_program(p, program) < 0 ? fail(err, FORGPU_ENOMEM, "no memory") : FORGPU_OK;
}

int forgpu_choose(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, int64_t budget,
		  struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err)
{
	struct forgpu_outlook unasked;
	if (!options || budget < 0)
		return fail(err, FORGPU_EINVAL, "options are NULL, or the budget is below 0");
	int code = begin_plan(p, servers, gpus, bytes, 0, options, err);
	return code < 0 ? code : search_options(p, budget, options, outlook ? outlook : &unasked, err);
}
