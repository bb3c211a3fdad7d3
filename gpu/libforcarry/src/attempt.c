/*
 * An attempt at an exchange. The data of a stage have a slot in NIC_SEND and one in NIC_RECEIVE, at the
 * same offset on all ranks: the sum of the lengths of the stages before it. So a sender knows
 * where its data go, and a message that comes twice writes the same bytes. Moves inside the server are
 * taken by those to which they go, from memory of the peer.
 */
#include <string.h>

#include "internal.h"

/* Forgets what has come, before the rank joins. */
void expect(struct forcarry *c)
{
	for (int64_t s = 0; s < c->stages; s++)
		c->came[s] = -1;
	c->program = (struct forgpu_program){0};
	c->ready = c->posted = c->sent = c->received = 0;
}

void stage_came(struct forcarry *c, uint32_t immediate, uint32_t bytes)
{
	int64_t stage = immediate & NO_STAGE;
	if (immediate >> 20 == (c->attempt & 0xfff) && stage < c->stages)
		c->came[stage] = bytes;
}

/* Tells the server which stages have come. */
static void tell_arrived(struct forcarry *c)
{
	const struct forgpu_list *list = &c->program.receive;
	while (c->received < list->count && c->came[list->at[c->received].stage] >= 0)
		c->received++;
	uint64_t stage = c->received < list->count ? (uint64_t)list->at[c->received].stage : NO_STAGE;
	atomic_store(&share_of(c, c->local)->arrived, c->attempt << 20 | stage);
}

/* Sends stages that are ready, a few at a time, and tells what has come. */
void send_more(struct forcarry *c)
{
	while (c->posted < c->ready && c->flying < WINDOW && !c->suspicious && !c->doubt)
		send_stage(c, &c->program.send.at[c->posted++]);
	if (c->received < c->program.receive.count)
		tell_arrived(c);
}

static int misfit(struct forcarry *c, const char *what, int32_t peer, struct forcarry_error *err)
{
	return set_error(err, FORCARRY_EPLAN, "exchange %llu: rank %d: %s of rank %d in its program", (unsigned long long)c->op, c->o.rank, what, peer);
}

/* Checks the lists of the NIC, and gives stages their slots. */
static int lay_out(struct forcarry *c, struct forcarry_error *err)
{
	const struct forgpu_program *p = &c->program;
	int64_t slots = c->region[NIC_SEND + 1] - c->region[NIC_SEND], end = 0;
	if (p->stages >= (size_t)c->stages)
		return set_error(err, FORCARRY_ECAPACITY, "exchange %llu has %zu stages, and there is room for %lld", (unsigned long long)c->op, p->stages, (long long)c->stages - 1);
	for (size_t s = 0; s < p->stages; s++) {
		c->slot[s] = end;
		end += p->lengths[s] / c->unit * c->row;
		if (p->lengths[s] / c->unit > LONGEST / c->row)
			end = INT64_MAX / 2;
		if (end > slots)
			return set_error(err, FORCARRY_ECAPACITY, "exchange %llu takes more than the %lld rows of a NIC: open the carrier with more slots, and messages of at most %d bytes",
				    (unsigned long long)c->op, (long long)c->o.slots, LONGEST);
	}
	c->slot[p->stages] = end;
	const struct forgpu_list *lists[] = {&p->send, &p->receive};
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < lists[side]->count; i++) {
			const struct forgpu_piece *x = &lists[side]->at[i];
			if (x->stage < (i ? x[-1].stage + 1 : 0) || (size_t)x->stage >= p->stages || x->bytes < 1 || x->bytes > p->lengths[x->stage])
				return misfit(c, "a stage", x->peer, err);
			if (x->peer < 0 || x->peer >= c->ranks || x->peer / c->o.gpus == c->server)
				return misfit(c, "a stage over the NIC", x->peer, err);
			if (is_dead(c, x->peer) || is_dead(c, c->o.rank))
				return misfit(c, "a stage over the dead NIC", is_dead(c, x->peer) ? x->peer : c->o.rank, err);
		}
	return FORCARRY_OK;
}

/* The piece of a list of the NIC in a stage, of those in rising order from *at on. */
static const struct forgpu_piece *in_stage(const struct forgpu_list *list, size_t *at, int32_t stage)
{
	while (*at < list->count && list->at[*at].stage < stage)
		++*at;
	return *at < list->count && list->at[*at].stage == stage ? &list->at[*at] : NULL;
}

