/*
 * wrap.c: the exchanges, by a plan or by MPI.
 *
 * MPI_Ialltoall and its kin are not here: they must return at once, and a
 * program may rely on it (post one, then talk to a rank that has not come to it
 * yet). A phase begins when the one before it has ended, so somebody would have to
 * go on while the program computes; without a thread of our own nobody does. They
 * stay MPI's own, and so do those on inter-communicators.
 */
#include <string.h>

#include "shim.h"

#ifdef OPEN_MPI
const char *const fm_built_for = "Open MPI";
static const char *const others[] = {"MPICH", "MVAPICH", "Intel(R) MPI", NULL};
#else
const char *const fm_built_for = "MPICH";
static const char *const others[] = {"Open MPI", "Spectrum MPI", NULL};
#endif

bool fm_other_mpi(const char *version)
{
	for (int i = 0; others[i]; i++)
		if (strstr(version, others[i]))
			return true;
	return false;
}

/*
 * planned sets *c where an exchange on a communicator runs by a plan, and to NULL
 * where it is MPI's own. UNIFORM sides tell the size of a block: it is the same on
 * all ranks, so that they decide alike.
 */
static int planned(MPI_Comm user, const struct side *recv, struct comm **c)
{
	int failed = fm_comm(user, c);
	if (failed || !*c)
		return failed;
	if (recv->shape == UNIFORM && (*c)->plan.head.min_bytes > 0 && recv->type != MPI_DATATYPE_NULL) {
		MPI_Count size;
		if ((failed = PMPI_Type_size_x(recv->type, &size)))
			return failed;
		if (size * recv->count < (*c)->plan.head.min_bytes)
			*c = NULL;
	}
	if (!*c)
		return MPI_SUCCESS;
	if ((failed = fm_agree(*c)))
		return PMPI_Comm_call_errhandler(user, failed), failed;
	if ((*c)->plan.head.reason != PLANNED)
		*c = NULL;
	return MPI_SUCCESS;
}

/* run runs it by the plan, and reports errors as MPI would: on the user's communicator. */
static int run(struct comm *c, struct side *send, struct side *recv)
{
	const int failed = fm_exchange(c, send, recv, send->buffer == MPI_IN_PLACE);
	if (failed)
		PMPI_Comm_call_errhandler(c->user, failed);
	return failed;
}

int fm_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	struct side send = {.shape = UNIFORM, .buffer = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype};
	struct side recv = {.shape = UNIFORM, .buffer = recvbuf, .count = recvcount, .type = recvtype};
	struct comm *c;
	const int failed = planned(comm, &recv, &c);
	if (failed)
		return failed;
	if (!c)
		return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
	return run(c, &send, &recv);
}

int fm_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	struct side send = {.shape = COUNTS, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype};
	struct side recv = {.shape = COUNTS, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype};
	struct comm *c;
	const int failed = planned(comm, &recv, &c);
	if (failed)
		return failed;
	if (!c)
		return PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
	return run(c, &send, &recv);
}

int fm_alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	struct side send = {.shape = TYPES, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .types = sendtypes};
	struct side recv = {.shape = TYPES, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .types = recvtypes};
	struct comm *c;
	const int failed = planned(comm, &recv, &c);
	if (failed)
		return failed;
	if (!c)
		return PMPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);
	return run(c, &send, &recv);
}
