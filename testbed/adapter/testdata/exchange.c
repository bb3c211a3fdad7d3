/*
 * exchange: how long an all-to-all takes, of BYTES a pair of ranks, median of ROUNDS:
 * by MPI_Alltoall, by MPI_Ialltoall with a wait, or as a linear shift in which all wait
 * for each other after each phase. An exchange of a 16th of the bytes goes before them, in which the ranks connect.
 * Every byte that arrives is checked.
 *
 *	exchange alltoall|ialltoall|shift BYTES ROUNDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, bytes;
static char *out, *in;

static void fill(int round)
{
	for (int to = 0; to < size; to++)
		memset(out + (size_t)to * bytes, rank * 31 + to * 7 + round, (size_t)bytes);
	memset(in, 0xee, (size_t)size * bytes);
}

static long check(int round)
{
	long wrong = 0;
	for (int from = 0; from < size; from++) {
		const char want = (char)(from * 31 + rank * 7 + round);
		const char *b = in + (size_t)from * bytes;
		for (int i = 0; i < bytes; i++)
			wrong += b[i] != want;
	}
	return wrong;
}

static void shift(void)
{
	memcpy(in + (size_t)rank * bytes, out + (size_t)rank * bytes, (size_t)bytes);
	for (int p = 1; p < size; p++) {
		const int to = (rank + p) % size, from = (rank - p + size) % size;
		MPI_Sendrecv(out + (size_t)to * bytes, bytes, MPI_BYTE, to, 0, in + (size_t)from * bytes, bytes, MPI_BYTE, from, 0,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const char *way = argc > 1 ? argv[1] : "alltoall";
	const int whole = argc > 2 ? atoi(argv[2]) : 65536;
	const int rounds = argc > 3 ? atoi(argv[3]) : 3;
	out = malloc((size_t)size * whole);
	in = malloc((size_t)size * whole);
	double *took = calloc((size_t)rounds, sizeof *took);
	if (!out || !in || !took)
		MPI_Abort(MPI_COMM_WORLD, 1);
	long wrong = 0, all = 0;
	for (int r = -1; r < rounds; r++) {
		bytes = r < 0 ? whole / 16 : whole;
		fill(r);
		MPI_Barrier(MPI_COMM_WORLD);
		double t = -MPI_Wtime(), longest;
		if (!strcmp(way, "shift"))
			shift();
		else if (!strcmp(way, "ialltoall")) {
			MPI_Request request;
			MPI_Ialltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		} else
			MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
		t += MPI_Wtime();
		MPI_Allreduce(&t, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		wrong += check(r);
		if (r >= 0)
			took[r] = longest;
	}
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		qsort(took, (size_t)rounds, sizeof *took, ascending);
		printf("%s: %.6f s, %.0f bytes/s\n", way, took[rounds / 2], (double)bytes * (size - 1) / took[rounds / 2]);
	}
	if (rank == 0)
		printf("wrong bytes: %ld\n", all);
	MPI_Finalize();
	return all != 0;
}
