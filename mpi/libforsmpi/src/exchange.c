/*
 * exchange.c: an exchange, step by step.
 *
 * First come the blocks that never leave a server. Then, in each step in which the
 * plan has a transfer for this rank's server, its processes send to all processes of
 * one server, when the links are free (links.c), and receive from all of another. A
 * rank goes on when its own messages of the step are through. There is no deadlock:
 * the partners of the rank that is least far are in the same step, or ahead with
 * their messages sent. Pairs that the plan lacks, which share no lane, come last.
 *
 * All at once, every block between servers is like those of such a pair. A rank that
 * gets an error goes on to the end, as others wait for its messages.
 *
 * Blocks are sent and received as the program describes them, by its datatypes.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* A block of an exchange: the data of one rank for another. */
struct block {
	void *at;
	amount count;
	MPI_Datatype type;
};

/* The state of an exchange in progress. */
struct run {
	struct comm *c;
	const struct side *send, *recv;
	bool in_place;
	void **saved; /* in place, [rank]: copy of the block that was overwritten before it was sent */
	void **base;  /* the same as an address to send from */
	bool *sent;   /* in place, [rank] */
	int pending;  /* requests */
	int receives; /* the first of them */
};

/* moved is an address some bytes on. MPI_BOTTOM is not an object, so C's own sum is undefined. */
static void *moved(void *at, MPI_Aint bytes) { return (void *)((uintptr_t)at + (uintptr_t)bytes); }

static struct block block_of(const struct side *s, int rank)
{
	if (s->shape == UNIFORM)
		return (struct block){moved(s->buffer, (MPI_Aint)rank * s->count * s->extent), s->count, s->type};
	const amount count = s->counts ? s->counts[rank] : (amount)s->large_counts[rank];
	const MPI_Aint displ = s->displs ? s->displs[rank] : s->large_displs[rank];
	if (s->shape == COUNTS)
		return (struct block){moved(s->buffer, displ * s->extent), count, s->type};
	return (struct block){moved(s->buffer, displ), count, s->types[rank]};
}

/* weigh finds the number of bytes of a block. */
static int weigh(const struct block *b, MPI_Count *bytes)
{
	*bytes = 0;
	if (b->count == 0)
		return MPI_SUCCESS; /* its type may be no type at all */
	if (b->type == MPI_DATATYPE_NULL)
		return MPI_ERR_TYPE;
	const int failed = PMPI_Type_size_x(b->type, bytes);
	*bytes *= b->count;
	return failed;
}

/*
 * save copies a block that will be overwritten before it is sent: in place, the
 * block for a rank lies where the block from it will be.
 */
static int save(struct run *x, int rank)
{
	const struct block b = block_of(x->recv, rank);
	MPI_Aint lower, extent, true_lower, true_extent;
	int failed = PMPI_Type_get_extent(b.type, &lower, &extent);
	if (!failed)
		failed = PMPI_Type_get_true_extent(b.type, &true_lower, &true_extent);
	if (failed)
		return failed;
	const MPI_Aint further = (b.count - 1) * extent; /* the last element, from the first */
	const MPI_Aint low = true_lower + (further < 0 ? further : 0);
	const MPI_Aint length = true_extent + (further < 0 ? -further : further);
	if (!(x->saved[rank] = malloc((size_t)length)))
		return MPI_ERR_NO_MEM;
	x->base[rank] = moved(x->saved[rank], -low);
	return COUNTED(PMPI_Sendrecv)(b.at, b.count, b.type, x->c->rank, x->c->tag, x->base[rank], b.count, b.type, x->c->rank, x->c->tag, x->c->channel->comm, MPI_STATUS_IGNORE);
}

/* posted counts a request, unless it has failed. */
static int posted(struct run *x, int failed)
{
	x->pending += !failed;
	return failed;
}

