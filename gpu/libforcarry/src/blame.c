/*
 * Which NICs are dead: those whose ports have failed, as their ranks say. If a connection has failed and
 * neither port has, as when cables or switches between them die, all ranks try all their connections,
 * and take NICs for dead that explain the failures.
 */
#include "internal.h"

static bool known_dead(const struct forcarry *c, int32_t rank) { return bit(c->known, rank); }

/* Reports whether the connection between two ranks has failed, and neither NIC is known to be dead. */
static bool unexplained(const struct forcarry *c, int32_t a, int32_t b)
{
	return a / c->o.gpus != b / c->o.gpus && !known_dead(c, a) && !known_dead(c, b) && (has_failed(c, a, b) || has_failed(c, b, a));
}

/* The number of such connections of a rank. */
static int32_t degree(const struct forcarry *c, int32_t rank)
{
	int32_t sum = 0;
	for (int32_t r = 0; r < c->ranks; r++)
		sum += unexplained(c, rank, r);
	return sum;
}

static int32_t well_in(const struct forcarry *c, int32_t server)
{
	int32_t sum = 0;
	for (int32_t k = 0; k < c->o.gpus; k++)
		sum += !known_dead(c, server * c->o.gpus + k);
	return sum;
}

/* Takes NICs for dead until all failures are explained: first that with the most failures and, of equals,
 * one of the server with more others. */
static void explain(struct forcarry *c)
{
	for (;;) {
		int32_t worst = -1, most = 0;
		for (int32_t r = 0; r < c->ranks; r++) {
			int32_t failures = degree(c, r);
			if (failures > most || (failures == most && failures > 0 && well_in(c, r / c->o.gpus) > well_in(c, worst / c->o.gpus))) {
				worst = r;
				most = failures;
			}
		}
		if (worst < 0)
			return;
		suspect(c, worst);
		c->known[worst / 64] |= (uint64_t)1 << worst % 64;
	}
}

/* Finds out why connections have failed: all ranks try all theirs, and when they have, agree on what
 * explains the failures. A NIC that reaches no other server takes itself for dead. */
static void examine(struct forcarry *c, uint64_t dead)
{
	struct entry *own = entry_of(c, c->o.rank);
	bool reaches = false, all = true;
	if (!c->probing && !known_dead(c, c->o.rank) && atomic_load(&own->probed) <= dead) {
		c->probing = true;
		for (int32_t r = 0; r < c->ranks; r++)
			if (r / c->o.gpus != c->server && !known_dead(c, r) && !c->peers[r].broken && !has_failed(c, c->o.rank, r))
				probe(c, r);
	}
	if (c->probing && c->probes == 0) {
		c->probing = false;
		for (int32_t r = 0; r < c->ranks; r++)
			reaches |= r / c->o.gpus != c->server && !known_dead(c, r) && !has_failed(c, c->o.rank, r);
		if (!reaches)
			suspect(c, c->o.rank);
		if (grow(&own->probed, dead + 1))
			atomic_fetch_add(&c->board->changes, 1);
	}
	for (int32_t r = 0; r < c->ranks; r++)
		all = all && (known_dead(c, r) || atomic_load(&entry_of(c, r)->probed) > dead);
	if (all)
		explain(c);
}

/* Reports whether a NIC has died without which the rank has not joined. */
bool changed(struct forcarry *c)
{
	uint64_t changes = atomic_load(&c->board->changes), dead = 0;
	if (!c->suspicious && changes == c->seen && !c->probing)
		return false;
	c->suspicious = false;
	c->seen = changes;
	bool doubt = false, more = false;
	for (int32_t w = 0; w < c->words; w++) {
		c->known[w] = c->suspects[w];
		for (int32_t r = 0; r < c->ranks; r++)
			c->known[w] |= atomic_load(&entry_of(c, r)->dead[w]);
		dead += (uint64_t)__builtin_popcountll(c->known[w]);
	}
	for (int32_t r = 0; r < c->ranks && !doubt; r++)
		doubt = degree(c, r) > 0;
	if (doubt)
		examine(c, dead);
	c->generation += doubt != c->doubt;
	c->doubt = doubt;
	if (doubt)
		route_states(c);
	for (int32_t w = 0; w < c->words; w++)
		more |= (c->known[w] & ~atomic_load(&entry_of(c, c->o.rank)->dead[w])) != 0;
	return more;
}
