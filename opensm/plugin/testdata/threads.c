/*
 * threads.c: what OpenSM's threads do, all at once, against the forsd at the
 * socket that is named: one sweeps, two report traps, one changes the manager's
 * state. It prints how many sweeps got tables, and ends after as many as asked
 * for. A checker of threads has built it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../src/internal.h"

static struct link the_link;
static _Atomic int sweeping = 1, said, state = MASTER;

static void say(void *context, bool trouble, const char *text)
{
	(void)context, (void)trouble;
	said += text[0] != 0;
}

static void resweep(void *context, int how) { (void)context, (void)how; }

static enum state state_of(void *context)
{
	(void)context;
	return (enum state)state;
}

static void *traps(void *context)
{
	(void)context;
	const unsigned char body[16] = {128};
	while (sweeping) {
		forsosm_trapped_(&the_link);
		forsosm_send_(&the_link, TRAP, body, sizeof body);
		usleep(200);
	}
	return NULL;
}

static void *states(void *context)
{
	(void)context;
	while (sweeping) {
		usleep(3000);
		state = state == MASTER ? DISCOVERING : MASTER;
		forsosm_send_state_(&the_link, state_of(NULL));
	}
	return NULL;
}

/* fabric is one node without ports, whose name changes. */
static struct buffer fabric(unsigned sweep)
{
	struct buffer b = {0};
	char name[16];
	snprintf(name, sizeof name, "%u", sweep / 3);
	forsosm_put64_(&b, 0);
	forsosm_put32_(&b, 1);
	forsosm_put64_(&b, 1);
	forsosm_put64_(&b, 1);
	forsosm_put8_(&b, 1);
	forsosm_put8_(&b, 1);
	forsosm_put16_(&b, 0);
	forsosm_put64_(&b, 0); /* vendor, device */
	forsosm_put_text_(&b, name);
	return b;
}

/* sweep goes through one; true where there were tables. */
static bool sweep(unsigned number)
{
	if (number % 30 == 0)
		forsosm_settle_(&the_link); /* traps never end, and it does */
	forsosm_send_(&the_link, SWEEP, NULL, 0);
	struct buffer b = fabric(number);
	forsosm_send_fabric_(&the_link, &b, DISCOVERED);
	b = fabric(number + 1);
	forsosm_send_fabric_(&the_link, &b, REQUEST);
	bool got = false;
	if (forsosm_ask_(&the_link, 100)) {
		const enum result result = forsosm_await_(&the_link);
		got = result == INSTALLED;
		if (got) {
			got = forsosm_find_(&the_link.tables, 1) != NULL;
			pthread_mutex_unlock(&the_link.lock);
		}
		forsosm_conclude_(&the_link, result, "");
	}
	b = fabric(number + 1);
	forsosm_send_fabric_(&the_link, &b, UP);
	return got;
}

int main(int argc, char **argv)
{
	static const struct hooks hooks = {say, resweep, state_of};
	struct settings settings = {.address = {.sun_family = AF_UNIX}, .deadline = 2000, .settle = 10};
	if (argc != 3 || strlen(argv[1]) >= sizeof settings.address.sun_path)
		return 2;
	strcpy(settings.address.sun_path, argv[1]);
	const int want = atoi(argv[2]);
	if (forsosm_link_init_(&the_link, &settings, &hooks, NULL) || forsosm_link_start_(&the_link))
		return 2;
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i < 2 ? traps : states, NULL);
	int got = 0;
	for (unsigned n = 0; got < want; n++) {
		if (sweep(n))
			got++;
		else
			usleep(1000); /* forsd is away */
	}
	sweeping = 0;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	forsosm_link_stop_(&the_link, true);
	printf("%d sweeps, %d lines\n", got, said);
	return 0;
}
