/* Dispatch and combine, and exchanges of other traffic. */
#include <string.h>

#include "internal.h"

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static struct choice *choices_of(const struct forcarry *c, int32_t rank, uint64_t op, int32_t token)
{
	return blob_of(c, rank, op)->of + (size_t)token * (size_t)c->o.choices;
}

static int32_t *needs_of(const struct forcarry *c, int32_t rank, int32_t token)
{
	return c->needs + ((size_t)rank * (size_t)c->each + (size_t)token) * (size_t)c->o.choices;
}

/* Plans both ways without the dead NICs, and keeps the way back. */
static int plan_tokens(struct forcarry *c, struct forgpu_program *there, struct forcarry_error *err)
{
	const struct forcarry_options *o = &c->o;
	struct forgpu_error why;
	struct forgpu_tokens tokens = {o->row, c->each, o->choices, c->needs};
	int code = forgpu_nics(c->planner, o->servers, o->gpus, c->count.dead ? c->speeds : NULL, 1, NULL, &why);
	if (code >= 0)
		code = forgpu_plan_tokens(c->planner, o->servers, o->gpus, &tokens, o->rank, &o->plan, there, &c->back, &why);
	c->back_dead = c->count.dead;
	return code < 0 ? set_error(err, FORCARRY_EPLAN, "exchange %llu cannot be planned: %.200s", (unsigned long long)c->op, why.text) : FORCARRY_OK;
}

static void find_speeds(struct forcarry *c)
{
	for (int32_t r = 0; r < c->ranks; r++)
		c->speeds[r] = !is_dead(c, r);
}

int reserve(struct forcarry *c, struct forcarry_error *err)
{
	struct forgpu_program there;
	int code = FORCARRY_OK;
	c->each = c->o.tokens;
	for (size_t at = 0; at < (size_t)c->ranks * (size_t)c->each * (size_t)c->o.choices; at++)
		c->needs[at] = (int32_t)(at * 7 % (size_t)c->ranks);
	forgpu_reserve(c->planner, c->o.gpus * c->o.rows + (int64_t)c->o.tokens * smaller(c->o.choices, c->ranks));
	for (c->count.dead = 0; code >= 0 && c->count.dead < smaller(c->o.gpus, 2); c->count.dead++) {
		for (int32_t r = 0; r < c->ranks; r++)
			c->speeds[r] = r >= c->count.dead;
		code = plan_tokens(c, &there, err);
	}
	c->count.dead = 0;
	return code;
}

/* Reads the routing of all ranks: which ranks need each token. Rows that do not fit are refused by all
 * ranks alike. */
static int read_routing(struct forcarry *c, struct forcarry_error *err)
{
	int32_t k = c->o.choices, on_each = c->o.experts / c->ranks;
	c->each = 0;
	for (int32_t r = 0; r < c->ranks; r++)
		if ((int32_t)blob_of(c, r, c->op)->tokens > c->each)
			c->each = (int32_t)blob_of(c, r, c->op)->tokens;
	memset(c->counts, 0, (size_t)c->ranks * sizeof *c->counts);
	for (int32_t r = 0; r < c->ranks; r++) {
		int32_t tokens = (int32_t)blob_of(c, r, c->op)->tokens;
		for (int32_t t = 0; t < c->each; t++) {
			int32_t *needs = needs_of(c, r, t);
			const struct choice *choices = choices_of(c, r, c->op, t);
			for (int32_t i = 0; i < k; i++) {
				needs[i] = t < tokens && choices[i].expert >= 0 ? choices[i].expert / on_each : -1;
				bool first = needs[i] >= 0;
				for (int32_t j = 0; j < i; j++)
					first = first && needs[j] != needs[i];
				if (first)
					c->counts[needs[i]]++;
			}
		}
	}
	for (int32_t r = 0; r < c->ranks; r++)
		if (c->counts[r] > c->o.rows)
			return set_error(err, FORCARRY_ECAPACITY, "exchange %llu: rank %d receives %lld tokens, and there is room for %lld rows: open the carrier with more", (unsigned long long)c->op, r,
				    (long long)c->counts[r], (long long)c->o.rows);
	c->routed = c->op;
	return FORCARRY_OK;
}

static int plan_dispatch(struct forcarry *c, struct forcarry_error *err)
{
	int code = c->routed == c->op ? FORCARRY_OK : read_routing(c, err);
	find_speeds(c);
	return code < 0 ? code : plan_tokens(c, &c->program, err);
}

