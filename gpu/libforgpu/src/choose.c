/* Chooses the options with which an exchange takes the least time: auto.go in C. */
#include <float.h>
#include <string.h>

#include "internal.h"

/* The stretches to try. */
static const double stretches[] = {1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2};
enum { STRETCHES = sizeof stretches / sizeof *stretches, CUTS = 6 };

/* Tried first if time is short. */
static const double likely = 1.02;

static double distance(double stretch) { return stretch < likely ? likely - stretch : stretch - likely; }

/* Lists the stretches that the options allow, the fastest to plan first or, with a budget,
 * those that are most often the best. */
static int candidates(const struct forgpu_options *o, bool budget, double *list)
{
	int count = 0;
	for (int i = STRETCHES; i-- > 0;)
		if (i == 0 || (o->grain <= 1 && (o->max_stretch == 0 || stretches[i] <= o->max_stretch)))
			list[count++] = stretches[i];
	if (o->grain <= 1 && o->max_stretch > 0 && list[0] != o->max_stretch) {
		memmove(list + 1, list, (size_t)count++ * sizeof *list);
		list[0] = o->max_stretch;
	}
	for (int i = 1; budget && i < count; i++) {
		double x = list[i];
		int at = i;
		for (; at > 0 && distance(list[at - 1]) > distance(x); at--)
			list[at] = list[at - 1];
		list[at] = x;
	}
	return count;
}

/* The largest number of groups that a group sends to or receives from. Uses left. */
static int64_t partners(struct forgpu_planner *p)
{
	for (size_t at = 0; at < (size_t)p->group_count * (size_t)p->group_count; at++)
		p->left[at] = p->share[at] > 0;
	return longest(p->group_count, p->left, p->columns);
}

/* The least number of stages: a server needs a NIC for each partner. */
static int64_t fewest_stages(const struct forgpu_planner *p)
{
	size_t n = (size_t)p->n;
	int64_t stages = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t out = 0, in = 0;
		for (size_t j = 0; j < n; j++) {
			out += p->pairs[i * n + j] > 0;
			in += p->pairs[j * n + i] > 0;
		}
		stages = most(stages, over(most(out, in), most(1, p->channels[i])));
	}
	return stages;
}

static double lasts(const struct forgpu_planner *p, int64_t length, int64_t stages)
{
	return (double)length / p->o.b2 + (double)stages * p->latency;
}

/* The most stages of some total length that fit in a time, at most 2^32 - 1. */
static int64_t most_stages(const struct forgpu_planner *p, int64_t length, double seconds)
{
	int64_t low = 0, high = (int64_t)1 << 32;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		if (lasts(p, length, middle) > seconds)
			high = middle;
		else
			low = middle + 1;
	}
	return low - 1;
}

/* What the stages take at least if they are cut so: sums of any order differ by less than 1e-9. */
static double lasts_cut(const struct forgpu_planner *p, int64_t limit)
{
	int64_t total = 0, count = 2;
	for (size_t s = 0; s < p->decomposer.stages; s++) {
		total += p->decomposer.weights[s];
		count += over(p->decomposer.weights[s], limit);
	}
	return lasts(p, total, count) * (1 - 1e-9);
}

/* Chooses the longest stage with which the stages are estimated to take the least time. */
static int cut_stages(struct forgpu_planner *p, int64_t top, int64_t *chosen, double *seconds)
{
	int64_t limit = 0;
	int code = arrange(p, top, seconds);
	*chosen = top;
	for (size_t s = 0; s < p->decomposer.stages; s++)
		limit = most(limit, p->decomposer.weights[s]);
	for (int at = 0; code == FORGPU_OK && at < CUTS && limit > 1; at++) {
		double time;
		limit = over(limit, 2);
		if (top > 0 && limit >= top)
			continue;
		if (lasts_cut(p, limit) >= *seconds)
			break; /* and shorter stages take longer */
		if ((code = arrange(p, limit, &time)) == FORGPU_ELARGE)
			return FORGPU_OK; /* shorter stages are even more */
		if (code == FORGPU_OK && time < *seconds) {
			*chosen = limit;
			*seconds = time;
		}
	}
	return code;
}

/* The best so far, and when to stop. */
struct quest {
	struct forgpu_options best;
	double seconds;
	int64_t end; /* of the budget, or 0 */
	bool ended, found;
};

static bool is_over(struct quest *q)
{
	if (q->end && now() > q->end)
		q->ended = true;
	return q->ended;
}

/* Tries one stretch and effort. */
static int try(struct forgpu_planner *p, struct quest *q, double stretch, bool fewest, int64_t length, struct forgpu_error *err)
{
	struct limits limits = {fewest, q->found ? most_stages(p, length, q->seconds) : 0, q->found ? q->end : 0};
	int code = server_stages(p, limits, err);
	if (code == ESTAGES || (code == EDEADLINE && is_over(q)))
		return FORGPU_OK;
	int64_t chosen;
	double seconds;
	if (code == FORGPU_OK && (code = cut_stages(p, p->o.max_stage, &chosen, &seconds)) < 0)
		return fail(err, code, code == FORGPU_ENOMEM ? "no memory" : "stages of at most %lld bytes are too many", (long long)p->o.max_stage);
	if (code == FORGPU_OK && (!q->found || seconds <= q->seconds)) {
		q->found = true;
		q->seconds = seconds;
		q->best = p->o;
		q->best.max_stretch = stretch;
		q->best.fewest = fewest;
		q->best.max_stage = chosen;
	}
	return code;
}

/* Tries the stretches of a list with a number of groups. */
static int search_stretches(struct forgpu_planner *p, struct quest *q, int32_t groups, const double *list, int count, struct forgpu_error *err)
{
	if (divide(p, groups) < 0)
		return fail(err, FORGPU_ENOMEM, "no memory");
	int64_t others = partners(p);
	p->o.groups = groups;
	for (int i = 0; i < count; i++) {
		p->o.max_stretch = list[i];
		round_up(p);
		int64_t length = longest(p->group_count, p->ask, p->columns);
		for (int fewest = 1; fewest >= 0; fewest--) {
			if ((q->found && lasts(p, length, others) > q->seconds) || (q->found && is_over(q)))
				continue;
			int code = try(p, q, list[i], fewest, length, err);
			if (code < 0)
				return code;
		}
	}
	return FORGPU_OK;
}

int search_options(struct forgpu_planner *p, int64_t budget, struct forgpu_options *chosen, struct forgpu_outlook *outlook, struct forgpu_error *err)
{
	double list[STRETCHES + 1];
	struct quest q = {.seconds = DBL_MAX, .end = budget ? now() + budget : 0};
	int count = candidates(&p->o, budget > 0, list);
	int32_t each = most_channels(p), groups[] = {p->o.groups ? p->o.groups : 1, 2, each};
	int groupings = p->o.groups || each <= 1 || alike(p) ? 1 : 3;
	for (int i = 0; i < groupings; i++) {
		int code = i > 0 && groups[i] == groups[i - 1] ? FORGPU_OK : search_stretches(p, &q, groups[i], list, count, err);
		if (code < 0)
			return code;
	}
	*outlook = (struct forgpu_outlook){q.seconds, lasts(p, p->bound, fewest_stages(p)), !q.ended, 0};
	chosen->max_stretch = q.best.max_stretch;
	chosen->fewest = q.best.fewest;
	chosen->max_stage = q.best.max_stage;
	chosen->groups = q.best.groups;
	return FORGPU_OK;
}
