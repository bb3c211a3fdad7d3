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
				&p->site_memory, &p->traffic_memory, &p->servers_memory, &p->groups_memory, &p->stints_memory,
				&p->ride_memory, &p->segments_memory, &p->stage_memory, &p->turns_memory, &p->loads_memory,
				&p->places_memory, &p->lists_memory, &p->tokens.memory, &p->tokens.back_memory};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]->at);
	free(p);
}

void forgpu_reserve(forgpu_planner *p, int64_t moves) { p->reserve = moves > 0 ? (size_t)moves : 0; }

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
	if (o->groups < 0 || o->groups > FORGPU_MAX_RANKS)
		return fail(err, FORGPU_EINVAL, "%d groups of NICs: want 0 to %d", o->groups, FORGPU_MAX_RANKS);
	return FORGPU_OK;
}

static int lay_out(struct forgpu_planner *p)
{
	size_t n = (size_t)p->n, ranks = (size_t)p->ranks;
	p->pairs = room(&p->servers_memory, 1, (n * n + 3 * ranks + n) * sizeof *p->pairs + 3 * ranks * sizeof *p->nics);
	if (!p->pairs)
		return FORGPU_ENOMEM;
	p->out = p->pairs + n * n;
	p->in = p->out + ranks;
	p->working = p->in + ranks;
	p->channels = p->working + ranks;
	p->nics = (int32_t *)(p->channels + n);
	p->by_out = p->nics + ranks;
	p->by_in = p->by_out + ranks;
	memset(p->working, 0, (ranks + n) * sizeof *p->working);
	int32_t count = 0;
	for (int32_t r = 0; r < p->ranks; r++) {
		if (!works(p, r))
			continue;
		p->nics[count++] = r;
		p->working[r / p->m * p->m + home(p, r / p->m, r)]++;
		p->channels[r / p->m]++;
	}
	return FORGPU_OK;
}

/* Lays out the bytes between GPUs, [source][destination], as bytes between places. */
static int place_traffic(struct forgpu_planner *p, const int64_t *bytes)
{
	p->bytes = bytes;
	if (p->m == p->gpus || !p->places)
		return FORGPU_OK;
	size_t ranks = (size_t)p->ranks, gpus = (size_t)p->n * (size_t)p->gpus;
	int64_t *placed = room(&p->traffic_memory, ranks * ranks, sizeof *placed);
	if (!placed)
		return FORGPU_ENOMEM;
	memset(placed, 0, ranks * ranks * sizeof *placed);
	for (size_t a = 0; a < gpus; a++)
		for (size_t b = 0; b < gpus; b++)
			placed[(size_t)p->first[a] * ranks + (size_t)p->first[b]] = bytes[a * gpus + b];
	p->bytes = placed;
	return FORGPU_OK;
}

int check_cluster(int32_t servers, int32_t gpus, struct forgpu_error *err)
{
	if (servers < 1 || gpus < 1 || servers > FORGPU_MAX_RANKS || gpus > FORGPU_MAX_RANKS / servers)
		return fail(err, FORGPU_EINVAL, "a cluster of %d servers with %d GPUs each: want at least one of each and at most %d GPUs in all", servers, gpus, FORGPU_MAX_RANKS);
	return FORGPU_OK;
}

