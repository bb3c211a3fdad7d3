/* The stages of the own server's NICs, and the program of the rank: bytes.go,
 * overlap.go and writer.go in C. */
#include <string.h>

#include "internal.h"

static int lay_out_turns(struct forgpu_planner *p, size_t stages)
{
	size_t m = (size_t)p->m;
	stages = ample(p, stages);
	p->lengths = room(&p->stage_memory, stages, 2 * sizeof *p->lengths);
	p->out_bytes = room(&p->turns_memory, 2 * stages * m, sizeof *p->out_bytes);
	if (!p->lengths || !p->out_bytes)
		return FORGPU_ENOMEM;
	p->to = (int32_t *)(p->lengths + stages);
	p->from = p->to + stages;
	p->in_bytes = p->out_bytes + stages * m;
	return FORGPU_OK;
}

/* Subtracts the bytes that the NICs of a pair send in a stage from those left. */
static void take(struct forgpu_planner *p, size_t pair, int64_t bytes, int64_t *turns)
{
	int64_t *left = p->stream_left + pair * (size_t)p->m;
	for (int32_t nic = 0; nic < p->m; nic++) {
		turns[nic] = least(left[nic], bytes);
		left[nic] -= turns[nic];
	}
}

/* Assigns the stages of servers to the NICs, in their order. */
int follow(struct forgpu_planner *p, struct forgpu_error *err)
{
	size_t n = (size_t)p->n, m = (size_t)p->m, own = (size_t)p->own;
	if (lay_out_turns(p, p->stints) < 0 || ride(p, p->stints <= 2) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	memcpy(p->left, p->share, n * n * sizeof *p->left);
	p->stages = 0;
	for (size_t at = 0; at < p->stints; at++) {
		const int32_t *match = p->decomposer.match + (size_t)p->order[at].turn * n;
		int64_t length = 0, *out = p->out_bytes + p->stages * m, *in = p->in_bytes + p->stages * m;
		memset(out, 0, m * sizeof *out);
		memset(in, 0, m * sizeof *in);
		int32_t to = -1, from = -1;
		for (size_t i = 0; i < n; i++) {
			size_t j = (size_t)match[i];
			int64_t *left = p->left + i * n + j, bytes = least(*left, p->order[at].length);
			length = most(length, bytes);
			*left -= bytes;
			if (bytes == 0)
				continue;
			if (i == own)
				take(p, j, bytes, out), to = (int32_t)j;
			else if (j == own)
				take(p, n + i, bytes, in), from = (int32_t)i;
		}
		if (length == 0)
			continue;
		p->lengths[p->stages] = length;
		p->to[p->stages] = to;
		p->from[p->stages] = from;
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
	struct forgpu_piece *at = room(&p->lists_memory, 4 * moves + 2 * local + 2 * stages, sizeof *at);
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
	size_t m = (size_t)p->m, nic = (size_t)p->rank % m;
	for (size_t s = 0; s < p->stages; s++) {
		h.send[s & 1] = most(h.send[s & 1], p->out_bytes[s * m + nic]);
		h.receive[s & 1] = most(h.receive[s & 1], p->in_bytes[s * m + nic]);
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

/* Writes the moves for the bytes that a NIC sends in a stage; at is their offset in the rank's own buffer. */
static void write_out(struct forgpu_planner *p, int32_t stage, int32_t nic, int64_t at)
{
	int32_t m = p->m, me = p->rank % m, home = p->own * m, to = p->to[stage];
	int64_t left = p->out_bytes[stage * m + nic];
	if (left > 0 && nic == me)
		append(&p->send, stage, to * m + nic, at, left);
	size_t stream = (size_t)to * (size_t)m + (size_t)nic;
	while (left > 0) {
		const struct segment *s = p->segments + p->streams[stream].segment;
		int64_t done = p->streams[stream].done, bytes = least(left, s->bytes - done);
		move(p->loads[stage % 3], s->source, nic, bytes);
		if (s->source == me)
			join(&p->before_send, stage - 1, home + nic, p->input[to * m + s->destination] + s->offset + done, bytes);
		if (nic == me) {
			join(&p->before_receive, stage - 1, home + s->source, at, bytes);
			at += bytes;
		}
		left -= bytes;
		p->streams[stream].done += bytes;
		if (p->streams[stream].done == s->bytes)
			p->streams[stream].segment++, p->streams[stream].done = 0;
	}
}

static void write_in(struct forgpu_planner *p, int32_t stage, int32_t nic, int64_t at)
{
	int32_t m = p->m, me = p->rank % m, home = p->own * m, from = p->from[stage];
	int64_t left = p->in_bytes[stage * m + nic];
	if (left > 0 && nic == me)
		append(&p->receive, stage, from * m + nic, at, left);
	size_t stream = (size_t)(p->n + from) * (size_t)m + (size_t)nic;
	while (left > 0) {
		const struct segment *s = p->segments + p->streams[stream].segment;
		int64_t done = p->streams[stream].done, bytes = least(left, s->bytes - done);
		move(p->loads[(stage + 2) % 3], nic, s->destination, bytes);
		if (s->destination == me)
			join(&p->after_receive, stage + 1, home + nic, p->output[from * m + s->source] + s->offset + done, bytes);
		if (nic == me) {
			join(&p->after_send, stage + 1, home + s->destination, at, bytes);
			at += bytes;
		}
		left -= bytes;
		p->streams[stream].done += bytes;
		if (p->streams[stream].done == s->bytes)
			p->streams[stream].segment++, p->streams[stream].done = 0;
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
		if (bytes > 0 && x.source == me)
			append(&p->local_send, step - 1, home + x.destination, p->input[home + x.destination] + x.offset, bytes);
		if (bytes > 0 && x.destination == me)
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
		for (int32_t nic = 0; step < stages && nic < p->m; nic++) {
			write_out(p, step, nic, begin.send[step & 1]);
			write_in(p, step, nic, begin.receive[step & 1]);
		}
		fill(p, step, step == stages ? FORGPU_MAX_BYTES : step > 0 && step <= stages ? beside(p, p->lengths[step - 1]) : 0);
	}
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
