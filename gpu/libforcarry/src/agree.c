/*
 * How the ranks agree. Each rank has an entry in the board of every server, whose fields only grow: the
 * exchange that it has joined, the NICs without which it has joined it, and the last exchange whose output
 * it has. It sends its entry to one rank of each other server when it has changed, and those of ranks
 * whose NICs are dead and for which it speaks.
 *
 * An attempt at an exchange begins when all ranks have joined it without the same NICs. A rank joins when
 * all that it has sent has come or failed, and its connections to dead NICs are closed, so that
 * nothing of an attempt comes during a later one. A rank that learns of a dead NIC joins again without it,
 * and by that ends the attempt. A call returns when all ranks have their output, and all servers have
 * the states of the rank's server: then no other rank needs the rank for this exchange.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { COMMITTED = 2 };

int64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool grow(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t is = atomic_load(to);
	while (is < value && !atomic_compare_exchange_weak(to, &is, value))
		;
	return is < value;
}

/* Merges words of bits into an entry. */
static void add_dead(struct forcarry *c, struct entry *e, const uint64_t *dead, int32_t words)
{
	for (int32_t w = 0; w < words; w++)
		if (dead[w] & ~atomic_fetch_or(&e->dead[w], dead[w]))
			atomic_fetch_add(&c->board->changes, 1);
}

void take_states(struct forcarry *c, const struct message *m)
{
	for (uint64_t i = 0; i < m->count && i < (uint64_t)c->o.gpus; i++) {
		const struct state *s = state_at(c, m, i);
		if (s->rank >= (uint32_t)c->ranks)
			return;
		struct entry *e = entry_of(c, (int32_t)s->rank);
		add_dead(c, e, s->dead, 2 * c->words);
		if (grow(&e->probed, s->probed))
			atomic_fetch_add(&c->board->changes, 1);
		grow(&e->done, s->done);
		grow(&e->op, s->op);
		if (s->failed && !atomic_exchange(&e->failed, 1))
			atomic_fetch_add(&c->board->failures, 1);
	}
}

int32_t count_dead(const struct forcarry *c)
{
	int32_t sum = 0;
	for (int32_t w = 0; w < c->words; w++)
		sum += __builtin_popcountll(atomic_load(&entry_of(c, c->o.rank)->dead[w]));
	return sum;
}

/* The first rank from this one on, around its server, whose NIC lives, or -1. */
static int32_t living(const struct forcarry *c, int32_t rank)
{
	int32_t m = c->o.gpus, first = rank - rank % m;
	for (int32_t k = 0; k < m; k++)
		if (!is_dead(c, first + (rank + k) % m))
			return first + (rank + k) % m;
	return -1;
}

/* Collects the states for which the rank speaks, and returns their version. As long as it is not known
 * why connections have failed, it speaks for its whole server. */
static uint64_t speak(const struct forcarry *c, struct message *m)
{
	uint64_t version = 0, count = 0;
	for (int32_t rank = c->server * c->o.gpus; rank < (c->server + 1) * c->o.gpus; rank++) {
		if (!c->doubt && living(c, rank) != c->o.rank)
			continue;
		const struct entry *e = entry_of(c, rank);
		struct state s = {.rank = (uint32_t)rank, .failed = atomic_load(&e->failed), .op = atomic_load(&e->op), .done = atomic_load(&e->done), .probed = atomic_load(&e->probed)};
		version += 1 + s.failed + s.op + s.done + s.probed;
		struct state *to = m ? state_at(c, m, count++) : NULL;
		if (to)
			*to = s;
		for (int32_t w = 0; w < 2 * c->words; w++) {
			uint64_t dead = atomic_load(&e->dead[w]);
			version += (uint64_t)__builtin_popcountll(dead);
			if (to)
				to->dead[w] = dead;
		}
	}
	if (m)
		m->count = count;
	return c->generation << 44 | version;
}

/* Sends states that have changed; reports whether all servers have them. */
static bool push(struct forcarry *c)
{
	bool all = !c->doubt;
	if (c->o.servers == 1 || is_dead(c, c->o.rank))
		return true;
	uint64_t version = speak(c, NULL);
	for (int32_t j = 0; j < c->o.servers; j++) {
		struct route *route = &c->routes[j];
		if (j == c->server || route->acked >= version)
			continue;
		all = false;
		if (route->flying || route->to < 0 || c->peers[route->to].broken)
			continue;
		route->version = speak(c, (struct message *)(uintptr_t)(c->messages + (size_t)j * c->message_bytes));
		route->flying = true;
		send_states(c, j);
	}
	return all;
}

