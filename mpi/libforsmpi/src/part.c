/*
 * part.c: steps of its own for a communicator on a part of a table's servers.
 *
 * In each of the table's phases few servers of the part have a transfer. Its transfers keep
 * their lanes and get other steps, in each of which a server sends one and receives one, and a
 * lane of a leaf carries one up and one down. Each goes to the first step with room, as many
 * steps as the busiest of these needs; one without room takes that of the fewest others, first of
 * those that have lacked room least often. Where that does not get on, a step is added. Where
 * lanes share cables, as on three levels, the table's phases stay.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { USES = 4, WORD = 64 };

/* Limits of the search: transfers that are displaced for one left over, and steps that are looked at in all. */
static const int64_t PATIENCE = 32, MOST = 1 << 24;

struct unit {
	int use[USES]; /* what it takes of a step: its server sends, its peer receives, links up and down; −1: none */
	int step;      /* −1: none yet */
	int failed;    /* how often it found no room */
	struct row row; /* as it was in the table's steps */
};

struct part {
	struct unit *unit;
	int units, uses;
	int steps, words; /* in use; for all steps of the table */
	uint64_t *busy;   /* [use·words]: a bit for each step in which it is taken */
	int *owner;       /* [use·words·WORD + step] 1 + unit, 0: free */
	int *late;        /* ring of units without a step */
	uint64_t random;
	int64_t budget;
};

static int *owner(const struct part *p, int use, int step) { return &p->owner[(size_t)use * (size_t)p->words * WORD + (size_t)step]; }

static void put(struct part *p, int u, int step)
{
	struct unit *t = &p->unit[u];
	t->step = step;
	for (int i = 0; i < USES; i++)
		if (t->use[i] >= 0) {
			*owner(p, t->use[i], step) = u + 1;
			p->busy[t->use[i] * p->words + step / WORD] |= (uint64_t)1 << step % WORD;
		}
}

static void take(struct part *p, int u)
{
	struct unit *t = &p->unit[u];
	for (int i = 0; i < USES; i++)
		if (t->use[i] >= 0) {
			*owner(p, t->use[i], t->step) = 0;
			p->busy[t->use[i] * p->words + t->step / WORD] &= ~((uint64_t)1 << t->step % WORD);
		}
	t->step = -1;
}

/* room is the first step in which a unit has all that it takes, −1 if none. */
static int room(const struct part *p, const struct unit *t)
{
	for (int w = 0; w * WORD < p->steps; w++) {
		uint64_t busy = 0;
		for (int i = 0; i < USES; i++)
			if (t->use[i] >= 0)
				busy |= p->busy[t->use[i] * p->words + w];
		if (~busy) {
			const int step = w * WORD + __builtin_ctzll(~busy);
			return step < p->steps ? step : -1;
		}
	}
	return -1;
}

/* in_the_way lists the units that take what a unit needs of a step, and returns what they weigh. */
static int in_the_way(const struct part *p, const struct unit *t, int step, int out[USES], int *n)
{
	int weight = 0;
	*n = 0;
	for (int i = 0; i < USES; i++) {
		const int u = t->use[i] >= 0 ? *owner(p, t->use[i], step) - 1 : -1;
		bool known = u < 0;
		for (int j = 0; j < *n; j++)
			known = known || out[j] == u;
		if (!known) {
			out[(*n)++] = u;
			weight += 4 + p->unit[u].failed;
		}
	}
	return weight;
}

/* displace gives a unit the step in which the least is in its way, and appends that to the late ones. */
static int displace(struct part *p, int u, int tail)
{
	p->random = p->random * 6364136223846793005u + 1442695040888963407u;
	const int first = (int)((p->random >> 33) % (uint64_t)p->steps);
	int best = -1, least = 0, out[USES], n;
	for (int i = 0; i < p->steps; i++) {
		const int step = first + i < p->steps ? first + i : first + i - p->steps;
		const int weight = in_the_way(p, &p->unit[u], step, out, &n);
		if (best < 0 || weight < least)
			best = step, least = weight;
	}
	p->budget -= p->steps;
	p->unit[u].failed++;
	in_the_way(p, &p->unit[u], best, out, &n);
	for (int i = 0; i < n; i++, tail++) {
		take(p, out[i]);
		p->late[tail % p->units] = out[i];
	}
	put(p, u, best);
	return tail;
}

