/*
 * threads N: four threads of each rank exchange at once, each on a communicator of
 * its own, N times, under MPI_THREAD_MULTIPLE. Prints how many blocks were wrong.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, LENGTH = 300 };
static int rank, size, rounds;

struct work {
	MPI_Comm comm;
	int number, wrong;
};

static void *exchange(void *argument)
{
	struct work *w = argument;
	int *out = malloc(sizeof(int) * LENGTH * (size_t)size), *in = malloc(sizeof(int) * LENGTH * (size_t)size);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < LENGTH * size; i++) {
			out[i] = ((round * THREADS + w->number) * size + rank) * size + i / LENGTH;
			in[i] = -1;
		}
		MPI_Alltoall(out, LENGTH, MPI_INT, in, LENGTH, MPI_INT, w->comm);
		for (int i = 0; i < LENGTH * size; i++)
			w->wrong += in[i] != ((round * THREADS + w->number) * size + i / LENGTH) * size + rank;
	}
	free(out);
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	struct work work[THREADS] = {0};
	pthread_t threads[THREADS];
	int level, wrong = 0, sum;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	rounds = argc > 1 ? atoi(argv[1]) : 10;
	if (level != MPI_THREAD_MULTIPLE)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (int i = 0; i < THREADS; i++) {
		work[i].number = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &work[i].comm);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, exchange, &work[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		wrong += work[i].wrong;
		MPI_Comm_free(&work[i].comm);
	}
	MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong: %d\n", sum);
	MPI_Finalize();
	return 0;
}
