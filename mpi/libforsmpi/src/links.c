/*
 * links.c: what keeps transfers of different phases apart.
 *
 * In a phase no two transfers share a link. But ranks are not in step: one that is ahead
 * would send over a link that a transfer of an earlier phase still uses, both would take
 * twice as long, and others would wait for them in turn. So a transfer waits for those
 * before it on its links, from its leaf up, to its peer's leaf down, and from there to
 * its peer: the receiver of an earlier transfer tells the sender of the next, by an empty
 * message. There is no deadlock, since all wait for earlier phases.
 *
 * No news is needed if one rank sends both or ends the one before it sends the next.
 * A rank's messages to another arrive in the order of the phases in which it has received;
 * each wait is for a number of them.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* The last transfer over a link. */
struct user {
	int from, to;
	int row, sent; /* of the receiver, of the sender */
	int step;
};

/* What is known of a row until the news is counted. */
struct before {
	int row[LINKS];     /* whose news it waits for */
	int ordinal[LINKS]; /* of the row's news, among the news of its group for that group */
};

struct links {
	struct draft *d;
	struct user *last;     /* [group] of the links to servers; then those of the lanes, up and down, leaf by leaf */
	struct before *before; /* [row] */
	int *seen;             /* [group] */
};

/* tells adds a group to those that a row tells, once. */
static void tells(struct row *r, int group)
{
	int i = 0;
	while (r->tell[i] >= 0 && r->tell[i] != group) /* three links have three next users at most */
		i++;
	r->tell[i] = group;
}

/* follow makes the transfer from a sender's row to a receiver's row wait for the last one on a link. */
static void follow(struct links *l, struct user *last, int sender, int row, int receiver_row)
{
	struct row *r = &l->d->row[row];
	if (last->step >= 0 && last->step < r->step && last->to != sender && last->from != sender) {
		int i = 0;
		while (r->wait[i] >= 0)
			i++;
		r->wait[i] = last->to;
		l->before[row].row[i] = last->row;
		tells(&l->d->row[last->row], sender);
		l->d->row[last->sent].heard = 1;
	}
	*last = (struct user){sender, r->to, receiver_row, row, r->step};
}

/* chain goes through all transfers, step by step. at is, for each group, its next row. */
static void chain(struct links *l, const uint16_t *leaf, uint32_t lanes, int *at)
{
	struct draft *d = l->d;
	memcpy(at, d->first, (size_t)d->head.groups * sizeof *at);
	for (int step = 0; step < d->head.steps; step++) {
		for (int g = 0; g < d->head.groups; g++) {
			const struct row *r = &d->row[at[g]];
			if (at[g] == d->first[g + 1] || r->step != step || r->to < 0)
				continue;
			follow(l, &l->last[r->to], g, at[g], at[r->to]);
			if (r->lane < 0 || (uint32_t)r->lane >= lanes)
				continue; /* it stays on its leaf */
			const size_t up = leaf[g] * (size_t)lanes + (size_t)r->lane, down = leaf[r->to] * (size_t)lanes + (size_t)r->lane;
			follow(l, &l->last[(size_t)d->head.groups + 2 * up], g, at[g], at[r->to]);
			follow(l, &l->last[(size_t)d->head.groups + 2 * down + 1], g, at[g], at[r->to]);
		}
		for (int g = 0; g < d->head.groups; g++)
			at[g] += at[g] < d->first[g + 1] && d->row[at[g]].step == step;
	}
}

/* count counts the news that each row waits for. */
static void count(struct links *l)
{
	struct draft *d = l->d;
	for (int g = 0; g < d->head.groups; g++) {
		memset(l->seen, 0, (size_t)d->head.groups * sizeof *l->seen);
		for (int r = d->first[g]; r < d->first[g + 1]; r++)
			for (int i = 0; i < LINKS; i++)
				if (d->row[r].tell[i] >= 0)
					l->before[r].ordinal[i] = ++l->seen[d->row[r].tell[i]];
	}
	for (int g = 0; g < d->head.groups; g++) {
		memset(l->seen, 0, (size_t)d->head.groups * sizeof *l->seen);
		for (int r = d->first[g]; r < d->first[g + 1]; r++)
			for (int i = 0; i < LINKS; i++) {
				struct row *row = &d->row[r];
				if (row->wait[i] < 0)
					continue;
				const int of = l->before[r].row[i];
				int told = 0;
				while (d->row[of].tell[told] != g)
					told++;
				const int ordinal = l->before[of].ordinal[told];
				row->news[i] = ordinal > l->seen[row->wait[i]] ? ordinal - l->seen[row->wait[i]] : 0;
				l->seen[row->wait[i]] += row->news[i];
			}
	}
}

bool fm_links(struct draft *d, const uint16_t *leaf, uint32_t lanes)
{
	const size_t groups = (size_t)d->head.groups, rows = (size_t)d->first[d->head.groups];
	size_t leaves = 0;
	for (size_t g = 0; g < groups; g++)
		leaves = leaf[g] >= leaves ? leaf[g] + (size_t)1 : leaves;
	struct links l = {.d = d};
	int *at = calloc(groups, sizeof *at);
	const size_t links = groups + 2 * leaves * lanes;
	l.last = calloc(links, sizeof *l.last);
	l.before = calloc(rows + 1, sizeof *l.before);
	l.seen = calloc(groups, sizeof *l.seen);
	const bool good = at && l.last && l.before && l.seen;
	for (size_t i = 0; good && i < links; i++)
		l.last[i].step = -1;
	if (good) {
		chain(&l, leaf, lanes, at);
		count(&l);
	}
	free(at);
	free(l.last);
	free(l.before);
	free(l.seen);
	return good;
}
