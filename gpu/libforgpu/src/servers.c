/* The traffic between servers, its rounding, and the order of their stages: bytes.go and arrange.go
 * in C. */
#include <string.h>

#include "internal.h"

int64_t longest(int32_t rows, const int64_t *x, int64_t *columns)
{
	size_t n = (size_t)rows;
	int64_t top = 0;
	memset(columns, 0, n * sizeof *columns);
	for (size_t i = 0; i < n; i++) {
		int64_t sum = 0;
		for (size_t j = 0; j < n; j++) {
			sum += x[i * n + j];
			columns[j] += x[i * n + j];
		}
		top = most(top, sum);
	}
	for (size_t j = 0; j < n; j++)
		top = most(top, columns[j]);
	return top;
}

static int bad_traffic(const struct forgpu_planner *p, struct forgpu_error *err)
{
	int64_t total = 0;
	size_t ranks = (size_t)p->ranks;
	for (size_t at = 0; at < ranks * ranks; at++) {
		int64_t v = p->bytes[at];
		if (v < 0 || v > FORGPU_MAX_BYTES - total)
			return fail(err, FORGPU_ETRAFFIC, "traffic from GPU %zu to GPU %zu is %lld: want none below 0 and at most %lld in all",
				    at / ranks, at % ranks, (long long)v, (long long)FORGPU_MAX_BYTES);
		total += v;
	}
	return FORGPU_OK;
}

/* Adds the bytes of one rank for other servers to sums and in. Returns the sum of its whole
 * row; *high is the sum of the upper halves of its entries. */
static uint64_t survey_row(const struct forgpu_planner *p, size_t source, uint64_t *restrict sums, uint64_t *restrict in, uint64_t *high)
{
	size_t n = (size_t)p->n, m = (size_t)p->m, own = source / m;
	const int64_t *restrict row = p->bytes + source * (size_t)p->ranks;
	uint64_t total = 0, upper = 0;
	for (size_t j = 0; j < n; j++, row += m, in += m) {
		uint64_t sum = 0;
		for (size_t k = 0; k < m; k++) {
			sum += (uint64_t)row[k];
			upper += (uint64_t)row[k] >> 32;
		}
		total += sum;
		if (j == own)
			continue;
		for (size_t k = 0; k < m; k++)
			in[k] += (uint64_t)row[k];
		sums[j] += sum;
		((uint64_t *)p->out)[source] += sum;
	}
	*high += upper;
	return total;
}

/* Finds the least length: the bytes of a server divided by its NICs. */
static int find_bound(struct forgpu_planner *p, struct forgpu_error *err)
{
	size_t n = (size_t)p->n;
	p->bound = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t out = 0, in = 0;
		for (size_t j = 0; j < n; j++) {
			out += p->pairs[i * n + j];
			in += p->pairs[j * n + i];
		}
		if (most(out, in) > 0 && p->channels[i] == 0)
			return fail(err, FORGPU_ETRAFFIC, "server %zu has %lld bytes for other servers and %lld from them, but no working NIC",
				    i, (long long)out, (long long)in);
		if (p->channels[i] > 0)
			p->bound = most(p->bound, over(most(out, in), p->channels[i]));
	}
	return FORGPU_OK;
}

int survey(struct forgpu_planner *p, struct forgpu_error *err)
{
	size_t n = (size_t)p->n, ranks = (size_t)p->ranks;
	memset(p->pairs, 0, n * n * sizeof *p->pairs);
	memset(p->out, 0, ranks * sizeof *p->out);
	memset(p->in, 0, ranks * sizeof *p->in);
	/* Sums wrap around if the traffic is too large; the upper halves reveal it. */
	uint64_t total = 0, high = 0;
	for (size_t source = 0; source < ranks; source++)
		total += survey_row(p, source, (uint64_t *)p->pairs + source / (size_t)p->m * n, (uint64_t *)p->in, &high);
	if (high > (uint64_t)FORGPU_MAX_BYTES >> 32 || total > (uint64_t)FORGPU_MAX_BYTES)
		return bad_traffic(p, err);
	return find_bound(p, err);
}

/* Returns whether no row or column sum exceeds a limit if entries are rounded up. */
static bool fits(struct forgpu_planner *p, int64_t grain, double limit)
{
	size_t n = (size_t)p->group_count;
	memset(p->columns, 0, n * sizeof *p->columns);
	for (size_t i = 0; i < n; i++) {
		int64_t sum = 0;
		for (size_t j = 0; j < n; j++) {
			int64_t v = p->share[i * n + j];
			if (v == 0)
				continue;
			v = over(v, grain) * grain;
			sum += v;
			p->columns[j] += v;
			if ((double)p->columns[j] > limit)
				return false;
		}
		if ((double)sum > limit)
			return false;
	}
	return true;
}

static int64_t widest(struct forgpu_planner *p)
{
	size_t n = (size_t)p->group_count;
	double limit = (double)longest(p->group_count, p->share, p->columns) * p->o.max_stretch;
	int64_t top = 0;
	for (size_t at = 0; at < n * n; at++)
		top = most(top, p->share[at]);
	int64_t grain = most(1, least(top, INT64_MAX / 4 / most(1, p->group_count)));
	while (grain > 1 && !fits(p, grain, limit))
		grain -= most(1, grain / 8);
	return grain;
}

