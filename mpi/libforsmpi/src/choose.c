/*
 * choose.c: whether an exchange goes by the plan, by its phases and a clock, all at once, or
 * by MPI's own algorithm.
 *
 * Which is fastest depends on the fabric's switches, on how much the blocks differ, on the
 * jitter of the hosts, and on the part of the hosts that takes part. No rank can know that,
 * so rank 0 measures: each way in the first exchanges of a kind, and again now and then, the
 * rarer the slower it was. An exchange takes as long as the slowest rank says.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* What is known of a kind of exchange. */
struct choice {
	struct kind kind;
	enum way best;
	double took[WAYS];     /* seconds */
	uint32_t tries[WAYS];  /* measurements */
	bool guessed[WAYS];    /* took is of another size or plan, and counts as one measurement */
	uint64_t ran[WAYS];    /* exchanges */
	uint32_t since[WAYS];  /* exchanges since the way was tried */
	struct fors_pace pace; /* BY_CLOCK */
};

enum {
	RARELY = 32, /* exchanges between two trials of a way that is as fast as the best */
	SOON = 8,    /* the same, before SURE measurements */
	SURE = 16,   /* measurements by which ways that are nearly as fast are told apart */
	SKIP = 31,   /* exchanges without an order */
	NEAR = 2,    /* sizes that say something about another one, in powers of two */
	OFTEN = 8,   /* one in OFTEN exchanges by the best way is measured */
};

static const double DRIFT = 0.5; /* seconds in which clocks drift apart by some microseconds */

/*
 * may reports whether a way is for a kind. By the clock or at once, every block in place would
 * be copied. By the clock a phase lasts as long as any block.
 */
static bool may(const struct choice *h, enum way w)
{
	return (w != AT_ONCE && w != BY_CLOCK) || (!h->kind.in_place && (w == AT_ONCE || h->kind.uniform));
}

/* cost is what a way takes with its orders, which MPI's own does not need each time. */
static double cost(const struct choice *h, enum way w)
{
	return w == BY_MPI ? h->took[w] : 1.01 * h->took[w] + 1e-5;
}

/* nearest is what is known of the nearest size, NULL if nothing is. */
static const struct choice *nearest(const struct comm *c, const struct kind *kind)
{
	const struct choice *near = NULL;
	for (int i = 0; i < c->choices; i++) {
		const struct choice *h = &c->choice[i];
		if (h->kind.uniform == kind->uniform && h->kind.in_place == kind->in_place && h->tries[h->best] > 1 &&
			(!near || abs(h->kind.size - kind->size) < abs(near->kind.size - kind->size)))
			near = h;
	}
	return near;
}

/*
 * guess begins with the best way of the nearest size. If that is near enough, ways that were
 * much slower there are not tried at first. Without it, large and equal blocks go by the plan:
 * a phase lasts as long as its largest block, and costs some messages' time besides.
 */
static void guess(const struct comm *c, struct choice *h, const struct head *head)
{
	const struct choice *near = nearest(c, &h->kind);
	if (!near) {
		const bool whole = head->steps <= head->groups + head->groups / 4; /* few phases have nothing for its servers */
		h->best = h->kind.uniform && h->kind.size >= LARGE && whole ? BY_PLAN : BY_MPI;
		return;
	}
	h->best = near->best == BY_CLOCK ? BY_PLAN : near->best;
	const int steps = h->kind.size - near->kind.size;
	for (enum way w = 0; w < WAYS && abs(steps) <= NEAR; w++)
		if (w != h->best && w != BY_CLOCK && near->tries[w] > 0) {
			h->guessed[w] = true;
			h->tries[w] = 1;
			h->took[w] = ldexp(near->took[w], steps);
		}
}

