/*
 * mend.c: a fuzz target. The bytes are a fabric, tables of any kind that are held for it,
 * and cables that are lost then. Whatever they are, every LID arrives from every switch
 * that cables join to its own, and no channels wait for one another in a ring.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

enum { SWITCHES = 12, EXITS = 24, LIDS = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

/* The input, and zeros behind it. */
static const uint8_t *in, *in_end;
static unsigned next(unsigned below) { return in < in_end ? *in++ % below : 0; }

static struct node nodes[SWITCHES];
static struct cable cables[SWITCHES][EXITS];
static struct owner owners[LIDS];
static struct map map;
static uint32_t lids; /* behind the last */

/* join puts a cable between two switches with free ports. */
static void join(uint32_t a, uint32_t b, unsigned rate)
{
	if (a == b || nodes[a].count == EXITS || nodes[b].count == EXITS)
		return;
	const uint8_t at = (uint8_t)(1 + nodes[a].count), to = (uint8_t)(1 + nodes[b].count);
	cables[a][nodes[a].count++] = (struct cable){.to = b, .rate = (uint16_t)rate, .port = at};
	cables[b][nodes[b].count++] = (struct cable){.to = a, .rate = (uint16_t)rate, .port = to};
}

/* lose takes a cable out at both ends: the nth of two switches is the nth of either. */
static void lose(uint32_t a, uint32_t c)
{
	if (c >= nodes[a].count)
		return;
	const uint32_t b = cables[a][c].to;
	uint32_t before = 0, at = 0;
	for (uint32_t i = 0; i < c; i++)
		before += cables[a][i].to == b;
	while (cables[b][at].to != a || before-- > 0)
		at++;
	memmove(&cables[a][c], &cables[a][c + 1], (--nodes[a].count - c) * sizeof *cables[a]);
	memmove(&cables[b][at], &cables[b][at + 1], (--nodes[b].count - at) * sizeof *cables[b]);
}

/* build makes the fabric; a switch has its own LID and those of hosts on ports behind the cables. */
static void build(void)
{
	map = (struct map){.nodes = nodes, .count = 1 + next(SWITCHES), .owners = owners};
	lids = 1;
	for (uint32_t i = 0; i < map.count; i++) {
		nodes[i] = (struct node){.guid = 0x100 + 2 * i, .cables = cables[i], .hosts = next(5)};
		for (uint32_t h = 0; h <= nodes[i].hosts && lids + 4 < LIDS; h++) {
			const unsigned n = 1u << next(3);
			lids += next(2);
			owners[map.owned++] = (struct owner){.node = i, .lid = (uint16_t)lids, .lids = (uint16_t)n, .port = (uint8_t)(h ? EXITS + h : 0)};
			lids += n;
		}
	}
	for (unsigned n = next(80); n > 0; n--) {
		const unsigned a = next(map.count), b = next(map.count);
		join(a, b, next(3));
	}
}

/* hold makes tables of any entries, for switches that there are and others. */
static void hold(struct tables *t)
{
	for (unsigned n = next(SWITCHES + 2); n > 0; n--) {
		struct table *s = forsosm_add_(t, 0x100 + next(2 * SWITCHES));
		const unsigned blocks = next(5), port = next(256);
		require(s && (blocks == 0 || forsosm_reach_(s, blocks - 1)));
		for (uint32_t lid = 0; lid < s->blocks * BLOCK; lid++)
			s->entries[lid] = (unsigned char)(port == 0 ? next(256) : port < 128 ? 1 + lid % port : NO_PATH);
	}
}

static const struct cable *by(uint32_t node, uint8_t port)
{
	for (uint32_t c = 0; c < nodes[node].count; c++)
		if (cables[node][c].port == port)
			return &cables[node][c];
	return NULL;
}

/* joined marks the switches that cables join to one. */
static void joined(uint32_t to, bool *is)
{
	memset(is, 0, SWITCHES * sizeof *is);
	is[to] = true;
	for (uint32_t round = 0; round < map.count; round++)
		for (uint32_t i = 0; i < map.count; i++)
			for (uint32_t c = 0; c < nodes[i].count && is[i]; c++)
				is[cables[i][c].to] = true;
}

enum { NUMBERS = EXITS + 1 }; /* of ports that a cable may be at */

/* Channels are cables in one direction, by the switch and port that send. */
static struct { bool waits[NUMBERS]; uint32_t to; enum { UNSEEN, OPEN, DONE } state; } channels[SWITCHES][NUMBERS];

/* no_ring follows the channels that one waits for: those that its packets leave the next switch by. */
static void no_ring(uint32_t at, unsigned port)
{
	const uint32_t to = channels[at][port].to;
	channels[at][port].state = OPEN;
	for (unsigned n = 1; n < NUMBERS; n++)
		if (channels[at][port].waits[n]) {
			require(channels[to][n].state != OPEN);
			if (channels[to][n].state == UNSEEN)
				no_ring(to, n);
		}
	channels[at][port].state = DONE;
}

/* walk follows the entries for a LID from a switch. */
static void walk(uint32_t at, const struct owner *o, uint32_t lid)
{
	uint32_t steps = 0;
	for (bool *waits = NULL; at != o->node; steps++) {
		const struct cable *c = by(at, nodes[at].out[lid]);
		require(c && steps < map.count);
		if (waits)
			waits[c->port] = true;
		waits = channels[at][c->port].waits;
		channels[at][c->port].to = c->to;
		at = c->to;
	}
	require(nodes[at].out[lid] == o->port);
}

/* mend has tables made, and walks them. */
static void mend(const struct tables *held, const struct tables *wish)
{
	bool here[SWITCHES];
	for (uint32_t i = 0; i < map.count; i++) {
		nodes[i].out = malloc(lids); /* exactly, so that what is beyond is seen */
		require(nodes[i].out != NULL);
		memset(nodes[i].out, NO_PATH, lids);
	}
	require(forsosm_mend_(&map, held, wish) >= 0);
	memset(channels, 0, sizeof channels);
	for (uint32_t o = 0; o < map.owned; o++) {
		joined(owners[o].node, here);
		for (uint32_t lid = owners[o].lid; lid < (uint32_t)owners[o].lid + owners[o].lids; lid++)
			for (uint32_t i = 0; i < map.count; i++)
				if (here[i])
					walk(i, &owners[o], lid);
				else
					require(nodes[i].out[lid] == NO_PATH);
	}
	for (uint32_t i = 0; i < map.count; i++)
		for (unsigned p = 1; p < NUMBERS; p++)
			if (channels[i][p].state == UNSEEN)
				no_ring(i, p);
	for (uint32_t i = 0; i < map.count; i++)
		free(nodes[i].out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tables held = {0}, wish = {0};
	in = data;
	in_end = data + size;
	build();
	mend(&held, &wish);
	for (int round = 0; round < 3; round++) {
		forsosm_drop_(&held);
		hold(&held);
		require(forsosm_wish_(&map, &held, &wish));
		mend(&held, &wish);
		for (unsigned n = next(6); n > 0; n--) {
			const unsigned a = next(map.count);
			lose(a, next(EXITS));
		}
		mend(&held, &wish);
	}
	forsosm_drop_(&held);
	forsosm_drop_(&wish);
	return 0;
}
