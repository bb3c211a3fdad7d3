/*
 * mend.c: tables without forsd. Entries of the tables held stay where they still
 * lead on; the others take the port that the fewest entries take.
 *
 * Packets go up and then down (Schroeder et al., Autonet, 1991: up-down), so that
 * channels wait for one another upwards, then downwards, and never in a ring. The
 * order of the switches is that in which a breadth-first search comes to them, the
 * first being the highest. From a leaf of a fat tree it comes to the switches above
 * before those below, so no shortest way between two leaves is lost. And as all
 * hangs on one highest switch, there is a way from every switch to every other one
 * that cables join it to, whatever the fabric.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
	FAR = UINT16_MAX, /* no path */
	TRIES = 32,       /* switches that are tried as the highest */
	SAMPLES = 4,      /* homes by which they are judged */
};

/* The first LID of a port, which most programs use, is spread for itself. */
enum kind { BASE, MORE, KINDS };

/* What is known of a switch while tables are made. */
struct site {
	const struct table *held, *wish; /* NULL for none */
	uint32_t used[KINDS][PORTS];     /* entries by port */
	bool trusted[PORTS];             /* the tables held use the port: others may be drained */
};

struct work {
	const struct map *map;
	struct site *sites;
	uint32_t *order, *place; /* the switches of each part from the highest on, and where in its part each is */
	uint32_t *first, *homes; /* switches that may be the highest, and by which that is judged */
	uint16_t *down, *dist;   /* cables to the home at hand: down alone, and up and then down */
	bool leads[PORTS];       /* of the switch at hand: the port begins a shortest way to the home at hand */
	uint32_t changed;        /* entries other than those held */
};

/* What is done at a switch for the LIDs of an owner, the nth of its home, with n ways to it. */
typedef void visit(struct work *w, uint32_t at, const struct owner *o, uint32_t nth, const struct cable *const *ways, uint32_t n);

static void finish(struct work *w)
{
	free(w->sites);
	free(w->order);
	free(w->place);
	free(w->first);
	free(w->homes);
	free(w->down);
	free(w->dist);
}

/* begin allocates memory, and returns false if that fails. */
static bool begin(struct work *w, const struct map *m, const struct tables *held, const struct tables *wish)
{
	const size_t n = m->count ? m->count : 1;
	*w = (struct work){.map = m, .sites = calloc(n, sizeof *w->sites)};
	w->order = malloc(n * sizeof *w->order);
	w->place = malloc(n * sizeof *w->place);
	w->first = malloc(n * sizeof *w->first);
	w->homes = malloc(n * sizeof *w->homes);
	w->down = malloc(n * sizeof *w->down);
	w->dist = malloc(n * sizeof *w->dist);
	if (!w->sites || !w->order || !w->place || !w->first || !w->homes || !w->down || !w->dist) {
		finish(w);
		return false;
	}
	for (uint32_t i = 0; i < m->count; i++) {
		w->sites[i].held = forsosm_find_(held, m->nodes[i].guid);
		w->sites[i].wish = forsosm_find_(wish, m->nodes[i].guid);
	}
	return true;
}

/* search lists the switches that cables join to a root, breadth first, and returns how many they are. */
static uint32_t search(struct work *w, uint32_t root, uint32_t *order)
{
	uint32_t n = 1;
	order[0] = root;
	w->place[root] = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct node *s = &w->map->nodes[order[i]];
		for (uint32_t c = 0; c < s->count; c++) {
			const uint32_t to = s->cables[c].to;
			if (w->place[to] == UINT32_MAX) {
				w->place[to] = n;
				order[n++] = to;
			}
		}
	}
	return n;
}

/* forget takes switches out of the order. */
static void forget(struct work *w, const uint32_t *which, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		w->place[which[i]] = UINT32_MAX;
}

/* below reports whether a cable of a switch leads down. */
static bool below(const struct work *w, uint32_t at, const struct cable *c) { return w->place[c->to] > w->place[at]; }

