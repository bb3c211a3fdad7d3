/* Opens a carrier: checks, memory, and connections. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

int set_error(struct forcarry_error *err, int code, const char *format, ...)
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

/* What ranks tell each other; all fail if one does. */
struct hello {
	struct forcarry_error err;
	struct forcarry_options options; /* that must be the same */
	char board_handle[64], data_handle[64];
};

static int check_shape(const struct forcarry_options *o, struct forcarry_error *err)
{
	if (o->servers < 1 || o->gpus < 1 || o->servers > FORGPU_MAX_RANKS || o->gpus > FORGPU_MAX_RANKS / o->servers)
		return set_error(err, FORCARRY_EINVAL, "%d servers with %d GPUs each: want one of each and at most %d GPUs in all", o->servers, o->gpus, FORGPU_MAX_RANKS);
	int32_t ranks = o->servers * o->gpus;
	if (o->rank < 0 || o->rank >= ranks)
		return set_error(err, FORCARRY_EINVAL, "rank %d: want 0 to %d", o->rank, ranks - 1);
	if (o->tokens < 1 || o->choices < 1 || o->tokens > (1 << 29) / ranks / o->choices)
		return set_error(err, FORCARRY_EINVAL, "rank %d: %d tokens of %d choices: want one of each, and at most %d choices of all ranks", o->rank, o->tokens, o->choices, 1 << 29);
	if (o->experts < ranks || o->experts % ranks != 0)
		return set_error(err, FORCARRY_EINVAL, "rank %d: %d experts on %d ranks: want as many on each, and one at least", o->rank, o->experts, ranks);
	return FORCARRY_OK;
}

/* Checks options, and puts defaults in place of zeros. */
static int check_options(struct forcarry_options *o, struct forcarry_error *err)
{
	int code = check_shape(o, err);
	if (code < 0)
		return code;
	int64_t element = o->type == FORCARRY_FLOAT32 ? 4 : 2;
	o->row_back = o->row_back ? o->row_back : o->row;
	o->rows = o->rows ? o->rows : (int64_t)o->tokens * o->servers * o->gpus;
	o->slots = o->slots ? o->slots : 2 * (int64_t)o->tokens * (o->servers - 1) + 1;
	o->retry = o->retry ? o->retry : 14;
	o->retries = o->retries ? o->retries : 7;
	o->port = o->port ? o->port : 1;
	o->patience = o->patience ? o->patience : 30000000000;
	static const struct forgpu_options zeros;
	if (memcmp(&o->plan, &zeros, sizeof zeros) == 0)
		o->plan.max_stretch = 1.05;
	if (o->row < 1 || o->row > LONGEST || o->row_back < 1 || o->row_back > LONGEST || o->row_back % element != 0 || (o->type != FORCARRY_BFLOAT16 && o->type != FORCARRY_FLOAT32))
		return set_error(err, FORCARRY_EINVAL, "rank %d: rows of %lld bytes, and back of %lld of type %d: want 1 to %d, and whole elements of bfloat16 or float32", o->rank,
			    (long long)o->row, (long long)o->row_back, (int)o->type, LONGEST);
	if (o->rows < 1 || o->slots < 1 || o->rows > INT32_MAX || o->slots > (int64_t)1 << 40 || o->patience < 0)
		return set_error(err, FORCARRY_EINVAL, "rank %d: room for %lld rows and %lld slots, and a patience of %lld ns: want 1 or more", o->rank, (long long)o->rows, (long long)o->slots, (long long)o->patience);
	if (o->retry < 1 || o->retry > 31 || o->retries < 1 || o->retries > 7 || o->port < 1 || o->port > 255 || o->gid < 0 || o->gid > 255 || o->level < 0 || o->level > 15)
		return set_error(err, FORCARRY_EINVAL, "rank %d: retry %d, %d retries, port %d, GID %d, level %d: want 1 to 31, 1 to 7, 1 to 255, 0 to 255, 0 to 15", o->rank, o->retry, o->retries, o->port, o->gid, o->level);
	if (!o->allgather)
		return set_error(err, FORCARRY_EINVAL, "rank %d: allgather is NULL", o->rank);
	return FORCARRY_OK;
}

