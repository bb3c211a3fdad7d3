/*
 * stream.c: a fuzz target. Whatever bytes come from forsd, in whatever pieces,
 * the reader stays within them and keeps its tables in order. The first byte says
 * how long the pieces are.
 */
#include <stdlib.h>

#include "../src/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static void say(void *context, bool trouble, const char *text)
{
	(void)context, (void)trouble;
	require(text && text[0]);
}

static void resweep(void *context, int how) { (void)context, (void)how; }
static enum state state_of(void *context) { (void)context; return MASTER; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hooks hooks = {say, resweep, state_of};
	const struct settings settings = {.deadline = 1};
	struct link l;
	if (size == 0 || forsosm_link_init_(&l, &settings, &hooks, NULL) != 0)
		return 0;
	const size_t piece = data[0] ? data[0] * (size_t)data[0] : size;
	struct buffer fabric = {0};
	forsosm_put64_(&fabric, 1);
	forsosm_put32_(&fabric, 0);
	forsosm_send_state_(&l, MASTER);
	forsosm_send_fabric_(&l, &fabric, UP);
	const char *what = NULL;
	for (size_t at = 1; at < size && !what; at += piece) {
		what = forsosm_receive_(&l, data + at, piece < size - at ? piece : size - at);
		if (l.ready && !l.request)
			require(forsosm_ask_(&l, MAX_LID));
	}
	if (what)
		forsosm_complain_(&l, UNREADABLE, what);
	if (l.request) {
		l.due = 0; /* long past, so that it does not wait */
		const enum result r = forsosm_await_(&l);
		if (r == INSTALLED)
			pthread_mutex_unlock(&l.lock);
		require(r == INSTALLED || r == LATE || r == DECLINED);
		forsosm_conclude_(&l, r, "");
	}
	for (uint32_t i = 0; i < l.tables.count; i++) {
		const struct table *t = &l.tables.switches[i];
		require(i == 0 || t[-1].guid < t->guid);
		require(forsosm_find_(&l.tables, t->guid) == t);
		require(t->blocks <= MAX_LID / BLOCK + 1);
	}
	require(l.tables.count == 0 || l.tables.sum != 0);
	forsosm_link_stop_(&l, false);
	return 0;
}