static int plan_combine(struct forcarry *c, struct forcarry_error *err)
{
	struct forgpu_program there;
	find_speeds(c);
	int code = c->back_dead == c->count.dead ? FORCARRY_OK : plan_tokens(c, &there, err);
	c->program = c->back;
	return code;
}

static int plan_given(struct forcarry *c, struct forcarry_error *err)
{
	struct forgpu_error why = {0, ""};
	find_speeds(c);
	if (c->given(c->given_context, c->count.dead ? c->speeds : NULL, &c->program, &why) < 0)
		return set_error(err, FORCARRY_EPLAN, "exchange %llu cannot be planned: %.200s", (unsigned long long)c->op, why.text);
	if (c->program.input != c->given_bytes[0] || c->program.output != c->given_bytes[1])
		return set_error(err, FORCARRY_EPLAN, "exchange %llu: rank %d has %lld bytes of input and %lld of output, and its program %lld and %lld", (unsigned long long)c->op, c->o.rank,
			    (long long)c->given_bytes[0], (long long)c->given_bytes[1], (long long)c->program.input, (long long)c->program.output);
	return FORCARRY_OK;
}

/* Copies into the region of inputs, or out of another; fails without consequences for other ranks. */
static int copy(struct forcarry *c, void *to, const void *from, int64_t bytes, struct forcarry_error *err)
{
	const struct forcarry_inside *i = c->inside;
	int why = bytes > 0 ? i->copy(i->context, to, from, (size_t)bytes) : 0;
	if (!why)
		why = i->wait(i->context);
	return why ? set_error(err, FORCARRY_EINVAL, "rank %d: %lld bytes cannot be copied: %s", c->o.rank, (long long)bytes, strerror(why)) : FORCARRY_OK;
}

static int check_usable(const struct forcarry *c, struct forcarry_error *err)
{
	if (!c)
		return set_error(err, FORCARRY_EINVAL, "the carrier is NULL");
	return c->broken ? set_error(err, FORCARRY_EPEER, "the carrier of rank %d has failed before: open another one on all ranks", c->o.rank) : FORCARRY_OK;
}

/* Lists the tokens that the rank has received. */
static void list_received(struct forcarry *c, struct forcarry_received *received)
{
	int32_t k = c->o.choices, on_each = c->o.experts / c->ranks, row = 0;
	memset(c->per_expert, 0, (size_t)on_each * sizeof *c->per_expert);
	for (int32_t r = 0; r < c->ranks; r++) {
		int32_t tokens = (int32_t)blob_of(c, r, c->op)->tokens;
		for (int32_t t = 0; t < tokens; t++) {
			const struct choice *choices = choices_of(c, r, c->op, t);
			bool here = false;
			for (int32_t i = 0; i < k; i++) {
				int32_t at = choices[i].expert - c->o.rank * on_each;
				bool own = at >= 0 && at < on_each;
				c->idx[(size_t)row * (size_t)k + (size_t)i] = own ? at : -1;
				c->weights[(size_t)row * (size_t)k + (size_t)i] = own ? choices[i].weight : 0;
				bool first = own;
				for (int32_t j = 0; j < i; j++)
					first = first && choices[j].expert != choices[i].expert;
				c->per_expert[own ? at : 0] += first;
				here |= own;
			}
			if (here) {
				c->source[row] = r;
				c->token[row++] = t;
			}
		}
	}
	*received = (struct forcarry_received){row, region_of(c, c->local, OUTPUT), c->idx, c->weights, c->source, c->token, c->per_expert};
}