static int post_receive(struct run *x, int rank, const struct row *row)
{
	const struct block b = block_of(x->recv, rank);
	MPI_Count bytes;
	int failed = weigh(&b, &bytes);
	if (!failed && bytes == 0 && row && row->tell[0] >= 0) /* the receiver tells others that the links are free */
		return posted(x, PMPI_Irecv(NULL, 0, MPI_BYTE, rank, x->c->tag, x->c->channel->comm, &x->c->requests[x->pending]));
	if (failed || bytes == 0)
		return failed;
	if (x->in_place && !x->sent[rank] && (failed = save(x, rank)))
		return failed;
	const struct transfer t = {row ? row->phase[1] : -1, row ? row->step : -1, rank, x->c->rank, -1, 0, bytes};
	fm_log(x->c, "receive", &t);
	return posted(x, COUNTED(PMPI_Irecv)(b.at, b.count, b.type, rank, x->c->tag, x->c->channel->comm, &x->c->requests[x->pending]));
}

static int post_send(struct run *x, int rank, const struct row *row)
{
	struct block b = block_of(x->send, rank);
	MPI_Count bytes;
	const int failed = weigh(&b, &bytes);
	if (!failed && bytes == 0 && row && row->heard)
		return posted(x, PMPI_Isend(NULL, 0, MPI_BYTE, rank, x->c->tag, x->c->channel->comm, &x->c->requests[x->pending]));
	if (failed || bytes == 0)
		return failed;
	if (x->in_place) {
		x->sent[rank] = true;
		if (x->saved[rank])
			b.at = x->base[rank];
	}
	const struct transfer t = {row ? row->phase[0] : -1, row ? row->step : -1, x->c->rank, rank, row ? row->lane : -1, row ? row->dlid : 0, bytes};
	fm_log(x->c, "send", &t);
	return posted(x, COUNTED(PMPI_Isend)(b.at, b.count, b.type, rank, x->c->tag, x->c->channel->comm, &x->c->requests[x->pending]));
}

/* also is the first of two errors. */
static int also(int failed, int next) { return failed ? failed : next; }

/* wait_for waits for the first of the posted requests, also where some of them fail. */
static int wait_for(struct run *x, int first)
{
	MPI_Status *statuses = x->c->statuses;
	int failed = MPI_SUCCESS, now = MPI_ERR_IN_STATUS;
	for (bool pending = true; pending && now == MPI_ERR_IN_STATUS;) {
		for (int i = 0; i < first; i++)
			statuses[i].MPI_ERROR = MPI_SUCCESS;
		now = PMPI_Waitall(first, x->c->requests, statuses);
		pending = false;
		for (int i = 0; i < first && now == MPI_ERR_IN_STATUS; i++) {
			if (statuses[i].MPI_ERROR == MPI_ERR_PENDING) {
				pending = true;
			} else if (statuses[i].MPI_ERROR != MPI_SUCCESS) {
				failed = also(failed, statuses[i].MPI_ERROR);
				if (x->c->requests[i] != MPI_REQUEST_NULL)
					PMPI_Request_free(&x->c->requests[i]);
			}
		}
	}
	return now == MPI_ERR_IN_STATUS ? failed : also(failed, now);
}

/* finish waits for all of them. */
static int finish(struct run *x)
{
	const int failed = wait_for(x, x->pending);
	x->pending = x->receives = 0;
	return failed;
}

/* member is the i-th rank of a group; each rank starts with another one. */
static int member(const struct comm *c, int group, int i)
{
	const struct schedule *s = &c->plan;
	const int from = s->first[group], n = s->first[group + 1] - from;
	return s->member[from + (i + c->rank) % n];
}

/* members is how many there are. */
static int members(const struct comm *c, int group) { return c->plan.first[group + 1] - c->plan.first[group]; }

/* receive_group and send_group post the messages from and to all others of a group. */
static int receive_group(struct run *x, int group, const struct row *row)
{
	int failed = MPI_SUCCESS;
	for (int i = 0; i < members(x->c, group); i++)
		if (member(x->c, group, i) != x->c->rank)
			failed = also(failed, post_receive(x, member(x->c, group, i), row));
	x->receives = x->pending;
	return failed;
}

