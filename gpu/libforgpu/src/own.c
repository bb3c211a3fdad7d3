/* The stages of the own server's NICs, and the program of the rank: bytes.go,
 * overlap.go and writer.go in C. */
#include <string.h>

#include "internal.h"

static int lay_out_turns(struct forgpu_planner *p, size_t stages)
{
	size_t m = (size_t)p->m;
	stages = ample(p, stages);
	p->lengths = room(&p->stage_memory, stages, 2 * sizeof *p->lengths);
	p->sends = room(&p->turns_memory, 2 * stages * m, sizeof *p->sends);
	if (!p->lengths || !p->sends)
		return FORGPU_ENOMEM;
	p->sent = (int32_t *)(p->lengths + stages);
	p->received = p->sent + stages;
	p->receives = p->sends + stages * m;
	return FORGPU_OK;
}

/* Subtracts the bytes that the NICs of two groups send in a stage from those left, and appends
 * their turns. */
static void take(struct forgpu_planner *p, size_t at, int64_t bytes, struct turn *turns, int32_t *count)
{
	for (int32_t k = 0; k < width(p, at); k++) {
		int32_t stream = p->first_stream[at] + k;
		int64_t *left = &p->streams[stream].left, some = least(*left, bytes);
		if (some > 0)
			turns[(*count)++] = (struct turn){stream, some};
		*left -= some;
	}
}

