/*
 * paced: an all-to-all by the table's phases and a clock, with a transport of its own, here MPI's
 * point-to-point messages. Rank r is server r of the table; a program of yours looks its server
 * up by fors_find_guid.
 *
 *	mpicc -O2 -o paced paced.c $(pkg-config --cflags --libs fors)
 *	FORSD_TABLE=http://node:7480 mpirun ./paced [-b bytes of a block] [-n exchanges]
 *
 * Rank 0 reads the table and hands it on, seeks the period of a phase, and tells it with the
 * start of each exchange. Every block is checked; the exit status is 1 if one is wrong.
 */
#include <fors.h>
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIPS = 4, DATA, ASK, TELL };

static int rank, size;

/* load gives all ranks the table. */
static fors_table *load(void)
{
	struct fors_error err = {0};
	fors_table *table = NULL;
	const void *data = NULL;
	size_t length = 0;
	if (rank == 0 && fors_open_base(NULL, &table, &err) == FORS_OK)
		data = fors_bytes(table, &length);
	uint64_t n = length;
	MPI_Bcast(&n, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (rank > 0 && n > 0)
		data = malloc(n);
	for (uint64_t at = 0; data && at < n; at += 1 << 30)
		MPI_Bcast((char *)(uintptr_t)data + at, (int)(n - at < 1 << 30 ? n - at : 1 << 30), MPI_BYTE, 0, MPI_COMM_WORLD);
	if (n == 0 || !data || (rank > 0 && fors_open_memory(data, n, &table, &err) != FORS_OK) || fors_info(table)->servers < (uint32_t)size) {
		if (rank == 0)
			fprintf(stderr, "paced: %s\n", n == 0 ? err.text : "the table has fewer servers than there are ranks");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	return table;
}

/* compare returns by how much this rank's clock is ahead of rank 0's. */
static double compare(void)
{
	struct fors_clock clock = {0};
	for (int r = 1; r < size; r++)
		for (int i = 0; i < TRIPS && (rank == 0 || rank == r); i++) {
			double now = MPI_Wtime();
			if (rank == 0) {
				MPI_Recv(NULL, 0, MPI_BYTE, r, ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				now = MPI_Wtime();
				MPI_Send(&now, 1, MPI_DOUBLE, r, TELL, MPI_COMM_WORLD);
				continue;
			}
			double theirs;
			MPI_Send(NULL, 0, MPI_BYTE, 0, ASK, MPI_COMM_WORLD);
			MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, TELL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			fors_clock_add(&clock, now, theirs, MPI_Wtime());
		}
	return clock.ahead;
}

/* exchange sends each block at the time of its phase. Receives are posted before. */
static void exchange(const fors_table *table, const char *out, char *in, int bytes, double start, double period, MPI_Request *requests)
{
	int n = 0;
	for (int s = 0; s < size; s++)
		if (s != rank)
			MPI_Irecv(in + (size_t)s * (size_t)bytes, bytes, MPI_BYTE, s, DATA, MPI_COMM_WORLD, &requests[n++]);
	for (uint32_t p = 0; p < fors_info(table)->phases; p++) {
		const int to = fors_entry(table, rank, p).send_to;
		if (to < 0 || to >= size)
			continue;
		for (int done; MPI_Wtime() < start + p * period; sched_yield())
			MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
		MPI_Isend(out + (size_t)to * (size_t)bytes, bytes, MPI_BYTE, to, DATA, MPI_COMM_WORLD, &requests[n++]);
	}
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* run makes exchanges, and returns the number of wrong blocks on all ranks. */
static long run(const fors_table *table, int bytes, int exchanges)
{
	char *out = calloc((size_t)size, (size_t)bytes), *in = calloc((size_t)size, (size_t)bytes);
	MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
	if (!out || !in || !requests)
		MPI_Abort(MPI_COMM_WORLD, 2);
	struct fors_pace pace = {0};
	double ahead = 0, compared = 0, sum = 0, plan[3]; /* of an exchange: start, period, whether clocks are compared */
	long wrong = 0, all = 0;
	for (int i = 0; i < exchanges; i++) {
		for (int d = 0; d < size; d++)
			memcpy(out + (size_t)d * (size_t)bytes, (int[]){i, rank, d}, 3 * sizeof(int));
		plan[1] = fors_pace_next(&pace, 1e-5 + bytes * 1e-9, 1);
		plan[2] = i == 0 || MPI_Wtime() > compared + .5;
		MPI_Bcast(plan, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		if (plan[2] != 0) {
			ahead = compare();
			compared = MPI_Wtime();
		}
		plan[0] = MPI_Wtime() + 1e-4;
		MPI_Bcast(plan, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		exchange(table, out, in, bytes, plan[0] + ahead, plan[1], requests);
		double took = MPI_Wtime() - plan[0] - ahead, slowest;
		MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (rank == 0) {
			fors_pace_took(&pace, slowest);
			sum += slowest;
		}
		for (int s = 0; s < size; s++)
			wrong += s != rank && memcmp(in + (size_t)s * (size_t)bytes, (int[]){i, s, rank}, 3 * sizeof(int)) != 0;
	}
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d exchanges of %u phases, %.1f µs a phase, %.1f MB/s a rank, wrong blocks: %ld\n", exchanges, (unsigned)fors_info(table)->phases,
			1e6 * pace.period, 1e-6 * (size - 1) * bytes * exchanges / sum, all);
	free(out);
	free(in);
	free(requests);
	return all;
}

int main(int argc, char **argv)
{
	int bytes = 65536, exchanges = 100;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int option; (option = getopt(argc, argv, "b:n:")) != -1;)
		*(option == 'n' ? &exchanges : &bytes) = option == '?' ? 0 : atoi(optarg);
	if (bytes < (int)(3 * sizeof(int)) || exchanges < 1 || optind != argc) {
		if (rank == 0)
			fprintf(stderr, "usage: paced [-b bytes of a block, 12 or more] [-n exchanges]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	const long wrong = run(load(), bytes, exchanges);
	MPI_Finalize();
	return wrong != 0;
}