static int send_group(struct run *x, int group, const struct row *row)
{
	int failed = MPI_SUCCESS;
	for (int i = 0; i < members(x->c, group); i++)
		if (member(x->c, group, i) != x->c->rank)
			failed = also(failed, post_send(x, member(x->c, group, i), row));
	return failed;
}

/* keep copies the block of this rank for itself. */
static int keep(const struct run *x)
{
	const struct block s = block_of(x->send, x->c->rank), r = block_of(x->recv, x->c->rank);
	if (x->in_place || (s.count == 0 && r.count == 0))
		return MPI_SUCCESS;
	const MPI_Datatype st = s.count == 0 ? MPI_BYTE : s.type, rt = r.count == 0 ? MPI_BYTE : r.type;
	return COUNTED(PMPI_Sendrecv)(s.at, s.count, st, x->c->rank, x->c->tag, r.at, r.count, rt, x->c->rank, x->c->tag, x->c->channel->comm, MPI_STATUS_IGNORE);
}

/* local exchanges the blocks that stay on this rank's server. */
static int local(struct run *x)
{
	int failed = keep(x);
	failed = also(failed, receive_group(x, x->c->plan.mine, NULL));
	failed = also(failed, send_group(x, x->c->plan.mine, NULL));
	return also(failed, finish(x));
}

/* hear waits for news, without which the links of a row's transfer may be in use. */
static int hear(const struct run *x, const struct row *row)
{
	const struct comm *c = x->c;
	int failed = MPI_SUCCESS;
	for (int w = 0; w < LINKS; w++)
		for (int i = 0; row->wait[w] >= 0 && i < members(c, row->wait[w]); i++)
			for (int n = 0; n < row->news[w]; n++)
				failed = also(failed, PMPI_Recv(NULL, 0, MPI_BYTE, member(c, row->wait[w], i), c->tag + 1, c->channel->comm, MPI_STATUS_IGNORE));
	return failed;
}

/* tell informs those who may send over a row's links now that the row has received. */
static int tell(struct run *x, const struct row *row)
{
	struct comm *c = x->c;
	if (row->tell[0] < 0 && (row->from < 0 || !(c->every || fm_settings()->log)))
		return MPI_SUCCESS;
	int failed = wait_for(x, x->receives);
	fm_note(c, row, RECEIVED);
	for (int i = 0; i < members(c, row->from); i++)
		fm_log(c, "received", &(struct transfer){.phase = row->phase[1], .step = row->step, .src = member(c, row->from, i), .dst = c->rank, .lane = -1});
	for (int w = 0; w < LINKS; w++)
		for (int i = 0; row->tell[w] >= 0 && i < members(c, row->tell[w]); i++)
			failed = also(failed, posted(x, PMPI_Isend(NULL, 0, MPI_BYTE, member(c, row->tell[w], i), c->tag + 1, c->channel->comm, &c->requests[x->pending])));
	return failed;
}

/* transfer carries out a row for this rank. */
static int transfer(struct run *x, const struct row *row)
{
	int failed = row->from >= 0 ? receive_group(x, row->from, row) : MPI_SUCCESS;
	failed = also(failed, hear(x, row));
	if (row->to >= 0) {
		fm_note(x->c, row, SENT);
		failed = also(failed, send_group(x, row->to, row));
	}
	failed = also(failed, tell(x, row));
	return also(failed, finish(x));
}

/* phases exchanges the pairs of the plan. */
static int phases(struct run *x)
{
	const struct schedule *s = &x->c->plan;
	int failed = MPI_SUCCESS;
	for (int step = 0, i = 0; step < s->head.steps; step++) {
		if (i < s->rows && s->row[i].step == step)
			failed = also(failed, transfer(x, &s->row[i++]));
		if (s->head.sync > 0 && (step + 1) % s->head.sync == 0)
			failed = also(failed, PMPI_Barrier(x->c->user));
	}
	return failed;
}

