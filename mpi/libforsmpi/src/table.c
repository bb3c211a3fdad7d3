/*
 * table.c: the table of this process, for the communicators that it leads. It is
 * opened when the first of them needs it, and shared by all. The lock is held
 * while waiting for forsd, and never while MPI is called.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shim.h"

/* Seconds without a request after forsd was gone, and after all had waited without an answer. */
enum { GONE = 1, IN_VAIN = 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fors_table *table;
static bool tried;
static struct fors_error why; /* the table is missing */
static bool silent;           /* because forsd did not answer in time */
static int64_t quiet_until;   /* seconds; no request before */

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* look brings the table up to date. On failure the old one stays in force. */
static void look(void)
{
	struct fors_error err;
	if (!tried) {
		tried = true;
		const int failed = (fm_settings()->pinned ? fors_open : fors_open_base)(NULL, &table, &why);
		silent = failed == FORS_ETIMEOUT;
		if (failed)
			return;
		if (fm_settings()->verbose)
			fm_say("%s: epoch %llu, a plan for %s LIDs", fors_location(table), (unsigned long long)fors_info(table)->epoch,
				fors_info(table)->base_lids ? "base" : "pinned");
		return;
	}
	if (!table || (quiet_until != 0 && now() < quiet_until))
		return;
	quiet_until = 0;
	fors_table *newer = NULL;
	int news = fors_newer(table, NULL, &err);
	int pause = GONE;
	if (news > 0) {
		news = fors_refresh(table, &newer, &err);
		pause = IN_VAIN;
	}
	if (news > 0) {
		fors_close(table);
		table = newer;
	} else if (news < 0) {
		quiet_until = now() + pause;
		if (fm_settings()->verbose)
			fm_say("epoch %llu stays: %s", (unsigned long long)fors_info(table)->epoch, err.text);
	}
}

bool fm_table_draft(uint64_t known, struct draft *d, const struct identity *who, int size)
{
	memset(d, 0, sizeof *d);
	pthread_mutex_lock(&lock);
	look();
	const uint64_t epoch = table ? fors_info(table)->epoch : 0;
	const bool other = epoch != known;
	if (other && table)
		fm_draft(d, table, who, size);
	else if (other) {
		d->head.reason = NO_TABLE;
		d->head.silent = silent;
		strncpy(d->text, why.text, TEXT - 1);
	}
	pthread_mutex_unlock(&lock);
	return other;
}

int fm_table_times(const char *json, struct fors_error *err)
{
	pthread_mutex_lock(&lock);
	const int failed = fors_measured(table, json, err);
	pthread_mutex_unlock(&lock);
	return failed;
}

void fm_table_silent(const char *text)
{
	pthread_mutex_lock(&lock);
	if (!tried) {
		tried = silent = true;
		snprintf(why.text, sizeof why.text, "%s", text);
	}
	pthread_mutex_unlock(&lock);
}

void fm_table_close(void)
{
	pthread_mutex_lock(&lock);
	fors_close(table);
	table = NULL;
	pthread_mutex_unlock(&lock);
}