/* Writes the lists to send for the ranks of the server, with offsets in their regions. */
static int publish(struct forcarry *c, struct forcarry_error *err)
{
	struct share *own = share_of(c, c->local);
	const struct forgpu_list *lists[] = {&c->program.before_send, &c->program.after_send, &c->program.local_send};
	int64_t end = 0;
	for (int kind = 0; kind < KINDS; kind++) {
		size_t at = 0;
		own->first[kind] = end;
		int64_t limit = kind == AFTER ? c->region[NIC_RECEIVE + 1] - c->region[NIC_RECEIVE] : c->region[INPUT + 1] - c->region[INPUT];
		if (lists[kind]->count > (size_t)(c->pieces - end))
			return set_error(err, FORCARRY_EPLAN, "exchange %llu: rank %d has more pieces than the %lld for which there is room", (unsigned long long)c->op, c->o.rank, (long long)c->pieces);
		for (size_t i = 0; i < lists[kind]->count; i++, end++) {
			const struct forgpu_piece *x = &lists[kind]->at[i], *stage;
			struct piece *to = &own->at[end];
			*to = (struct piece){x->stage, x->peer, x->offset, x->bytes / c->unit * c->row};
			if (kind == AFTER) {
				if (!(stage = in_stage(&c->program.receive, &at, x->stage - 1)) || x->offset < stage->offset)
					return misfit(c, "a move from the NIC for", x->peer, err);
				to->offset -= stage->offset;
			}
			to->offset = to->offset / c->unit * c->row + (kind == AFTER ? c->slot[x->stage - 1] : 0);
			if (x->peer / c->o.gpus != c->server || to->offset < 0 || to->bytes < 1 || to->offset > limit - to->bytes)
				return misfit(c, "a move for", x->peer, err);
		}
	}
	own->first[KINDS] = end;
	atomic_store(&own->planned, c->attempt);
	return FORCARRY_OK;
}

/* Takes a piece from a peer of the server. */
static int take(struct forcarry *c, int kind, const struct forgpu_piece *x, char *to, bool add, struct forcarry_error *err)
{
	int32_t gpu = x->peer % c->o.gpus;
	const struct share *peer = share_of(c, gpu);
	struct cursor *cursor = &c->cursors[kind * c->o.gpus + gpu];
	const char *from = region_of(c, gpu, kind == AFTER ? NIC_RECEIVE : INPUT);
	int64_t left = x->bytes / c->unit * c->row;
	for (; left > 0; cursor->at++, cursor->taken = 0) {
		while (peer->first[kind] + cursor->at < peer->first[kind + 1] && peer->at[peer->first[kind] + cursor->at].peer != c->o.rank)
			cursor->at++;
		const struct piece *piece = &peer->at[peer->first[kind] + cursor->at];
		if (peer->first[kind] + cursor->at >= peer->first[kind + 1] || piece->stage != x->stage)
			return misfit(c, "a move that is not in that", x->peer, err);
		int64_t bytes = piece->bytes - cursor->taken < left ? piece->bytes - cursor->taken : left;
		const char *data = from + piece->offset + cursor->taken;
		int why = add ? c->inside->add(c->inside->context, to, data, (size_t)bytes, c->o.type) : c->inside->copy(c->inside->context, to, data, (size_t)bytes);
		if (why)
			return set_error(err, FORCARRY_EPLAN, "exchange %llu: rank %d cannot copy %lld bytes of rank %d: %s", (unsigned long long)c->op, c->o.rank, (long long)bytes, x->peer, strerror(why));
		to += bytes;
		left -= bytes;
		cursor->taken += bytes;
		if (cursor->taken < piece->bytes)
			break;
	}
	return FORCARRY_OK;
}

static int wait_inside(struct forcarry *c, struct forcarry_error *err)
{
	int why = c->inside->wait(c->inside->context);
	return why ? set_error(err, FORCARRY_EPLAN, "exchange %llu: rank %d: moves fail: %s", (unsigned long long)c->op, c->o.rank, strerror(why)) : FORCARRY_OK;
}

