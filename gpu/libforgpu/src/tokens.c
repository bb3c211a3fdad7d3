/* Tokens that are sent once to each server, and their way back: tokens.go and tokenwriter.go in C. */
#include <string.h>

#include "internal.h"

static int lay_out_tokens(struct forgpu_planner *p, size_t tokens, size_t needs)
{
	struct tokens *x = &p->tokens;
	size_t ranks = (size_t)p->ranks, pairs = ranks * ranks;
	x->units = room(&x->memory, 1, (pairs + (size_t)p->n) * sizeof *x->units + (3 * needs + tokens + 1 + 2 * pairs + 1 + 2 * ranks) * sizeof *x->needs);
	if (!x->units)
		return FORGPU_ENOMEM;
	x->copies = x->units + pairs;
	x->needs = (int32_t *)(x->copies + p->n);
	x->rows = x->needs + needs;
	x->list = x->rows + needs;
	x->first = x->list + needs;
	x->begins = x->first + tokens + 1;
	x->next = x->begins + pairs + 1;
	x->count = x->next + pairs;
	x->load = x->count + ranks;
	memset(x->units, 0, (pairs + (size_t)p->n) * sizeof *x->units);
	memset(x->count, 0, ranks * sizeof *x->count);
	return FORGPU_OK;
}

/* Finds the ranks that need each token, rising, and the token's rows in their outputs. */
static int read_needs(struct forgpu_planner *p, const struct forgpu_tokens *given, struct forgpu_error *err)
{
	struct tokens *x = &p->tokens;
	int32_t end = 0;
	for (int32_t token = 0; token < given->each * p->ranks; token++) {
		int32_t begin = x->first[token] = end;
		for (int32_t k = 0; k < given->choices; k++) {
			int32_t rank = given->ranks[(size_t)token * (size_t)given->choices + (size_t)k], at = end;
			if (rank < -1 || rank >= p->ranks)
				return fail(err, FORGPU_ETRAFFIC, "token %d, choice %d is of rank %d: want 0 to %d, or -1 for none", token, k, rank, p->ranks - 1);
			while (at > begin && x->needs[at - 1] >= rank)
				at--;
			if (rank < 0 || (at < end && x->needs[at] == rank))
				continue;
			memmove(x->needs + at + 1, x->needs + at, (size_t)(end - at) * sizeof *x->needs);
			x->needs[at] = rank;
			end++;
		}
		for (int32_t at = begin; at < end; at++)
			x->rows[at] = x->count[x->needs[at]]++;
	}
	x->first[given->each * p->ranks] = end;
	return FORGPU_OK;
}

/* Counts the tokens of each batch, or lists them: each rank of the own server gets them directly,
 * in another server that of the source's number, if it needs them, or that with the fewest. */
static void batch(struct forgpu_planner *p, bool list)
{
	struct tokens *x = &p->tokens;
	memset(x->load, 0, (size_t)p->ranks * sizeof *x->load);
	for (int32_t token = 0; token < x->each * p->ranks; token++) {
		int32_t source = token / x->each, end = x->first[token + 1];
		for (int32_t at = x->first[token]; at < end;) {
			int32_t to = x->needs[at++], server = to / p->m;
			for (; server != source / p->m && at < end && x->needs[at] / p->m == server; at++) {
				int32_t r = x->needs[at];
				if (r % p->m == source % p->m || (to % p->m != source % p->m && x->load[r] < x->load[to]))
					to = r;
				x->copies[server] += !list;
			}
			if (server != source / p->m)
				x->load[to]++;
			size_t pair = (size_t)source * (size_t)p->ranks + (size_t)to;
			if (list)
				x->list[x->next[pair]++] = token;
			else
				x->units[pair]++;
		}
	}
}

