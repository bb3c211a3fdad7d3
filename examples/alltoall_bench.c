/*
 * alltoall_bench: how long an all-to-all takes. Compares
 *
 *	MPI's own      PMPI_Alltoall: what the MPI library chooses
 *	MPI_Alltoall   what a program gets: where libforsmpi is preloaded, the way that is
 *	               fastest, or by the phase table with FORS_WAY=plan
 *	linear shift   MPI_Sendrecv: in step i to rank + i and from rank - i
 *
 *	mpicc -O2 -o alltoall_bench alltoall_bench.c
 *	mpirun -x LD_PRELOAD=libforsmpi.so -x FORS_WAY=plan ./alltoall_bench [-n rounds] [bytes ...]
 *
 * For each block size it prints the median over the rounds; a round takes as long as
 * its slowest rank. The three take turns, so that what else runs disturbs them alike.
 * Every byte that arrives is checked, after the time was taken.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAYS = 3, WARM_UP = 2 };
static const char *const names[WAYS] = {"MPI's own", "MPI_Alltoall", "linear shift"};

static int rank, size;
static long wrong; /* bytes that are not what was sent */

static void linear_shift(const char *send, char *recv, int bytes)
{
	for (int i = 0; i < size; i++) {
		const int to = (rank + i) % size, from = (rank - i + size) % size;
		MPI_Sendrecv(send + (size_t)to * bytes, bytes, MPI_BYTE, to, 0, recv + (size_t)from * bytes, bytes, MPI_BYTE, from, 0,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

/* mark is what each byte of a block has, which is another for each pair and round. */
static char mark(int from, int to, int round)
{
	return (char)(from * 31 + to * 7 + round);
}

/* exchange does one exchange and returns the seconds that its slowest rank took. */
static double exchange(int way, int round, char *send, char *recv, int bytes)
{
	for (int r = 0; r < size; r++) {
		memset(send + (size_t)r * bytes, mark(rank, r, round), (size_t)bytes);
		memset(recv + (size_t)r * bytes, ~mark(r, rank, round), (size_t)bytes);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double took = -MPI_Wtime(), longest;
	switch (way) {
	case 0: PMPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD); break;
	case 1: MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD); break;
	case 2: linear_shift(send, recv, bytes); break;
	}
	took += MPI_Wtime();
	for (int r = 0; r < size; r++)
		for (int i = 0; i < bytes; i++)
			wrong += recv[(size_t)r * bytes + i] != mark(r, rank, round);
	MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return longest;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* measure prints the line of a block size. */
static void measure(int bytes, int rounds)
{
	char *send = malloc((size_t)size * bytes), *recv = malloc((size_t)size * bytes);
	double *took = malloc(sizeof *took * WAYS * (size_t)rounds);
	if (!send || !recv || !took)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = -WARM_UP; i < rounds; i++)
		for (int way = 0; way < WAYS; way++) {
			const double t = exchange(way, WAYS * i + way, send, recv, bytes);
			if (i >= 0)
				took[way * rounds + i] = t;
		}
	if (rank == 0)
		printf("%10d", bytes);
	for (int way = 0; way < WAYS && rank == 0; way++) {
		qsort(took + way * rounds, (size_t)rounds, sizeof *took, ascending);
		const double median = took[way * rounds + rounds / 2];
		printf("  %11.1f us %9.1f MB/s", 1e6 * median, 1e-6 * bytes * (size - 1) / median);
	}
	if (rank == 0) {
		printf("\n");
		fflush(stdout);
	}
	free(send);
	free(recv);
	free(took);
}

int main(int argc, char **argv)
{
	static const int usual[] = {8, 256, 4096, 65536};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int rounds = 20, option;
	while ((option = getopt(argc, argv, "n:")) == 'n')
		rounds = atoi(optarg);
	if (option != -1 || rounds < 1) {
		if (rank == 0)
			fprintf(stderr, "usage: alltoall_bench [-n rounds] [bytes ...]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (rank == 0) {
		printf("%d ranks, %d rounds; a rank sends so much to others\n%10s", size, rounds, "bytes");
		for (int way = 0; way < WAYS; way++)
			printf("  %28s", names[way]);
		printf("\n");
	}
	if (optind == argc)
		for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
			measure(usual[i], rounds);
	for (int i = optind; i < argc; i++)
		measure(atoi(argv[i]), rounds);
	long all = 0;
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong bytes: %ld\n", all);
	MPI_Finalize();
	return all != 0;
}
