/*
 * queue.c: a forsd that greets and then takes nothing. What waits for it is
 * bounded, and asking it for tables fails at once.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

static void say(void *context, bool trouble, const char *text) { (void)context, (void)trouble, (void)text; }
static void resweep(void *context, int how) { (void)context, (void)how; }
static enum state state_of(void *context) { (void)context; return MASTER; }

int main(void)
{
	static const struct hooks hooks = {say, resweep, state_of};
	const struct settings settings = {.deadline = 1};
	struct link l;
	assert(forsosm_link_init_(&l, &settings, &hooks, NULL) == 0);
	forsosm_send_state_(&l, MASTER);
	struct buffer fabric = {0};
	forsosm_put64_(&fabric, 1);
	forsosm_send_fabric_(&l, &fabric, UP);
	assert(l.out.length == 0 && !forsosm_ask_(&l, 100)); /* nobody is there */

	struct buffer welcome = {0};
	forsosm_put_message_(&welcome, WELCOME, MAGIC "\x02\0\0\0", 12);
	assert(!forsosm_receive_(&l, welcome.data, welcome.length));
	forsosm_free_(&welcome);
	assert(l.ready && l.told == 1 && forsosm_ask_(&l, 100));

	unsigned char *body = calloc(1, 1 << 20);
	assert(body);
	for (int i = 0; i < 100; i++)
		forsosm_send_(&l, TRAP, body, 1 << 20);
	free(body);
	assert(l.broken && l.out.length <= 18 << 20);
	const size_t length = l.out.length;
	assert(!forsosm_ask_(&l, 100) && l.out.length == length);
	forsosm_link_stop_(&l, false);
	return 0;
}