/* Assigns the stages of groups to the NICs, in their order. */
int follow(struct forgpu_planner *p, struct forgpu_error *err)
{
	size_t n = (size_t)p->group_count, m = (size_t)p->m;
	if (lay_out_turns(p, p->stints) < 0 || ride(p, p->stints <= 2) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	memcpy(p->left, p->share, n * n * sizeof *p->left);
	p->stages = 0;
	for (size_t s = 0; s < p->stints; s++) {
		const int32_t *match = p->decomposer.match + (size_t)p->order[s].turn * n;
		int64_t length = 0;
		int32_t sent = 0, received = 0;
		for (size_t a = 0; a < n; a++) {
			size_t at = a * n + (size_t)match[a];
			int64_t bytes = least(p->left[at], p->order[s].length);
			length = most(length, bytes);
			p->left[at] -= bytes;
			if (bytes > 0 && p->groups[a].server == p->own)
				take(p, at, bytes, p->sends + p->stages * m, &sent);
			else if (bytes > 0 && p->groups[match[a]].server == p->own)
				take(p, at, bytes, p->receives + p->stages * m, &received);
		}
		if (length == 0)
			continue;
		p->lengths[p->stages] = length;
		p->sent[p->stages] = sent;
		p->received[p->stages] = received;
		p->stages++;
	}
	return FORGPU_OK;
}

static int lay_out_program(struct forgpu_planner *p)
{
	size_t m = (size_t)p->m, ranks = (size_t)p->ranks, stages = ample(p, p->stages);
	int64_t *loads = room(&p->loads_memory, 6 * m, sizeof *loads);
	p->waiting = room(&p->places_memory, 1, m * m * sizeof *p->waiting + 2 * ranks * sizeof *p->input);
	/* Every piece ends with a segment or a turn; messages inside the server are cut once per step. */
	size_t moves = most_segments(p) + stages * m, local = m * (stages + 2);
	if (p->tokens.given) {
		moves += own_copies(p);
		local += own_copies(p);
	}
	p->list_room = 4 * moves + 2 * local + 2 * stages;
	struct forgpu_piece *at = room(&p->lists_memory, p->list_room, sizeof *at);
	if (!loads || !p->waiting || !at)
		return FORGPU_ENOMEM;
	memset(loads, 0, 6 * m * sizeof *loads);
	for (size_t i = 0; i < 3; i++)
		p->loads[i] = loads + i * 2 * m;
	p->input = (int64_t *)(p->waiting + m * m);
	p->output = p->input + ranks;
	struct list *lists[] = {&p->before_send, &p->before_receive, &p->after_send, &p->after_receive,
				&p->local_send, &p->local_receive, &p->send, &p->receive};
	for (int i = 0; i < 8; i++) {
		*lists[i] = (struct list){at, 0};
		at += i < 4 ? moves : i < 6 ? local : stages;
	}
	return FORGPU_OK;
}

/* Computes the offsets of the rank's messages in its input and its output. */
static void find_places(struct forgpu_planner *p, struct forgpu_program *program)
{
	size_t ranks = (size_t)p->ranks;
	const int64_t *row = p->bytes + (size_t)p->rank * ranks, *column = p->bytes + p->rank;
	program->input = program->output = 0;
	if (p->tokens.given) {
		program->input = p->tokens.each;
		program->output = p->tokens.count[p->rank];
		return;
	}
	for (size_t r = 0; r < ranks; r++) {
		p->input[r] = program->input;
		p->output[r] = program->output;
		program->input += row[r];
		program->output += column[r * ranks];
	}
}

static void append(struct list *list, int32_t stage, int32_t peer, int64_t offset, int64_t bytes)
{
	list->at[list->count++] = (struct forgpu_piece){stage, peer, offset, bytes};
}

/* Appends a piece, or extends the last one if the piece continues it. */
static void join(struct list *list, int32_t stage, int32_t peer, int64_t offset, int64_t bytes)
{
	struct forgpu_piece *last = list->at + list->count - 1;
	if (list->count > 0 && last->stage == stage && last->peer == peer && last->offset + last->bytes == offset)
		last->bytes += bytes;
	else
		append(list, stage, peer, offset, bytes);
}

/* Offsets of even and odd stages in the NIC's buffers. */
struct halves { int64_t send[2], receive[2]; };

static struct halves halve(const struct forgpu_planner *p, struct forgpu_program *program)
{
	struct halves h = {{0, 0}, {0, 0}};
	size_t m = (size_t)p->m;
	for (size_t s = 0; s < p->stages; s++) {
		for (const struct turn *t = p->sends + s * m; t < p->sends + s * m + p->sent[s]; t++)
			if (p->streams[t->stream].out == p->rank)
				h.send[s & 1] = most(h.send[s & 1], t->bytes);
		for (const struct turn *t = p->receives + s * m; t < p->receives + s * m + p->received[s]; t++)
			if (p->streams[t->stream].in == p->rank)
				h.receive[s & 1] = most(h.receive[s & 1], t->bytes);
	}
	program->nic_send = h.send[0] + h.send[1];
	program->nic_receive = h.receive[0] + h.receive[1];
	return (struct halves){{0, h.send[0]}, {0, h.receive[0]}};
}

static void move(int64_t *loads, int32_t from, int32_t to, int64_t bytes)
{
	if (from != to) {
		loads[2 * from] += bytes;
		loads[2 * to + 1] += bytes;
	}
}

/* The next bytes of a stream, at most so many. */
static int64_t advance(struct forgpu_planner *p, struct stream *x, int64_t left, struct segment *part)
{
	*part = p->segments[x->segment];
	part->offset += x->done;
	int64_t bytes = least(left, part->bytes - x->done);
	if ((x->done += bytes) == part->bytes)
		x->segment++, x->done = 0;
	return bytes;
}

/* Appends pieces of the rank's input, for each token of a stretch. */
static void gather(struct forgpu_planner *p, struct list *list, int32_t stage, int32_t peer, const int32_t *tokens, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		join(list, stage, peer, tokens[i] - p->rank * p->tokens.each, 1);
}

/* Writes the moves of tokens from a NIC, at an offset of its buffer, to the ranks that need them. */
static void hand_on(struct forgpu_planner *p, int32_t stage, const struct stream *x, const int32_t *tokens, int64_t count, int64_t at)
{
	for (int32_t k = 0; k < p->m; k++) {
		int32_t peer = p->own * p->m + k;
		for (int64_t i = 0; i < count; i++) {
			int32_t row = row_of(p, peer, tokens[i]);
			if (row < 0)
				continue;
			move(p->loads[(stage + 2) % 3], x->to, k, 1);
			if (x->in == p->rank)
				join(&p->after_send, stage + 1, peer, at + i, 1);
			if (peer == p->rank)
				join(&p->after_receive, stage + 1, x->in, row, 1);
		}
	}
}

/* Writes a turn to send and the moves for it; at is the offset of its bytes in the NIC's buffer. */
static void write_out(struct forgpu_planner *p, int32_t stage, const struct turn *turn, int64_t at)
{
	struct stream *x = p->streams + turn->stream;
	int32_t m = p->m, me = p->rank % m, first = p->own * m, to = x->in - x->in % m;
	if (x->out == p->rank)
		append(&p->send, stage, x->in, at, turn->bytes);
	struct segment part;
	for (int64_t left = turn->bytes, bytes; left > 0; left -= bytes) {
		bytes = advance(p, x, left, &part);
		move(p->loads[stage % 3], part.source, x->from, bytes);
		if (part.source == me && p->tokens.given)
			gather(p, &p->before_send, stage - 1, x->out, stretch(p, p->rank, to + part.destination, part.offset), bytes);
		else if (part.source == me)
			join(&p->before_send, stage - 1, x->out, p->input[to + part.destination] + part.offset, bytes);
		if (x->out == p->rank) {
			join(&p->before_receive, stage - 1, first + part.source, at, bytes);
			at += bytes;
		}
	}
}

static void write_in(struct forgpu_planner *p, int32_t stage, const struct turn *turn, int64_t at)
{
	struct stream *x = p->streams + turn->stream;
	int32_t m = p->m, me = p->rank % m, first = p->own * m, from = x->out - x->out % m;
	if (x->in == p->rank)
		append(&p->receive, stage, x->out, at, turn->bytes);
	struct segment part;
	for (int64_t left = turn->bytes, bytes; left > 0; left -= bytes) {
		bytes = advance(p, x, left, &part);
		if (p->tokens.given) {
			hand_on(p, stage, x, stretch(p, from + part.source, first + part.destination, part.offset), bytes, at);
			at += bytes;
			continue;
		}
		move(p->loads[(stage + 2) % 3], x->to, part.destination, bytes);
		if (part.destination == me)
			join(&p->after_receive, stage + 1, x->in, p->output[from + part.source] + part.offset, bytes);
		if (x->in == p->rank) {
			join(&p->after_send, stage + 1, first + part.destination, at, bytes);
			at += bytes;
		}
	}
}

/* Lists the messages that stay in the server. */
static void wait_inside(struct forgpu_planner *p)
{
	p->waits = 0;
	for (int32_t shift = 0; shift < p->m; shift++) {
		for (int32_t source = 0; source < p->m; source++) {
			int32_t destination = (source + shift) % p->m;
			size_t from = (size_t)(p->own * p->m + source), to = (size_t)(p->own * p->m + destination);
			int64_t bytes = p->bytes[from * (size_t)p->ranks + to];
			if (bytes > 0)
				p->waiting[p->waits++] = (struct local){source, destination, 0, bytes};
		}
	}
}

/* Puts bytes that stay in the server into a step in which each GPU has so much room. */
static void fill(struct forgpu_planner *p, int32_t step, int64_t space)
{
	int32_t me = p->rank % p->m, home = p->own * p->m;
	int64_t *loads = p->loads[step % 3];
	size_t left = 0;
	for (size_t at = 0; at < p->waits; at++) {
		struct local x = p->waiting[at];
		int64_t *out = loads + 2 * x.source, *in = loads + 2 * x.destination + 1, bytes = x.bytes;
		if (x.source != x.destination) {
			bytes = most(0, least(bytes, least(space - *out, space - *in)));
			*out += bytes;
			*in += bytes;
		} else if (space == 0) {
			bytes = 0; /* a copy, which waits for the first stage */
		}
		const int32_t *tokens = p->tokens.given ? stretch(p, home + x.source, home + x.destination, x.offset) : NULL;
		if (tokens && x.source == me)
			gather(p, &p->local_send, step - 1, home + x.destination, tokens, bytes);
		for (int64_t i = 0; tokens && x.destination == me && i < bytes; i++)
			join(&p->local_receive, step - 1, home + x.source, row_of(p, p->rank, tokens[i]), 1);
		if (!tokens && bytes > 0 && x.source == me)
			append(&p->local_send, step - 1, home + x.destination, p->input[home + x.destination] + x.offset, bytes);
		if (!tokens && bytes > 0 && x.destination == me)
			append(&p->local_receive, step - 1, home + x.source, p->output[home + x.source] + x.offset, bytes);
		x.offset += bytes;
		x.bytes -= bytes;
		if (x.bytes > 0)
			p->waiting[left++] = x;
	}
	p->waits = left;
	memset(loads, 0, 2 * (size_t)p->m * sizeof *loads);
}

/* How many bytes a GPU can move inside its server during a stage. */
static int64_t beside(const struct forgpu_planner *p, int64_t length)
{
	double bytes = (double)length * p->o.b1 / p->o.b2;
	return bytes < (double)FORGPU_MAX_BYTES ? (int64_t)bytes : FORGPU_MAX_BYTES;
}

/* Writes the program of the rank. */
int write_program(struct forgpu_planner *p, struct forgpu_program *program)
{
	if (lay_out_program(p) < 0)
		return FORGPU_ENOMEM;
	find_places(p, program);
	struct halves begin = halve(p, program);
	wait_inside(p);
	for (int32_t step = 0, stages = (int32_t)p->stages; step < stages + 2; step++) {
		for (int32_t t = 0; step < stages && t < p->sent[step]; t++)
			write_out(p, step, p->sends + step * p->m + t, begin.send[step & 1]);
		for (int32_t t = 0; step < stages && t < p->received[step]; t++)
			write_in(p, step, p->receives + step * p->m + t, begin.receive[step & 1]);
		fill(p, step, step == stages ? FORGPU_MAX_BYTES : step > 0 && step <= stages ? beside(p, p->lengths[step - 1]) : 0);
	}
	memset(program->add, 0, sizeof program->add);
	program->rank = p->rank;
	program->gpus = p->m;
	program->lengths = p->lengths;
	program->stages = p->stages;
	struct forgpu_list *lists = &program->before_send;
	const struct list *from[] = {&p->before_send, &p->before_receive, &p->after_send, &p->after_receive,
				     &p->local_send, &p->local_receive, &p->send, &p->receive};
	for (int i = 0; i < 8; i++)
		lists[i] = (struct forgpu_list){from[i]->at, from[i]->count};
	return FORGPU_OK;
}
