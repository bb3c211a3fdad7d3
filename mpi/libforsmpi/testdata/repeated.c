/*
 * repeated N SIZE…: for each size, N times MPI_Alltoall of blocks of so many bytes, and N times
 * MPI_Alltoallv of blocks up to that. Prints how many blocks arrived wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

/* length is that of the block from one rank to another by MPI_Alltoallv. */
static int length(int from, int to, int most) { return (from * 7 + to * 13) % 5 * most / 4; }

static char letter(int from, int to, int n) { return (char)(from * 31 + to * 17 + n); }

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long wrong = 0, all;
	for (int a = 2; a < argc; a++) {
		const int most = atoi(argv[a]);
		char *send = malloc((size_t)size * (size_t)most), *receive = malloc((size_t)size * (size_t)most);
		int sends[size], receives[size], places[size];
		for (int n = 0; n < 2 * atoi(argv[1]); n++) {
			for (int r = 0; r < size; r++) {
				sends[r] = n % 2 ? length(rank, r, most) : most;
				receives[r] = n % 2 ? length(r, rank, most) : most;
				places[r] = r * most;
				memset(send + places[r], letter(rank, r, n), (size_t)most);
				memset(receive + places[r], 0, (size_t)most);
			}
			if (n % 2)
				MPI_Alltoallv(send, sends, places, MPI_BYTE, receive, receives, places, MPI_BYTE, MPI_COMM_WORLD);
			else
				MPI_Alltoall(send, most, MPI_BYTE, receive, most, MPI_BYTE, MPI_COMM_WORLD);
			for (int r = 0; r < size; r++)
				for (int i = 0; i < most; i += 1 + most / 64)
					wrong += receive[places[r] + i] != (i < receives[r] ? letter(r, rank, n) : 0);
		}
		free(send);
		free(receive);
	}
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong: %ld\n", all);
	MPI_Finalize();
	return 0;
}
