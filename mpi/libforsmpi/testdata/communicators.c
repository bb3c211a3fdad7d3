/*
 * communicators.c: many communicators at once, each with an exchange of its own.
 * "duplicates": all of the same processes in the same order; "orders": in ever other
 * orders; "threads": duplicates on which two threads exchange at the same time.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;
static int rank, size;

/* exchange sends every rank something that depends on the communicator. */
static int exchange(MPI_Comm comm, int number)
{
	int out[64], in[64], me, bad = 0;
	MPI_Comm_rank(comm, &me);
	for (int r = 0; r < size; r++)
		out[r] = number * 10000 + me * 100 + r;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
	for (int r = 0; r < size; r++)
		bad += in[r] != number * 10000 + r * 100 + me;
	return bad;
}

/* place is this rank's place in an order of all ranks that a number stands for. */
static int place(int number)
{
	int left[64], n = size;
	for (int r = 0; r < size; r++)
		left[r] = r;
	for (int at = 0; n > 0; at++) {
		const int i = number % n;
		number /= n;
		if (left[i] == rank)
			return at;
		memmove(left + i, left + i + 1, (size_t)(--n - i) * sizeof *left);
	}
	return 0;
}

struct half {
	MPI_Comm *comm;
	int from, to, wrong;
};

static void *run(void *arg)
{
	struct half *h = arg;
	for (int i = h->from; i < h->to; i++)
		h->wrong += exchange(h->comm[i], i);
	return NULL;
}

int main(int argc, char **argv)
{
	int provided, total;
	const char *mode = argv[1];
	const int n = atoi(argv[2]);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm *comm = calloc((size_t)n, sizeof *comm);
	for (int i = 0; i < n; i++)
		if (strcmp(mode, "orders") == 0)
			MPI_Comm_split(MPI_COMM_WORLD, 0, place(i), &comm[i]);
		else
			MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	if (strcmp(mode, "threads") == 0) {
		struct half a = {comm, 0, n / 2, 0}, b = {comm, n / 2, n, 0};
		pthread_t thread;
		pthread_create(&thread, NULL, run, &a);
		run(&b);
		pthread_join(thread, NULL);
		wrong += a.wrong + b.wrong;
	} else {
		struct half all = {comm, 0, n, 0};
		run(&all);
		wrong += all.wrong;
	}
	for (int i = 0; i < n; i++)
		MPI_Comm_free(&comm[n - 1 - i]);
	wrong += exchange(MPI_COMM_WORLD, 7);
	MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong: %d\n", total);
	free(comm);
	MPI_Finalize();
	return 0;
}