int forcarry_dispatch(forcarry *c, const void *x, int32_t tokens, const int64_t *topk_idx, const float *topk_weights,
		      struct forcarry_received *received, struct forcarry_error *err)
{
	int code = check_usable(c, err);
	if (code < 0)
		return code;
	if (tokens < 0 || tokens > c->o.tokens)
		return set_error(err, FORCARRY_EINVAL, "rank %d: %d tokens: want 0 to %d", c->o.rank, tokens, c->o.tokens);
	if (!received || (tokens > 0 && (!x || !topk_idx)))
		return set_error(err, FORCARRY_EINVAL, "rank %d: the tokens, their experts or what is received are NULL", c->o.rank);
	size_t count = (size_t)tokens * (size_t)c->o.choices;
	for (size_t i = 0; i < count; i++)
		if (topk_idx[i] < -1 || topk_idx[i] >= c->o.experts)
			return set_error(err, FORCARRY_EINVAL, "rank %d: token %zu, choice %zu is expert %lld: want 0 to %d, or -1 for none", c->o.rank, i / (size_t)c->o.choices, i % (size_t)c->o.choices,
				    (long long)topk_idx[i], c->o.experts - 1);
	if ((code = copy(c, region_of(c, c->local, INPUT), x, tokens * c->o.row, err)) < 0)
		return code;
	struct blob *b = blob_of(c, c->o.rank, c->op + 1);
	b->tokens = (uint64_t)tokens;
	for (size_t i = 0; i < count; i++)
		b->of[i] = (struct choice){(int32_t)topk_idx[i], topk_weights ? topk_weights[i] : 1};
	atomic_store(&entry_of(c, c->o.rank)->routing, c->op + 1);
	c->dispatch = 0;
	c->unit = c->row = c->o.row;
	c->out = OUTPUT;
	if ((code = carry_out(c, plan_dispatch, err)) < 0)
		return code;
	c->dispatch = c->op;
	c->tokens = tokens;
	list_received(c, received);
	return FORCARRY_OK;
}

int forcarry_combine(forcarry *c, const void *y, void *combined, struct forcarry_error *err)
{
	int code = check_usable(c, err);
	if (code < 0)
		return code;
	if (!c->dispatch)
		return set_error(err, FORCARRY_EINVAL, "rank %d: there is no dispatch to combine", c->o.rank);
	int64_t bytes = c->tokens * c->o.row_back, rows = c->counts[c->o.rank];
	if ((rows > 0 && !y) || (bytes > 0 && !combined))
		return set_error(err, FORCARRY_EINVAL, "rank %d: the rows or their sums are NULL", c->o.rank);
	char *out = region_of(c, c->local, COMBINED);
	int why = c->inside->clear(c->inside->context, out, (size_t)bytes);
	if (why)
		return set_error(err, FORCARRY_EINVAL, "rank %d: %lld bytes cannot be cleared: %s", c->o.rank, (long long)bytes, strerror(why));
	if ((code = copy(c, region_of(c, c->local, INPUT), y, rows * c->o.row_back, err)) < 0)
		return code;
	c->unit = c->o.row;
	c->row = c->o.row_back;
	c->out = COMBINED;
	if ((code = carry_out(c, plan_combine, err)) < 0)
		return code;
	return copy(c, combined, out, bytes, err);
}

int forcarry_exchange(forcarry *c, forcarry_plan *plan, void *context, const void *input, int64_t input_bytes,
		      void *output, int64_t output_bytes, struct forcarry_error *err)
{
	int code = check_usable(c, err);
	if (code < 0)
		return code;
	if (!plan || input_bytes < 0 || output_bytes < 0 || (input_bytes > 0 && !input) || (output_bytes > 0 && !output))
		return set_error(err, FORCARRY_EINVAL, "rank %d: the plan, the input or the output is NULL, or has fewer than 0 bytes", c->o.rank);
	if (input_bytes > c->region[INPUT + 1] - c->region[INPUT] || output_bytes > c->region[OUTPUT + 1] - c->region[OUTPUT])
		return set_error(err, FORCARRY_EINVAL, "rank %d: %lld bytes of input and %lld of output: there is room for %lld and %lld", c->o.rank, (long long)input_bytes, (long long)output_bytes,
			    (long long)(c->region[INPUT + 1] - c->region[INPUT]), (long long)(c->region[OUTPUT + 1] - c->region[OUTPUT]));
	if ((code = copy(c, region_of(c, c->local, INPUT), input, input_bytes, err)) < 0)
		return code;
	c->dispatch = 0;
	c->given = plan;
	c->given_context = context;
	c->given_bytes[0] = input_bytes;
	c->given_bytes[1] = output_bytes;
	c->unit = c->row = 1;
	c->out = OUTPUT;
	if ((code = carry_out(c, plan_given, err)) < 0)
		return code;
	return copy(c, output, region_of(c, c->local, OUTPUT), output_bytes, err);
}

void forcarry_count(const forcarry *c, struct forcarry_counts *counts) { *counts = c ? c->count : (struct forcarry_counts){0}; }