void acknowledged(struct forcarry *c, int32_t server)
{
	struct route *route = &c->routes[server];
	uint64_t *there = c->blob_version + (size_t)server * (size_t)c->o.gpus;
	route->flying = false;
	route->acked = route->version;
	for (int32_t k = 0; k < c->o.gpus; k++)
		if (there[k] < there[c->ranks + k])
			there[k] = there[c->ranks + k];
}

int progress(struct forcarry *c)
{
	int events = take_completions(c);
	send_more(c);
	push(c);
	if (++c->polls % 64 == 0)
		look_at_port(c);
	return events;
}

/* Sends states from now on to ranks with living NICs that the rank reaches. */
void route_states(struct forcarry *c)
{
	for (int32_t j = 0; j < c->o.servers; j++) {
		int32_t to = -1, m = c->o.gpus;
		for (int32_t k = 0; to < 0 && k < m; k++) {
			int32_t rank = j * m + (c->local + k) % m;
			if (!is_dead(c, rank) && !has_failed(c, c->o.rank, rank))
				to = rank;
		}
		if (c->routes[j].to != to)
			c->routes[j] = (struct route){.to = to};
	}
}

void begin_wait(struct forcarry *c) { c->since = nanoseconds(); }

/* Gives way to others, unless something has just come; false if the rank has waited for too long. */
static bool pause_for(struct forcarry *c, int events, int *idle)
{
	if (events > 0) {
		*idle = 0;
		return true;
	}
	int more = ++*idle - c->spins;
	if (more < 0)
		sched_yield();
	else
		nanosleep(&(struct timespec){0, more < 20 ? 50000 * (1 + more) : 1000000}, NULL);
	return *idle % 16 != 0 || nanoseconds() - c->since < c->o.patience;
}

int rest(struct forcarry *c, int *idle, const char *what, int32_t rank, struct forcarry_error *err)
{
	if (c->broken)
		return set_error(err, FORCARRY_EVERBS, "rank %d: the verbs device takes no more requests", c->o.rank);
	int events = progress(c);
	if (changed(c)) {
		c->suspicious = true; /* for join */
		return REPEAT;
	}
	if (atomic_load(&c->board->failures))
		for (int32_t r = 0; r < c->ranks; r++)
			if (atomic_load(&entry_of(c, r)->failed))
				return set_error(err, FORCARRY_EPEER, "exchange %llu: rank %d has failed, and says why", (unsigned long long)c->op, r);
	if (!pause_for(c, events, idle))
		return set_error(err, FORCARRY_ELOST, "exchange %llu: for %.1f s rank %d has waited for %s rank %d", (unsigned long long)c->op, (double)c->o.patience / 1e9, c->o.rank, what, rank);
	return FORCARRY_OK;
}

/* Waits until no data of the rank are on the way. */
static int drain(struct forcarry *c, struct forcarry_error *err)
{
	int idle = 0;
	for (begin_wait(c); c->flying > 0;)
		if (!pause_for(c, take_completions(c), &idle))
			return set_error(err, FORCARRY_ELOST, "exchange %llu: rank %d: the verbs device does not complete its work", (unsigned long long)c->op, c->o.rank);
	return FORCARRY_OK;
}

/* Joins the exchange, without all NICs that are known to be dead. */
static int join(struct forcarry *c, struct forcarry_error *err)
{
	struct entry *own = entry_of(c, c->o.rank);
	do {
		for (int32_t r = 0, more = changed(c); more && r < c->ranks; r++)
			if (bit(c->known, r) || bit(c->known, c->o.rank))
				break_pair(c, r);
		int code = drain(c, err);
		if (code < 0)
			return code;
	} while (c->suspicious || atomic_load(&c->board->changes) != c->seen);
	add_dead(c, own, c->known, c->words);
	c->count.dead = count_dead(c);
	c->count.own = is_dead(c, c->o.rank);
	c->attempt = c->op << 12 | (uint64_t)c->count.dead;
	expect(c);
	grow(&own->op, c->op);
	c->generation++;
	route_states(c);
	for (int32_t j = 0; j < c->o.servers; j++)
		if (living(c, j * c->o.gpus) < 0)
			return set_error(err, FORCARRY_EDEAD, "exchange %llu: server %d has no NIC left", (unsigned long long)c->op, j);
	return FORCARRY_OK;
}