/* Rounds shares up as the options say. */
void round_up(struct forgpu_planner *p)
{
	int64_t grain = p->o.max_stretch > 1 ? widest(p) : most(1, p->o.grain);
	p->ask = p->share;
	if (grain == 1)
		return;
	p->ask = p->rounded;
	for (size_t at = 0; at < (size_t)p->group_count * (size_t)p->group_count; at++)
		p->rounded[at] = over(p->share[at], grain) * grain;
}

int server_stages(struct forgpu_planner *p, struct limits limits, struct forgpu_error *err)
{
	int code = decompose(&p->decomposer, p->group_count, p->ask, limits);
	if (code == FORGPU_EINVAL)
		return fail(err, code, "a NIC would send or receive over %lld bytes when rounded up: want a smaller grain", (long long)(INT64_MAX >> 2));
	return code == FORGPU_ENOMEM ? fail(err, code, "no memory") : code;
}

/* The largest excess of a GPU over what its NICs get of its server's bytes. */
static int64_t excess(const struct forgpu_planner *p, const int64_t *loads)
{
	int64_t top = 0;
	for (int32_t server = 0; server < p->n; server++) {
		size_t first = (size_t)server * (size_t)p->m;
		int64_t sum = 0;
		for (int32_t k = 0; k < p->m; k++)
			sum += loads[first + (size_t)k];
		for (int32_t k = 0; k < p->m; k++)
			top = most(top, loads[first + (size_t)k] - p->working[first + (size_t)k] * (sum / most(1, p->channels[server])));
	}
	return top;
}

struct pull { double before, after; };

static struct pull pull(struct forgpu_planner *p)
{
	int64_t length = longest(p->group_count, p->ask, p->columns);
	if (length == 0)
		return (struct pull){.5, .5};
	double before = (double)excess(p, p->out) / (double)length, after = (double)excess(p, p->in) / (double)length;
	if (p->tokens.given && (double)copies(p) / (double)length > after)
		after = (double)copies(p) / (double)length;
	return (struct pull){before > .5 ? before : .5, after > .5 ? after : .5};
}

/* Estimates the time of stages together with the moves during them. */
static double estimate(const struct forgpu_planner *p, const struct stint *order, struct pull by)
{
	double sum = 0, before = 0, at = 0; /* lengths of the previous and of this stage */
	for (size_t i = 0; i <= p->stints + 1; i++) {
		double after = i < p->stints ? (double)order[i].length : 0;
		double moved = by.before * after + by.after * before;
		double stage = at / p->o.b2, move = moved / p->o.b1;
		sum += (stage > move ? stage : move) + p->latency;
		before = at;
		at = after;
	}
	return sum;
}

/* Sorts stably by falling length. */
static void sort_falling(struct stint *list, struct stint *scratch, size_t count)
{
	for (size_t width = 1; width < count; width *= 2) {
		for (size_t first = 0; first < count; first += 2 * width) {
			size_t middle = first + width < count ? first + width : count;
			size_t end = middle + width < count ? middle + width : count;
			size_t a = first, b = middle;
			for (size_t at = first; at < end; at++)
				scratch[at] = a < middle && (b == end || list[a].length >= list[b].length) ? list[a++] : list[b++];
		}
		memcpy(list, scratch, count * sizeof *list);
	}
}

static int lay_out_stints(struct forgpu_planner *p, size_t count)
{
	size_t most_stints = ample(p, count);
	p->falling = room(&p->stints_memory, 4 * most_stints, sizeof *p->falling);
	if (!p->falling)
		return FORGPU_ENOMEM;
	p->rising = p->falling + most_stints;
	p->hill = p->rising + most_stints;
	p->scratch = p->hill + most_stints;
	p->stints = count;
	return FORGPU_OK;
}

enum { MOST_STINTS = 1 << 20 };

int arrange(struct forgpu_planner *p, int64_t longest_stage, double *seconds)
{
	const struct decomposer *d = &p->decomposer;
	int64_t count = 0;
	for (size_t turn = 0; turn < d->stages; turn++) {
		count += longest_stage > 0 ? over(d->weights[turn], longest_stage) : 1;
		if (longest_stage > 0 && count > MOST_STINTS)
			return FORGPU_ELARGE;
	}
	if (lay_out_stints(p, (size_t)count) < 0)
		return FORGPU_ENOMEM;
	size_t at = 0;
	for (size_t turn = 0; turn < d->stages; turn++) {
		int64_t parts = longest_stage > 0 ? over(d->weights[turn], longest_stage) : 1;
		for (int64_t part = 0; part < parts; part++)
			p->falling[at++] = (struct stint){(int32_t)turn, evenly(d->weights[turn], parts, part)};
	}
	sort_falling(p->falling, p->scratch, p->stints);
	struct stint *hill = p->hill;
	for (size_t i = p->stints; i-- > 0;) {
		p->rising[p->stints - 1 - i] = p->falling[i];
		if (i % 2 == 1)
			*hill++ = p->falling[i];
	}
	for (size_t i = 0; i < p->stints; i += 2)
		*hill++ = p->falling[i];
	struct pull by = pull(p);
	struct stint *orders[] = {p->falling, p->hill, p->rising};
	for (int i = 0; i < 3; i++) {
		double time = estimate(p, orders[i], by);
		if (i == 0 || time < *seconds) {
			*seconds = time;
			p->order = orders[i];
		}
	}
	return FORGPU_OK;
}
