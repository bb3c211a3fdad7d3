/*
 * log.c: the output of a process. With FORS_LOG=directory each process writes every
 * exchange that it begins and every transfer of it into rank-N.csv there, N being
 * its rank in MPI_COMM_WORLD; docs/mpi.md has the columns.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static bool opened;

static int world_rank(void)
{
	int rank = 0;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return rank;
}

void fm_say(const char *format, ...)
{
	char line[2 * TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "libforsmpi: %s\n", line);
}

/* warned has the reasons of which a process has heard, from itself or from a rank 0. */
static bool warned[REASONS];

/*
 * A missing table concerns the whole job: rank 0 of MPI_COMM_WORLD reports it when it
 * hears of it. Reasons that concern a communicator's servers are reported by its rank 0.
 */
void fm_warn(const struct comm *c, enum reason reason, const char *text)
{
	pthread_mutex_lock(&lock);
	const bool mine = reason == NO_TABLE && !fm_settings()->verbose ? world_rank() == 0 : c->rank == 0;
	const bool say = mine && (!warned[reason] || fm_settings()->verbose);
	warned[reason] = true;
	pthread_mutex_unlock(&lock);
	if (say)
		fm_say("%s; exchanges go without a plan, by MPI's own algorithms", text);
}

/* begin opens the file; the lock is held. */
static void begin(const char *directory)
{
	char path[4096];
	opened = true;
	snprintf(path, sizeof path, "%s/rank-%d.csv", directory, world_rank());
	file = fopen(path, "we");
	if (file)
		fprintf(file, "comm,exchange,epoch,phase,what,src_rank,dst_rank,src_guid,dst_guid,lane,dlid,bytes,time_ns,step\n");
	else
		fm_say("FORS_LOG: %s cannot be written", path);
}

static uint64_t guid(const struct comm *c, int rank)
{
	return rank >= 0 && c->plan.guid ? c->plan.guid[c->plan.group[rank]] : 0;
}

void fm_log(struct comm *c, const char *what, const struct transfer *t)
{
	static const struct transfer none = {.phase = -1, .step = -1, .src = -1, .dst = -1, .lane = -1};
	struct timespec now;
	const char *directory = fm_settings()->log;
	if (!directory)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&lock);
	if (!opened)
		begin(directory);
	if (file) {
		const struct transfer *x = t ? t : &none;
		fprintf(file, "%" PRIx64 ",%" PRIu64 ",%" PRIu64 ",%d,%s,%d,%d,0x%016" PRIx64 ",0x%016" PRIx64 ",%d,%d,%lld,%lld,%d\n",
			c->id, c->exchange, c->plan.head.epoch, x->phase, what, x->src, x->dst, guid(c, x->src), guid(c, x->dst),
			x->lane, x->dlid, x->bytes, (long long)now.tv_sec * 1000000000 + now.tv_nsec, x->step);
		if (!t)
			fflush(file);
	}
	pthread_mutex_unlock(&lock);
}

void fm_log_close(void)
{
	pthread_mutex_lock(&lock);
	if (file)
		fclose(file);
	file = NULL;
	pthread_mutex_unlock(&lock);
}
