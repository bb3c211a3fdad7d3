/*
 * settle.c: how long the start of a sweep waits for traps. The machine may be
 * busy, so only what is too short is told from what is right, and what has no end.
 */
#include <assert.h>
#include <time.h>
#include <unistd.h>

#include "../src/internal.h"

enum { QUIET = 20 }; /* ms */

static void say(void *context, bool trouble, const char *text) { (void)context, (void)trouble, (void)text; }
static void resweep(void *context, int how) { (void)context, (void)how; }
static enum state state_of(void *context) { (void)context; return MASTER; }

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* waited is how long it takes to settle, in ns. */
static int64_t waited(struct link *l)
{
	const int64_t start = now();
	forsosm_settle_(l);
	return now() - start;
}

int main(void)
{
	static const struct hooks hooks = {say, resweep, state_of};
	const struct settings settings = {.settle = QUIET};
	const int64_t quiet = QUIET * 1000000, hour = INT64_C(3600) * 1000000000;
	struct link l;
	alarm(60); /* for what has no end */
	assert(forsosm_link_init_(&l, &settings, &hooks, NULL) == 0);
	assert(waited(&l) >= quiet); /* the trap may be told of any moment */
	const int64_t before = now();
	forsosm_trapped_(&l);
	assert(l.trapped >= before && l.trapped <= now());
	l.trapped = now() + 2 * quiet; /* another one comes meanwhile */
	const int64_t last = l.trapped;
	forsosm_settle_(&l);
	assert(now() >= last + quiet);
	l.trapped = now() + hour; /* and another one, and so on */
	assert(waited(&l) >= SETTLE * quiet && now() < l.trapped);
	l.settings.settle = 0;
	assert(waited(&l) < hour);
	forsosm_link_stop_(&l, false);
	return 0;
}