static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Lays out the board and the data memory. */
static void lay_out(struct forcarry *c)
{
	const struct forcarry_options *o = &c->o;
	size_t ranks = (size_t)c->ranks;
	c->stages = 64 * (int64_t)c->ranks + 256;
	c->pieces = ((int64_t)o->gpus + 2) * o->rows + 2 * (int64_t)o->tokens * o->choices + o->slots + 4 * (o->gpus + 1) * c->stages;
	c->words = (c->ranks + 63) / 64;
	c->entry_bytes = aligned(sizeof(struct entry) + 2 * (size_t)c->words * 8);
	c->blob_bytes = aligned(sizeof(struct blob) + (size_t)o->tokens * (size_t)o->choices * sizeof(struct choice));
	c->share_bytes = aligned(sizeof(struct share) + (size_t)c->pieces * sizeof(struct piece));
	c->state_bytes = sizeof(struct state) + 2 * (size_t)c->words * 8;
	c->message_bytes = aligned(sizeof(struct message) + (size_t)o->gpus * c->state_bytes);
	c->entries_at = aligned(sizeof *c->board);
	c->blobs_at = c->entries_at + ranks * c->entry_bytes;
	c->shares_at = c->blobs_at + ranks * BLOBS * c->blob_bytes;
	c->board_bytes = c->shares_at + (size_t)o->gpus * c->share_bytes;
	int64_t row = larger(o->row, o->row_back);
	int64_t bytes[REGIONS] = {[INPUT] = larger(o->tokens * o->row, o->rows * o->row_back), [NIC_SEND] = o->slots * row, [NIC_RECEIVE] = o->slots * row,
				  [OUTPUT] = o->rows * o->row, [COMBINED] = o->tokens * o->row_back};
	for (int r = 0; r < REGIONS; r++)
		c->region[r + 1] = c->region[r] + (int64_t)aligned((size_t)bytes[r]);
}

static void *zeros(size_t count, size_t size, bool *all)
{
	void *at = calloc(count + 1, size);
	*all = *all && at;
	return at;
}

static int allocate(struct forcarry *c, struct forcarry_error *err)
{
	const struct forcarry_options *o = &c->o;
	const struct forcarry_inside *host = forcarry_processors();
	size_t ranks = (size_t)c->ranks, servers = (size_t)o->servers, rows = (size_t)o->rows, k = (size_t)o->choices;
	bool all = true;
	c->data = zeros((size_t)o->gpus, sizeof *c->data, &all);
	c->peers = zeros(ranks, sizeof *c->peers, &all);
	c->routes = zeros(servers, sizeof *c->routes, &all);
	c->blob_version = zeros(2 * ranks, sizeof *c->blob_version, &all);
	c->suspects = zeros((size_t)c->words, 8, &all);
	c->known = zeros((size_t)c->words, 8, &all);
	c->slot = zeros((size_t)c->stages, sizeof *c->slot, &all);
	c->came = zeros((size_t)c->stages, sizeof *c->came, &all);
	c->cursors = zeros((size_t)(KINDS * o->gpus), sizeof *c->cursors, &all);
	c->needs = zeros(ranks * (size_t)o->tokens * k, sizeof *c->needs, &all);
	c->speeds = zeros(ranks, sizeof *c->speeds, &all);
	c->counts = zeros(ranks, sizeof *c->counts, &all);
	c->idx = zeros((rows + 1) * k, sizeof *c->idx, &all);
	c->weights = zeros((rows + 1) * k, sizeof *c->weights, &all);
	c->source = zeros(rows, sizeof *c->source, &all);
	c->token = zeros(rows, sizeof *c->token, &all);
	c->per_expert = zeros((size_t)(o->experts / c->ranks), sizeof *c->per_expert, &all);
	c->planner = forgpu_open();
	if (all && c->local == 0)
		all = (c->board = host->allocate(host->context, c->board_bytes, c->board_handle));
	if (all)
		all = (c->data[c->local] = c->inside->allocate(c->inside->context, (size_t)c->region[REGIONS], c->data_handle));
	if (!all || !c->planner)
		return set_error(err, FORCARRY_ENOMEM, "rank %d has no memory for %lld bytes of data and %zu of routing and lists", o->rank, (long long)c->region[REGIONS], c->board_bytes);
	return reserve(c, err);
}

/* Gathers what all ranks have, and fails if one has failed. */
static int gather(struct forcarry *c, int code, struct hello *own, struct hello *all, size_t bytes, struct forcarry_error *err)
{
	own->err.code = code;
	if (c->o.allgather(c->o.context, own, all, bytes))
		return set_error(err, FORCARRY_EINVAL, "rank %d: allgather has failed", c->o.rank);
	for (int32_t r = 0; r < c->ranks; r++) {
		const struct hello *h = (const struct hello *)(uintptr_t)((char *)all + (size_t)r * bytes);
		if (h->err.code < 0) {
			*err = h->err;
			return h->err.code;
		}
		if (memcmp(&h->options, &own->options, sizeof h->options) != 0)
			return set_error(err, FORCARRY_EINVAL, "ranks %d and %d have opened the carrier with other options", c->o.rank, r);
	}
	return FORCARRY_OK;
}