/* measure finds the ways of the switches in an order to a home. Where a way down leads there, packets go down. */
static void measure(struct work *w, const uint32_t *order, uint32_t n, uint32_t home)
{
	const struct map *m = w->map;
	memset(w->down, 0xFF, m->count * sizeof *w->down);
	memset(w->dist, 0xFF, m->count * sizeof *w->dist);
	w->down[home] = 0;
	for (uint32_t i = n; i-- > 0;) {
		const uint32_t at = order[i];
		for (uint32_t c = 0; c < m->nodes[at].count; c++) {
			const struct cable *cable = &m->nodes[at].cables[c];
			if (below(w, at, cable) && w->down[cable->to] < FAR - 1 && w->down[cable->to] + 1 < w->down[at])
				w->down[at] = (uint16_t)(w->down[cable->to] + 1);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t at = order[i];
		w->dist[at] = w->down[at];
		for (uint32_t c = 0; c < m->nodes[at].count && w->down[at] == FAR; c++) {
			const struct cable *cable = &m->nodes[at].cables[c];
			if (!below(w, at, cable) && w->dist[cable->to] < FAR - 1 && w->dist[cable->to] + 1 < w->dist[at])
				w->dist[at] = (uint16_t)(w->dist[cable->to] + 1);
		}
	}
}

/* find_ways lists the cables that begin a shortest way from a switch to the home at hand. */
static uint32_t find_ways(struct work *w, uint32_t at, const struct cable **ways)
{
	const struct node *s = &w->map->nodes[at];
	const bool down = w->down[at] != FAR;
	uint32_t n = 0;
	memset(w->leads, 0, sizeof w->leads);
	if (w->dist[at] == FAR || w->dist[at] == 0)
		return 0;
	for (uint32_t c = 0; c < s->count; c++) {
		const struct cable *cable = &s->cables[c];
		if (below(w, at, cable) == down && (down ? w->down : w->dist)[cable->to] == w->dist[at] - 1) {
			w->leads[cable->port] = true;
			ways[n++] = cable;
		}
	}
	return n;
}

/* worth counts the cables that begin shortest ways to a home, in the order that part has. */
static uint64_t worth(struct work *w, const uint32_t *part, uint32_t n, uint32_t home)
{
	const struct cable *ways[PORTS];
	uint64_t count = 0;
	measure(w, part, n, home);
	for (uint32_t i = 0; i < n; i++)
		count += find_ways(w, part[i], ways);
	return count;
}

/* highest chooses the root of an order for a part: among some switches with hosts, that with the most paths to some others. */
static uint32_t highest(struct work *w, uint32_t *part, uint32_t n)
{
	const struct node *nodes = w->map->nodes;
	uint32_t count = 0, full = 0, most = 1, best = part[0];
	uint64_t record = 0;
	for (uint32_t i = 0; i < n; i++)
		most = nodes[part[i]].hosts > most ? nodes[part[i]].hosts : most;
	for (uint32_t i = 0; i < n; i++)
		if (nodes[part[i]].hosts > 0)
			w->first[count++] = part[i];
	for (uint32_t i = 0; i < count; i++)
		if (nodes[w->first[i]].hosts > most / 2) /* a leaf: switches above have few */
			w->homes[full++] = w->first[i];
	const uint32_t tries = count < TRIES ? count : TRIES, samples = full < SAMPLES ? full : SAMPLES;
	for (uint32_t i = 0; i < tries; i++) {
		const uint32_t root = w->first[(uint64_t)i * count / tries];
		uint64_t ways = 0;
		forget(w, part, n);
		search(w, root, part);
		for (uint32_t j = 0; j < samples; j++)
			ways += worth(w, part, n, w->homes[(uint64_t)j * full / samples]);
		if (ways > record) {
			record = ways;
			best = root;
		}
	}
	return best;
}

/* put_in_order orders the switches of each part. */
static void put_in_order(struct work *w)
{
	uint32_t n;
	memset(w->place, 0xFF, w->map->count * sizeof *w->place);
	for (uint32_t done = 0, first = 0; done < w->map->count; done += n) {
		while (w->place[first] != UINT32_MAX)
			first++;
		uint32_t *part = w->order + done;
		n = search(w, first, part);
		const uint32_t root = highest(w, part, n);
		forget(w, part, n);
		search(w, root, part);
	}
}

/* walk visits every switch for every owner. */
static void walk(struct work *w, visit *what)
{
	const struct map *m = w->map;
	const struct cable *ways[PORTS];
	put_in_order(w);
	for (uint32_t first = 0, next; first < m->owned; first = next) {
		const uint32_t home = m->owners[first].node;
		for (next = first; next < m->owned && m->owners[next].node == home; next++) {
		}
		measure(w, w->order, m->count, home);
		for (uint32_t i = 0; i < m->count; i++) {
			const uint32_t n = find_ways(w, w->order[i], ways);
			for (uint32_t o = first; o < next; o++)
				what(w, w->order[i], &m->owners[o], o - first, ways, n);
		}
	}
}

static uint8_t entry(const struct table *t, uint32_t lid) { return t && lid < t->blocks * BLOCK ? t->entries[lid] : NO_PATH; }

/* tally counts the entries held. */
static void tally(struct work *w)
{
	for (uint32_t i = 0; i < w->map->count; i++) {
		struct site *s = &w->sites[i];
		memset(s->trusted, !s->held, sizeof s->trusted);
		for (uint32_t o = 0; o < w->map->owned && s->held; o++) {
			const struct owner *owner = &w->map->owners[o];
			for (uint32_t j = 0; j < owner->lids; j++) {
				const uint8_t port = entry(s->held, owner->lid + j);
				s->used[j ? MORE : BASE][port]++;
				s->trusted[port] = true;
			}
		}
	}
}

/* choose takes a way that the tables held use, then a fast one, then the one with the fewest entries; of equals the nth. */
static uint8_t choose(const struct site *s, enum kind kind, uint32_t nth, const struct cable *const *ways, uint32_t n)
{
	const struct cable *best = NULL;
	for (uint32_t i = 0; i < n; i++) {
		const struct cable *c = ways[(nth + i) % n];
		if (!best || (s->trusted[c->port] != s->trusted[best->port] ? s->trusted[c->port] :
			c->rate != best->rate ? c->rate > best->rate : s->used[kind][c->port] < s->used[kind][best->port]))
			best = c;
	}
	return best->port;
}

static void mend(struct work *w, uint32_t at, const struct owner *o, uint32_t nth, const struct cable *const *ways, uint32_t n)
{
	struct site *s = &w->sites[at];
	unsigned char *out = w->map->nodes[at].out;
	if (at != o->node && n == 0)
		return;
	for (uint32_t j = 0; j < o->lids; j++) {
		const uint32_t lid = o->lid + j;
		const enum kind kind = j ? MORE : BASE;
		const uint8_t wish = entry(s->wish, lid), held = entry(s->held, lid);
		uint8_t port = o->port;
		if (at != o->node)
			port = w->leads[wish] ? wish : w->leads[held] ? held : choose(s, kind, nth + j, ways, n);
		out[lid] = port;
		if (port == held)
			continue;
		w->changed++;
		s->used[kind][port]++;
		s->used[kind][held] -= s->used[kind][held] > 0;
	}
}

int64_t forsosm_mend_(const struct map *m, const struct tables *held, const struct tables *wish)
{
	struct work w;
	if (!begin(&w, m, held, wish))
		return -1;
	tally(&w);
	walk(&w, mend);
	finish(&w);
	return w.changed;
}

/* take has the entries held replace those wished for that still lead on: forsd has decided against them. */
static void take(struct work *w, uint32_t at, const struct owner *o, uint32_t nth, const struct cable *const *ways, uint32_t n)
{
	(void)nth, (void)ways, (void)n;
	const struct site *s = &w->sites[at];
	for (uint32_t lid = o->lid; lid < (uint32_t)o->lid + o->lids; lid++) {
		const uint8_t held = entry(s->held, lid);
		if (held != NO_PATH && (at == o->node || w->leads[entry(s->wish, lid)]))
			s->wish->entries[lid] = held;
	}
}

/* overlay has the entries held replace those wished for that there are not, or whose LIDs are not in the fabric. */
static bool overlay(const struct map *m, const struct tables *held, struct tables *wish)
{
	bool *owned = calloc(MAX_LID + 1 + BLOCK, sizeof *owned), fine = owned;
	for (uint32_t o = 0; o < m->owned && fine; o++)
		memset(owned + m->owners[o].lid, true, m->owners[o].lids);
	for (uint32_t i = 0; i < held->count && fine; i++) {
		const struct table *t = &held->switches[i];
		struct table *to = forsosm_add_(wish, t->guid);
		fine = to && (t->blocks == 0 || forsosm_reach_(to, t->blocks - 1));
		for (uint32_t lid = 0; fine && lid < t->blocks * BLOCK; lid++)
			if (t->entries[lid] != NO_PATH && (to->entries[lid] == NO_PATH || !owned[lid]))
				to->entries[lid] = t->entries[lid];
	}
	free(owned);
	return fine;
}

bool forsosm_wish_(const struct map *m, const struct tables *held, struct tables *wish)
{
	struct work w;
	if (!overlay(m, held, wish) || !begin(&w, m, held, wish))
		return false;
	walk(&w, take);
	finish(&w);
	return true;
}