/* of finds what is known of a kind, NULL without memory. */
static struct choice *of(struct comm *c, const struct kind *kind, const struct head *head)
{
	for (int i = 0; i < c->choices; i++) {
		const struct kind *k = &c->choice[i].kind;
		if (k->uniform == kind->uniform && k->in_place == kind->in_place && k->size == kind->size)
			return &c->choice[i];
	}
	struct choice *more = realloc(c->choice, (size_t)(c->choices + 1) * sizeof *more);
	if (!more)
		return NULL;
	c->choice = more;
	struct choice h = {.kind = *kind};
	guess(c, &h, head);
	more[c->choices] = h;
	return &more[c->choices++];
}

/*
 * lesson is the way to learn about next, WAYS if enough is known. At once comes first: it is
 * often the fastest, and a way that is much slower than that is tried but once.
 */
static enum way lesson(const struct choice *h)
{
	static const enum way in_turn[] = {AT_ONCE, BY_PLAN, BY_MPI, BY_CLOCK, WAYS};
	if (h->tries[h->best] < 2) /* the first time makes connections */
		return h->best;
	const enum way *w = in_turn;
	while (*w != WAYS && (!may(h, *w) || h->tries[*w] > 1 || (h->tries[*w] == 1 && h->took[*w] >= 1.5 * h->took[h->best])))
		w++;
	return *w;
}

/* rest is how many exchanges go by the best way before another one is tried again. */
static uint32_t rest(const struct choice *h, enum way w)
{
	const double most = h->guessed[w] ? 0 : h->tries[w] < 2 ? 3 : 50; /* a first time may have been an exception */
	const double excess = h->took[w] / h->took[h->best] - 1;
	if (excess < 0.2 && h->tries[w] < SURE)
		return SOON;
	return RARELY + (uint32_t)(400 * (excess > most ? most : excess > 0 ? excess : 0));
}

/* trial is the way to try again now, WAYS if none is, and then *left how many exchanges later one is. */
static enum way trial(struct choice *h, uint32_t *left)
{
	*left = UINT32_MAX;
	for (enum way w = 0; w < WAYS; w++) {
		if (w == h->best || !may(h, w))
			continue;
		const uint32_t most = rest(h, w);
		if (++h->since[w] > most) {
			h->since[w] = 0;
			return w;
		}
		if (most - h->since[w] < *left)
			*left = most - h->since[w];
	}
	return WAYS;
}

/*
 * may_skip reports whether MPI's own exchanges need no order. All ranks know the size of equal
 * blocks; of others only rank 0's, so that all sizes must be MPI's.
 */
static bool may_skip(const struct comm *c, const struct choice *h)
{
	for (int i = 0; i < c->choices && !h->kind.uniform; i++)
		if (!c->choice[i].kind.uniform && c->choice[i].best != BY_MPI)
			return false;
	return h->best == BY_MPI;
}

uint8_t *fm_skip(struct comm *c, const struct kind *kind) { return &c->skip[kind->uniform ? kind->size : SIZES - 1]; }

bool fm_skips(struct comm *c, const struct kind *kind)
{
	uint8_t *left = fm_skip(c, kind);
	if (*left == 0)
		return false;
	--*left;
	struct choice *h = c->rank == 0 && c->plan.head.reason == PLANNED ? of(c, kind, &c->plan.head) : NULL;
	for (enum way w = 0; h && w < WAYS; w++)
		h->since[w]++;
	if (h)
		h->ran[BY_MPI]++;
	return true;
}

/* period is how long a phase is by the clock at first: somewhat shorter than in the fastest exchange so far. */
static double period(const struct choice *h, int steps)
{
	double least = INFINITY;
	for (enum way w = 0; w < WAYS; w++)
		if (w != BY_CLOCK && h->tries[w] > 0 && h->took[w] < least)
			least = h->took[w];
	return 0.96 * least / steps;
}

