/*
 * lives: exchanges at the edges of a communicator's life. The program's own messages
 * are under way meanwhile, with the tag that anybody might choose; a communicator is
 * freed while one of them is pending, or disconnected; another is duplicated, whose
 * attribute counts its copies; some are left for MPI_Finalize. With "spawn" it
 * exchanges with processes that it starts. One exchange has addresses of memory in
 * its datatypes, and MPI_BOTTOM for its buffers. Prints how many blocks were wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, LENGTH = 5 };
static int wrong, copies;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm, (void)key, (void)extra;
	*(void **)out = in;
	*flag = 1;
	copies++;
	return MPI_SUCCESS;
}

/* exchange exchanges numbers on a communicator. */
static void exchange(MPI_Comm comm, int salt)
{
	int rank, size;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	int *out = malloc(sizeof(int) * LENGTH * (size_t)size), *in = calloc(LENGTH * (size_t)size, sizeof(int));
	for (int i = 0; i < LENGTH * size; i++)
		out[i] = salt + 1000 * rank + i;
	wrong += MPI_Alltoall(out, LENGTH, MPI_INT, in, LENGTH, MPI_INT, comm) != MPI_SUCCESS;
	for (int i = 0; i < LENGTH * size; i++)
		wrong += in[i] != salt + 1000 * (i / LENGTH) + LENGTH * rank + i % LENGTH;
	free(out);
	free(in);
}

/* busy exchanges while messages of the program's own are under way on the communicator. */
static void busy(MPI_Comm comm)
{
	int rank, size, got = -1, mine;
	MPI_Request requests[2];
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	mine = rank;
	MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
	exchange(comm, 7);
	MPI_Isend(&mine, 1, MPI_INT, (rank + 1) % size, TAG, comm, &requests[1]);
	exchange(comm, 8);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	wrong += got != (rank + size - 1) % size;
}

/* parting exchanges, and frees the communicator before a message on it has come. */
static void parting(void)
{
	MPI_Comm comm;
	int rank, size, got = -1, mine;
	MPI_Request request;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	mine = rank;
	MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, TAG, comm, &request);
	exchange(comm, 9);
	MPI_Send(&mine, 1, MPI_INT, (rank + size - 1) % size, TAG, comm);
	MPI_Comm_free(&comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	wrong += got != (rank + 1) % size;
}

/* copied exchanges on a communicator with an attribute, and on its duplicates. */
static void copied(void)
{
	MPI_Comm comm, twin;
	int key;
	MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_attr(comm, key, &key);
	exchange(comm, 10);
	wrong += copies != 0;
	MPI_Comm_dup(comm, &twin);
	wrong += copies != 1;
	exchange(twin, 11);
	exchange(comm, 12);
	wrong += copies != 1;
	MPI_Comm_disconnect(&comm);
	exchange(twin, 13);
	MPI_Comm_free(&twin);
	MPI_Comm_free_keyval(&key);
}

/* bottom exchanges by datatypes that are addresses of memory. */
static void bottom(MPI_Comm comm)
{
	int rank, size;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	const size_t n = (size_t)size;
	int *out = malloc(sizeof(int) * n), *in = calloc(n, sizeof(int)), *ones = calloc(2 * n, sizeof(int)), *zeros = ones + n;
	MPI_Datatype *types = malloc(2 * n * sizeof *types);
	for (int r = 0; r < size; r++) {
		const int one = 1;
		MPI_Aint from, to;
		out[size - 1 - r] = 1000 * rank + r;
		ones[r] = 1;
		MPI_Get_address(&out[size - 1 - r], &from);
		MPI_Get_address(&in[r], &to);
		MPI_Type_create_hindexed(1, &one, &from, MPI_INT, &types[r]);
		MPI_Type_create_hindexed(1, &one, &to, MPI_INT, &types[size + r]);
		MPI_Type_commit(&types[r]);
		MPI_Type_commit(&types[size + r]);
	}
	wrong += MPI_Alltoallw(MPI_BOTTOM, ones, zeros, types, MPI_BOTTOM, ones, zeros, types + size, comm) != MPI_SUCCESS;
	/* In place, received data goes back to its sender. */
	wrong += MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, MPI_BOTTOM, ones, zeros, types + size, comm) != MPI_SUCCESS;
	for (int r = 0; r < size; r++)
		wrong += in[r] != 1000 * rank + r;
	for (int r = 0; r < 2 * size; r++)
		MPI_Type_free(&types[r]);
	free(out);
	free(in);
	free(ones);
	free(types);
}

int main(int argc, char **argv)
{
	MPI_Comm parent, other, all;
	int rank, sum = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_get_parent(&parent);
	if (argc > 1 && strcmp(argv[1], "spawn") == 0) {
		if (parent == MPI_COMM_NULL)
			MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
		else
			other = parent;
		MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &all);
		exchange(all, 20);
		exchange(MPI_COMM_WORLD, 21);
		exchange(all, 22);
		MPI_Comm_free(&all);
		MPI_Comm_disconnect(&other);
	} else {
		exchange(MPI_COMM_SELF, 5);
		MPI_Comm_dup(MPI_COMM_WORLD, &all);
		busy(all);
		parting();
		copied();
		bottom(all);
		exchange(all, 14); /* MPI_Finalize finds it, and the one of MPI_COMM_WORLD */
		exchange(MPI_COMM_WORLD, 15);
	}
	MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong: %d\n", sum);
	MPI_Finalize();
	return sum != 0;
}
