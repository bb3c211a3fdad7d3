/*
 * settings.c: the environment, read once.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static struct settings settings;

/* whole reads a number from 0 on; anything else is a mistake, and the value stays. */
static void whole(const char *name, const char *text, int *value)
{
	char *end;
	errno = 0;
	const long v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < 0 || v > INT_MAX)
		snprintf(settings.mistake, TEXT, "%s=%s is not understood and ignored", name, text);
	else
		*value = (int)v;
}

static const char *variable(const char *name)
{
	const char *text = getenv(name);
	return text && *text ? text : NULL;
}

static void read_settings(void)
{
	const char *text = variable("FORS_SYNC");
	settings.sync = BY_LINKS;
	if (text && !strcmp(text, "none"))
		settings.sync = 0;
	else if (text && !strcmp(text, "barrier"))
		settings.sync = 1;
	else if (text && strcmp(text, "links"))
		whole("FORS_SYNC", text, &settings.sync);
	static const char *const ways[] = {[BY_PLAN] = "plan", [AT_ONCE] = "once", [BY_MPI] = "mpi", [BY_CLOCK] = "clock", [WAYS] = "fastest"};
	settings.way = WAYS;
	if ((text = variable("FORS_WAY"))) {
		while (settings.way > 0 && strcmp(text, ways[settings.way]) != 0)
			settings.way--;
		if (strcmp(text, ways[settings.way]) != 0) {
			settings.way = WAYS;
			snprintf(settings.mistake, TEXT, "FORS_WAY=%s is not understood and ignored: want fastest, plan, clock, once or mpi", text);
		}
	}
	if ((text = variable("FORS_LIDS"))) {
		settings.pinned = strcmp(text, "pinned") == 0;
		if (!settings.pinned && strcmp(text, "base") != 0)
			snprintf(settings.mistake, TEXT, "FORS_LIDS=%s is not understood and ignored: want base or pinned", text);
	}
	int verbose = 0;
	if ((text = variable("FORS_VERBOSE")))
		whole("FORS_VERBOSE", text, &verbose);
	settings.verbose = verbose > 0;
	settings.log = variable("FORS_LOG");
	if ((text = variable("FORS_MEASURE")))
		whole("FORS_MEASURE", text, &settings.measure);
}

const struct settings *fm_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_settings);
	return &settings;
}
