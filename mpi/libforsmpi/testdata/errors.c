/*
 * errors: exchanges with a datatype that was never committed, and with none. MPI
 * reports that to the error handler of the communicator that the program used; so
 * does the shim. Prints the errors that the handler gets on rank 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_Comm mine;
static int called, strange;

static void handler(MPI_Comm *comm, int *code, ...)
{
	int class;
	MPI_Error_class(*code, &class);
	called++;
	strange += *comm != mine || class != MPI_ERR_TYPE;
}

int main(int argc, char **argv)
{
	int rank, size, class;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &mine);
	MPI_Errhandler h;
	MPI_Comm_create_errhandler(handler, &h);
	MPI_Comm_set_errhandler(mine, h);
	MPI_Datatype raw;
	MPI_Type_contiguous(2, MPI_INT, &raw);
	int *out = calloc(2 * (size_t)size, sizeof(int)), *in = calloc(2 * (size_t)size, sizeof(int));
	const int code = MPI_Alltoall(out, 1, raw, in, 1, raw, mine);
	MPI_Error_class(code, &class);
	int *counts = calloc(2 * (size_t)size, sizeof(int)), *none = counts + size;
	for (int i = 0; i < size; i++)
		counts[i] = 1;
	MPI_Alltoall(out, 1, MPI_DATATYPE_NULL, in, 1, MPI_DATATYPE_NULL, mine);
	MPI_Alltoallv(out, counts, none, MPI_INT, in, counts, none, MPI_DATATYPE_NULL, mine);
	free(counts);
	if (rank == 0)
		printf("called: %d, strange: %d, type error returned: %d\n", called, strange, class == MPI_ERR_TYPE);
	/* The communicator still works for correct calls. */
	MPI_Type_commit(&raw);
	for (int i = 0; i < 2 * size; i++)
		out[i] = rank;
	int wrong = MPI_Alltoall(out, 1, raw, in, 1, raw, mine) != MPI_SUCCESS;
	for (int i = 0; i < 2 * size; i++)
		wrong += in[i] != i / 2;
	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, mine);
	if (rank == 0)
		printf("wrong: %d\n", wrong);
	free(out);
	free(in);
	MPI_Type_free(&raw);
	MPI_Errhandler_free(&h);
	MPI_Comm_free(&mine);
	MPI_Finalize();
	return 0;
}
