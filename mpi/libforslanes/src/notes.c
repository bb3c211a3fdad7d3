/*
 * notes.c: the contents of the address vectors of queue pairs and address handles, and the
 * number of those to which a new epoch gives another lane.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "lanes.h"

struct entry {
	struct entry *next;
	const void *object;
	struct note note;
};

enum { BUCKETS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *bucket[BUCKETS];

/* at is the place of an object's entry, present or not; the lock is held. */
static struct entry **at(const void *object)
{
	struct entry **e = &bucket[((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15ULL >> 52];
	while (*e && (*e)->object != object)
		e = &(*e)->next;
	return e;
}

void fl_note(const void *object, const struct note *note)
{
	pthread_mutex_lock(&lock);
	struct entry **e = at(object);
	if (!*e && (*e = calloc(1, sizeof **e)))
		(*e)->object = object;
	if (*e)
		(*e)->note = *note;
	pthread_mutex_unlock(&lock);
}

bool fl_noted(const void *object, struct note *note)
{
	pthread_mutex_lock(&lock);
	const struct entry *e = *at(object);
	if (e)
		*note = e->note;
	pthread_mutex_unlock(&lock);
	return e != NULL;
}

bool fl_forget(const void *object, struct note *note)
{
	pthread_mutex_lock(&lock);
	struct entry **e = at(object), *gone = *e;
	if (gone) {
		*note = gone->note;
		*e = gone->next;
	}
	pthread_mutex_unlock(&lock);
	free(gone);
	return gone != NULL;
}

/* compare reports how many objects have another lane than a table has for their pairs. */
static void compare(const fors_table *t)
{
	unsigned all = 0, other = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS; i++)
		for (const struct entry *e = bucket[i]; e; e = e->next) {
			struct lane is;
			all++;
			other += !fl_lane(t, e->note.pair, &is) || is.dlid != e->note.put.dlid || is.bits != e->note.put.bits;
		}
	pthread_mutex_unlock(&lock);
	if (other > 0 || fl_verbose())
		fl_say("epoch %" PRIu64 ": %u of %u connections are not on its lanes", fors_info(t)->epoch, other, all);
}

static void *watch(void *first)
{
	fors_table *newest = first, *newer;
	for (;;) {
		nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
		if (fors_newer(newest, NULL, NULL) <= 0 || fors_refresh(newest, &newer, NULL) <= 0)
			continue;
		if (newest != first) /* which lanes are still taken from */
			fors_close(newest);
		newest = newer;
		compare(newest);
	}
	return NULL;
}

void fl_watch(fors_table *table)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	if (pthread_attr_init(&attr))
		return;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	sigfillset(&all); /* signals are the program's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_create(&thread, &attr, watch, table);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}
