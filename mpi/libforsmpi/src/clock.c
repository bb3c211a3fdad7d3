/*
 * clock.c: time that all ranks of a communicator agree on.
 *
 * Each rank compares its clock with rank 0's by messages to and fro.
 */
#include <time.h>

#include "shim.h"

enum { TRIPS = 4 };

double fm_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* answer tells a rank the time of rank 0 whenever it asks. */
static int answer(const struct comm *c, int rank)
{
	int failed = MPI_SUCCESS;
	for (int i = 0; i < TRIPS && !failed; i++) {
		failed = PMPI_Recv(NULL, 0, MPI_BYTE, rank, c->tag + 1, c->channel->comm, MPI_STATUS_IGNORE);
		const double now = fm_now();
		if (!failed)
			failed = PMPI_Send(&now, 1, MPI_DOUBLE, rank, c->tag + 1, c->channel->comm);
	}
	return failed;
}

int fm_clock(struct comm *c)
{
	int failed = MPI_SUCCESS;
	for (int r = 1; c->rank == 0 && r < c->size && !failed; r++)
		failed = answer(c, r);
	struct fors_clock clock = {0};
	for (int i = 0; c->rank > 0 && i < TRIPS && !failed; i++) {
		double theirs = 0;
		const double asked = fm_now();
		failed = PMPI_Send(NULL, 0, MPI_BYTE, 0, c->tag + 1, c->channel->comm);
		if (!failed)
			failed = PMPI_Recv(&theirs, 1, MPI_DOUBLE, 0, c->tag + 1, c->channel->comm, MPI_STATUS_IGNORE);
		fors_clock_add(&clock, asked, theirs, fm_now());
	}
	c->ahead = clock.ahead;
	return failed;
}

int fm_start(struct comm *c, double period, double *start)
{
	*start = fm_now() + 2e-5 + period / 8; /* until all have been told */
	const int failed = PMPI_Bcast(start, 1, MPI_DOUBLE, 0, c->user);
	*start += c->ahead;
	return failed;
}
