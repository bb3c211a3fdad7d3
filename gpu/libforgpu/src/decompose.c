/* Matrices as sums of weighted matchings: bipartite.Decomposer in C. */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#define MAX_LENGTH (INT64_MAX >> 2)

int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int reserve_stages(struct decomposer *d, int32_t n, size_t stages)
{
	d->weights = more(&d->weight_memory, stages, sizeof *d->weights);
	d->match = more(&d->match_memory, stages * (size_t)n, sizeof *d->match);
	if (!d->weights || !d->match)
		return FORGPU_ENOMEM;
	d->most = stages;
	return FORGPU_OK;
}

static inline int64_t key(const struct decomposer *d, int32_t i, int32_t j)
{
	return d->x[(size_t)i * (size_t)d->n + (size_t)j] + least(d->idle_r[i], d->idle_c[j]);
}

/* Finds the pairs whose keys are not below low. */
static void refresh(struct decomposer *d)
{
	size_t n = (size_t)d->n;
	for (size_t i = 0; i < n; i++) {
		int64_t idle = d->idle_r[i], low = d->low;
		const int64_t *row = d->x + i * n;
		uint64_t *words = d->near + i * d->words;
		for (size_t first = 0; first < n; first += 64) {
			size_t end = n - first < 64 ? n - first : 64;
			uint64_t word = 0;
			for (size_t j = 0; j < end; j++)
				word |= (uint64_t)(row[first + j] + least(idle, d->idle_c[first + j]) >= low) << j;
			*words++ = word;
		}
	}
}

/* The least of all rows' largest keys, or length. */
static int64_t ceiling(const struct decomposer *d, int64_t length)
{
	for (int32_t i = 0; i < d->n; i++) {
		int64_t best = 0;
		for (int32_t j = 0; j < d->n; j++)
			best = most(best, key(d, i, j));
		length = least(length, best);
	}
	return length;
}

static int lay_out_decomposer(struct decomposer *d, int32_t rows)
{
	size_t n = (size_t)rows;
	d->n = rows;
	d->words = (n + 63) / 64;
	d->x = room(&d->square, n * n, sizeof *d->x);
	d->idle_r = room(&d->lines, 2 * n, sizeof *d->idle_r);
	d->near = room(&d->bits, (n + 2) * d->words, sizeof *d->near);
	d->of_row = room(&d->partners, 5 * n, sizeof *d->of_row);
	if (!d->x || !d->idle_r || !d->near || !d->of_row)
		return FORGPU_ENOMEM;
	d->idle_c = d->idle_r + n;
	d->free = d->near + n * d->words;
	d->fresh = d->free + d->words;
	d->of_col = d->of_row + n;
	d->from = d->of_col + n;
	d->queue = d->from + n;
	d->open = d->queue + n;
	return FORGPU_OK;
}

static int begin(struct decomposer *d, int32_t rows, const int64_t *x, int64_t *whole)
{
	if (lay_out_decomposer(d, rows) < 0)
		return FORGPU_ENOMEM;
	size_t n = (size_t)rows;
	int64_t length = 0;
	memset(d->idle_c, 0, n * sizeof *d->idle_c);
	for (size_t i = 0; i < n; i++) {
		int64_t sum = 0;
		for (size_t j = 0; j < n; j++) {
			int64_t v = x[i * n + j];
			if (v > MAX_LENGTH - sum || v > MAX_LENGTH - d->idle_c[j])
				return FORGPU_EINVAL;
			sum += v;
			d->idle_c[j] += v;
		}
		d->idle_r[i] = sum;
		length = most(length, sum);
	}
	for (size_t j = 0; j < n; j++)
		length = most(length, d->idle_c[j]);
	memcpy(d->x, x, n * n * sizeof *x);
	memset(d->free, 0, d->words * sizeof *d->free);
	for (int32_t i = 0; i < rows; i++) {
		d->idle_r[i] = length - d->idle_r[i];
		d->idle_c[i] = length - d->idle_c[i];
		d->of_row[i] = d->of_col[i] = -1;
		d->open[i] = rows - 1 - i;
		d->free[i >> 6] |= (uint64_t)1 << (i & 63);
	}
	d->opened = rows;
	d->stages = 0;
	d->low = d->threshold = ceiling(d, length);
	refresh(d);
	*whole = length;
	return FORGPU_OK;
}

/* A free column near a row, or -1. */
static int32_t exit_of(struct decomposer *d, int32_t u)
{
	uint64_t *words = d->near + (size_t)u * d->words;
	for (size_t k = 0; k < d->words; k++) {
		for (uint64_t m = words[k] & d->free[k]; m; m &= m - 1) {
			int32_t j = (int32_t)(k << 6) + __builtin_ctzll(m);
			int64_t v = key(d, u, j);
			if (v >= d->threshold) {
				d->from[j] = u;
				return j;
			}
			if (v < d->low)
				words[k] &= ~(m & -m);
		}
	}
	return -1;
}