/* Stores the request, bytes or tokens, and sums its traffic by servers. */
static int begin_plan(struct forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, const struct forgpu_tokens *tokens, int32_t rank,
		      const struct forgpu_options *options, struct forgpu_error *err)
{
	if (!p || (!bytes && !tokens))
		return fail(err, FORGPU_EINVAL, "the planner or the traffic is NULL");
	if (check_cluster(servers, gpus, err) < 0)
		return FORGPU_EINVAL;
	if (p->places && (servers != p->servers || gpus != p->gpus))
		return fail(err, FORGPU_EINVAL, "%d servers with %d GPUs each: forgpu_nics was called for %d with %d", servers, gpus, p->servers, p->gpus);
	p->n = servers;
	p->m = p->places ? p->each : gpus;
	if (tokens && p->m != gpus)
		return fail(err, FORGPU_EINVAL, "tokens are planned for NICs of one channel: call forgpu_nics with 1 part");
	p->ranks = servers * p->m;
	if (rank < 0 || rank >= p->ranks)
		return fail(err, FORGPU_EINVAL, "rank %d: want 0 to %d", rank, p->ranks - 1);
	p->o = options ? *options : (struct forgpu_options){0};
	if (p->o.b1 == 0 && p->o.b2 == 0 && p->o.latency == 0) {
		p->o.b1 = 450e9;
		p->o.b2 = 50e9;
		p->o.latency = 10000;
	}
	if (check_options(&p->o, err) < 0)
		return FORGPU_EINVAL;
	if (p->places)
		p->o.b2 *= (double)p->unit / (double)p->speed;
	p->rank = rank;
	p->own = rank / p->m;
	p->latency = (double)(p->o.latency / 1000000000) + (double)(p->o.latency % 1000000000) / 1e9;
	p->tokens.given = tokens;
	int code = tokens ? begin_tokens(p, tokens, err) : place_traffic(p, bytes) < 0 ? fail(err, FORGPU_ENOMEM, "no memory") : FORGPU_OK;
	if (code < 0)
		return code;
	if (lay_out(p) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	return survey(p, err);
}

static int plan(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, const struct forgpu_tokens *tokens, int32_t rank,
		const struct forgpu_options *options, struct forgpu_program *program, struct forgpu_error *err)
{
	if (!program)
		return fail(err, FORGPU_EINVAL, "the program is NULL");
	double seconds;
	int code = begin_plan(p, servers, gpus, bytes, tokens, rank, options, err);
	if (code < 0)
		return code;
	if (divide(p, p->o.groups) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	round_up(p);
	if ((code = server_stages(p, (struct limits){.longest = p->o.fewest}, err)) < 0)
		return code;
	if ((code = arrange(p, p->o.max_stage, &seconds)) < 0)
		return fail(err, code, code == FORGPU_ENOMEM ? "no memory" : "stages of at most %lld bytes are too many", (long long)p->o.max_stage);
	if ((code = follow(p, err)) < 0)
		return code;
	return write_program(p, program) < 0 ? fail(err, FORGPU_ENOMEM, "no memory") : FORGPU_OK;
}

int forgpu_plan(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, int32_t rank,
		const struct forgpu_options *options, struct forgpu_program *program, struct forgpu_error *err)
{
	return plan(p, servers, gpus, bytes, NULL, rank, options, program, err);
}

int forgpu_plan_tokens(forgpu_planner *p, int32_t servers, int32_t gpus, const struct forgpu_tokens *tokens, int32_t rank,
		       const struct forgpu_options *options, struct forgpu_program *there, struct forgpu_program *back, struct forgpu_error *err)
{
	int code = plan(p, servers, gpus, NULL, tokens, rank, options, there, err);
	if (code < 0)
		return code;
	return write_tokens(p, there, back) < 0 ? fail(err, FORGPU_ENOMEM, "no memory") : FORGPU_OK;
}

static int choose(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, const struct forgpu_tokens *tokens, int64_t budget,
		  struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err)
{
	struct forgpu_outlook unasked;
	if (!options || budget < 0)
		return fail(err, FORGPU_EINVAL, "options are NULL, or the budget is below 0");
	int code = begin_plan(p, servers, gpus, bytes, tokens, 0, options, err);
	return code < 0 ? code : search_options(p, budget, options, outlook ? outlook : &unasked, err);
}

int forgpu_choose(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *bytes, int64_t budget,
		  struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err)
{
	return choose(p, servers, gpus, bytes, NULL, budget, options, outlook, err);
}

int forgpu_choose_tokens(forgpu_planner *p, int32_t servers, int32_t gpus, const struct forgpu_tokens *tokens, int64_t budget,
			 struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err)
{
	int code = choose(p, servers, gpus, NULL, tokens, budget, options, outlook, err);
	if (code >= 0)
		options->max_stage *= tokens->bytes;
	return code;
}
