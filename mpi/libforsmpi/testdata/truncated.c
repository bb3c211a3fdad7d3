/*
 * truncated: exchanges by MPI_Alltoallv, with an operation of the program's own after each.
 * In some of them one rank expects less than it is sent, and gets an error. Prints how many
 * errors ranks got, and how many operations went wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { EACH = 1000, ROUNDS = 16 };

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	int *send = calloc((size_t)size * EACH, sizeof *send), *receive = calloc((size_t)size * EACH, sizeof *receive);
	int sends[size], receives[size], places[size], mine[2] = {0, 0}, all[2];
	for (int round = 0; round < ROUNDS; round++) {
		for (int r = 0; r < size; r++)
			sends[r] = receives[r] = EACH, places[r] = r * EACH;
		if (round % 3 == 1 && rank == 1)
			receives[2] = EACH / 2;
		mine[0] += MPI_Alltoallv(send, sends, places, MPI_INT, receive, receives, places, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS;
		const int one = 1;
		int sum = 0;
		mine[1] += MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS || sum != size;
	}
	MPI_Reduce(mine, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("errors: %d\nwrong: %d\n", all[0], all[1]);
	MPI_Finalize();
	return 0;
}