void fm_choose(struct comm *c, const struct kind *kind, struct order *order)
{
	enum way way = fm_settings()->way;
	order->way = (int32_t)way;
	if ((way != WAYS && way != BY_CLOCK) || !kind)
		return;
	order->way = BY_MPI;
	struct choice *h = order->head.reason == PLANNED ? of(c, kind, &order->head) : NULL;
	if (!h) {
		order->skip = way == WAYS ? SKIP : 0;
		return;
	}
	uint32_t left = 0;
	if (way == WAYS)
		way = lesson(h);
	else if (!may(h, BY_CLOCK) || h->tries[BY_PLAN] == 0) /* which says how long a phase may be */
		way = BY_PLAN;
	if (way == WAYS)
		way = trial(h, &left);
	order->timed = way != WAYS;
	if (way == WAYS) {
		way = h->best;
		if (may_skip(c, h))
			order->skip = (int32_t)(left < SKIP ? left : SKIP);
		order->timed = order->skip > 0 || left % (way == BY_CLOCK && fors_pace_seeks(&h->pace) ? 2 : OFTEN) == 0;
	}
	order->way = (int32_t)way;
	if (way == BY_CLOCK)
		order->period = fors_pace_next(&h->pace, period(h, order->head.steps), order->timed);
	if (way == BY_CLOCK && (c->compared == 0 || fm_now() > c->compared + DRIFT)) {
		order->clocks = true;
		c->compared = fm_now();
	}
	h->ran[way]++;
}

int fm_took(struct comm *c, const struct kind *kind, enum way way, double seconds)
{
	double most = seconds;
	const int failed = PMPI_Reduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, 0, c->user);
	struct choice *h = c->rank == 0 && !failed && isfinite(most) ? of(c, kind, &c->plan.head) : NULL;
	if (!h)
		return failed;
	double *took = &h->took[way];
	const bool trial = way == BY_CLOCK && fors_pace_took(&h->pace, most);
	if (way == BY_CLOCK)
		*took = h->pace.took;
	else if (h->tries[way] == 0 || h->guessed[way] || (h->tries[way] == 1 && most < *took))
		*took = most;
	else if (h->tries[way] > 1) /* at most half as much again: a rank may have been late for once */
		*took += ((most < 1.5 * *took ? most : 1.5 * *took) - *took) / (h->tries[way] < SURE ? h->tries[way] + 1 : SURE);
	if (trial)
		return MPI_SUCCESS;
	h->tries[way] += !h->guessed[way];
	h->guessed[way] = false;
	for (enum way w = 0; w < WAYS; w++)
		if (h->tries[w] > 0 && !h->guessed[w] && cost(h, w) < 0.99 * cost(h, h->best)) /* or the difference may be chance */
			h->best = w;
	return MPI_SUCCESS;
}

void fm_doubt(struct comm *c)
{
	for (int i = 0; i < c->choices; i++) {
		struct choice *h = &c->choice[i];
		h->pace = (struct fors_pace){0}; /* of the clock nothing is known then */
		h->tries[BY_CLOCK] = 0;
		if (h->best == BY_CLOCK)
			h->best = BY_PLAN;
		for (enum way w = 0; w < WAYS; w++) {
			h->guessed[w] = w != h->best && h->tries[w] > 0;
			h->tries[w] = h->guessed[w];
		}
	}
}

/* show prints how exchanges of a kind went. */
static void show(const struct comm *c, const struct choice *h)
{
	static const char *const names[] = {"by the plan", "all at once", "by MPI", "by the clock"};
	char text[TEXT] = "";
	for (enum way w = 0; w < WAYS; w++) {
		const size_t at = strlen(text);
		if (h->ran[w] > 0)
			snprintf(text + at, TEXT - at, "%s%llu %s (%.3f ms)", at ? ", " : "", (unsigned long long)h->ran[w], names[w], 1e3 * h->took[w]);
	}
	const int unit = h->kind.size / 10;
	fm_say("communicator %llx, %s %d%s%s: %s", (unsigned long long)c->id, h->kind.uniform ? "blocks up to" : "unequal blocks, of rank 0 up to",
		1 << h->kind.size % 10, (const char *[]){" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"}[unit], h->kind.in_place ? " in place" : "", text);
}

void fm_choices_free(struct comm *c)
{
	for (int i = 0; i < c->choices && fm_settings()->verbose; i++)
		show(c, &c->choice[i]);
	free(c->choice);
}