int begin_tokens(struct forgpu_planner *p, const struct forgpu_tokens *given, struct forgpu_error *err)
{
	struct tokens *x = &p->tokens;
	size_t ranks = (size_t)p->ranks;
	if (given->bytes < 1 || given->bytes > 1 << 30)
		return fail(err, FORGPU_EINVAL, "%lld bytes a token: want 1 to %d", (long long)given->bytes, 1 << 30);
	if (given->each < 0 || given->choices < 1 || (size_t)given->each > ((size_t)1 << 29) / ranks / (size_t)given->choices)
		return fail(err, FORGPU_EINVAL, "%d tokens a rank of %d choices: want at most %d choices in all, and one for each token", given->each, given->choices, 1 << 29);
	size_t tokens = (size_t)given->each * ranks;
	if (tokens > 0 && !given->ranks)
		return fail(err, FORGPU_EINVAL, "the ranks of the tokens' experts are NULL");
	x->bytes = given->bytes;
	x->each = given->each;
	if (lay_out_tokens(p, tokens, tokens * (size_t)given->choices) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	int code = read_needs(p, given, err);
	if (code < 0)
		return code;
	batch(p, false);
	x->begins[0] = 0;
	for (size_t at = 0; at < ranks * ranks; at++) {
		x->next[at] = x->begins[at];
		x->begins[at + 1] = x->begins[at] + (int32_t)x->units[at];
	}
	batch(p, true);
	p->o.b1 /= (double)x->bytes;
	p->o.b2 /= (double)x->bytes;
	p->o.grain = over(p->o.grain, x->bytes);
	if (p->o.max_stage > 0)
		p->o.max_stage = most(1, p->o.max_stage / x->bytes);
	p->bytes = x->units;
	return FORGPU_OK;
}

int64_t copies(const struct forgpu_planner *p)
{
	int64_t top = 0;
	for (int32_t i = 0; i < p->n; i++)
		top = most(top, p->tokens.copies[i]);
	return over(top, p->m);
}

size_t own_copies(const struct forgpu_planner *p)
{
	const struct tokens *x = &p->tokens;
	size_t sum = 0;
	for (int32_t k = 0; k < p->m; k++)
		sum += (size_t)x->count[p->own * p->m + k];
	for (int32_t to = 0; to < p->ranks; to++)
		sum += (size_t)x->units[(size_t)p->rank * (size_t)p->ranks + (size_t)to];
	return sum > p->reserve ? sum : p->reserve;
}

const int32_t *stretch(const struct forgpu_planner *p, int32_t source, int32_t destination, int64_t offset)
{
	return p->tokens.list + p->tokens.begins[(size_t)source * (size_t)p->ranks + (size_t)destination] + offset;
}

int32_t row_of(const struct forgpu_planner *p, int32_t rank, int32_t token)
{
	const struct tokens *x = &p->tokens;
	for (int32_t at = x->first[token]; at < x->first[token + 1]; at++)
		if (x->needs[at] == rank)
			return x->rows[at];
	return -1;
}

/* Converts a program from tokens to bytes. */
static void in_bytes(struct forgpu_planner *p, struct forgpu_program *program)
{
	int64_t unit = p->tokens.bytes;
	int64_t *sizes[] = {&program->input, &program->nic_send, &program->nic_receive, &program->output};
	for (int i = 0; i < 4; i++)
		*sizes[i] *= unit;
	for (size_t s = 0; s < p->stages; s++)
		p->lengths[s] *= unit;
	struct list *lists[] = {&p->before_send, &p->before_receive, &p->after_send, &p->after_receive,
				&p->local_send, &p->local_receive, &p->send, &p->receive};
	for (int i = 0; i < 8; i++)
		for (struct forgpu_piece *x = lists[i]->at; x < lists[i]->at + lists[i]->count; x++) {
			x->offset *= unit;
			x->bytes *= unit;
		}
}

/* Copies pieces in the reverse order of steps; those of a step keep their order. */
static struct forgpu_list backwards(struct forgpu_list list, int32_t stages, struct forgpu_piece *to)
{
	struct forgpu_list out = {to, list.count};
	for (size_t end = list.count; end > 0;) {
		size_t first = end;
		while (first > 0 && list.at[first - 1].stage == list.at[end - 1].stage)
			first--;
		for (size_t i = first; i < end; i++) {
			*to = list.at[i];
			(to++)->stage = stages - 1 - list.at[i].stage;
		}
		end = first;
	}
	return out;
}

/* A list of received pieces while it is written, and whether each is added. */
struct received {
	struct forgpu_piece *at;
	uint8_t *add;
	size_t count;
};

/* Appends a piece, cut where tokens are added to those that the buffer holds. */
static void receive(struct received *r, struct forgpu_piece x, uint8_t *full, int64_t unit)
{
	for (int64_t offset = x.offset; offset < x.offset + x.bytes; offset += unit) {
		struct forgpu_piece *last = r->at + r->count - 1;
		uint8_t *row = full + offset / unit;
		if (r->count > 0 && last->stage == x.stage && last->peer == x.peer && last->offset + last->bytes == offset && r->add[r->count - 1] == *row) {
			last->bytes += unit;
		} else {
			r->add[r->count] = *row;
			r->at[r->count++] = (struct forgpu_piece){x.stage, x.peer, offset, unit};
		}
		*row = 1;
	}
}

static size_t rows_in(struct forgpu_list list, int64_t unit)
{
	int64_t sum = 0;
	for (size_t i = 0; i < list.count; i++)
		sum += list.at[i].bytes;
	return (size_t)(sum / unit);
}

/* Merges the pieces that come from NICs, and those that stay in the server, step by step. */
static void receive_output(struct forgpu_list after, struct forgpu_list local, struct received *a, struct received *l, uint8_t *full, int64_t unit)
{
	for (size_t i = 0, k = 0; i < after.count || k < local.count;)
		if (k == local.count || (i < after.count && after.at[i].stage <= local.at[k].stage))
			receive(a, after.at[i++], full, unit);
		else
			receive(l, local.at[k++], full, unit);
}

/* Writes the program of the way back. */
static int reverse(struct forgpu_planner *p, const struct forgpu_program *there, struct forgpu_program *back)
{
	int64_t unit = p->tokens.bytes;
	int32_t stages = (int32_t)p->stages;
	size_t before = rows_in(there->after_send, unit), after = rows_in(there->before_send, unit);
	/* A NIC hands on every row that it receives; the rank sends a row once to each peer and server. */
	size_t added = own_copies(p), rows = (size_t)most((int64_t)added, p->tokens.each);
	struct forgpu_piece *at = room(&p->tokens.back_memory, 1, (p->list_room + added) * sizeof *at + ample(p, p->stages) * sizeof *p->lengths + rows + added);
	if (!at)
		return FORGPU_ENOMEM;
	*back = (struct forgpu_program){.rank = there->rank, .gpus = there->gpus, .input = there->output, .nic_send = there->nic_receive,
					.nic_receive = there->nic_send, .output = there->input, .stages = p->stages};
	const struct forgpu_list *from[] = {&there->after_receive, &there->after_send, &there->before_receive, &there->before_send,
					    &there->local_receive, &there->local_send, &there->receive, &there->send};
	struct forgpu_list *lists = &back->before_send;
	for (int i = 0; i < 8; i++) {
		lists[i] = backwards(*from[i], stages, at);
		at += from[i]->count;
	}
	int64_t *lengths = (int64_t *)(at + added);
	uint8_t *full = (uint8_t *)(lengths + p->stages), *add = full + rows;
	struct received r[] = {{at, add, 0}, {at + before, add + before, 0}, {at + before + after, add + before + after, 0}};
	for (size_t i = 0; i < lists[1].count; i++) {
		if (i == 0 || lists[1].at[i].stage != lists[1].at[i - 1].stage)
			memset(full, 0, rows);
		receive(&r[0], lists[1].at[i], full, unit);
	}
	memset(full, 0, rows);
	receive_output(lists[3], lists[5], &r[1], &r[2], full, unit);
	for (int i = 0; i < 3; i++) {
		lists[2 * i + 1] = (struct forgpu_list){r[i].at, r[i].count};
		back->add[i] = r[i].add;
	}
	for (size_t s = 0; s < p->stages; s++)
		lengths[s] = p->lengths[p->stages - 1 - s];
	back->lengths = lengths;
	return FORGPU_OK;
}

int write_tokens(struct forgpu_planner *p, struct forgpu_program *there, struct forgpu_program *back)
{
	in_bytes(p, there);
	return back ? reverse(p, there, back) : FORGPU_OK;
}