/* place gives all units a step; false if that takes as many as the table has. */
static bool place(struct part *p, int most)
{
	int head = 0, tail = 0, least = p->units;
	int64_t patience = 0;
	for (int u = 0; u < p->units; u++)
		p->late[tail++] = u;
	while (head < tail) {
		const int u = p->late[head++ % p->units], step = room(p, &p->unit[u]);
		if (step >= 0) {
			put(p, u, step);
		} else if (--patience >= 0 && p->budget > 0) {
			tail = displace(p, u, tail);
		} else if (++p->steps < most) {
			patience = PATIENCE * (tail - head + 1);
			put(p, u, p->steps - 1);
		} else {
			return false;
		}
		if (tail - head < least) {
			least = tail - head;
			patience = PATIENCE * (least + 1);
		}
	}
	return true;
}

/* read lists the transfers of a draft with what they take; links are numbered as they occur. */
static bool read(struct part *p, const struct draft *d, const uint16_t *leaf, int lanes)
{
	const int groups = d->head.groups;
	size_t leaves = 0;
	for (int g = 0; g < groups; g++)
		leaves = leaf[g] >= leaves ? leaf[g] + (size_t)1 : leaves;
	int *link = calloc(2 * leaves * (size_t)lanes + 1, sizeof *link);
	p->unit = calloc((size_t)d->first[groups] + 1, sizeof *p->unit);
	p->uses = 2 * groups;
	for (int g = 0; link && p->unit && g < groups; g++)
		for (int r = d->first[g]; r < d->first[g + 1]; r++) {
			const struct row *row = &d->row[r];
			if (row->to < 0)
				continue;
			struct unit *t = &p->unit[p->units++];
			*t = (struct unit){.use = {g, groups + row->to, -1, -1}, .step = -1, .row = *row};
			for (int end = 0; row->lane >= 0 && row->lane < lanes && end < 2; end++) {
				int *of = &link[2 * (leaf[end ? row->to : g] * lanes + row->lane) + end];
				if (*of == 0)
					*of = p->uses++;
				t->use[2 + end] = *of;
			}
		}
	const bool good = link && p->unit;
	free(link);
	return good;
}

/* busiest is how many units take the same, at most. */
static int busiest(const struct part *p)
{
	int *count = calloc((size_t)p->uses + 1, sizeof *count), most = 0;
	for (int u = 0; count && u < p->units; u++)
		for (int i = 0; i < USES; i++)
			if (p->unit[u].use[i] >= 0 && ++count[p->unit[u].use[i]] > most)
				most = count[p->unit[u].use[i]];
	free(count);
	return most;
}

/* write replaces the rows of a draft by those of the new steps. */
static void write(const struct part *p, struct draft *d)
{
	const int groups = d->head.groups;
	int rows = 0;
	for (int g = 0; g < groups; g++) {
		d->first[g] = rows;
		for (int step = 0; step < p->steps; step++) {
			const int sends = *owner(p, g, step) - 1, hears = *owner(p, groups + g, step) - 1;
			if (sends < 0 && hears < 0)
				continue;
			struct row row = {.to = -1, .from = -1, .lane = -1, .tell = {-1, -1, -1}, .wait = {-1, -1, -1}};
			if (sends >= 0)
				row = p->unit[sends].row;
			row.step = step;
			row.from = -1;
			if (hears >= 0) {
				row.from = p->unit[hears].use[0];
				row.phase[1] = p->unit[hears].row.phase[0];
				row.met[1] = p->unit[hears].row.met[0];
			}
			d->row[rows++] = row;
		}
	}
	d->first[groups] = rows;
	d->head.steps = p->steps;
}

bool fm_part(struct draft *d, const uint16_t *leaf, uint32_t lanes)
{
	struct part p = {.random = 1, .budget = MOST, .words = (d->head.steps + WORD - 1) / WORD};
	bool good = read(&p, d, leaf, (int)lanes);
	if (good && p.units > 0 && (p.steps = busiest(&p)) > 0 && p.steps < d->head.steps) {
		p.busy = calloc((size_t)p.uses * (size_t)p.words, sizeof *p.busy);
		p.owner = calloc((size_t)p.uses * (size_t)p.words * WORD, sizeof *p.owner);
		p.late = calloc((size_t)p.units, sizeof *p.late);
		good = p.busy && p.owner && p.late;
		if (good && place(&p, d->head.steps))
			write(&p, d);
	}
	free(p.unit);
	free(p.busy);
	free(p.owner);
	free(p.late);
	return good;
}