static bool same_dead(const struct forcarry *c, const struct entry *a, const struct entry *b)
{
	for (int32_t w = 0; w < c->words; w++)
		if (atomic_load(&a->dead[w]) != atomic_load(&b->dead[w]))
			return false;
	return true;
}

/* A rank that has no output yet, or -1; if one has gone on, and this one has its output, all have. */
static int32_t not_done(const struct forcarry *c)
{
	int32_t missing = -1;
	if (atomic_load(&entry_of(c, c->o.rank)->done) < c->op)
		return c->o.rank;
	for (int32_t r = 0; r < c->ranks; r++) {
		const struct entry *e = entry_of(c, r);
		if (atomic_load(&e->op) > c->op)
			return -1;
		if (atomic_load(&e->done) < c->op)
			missing = r;
	}
	return missing;
}

/* Waits until all ranks have joined the exchange without the same NICs. */
static int meet(struct forcarry *c, struct forcarry_error *err)
{
	const struct entry *own = entry_of(c, c->o.rank);
	int idle = 0, code;
	for (begin_wait(c);;) {
		int32_t missing = -1;
		if (not_done(c) < 0)
			return COMMITTED;
		for (int32_t r = 0; r < c->ranks; r++) {
			const struct entry *e = entry_of(c, r);
			uint64_t op = atomic_load(&e->op);
			if (op > c->op) /* without this one, or all were done */
				return set_error(err, FORCARRY_ECAPACITY, "exchange %llu exceeds the capacity, as rank %d has found", (unsigned long long)c->op, r);
			if (op < c->op || !same_dead(c, e, own))
				missing = r;
		}
		if (missing < 0)
			return FORCARRY_OK;
		if ((code = rest(c, &idle, "the call of", missing, err)) != FORCARRY_OK)
			return code;
	}
}

/* Waits until all ranks have their output. */
static int settle(struct forcarry *c, struct forcarry_error *err)
{
	int idle = 0, code = FORCARRY_OK;
	int32_t missing;
	for (begin_wait(c); (missing = not_done(c)) >= 0;)
		if ((code = rest(c, &idle, "the output of", missing, err)) != FORCARRY_OK)
			return code;
	return COMMITTED;
}

/* Reports whether all servers have the states of the rank's server. */
static bool told_all(struct forcarry *c)
{
	bool all = true, pushed = push(c);
	for (int32_t k = 0; k < c->o.gpus; k++) {
		_Atomic uint64_t *told = &share_of(c, k)->told;
		if (pushed && living(c, c->server * c->o.gpus + k) == c->o.rank)
			grow(told, c->op);
		all = all && atomic_load(told) >= c->op;
	}
	return all;
}

/* Waits for that: once the call has returned, no other rank needs this one. */
static int finish(struct forcarry *c, struct forcarry_error *err)
{
	int idle = 0, code = drain(c, err);
	for (begin_wait(c); code >= 0 && !told_all(c);)
		if ((code = rest(c, &idle, "other servers to take the state of", c->o.rank, err)) == REPEAT)
			code = join(c, err);
	return code;
}

/* Tells all ranks that this one has failed. */
int give_up(struct forcarry *c, int code)
{
	int idle = 0;
	c->broken = true;
	if (!atomic_exchange(&entry_of(c, c->o.rank)->failed, 1))
		atomic_fetch_add(&c->board->failures, 1);
	for (int64_t until = nanoseconds() + 1000000000; nanoseconds() < until && !push(c);)
		pause_for(c, take_completions(c), &idle);
	return code;
}

/* Carries out an exchange, as often as NICs die; plan makes the program. */
int carry_out(struct forcarry *c, int (*plan)(struct forcarry *, struct forcarry_error *), struct forcarry_error *err)
{
	struct entry *own = entry_of(c, c->o.rank);
	int code;
	c->op++;
	c->count.exchanges++;
	for (bool again = false;; again = true) {
		c->count.repeats += again;
		if ((code = join(c, err)) == FORCARRY_OK && (code = meet(c, err)) == FORCARRY_OK && (code = plan(c, err)) == FORCARRY_OK &&
		    (code = attempt(c, atomic_load(&own->done) < c->op, err)) == FORCARRY_OK) {
			grow(&own->done, c->op);
			code = settle(c, err);
		}
		if (code == REPEAT)
			continue;
		int last = code < 0 && code != FORCARRY_ECAPACITY ? code : finish(c, err);
		if (last < 0)
			return give_up(c, last);
		return code < 0 ? code : FORCARRY_OK;
	}
}