/* Fills the slots of the stages that the NIC sends. */
static int fill(struct forcarry *c, struct forcarry_error *err)
{
	const struct forgpu_program *p = &c->program;
	const struct forgpu_piece *x = p->before_receive.at, *end = x + p->before_receive.count;
	for (size_t i = 0; i < p->send.count; i++) {
		const struct forgpu_piece *send = &p->send.at[i];
		int64_t left = send->bytes;
		int code;
		for (; x < end && x->stage == send->stage - 1; x++) {
			bool add = p->add[0] && p->add[0][x - p->before_receive.at];
			int64_t offset = x->offset - send->offset;
			if (x->peer / c->o.gpus != c->server || x->bytes < 1 || offset < 0 || offset > send->bytes - x->bytes)
				return misfit(c, "a move to the NIC", x->peer, err);
			char *to = region_of(c, c->local, NIC_SEND) + c->slot[send->stage] + offset / c->unit * c->row;
			if ((code = take(c, BEFORE, x, to, add, err)) < 0)
				return code;
			left -= add ? 0 : x->bytes;
		}
		if (left != 0)
			return misfit(c, "too few moves for a stage to", send->peer, err);
		if ((code = wait_inside(c, err)) < 0)
			return code;
		c->ready = i + 1;
		progress(c);
	}
	return x == end ? FORCARRY_OK : misfit(c, "a move to the NIC", x->peer, err);
}

/* Waits for the data of the stages before one at a rank of the server. */
static int await_stage(struct forcarry *c, int32_t peer, int32_t stage, struct forcarry_error *err)
{
	const struct share *share = share_of(c, peer % c->o.gpus);
	int idle = 0, code;
	uint64_t arrived;
	for (begin_wait(c); (arrived = atomic_load(&share->arrived)) >> 20 != c->attempt || (int64_t)(arrived & NO_STAGE) < stage;)
		if ((code = rest(c, &idle, "data of other servers at", peer, err)) != FORCARRY_OK)
			return code;
	return FORCARRY_OK;
}

/* Fills the output, in the order of steps; in a step data of other servers come first. */
static int fill_output(struct forcarry *c, struct forcarry_error *err)
{
	const struct forgpu_program *p = &c->program;
	const struct forgpu_piece *a = p->after_receive.at, *l = p->local_receive.at, *a_end = a + p->after_receive.count, *l_end = l + p->local_receive.count;
	int64_t limit = c->region[c->out + 1] - c->region[c->out];
	while (a < a_end || l < l_end) {
		bool after = l == l_end || (a < a_end && a->stage <= l->stage);
		const struct forgpu_piece *x = after ? a : l;
		const uint8_t *adds = p->add[after ? 1 : 2];
		bool add = adds && adds[x - (after ? p->after_receive.at : p->local_receive.at)];
		int64_t offset = x->offset / c->unit * c->row;
		if (x->peer / c->o.gpus != c->server || x->offset < 0 || x->bytes < 1 || offset > limit - x->bytes / c->unit * c->row)
			return misfit(c, "a move to the output", x->peer, err);
		int code = after ? await_stage(c, x->peer, x->stage, err) : FORCARRY_OK;
		if (code != FORCARRY_OK || (code = take(c, after ? AFTER : LOCAL, x, region_of(c, c->local, c->out) + offset, add, err)) < 0)
			return code;
		after ? a++ : l++;
		send_more(c);
	}
	return wait_inside(c, err);
}

/* Checks that as many bytes have come in each stage as the program has. */
static int check_received(struct forcarry *c, struct forcarry_error *err)
{
	const struct forgpu_list *list = &c->program.receive;
	for (size_t i = 0; i < list->count; i++)
		if (c->came[list->at[i].stage] != list->at[i].bytes / c->unit * c->row)
			return misfit(c, "other bytes in a stage", list->at[i].peer, err);
	return FORCARRY_OK;
}

int attempt(struct forcarry *c, bool output, struct forcarry_error *err)
{
	int idle = 0, code;
	if ((code = lay_out(c, err)) < 0)
		return code;
	memset(c->cursors, 0, (size_t)(KINDS * c->o.gpus) * sizeof *c->cursors);
	if ((code = publish(c, err)) < 0)
		return code;
	tell_arrived(c);
	begin_wait(c);
	for (int32_t k = 0; k < c->o.gpus; k++)
		while (atomic_load(&share_of(c, k)->planned) != c->attempt)
			if ((code = rest(c, &idle, "the plan of", c->server * c->o.gpus + k, err)) != FORCARRY_OK)
				return code;
	if ((code = fill(c, err)) < 0 || (output && (code = fill_output(c, err)) != FORCARRY_OK))
		return code;
	for (begin_wait(c); c->sent < c->program.send.count || c->received < c->program.receive.count;)
		if ((code = rest(c, &idle, "the stages of", c->o.rank, err)) != FORCARRY_OK)
			return code;
	return check_received(c, err);
}