/* await lets MPI make progress until a time. */
static void await(const struct run *x, double when)
{
	for (int found; fm_now() < when; sched_yield())
		PMPI_Iprobe(MPI_ANY_SOURCE, x->c->tag + 1, x->c->channel->comm, &found, MPI_STATUS_IGNORE);
}

/* by_clock sends each pair's blocks at the time of its phase, whatever has arrived by then. */
static int by_clock(struct run *x, double period)
{
	const struct schedule *s = &x->c->plan;
	double start;
	int failed = fm_start(x->c, period, &start);
	for (int i = 0; i < s->rows; i++)
		if (s->row[i].from >= 0)
			failed = also(failed, receive_group(x, s->row[i].from, NULL));
	for (int i = 0; i < s->rows; i++)
		if (s->row[i].to >= 0) {
			struct row row = s->row[i];
			row.heard = 0;
			await(x, start + row.step * period);
			failed = also(failed, send_group(x, row.to, &row));
		}
	return also(failed, finish(x));
}

/* rest exchanges the pairs that the plan lacks, or all, those of the next groups first. */
static int rest(struct run *x, bool all)
{
	const struct schedule *s = &x->c->plan;
	const int n = s->head.groups;
	int failed = MPI_SUCCESS;
	for (int i = 1; i < n; i++) {
		const int g = (s->mine + n - i) % n;
		if (all || !s->from[g])
			failed = also(failed, receive_group(x, g, NULL));
	}
	for (int i = 1; i < n; i++) {
		const int g = (s->mine + i) % n;
		if (all || !s->to[g])
			failed = also(failed, send_group(x, g, NULL));
	}
	return also(failed, finish(x));
}

/*
 * measure finds the extent of a side's type. MPI would report a null type to
 * MPI_COMM_WORLD's error handler, and not to the communicator's.
 */
static int measure(struct side *s)
{
	MPI_Aint lower;
	if (s->shape == TYPES)
		return MPI_SUCCESS;
	return s->type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE : PMPI_Type_get_extent(s->type, &lower, &s->extent);
}

static int run(struct run *x, const struct order *order)
{
	int failed = local(x);
	if (order->way == BY_PLAN)
		failed = also(failed, phases(x));
	else if (order->way == BY_CLOCK)
		failed = also(failed, by_clock(x, order->period));
	return also(failed, rest(x, order->way == AT_ONCE));
}

int fm_exchange(struct comm *c, const struct order *order, struct side *send, struct side *recv, bool in_place)
{
	struct run x = {.c = c, .send = in_place ? recv : send, .recv = recv, .in_place = in_place};
	int failed = measure(recv);
	if (!failed && !in_place)
		failed = measure(send);
	if (!failed && in_place) {
		x.saved = calloc((size_t)c->size, sizeof *x.saved);
		x.base = calloc((size_t)c->size, sizeof *x.base);
		x.sent = calloc((size_t)c->size, sizeof *x.sent);
		if (!x.saved || !x.base || !x.sent)
			failed = MPI_ERR_NO_MEM;
	}
	if (!failed) {
		c->exchange++;
		const struct block block = block_of(recv, 0);
		MPI_Count bytes = 0;
		if (recv->shape == UNIFORM && order->way == BY_PLAN && order->every && weigh(&block, &bytes) == MPI_SUCCESS && bytes > 0)
			fm_notes_begin(c, order);
		fm_log(c, "begin", NULL);
		failed = run(&x, order);
		fm_log(c, "end", NULL);
		failed = also(failed, fm_notes_end(c, bytes));
	}
	for (int r = 0; x.saved && !failed && r < c->size; r++)
		free(x.saved[r]); /* after a failure, MPI may still be reading there */
	free(x.saved);
	free(x.base);
	free(x.sent);
	return failed;
}
