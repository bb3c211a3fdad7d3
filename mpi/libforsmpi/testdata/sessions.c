/*
 * sessions.c: an exchange in a program that never calls MPI_Init: it has sessions, of
 * MPI-4, and no MPI_COMM_WORLD.
 */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm;
	int rank, size, out[64], in[64], wrong = 0, total = 0;
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "sessions.c", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	for (int r = 0; r < size; r++)
		out[r] = rank * 100 + r;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
	for (int r = 0; r < size; r++)
		wrong += in[r] != r * 100 + rank;
	MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, comm);
	if (rank == 0)
		printf("wrong: %d\n", total);
	MPI_Comm_free(&comm);
	MPI_Group_free(&group);
	MPI_Session_finalize(&session);
	return 0;
}