/* A free column to which an alternating path of near pairs leads from a row that has no
 * exit, or -1; then the rows reached are in queue and the columns not reached in fresh. */
static int32_t search(struct decomposer *d, int32_t row)
{
	size_t n = (size_t)d->n;
	uint64_t *fresh = d->fresh;
	for (size_t k = 0; k < d->words; k++)
		fresh[k] = ~d->free[k];
	if (n & 63)
		fresh[d->words - 1] &= ((uint64_t)1 << (n & 63)) - 1;
	d->queue[0] = row;
	d->queued = 1;
	for (int32_t head = 0; head < d->queued; head++) {
		int32_t u = d->queue[head];
		uint64_t *words = d->near + (size_t)u * d->words;
		const int64_t *x = d->x + (size_t)u * n;
		int64_t idle = d->idle_r[u];
		for (size_t k = 0; k < d->words; k++) {
			for (uint64_t m = words[k] & fresh[k]; m; m &= m - 1) {
				int32_t j = (int32_t)(k << 6) + __builtin_ctzll(m);
				int64_t v = x[j] + least(idle, d->idle_c[j]);
				if (v < d->threshold) {
					if (v < d->low)
						words[k] &= ~(m & -m);
					continue;
				}
				fresh[k] &= ~(m & -m);
				d->from[j] = u;
				int32_t column = exit_of(d, d->of_col[j]);
				if (column >= 0)
					return column;
				d->queue[d->queued++] = d->of_col[j];
			}
		}
	}
	for (size_t k = 0; k < d->words; k++)
		fresh[k] |= d->free[k];
	return -1;
}

/* A positive number less some per cent of it, at least 1. */
static int64_t less(int64_t v, int64_t percent) { return v - v / 100 * percent - v % 100 * percent / 100; }

/* Lowers the threshold so far that a search that has just failed gets further. */
static void fall(struct decomposer *d, bool longest)
{
	int64_t best = 0;
	for (int32_t at = 0; at < d->queued; at++)
		for (size_t k = 0; k < d->words; k++)
			for (uint64_t word = d->fresh[k]; word; word &= word - 1)
				best = most(best, key(d, d->queue[at], (int32_t)(k << 6) + __builtin_ctzll(word)));
	d->threshold = longest ? best : less(best, 15);
	if (d->threshold < d->low) {
		d->low = longest ? less(d->threshold, 10) : d->threshold;
		refresh(d);
	}
}

static void seat(struct decomposer *d, int32_t row, bool longest)
{
	int32_t column = exit_of(d, row);
	while (column < 0 && (column = search(d, row)) < 0) {
		fall(d, longest);
		column = exit_of(d, row);
	}
	d->free[column >> 6] &= ~((uint64_t)1 << (column & 63));
	for (;;) {
		int32_t u = d->from[column], next = d->of_row[u];
		d->of_col[column] = u;
		d->of_row[u] = column;
		if (u == row)
			return;
		column = next;
	}
}

/* Appends the stage of the current matching, and releases the rows whose pairs have become
 * too small. Returns its weight. */
static int64_t cut(struct decomposer *d)
{
	size_t n = (size_t)d->n;
	int64_t weight = INT64_MAX;
	for (int32_t i = 0; i < d->n; i++)
		weight = least(weight, key(d, i, d->of_row[i]));
	d->weights[d->stages] = weight;
	memcpy(d->match + d->stages * n, d->of_row, n * sizeof *d->match);
	d->stages++;
	for (int32_t i = 0; i < d->n; i++) {
		int32_t j = d->of_row[i];
		int64_t *x = d->x + (size_t)i * n + j;
		int64_t take = least(weight, *x);
		*x -= take;
		d->idle_r[i] -= weight - take;
		d->idle_c[j] -= weight - take;
		if (*x + least(d->idle_r[i], d->idle_c[j]) < d->threshold) {
			d->of_row[i] = d->of_col[j] = -1;
			d->free[j >> 6] |= (uint64_t)1 << (j & 63);
			d->open[d->opened++] = i;
		}
	}
	return weight;
}

/* Returns FORGPU_EINVAL if a row or column exceeds 2^61, or ESTAGES or EDEADLINE. */
int decompose(struct decomposer *d, int32_t n, const int64_t *x, struct limits limits)
{
	int64_t length;
	int code = begin(d, n, x, &length);
	if (code < 0)
		return code;
	while (length > 0) {
		if (limits.deadline && now() > limits.deadline)
			return EDEADLINE;
		if (limits.stages > 0 && (int64_t)d->stages == limits.stages)
			return ESTAGES;
		if (d->stages == d->most && reserve_stages(d, n, 2 * d->most) < 0)
			return FORGPU_ENOMEM;
		while (d->opened > 0)
			seat(d, d->open[--d->opened], limits.longest);
		length -= cut(d);
	}
	return FORGPU_OK;
}