static int map_all(struct forcarry *c, const struct hello *all, size_t bytes, struct forcarry_error *err)
{
	const struct forcarry_inside *host = forcarry_processors();
	for (int32_t k = 0; k < c->o.gpus; k++) {
		const struct hello *h = (const struct hello *)(uintptr_t)((const char *)all + (size_t)(c->server * c->o.gpus + k) * bytes);
		if (k == 0 && !c->board)
			c->board = host->map(host->context, h->board_handle, c->board_bytes);
		if (k != c->local)
			c->data[k] = c->inside->map(c->inside->context, h->data_handle, (size_t)c->region[REGIONS]);
		if (!c->board || !c->data[k])
			return set_error(err, FORCARRY_ENOMEM, "rank %d cannot map the memory of rank %d: both must run on one machine as the same user", c->o.rank, c->server * c->o.gpus + k);
	}
	return FORCARRY_OK;
}

/* Does in turn what takes others; all ranks take each turn, also if one has failed. */
static int meet_all(struct forcarry *c, int code, struct hello *own, struct hello *all, size_t bytes, struct forcarry_error *err)
{
	if ((code = gather(c, code, own, all, bytes, err)) < 0)
		return code;
	code = map_all(c, all, bytes, &own->err);
	if (code >= 0 && c->o.servers > 1 && (code = open_device(c, &own->err)) >= 0)
		write_address(c, (struct address *)(own + 1));
	if ((code = gather(c, code, own, all, bytes, err)) < 0)
		return code;
	if (c->o.servers > 1)
		code = connect_all(c, (const char *)(all + 1), bytes, &own->err);
	return gather(c, code, own, all, bytes, err);
}

static void release(struct forcarry *c)
{
	const struct forcarry_inside *host = forcarry_processors();
	close_device(c);
	for (int32_t k = 0; c->data && k < c->o.gpus; k++)
		if (c->data[k])
			c->inside->release(c->inside->context, c->data[k], (size_t)c->region[REGIONS], k == c->local ? c->data_handle : NULL);
	if (c->board)
		host->release(host->context, c->board, c->board_bytes, c->local == 0 ? c->board_handle : NULL);
	forgpu_close(c->planner);
	void *all[] = {c->data, c->peers, c->routes, c->blob_version, c->suspects, c->known, c->slot, c->came, c->cursors, c->needs, c->speeds, c->counts, c->idx, c->weights, c->source, c->token, c->per_expert};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	free(c);
}

forcarry *forcarry_open(const struct forcarry_options *options, struct forcarry_error *err)
{
	struct forcarry_error unasked;
	err = err ? err : &unasked;
	struct forcarry *c = calloc(1, sizeof *c);
	if (!c || !options || options->servers < 1 || options->gpus < 1 || options->servers > FORGPU_MAX_RANKS || options->gpus > FORGPU_MAX_RANKS / options->servers || !options->allgather) {
		free(c);
		set_error(err, FORCARRY_EINVAL, "the options are NULL or have no cluster of at most %d ranks, or allgather is NULL", FORGPU_MAX_RANKS);
		return NULL;
	}
	c->o = *options;
	c->ranks = options->servers * options->gpus;
	size_t bytes = sizeof(struct hello) + aligned(sizeof(struct address) + (size_t)c->ranks * sizeof(uint32_t));
	struct hello *own = calloc(1, bytes), *all = calloc((size_t)c->ranks, bytes);
	int code = own && all ? check_options(&c->o, &own->err) : FORCARRY_ENOMEM;
	if (code >= 0) {
		c->inside = options->inside ? options->inside : forcarry_processors();
		c->server = options->rank / options->gpus;
		c->local = options->rank % options->gpus;
		c->spins = sysconf(_SC_NPROCESSORS_ONLN) > options->gpus ? 1000 : 3; /* ranks must not take processors from each other */
		lay_out(c);
		code = allocate(c, &own->err);
	}
	if (own && all) {
		memcpy(own->board_handle, c->board_handle, sizeof own->board_handle);
		memcpy(own->data_handle, c->data_handle, sizeof own->data_handle);
		own->options = c->o;
		own->options.rank = own->options.port = own->options.gid = 0;
		own->options.device = NULL;
		own->options.inside = NULL;
		own->options.allgather = NULL;
		own->options.context = NULL;
		code = meet_all(c, code, own, all, bytes, err);
	} else
		set_error(err, code, "no memory for addresses");
	free(own);
	free(all);
	for (int32_t j = 0; code >= 0 && j < options->servers; j++)
		c->routes[j].to = j * options->gpus + c->local;
	if (code >= 0)
		return c;
	release(c);
	return NULL;
}

void forcarry_close(forcarry *c)
{
	char all[FORGPU_MAX_RANKS];
	if (!c)
		return;
	if (!c->broken) /* others may still send their last states here */
		(void)c->o.allgather(c->o.context, "", all, 1);
	release(c);
}
