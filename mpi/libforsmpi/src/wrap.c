/*
 * wrap.c: the exchanges, by a plan or by MPI.
 *
 * MPI_Ialltoall and its kin are not here: they must return at once, and a
 * program may rely on it (post one, then talk to a rank that has not come to it
 * yet). A phase begins when the one before it has ended, so that the exchange would
 * need a thread of ours to go on while the program computes. They stay MPI's own,
 * and so do those on inter-communicators.
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
 * planned sets *c if an exchange on a communicator runs by a plan, and to NULL if
 * it is MPI's own. UNIFORM sides give the size of a block: it is the same on all
 * ranks, so that they decide alike.
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

/*
 * by_plan runs an exchange by the plan, if any, and sets *left if it is MPI's. It
 * reports errors as MPI would: on the user's communicator.
 */
static int by_plan(struct side send, struct side recv, MPI_Comm user, bool *left)
{
	struct comm *c;
	int failed = planned(user, &recv, &c);
	*left = !failed && !c;
	if (failed || !c)
		return failed;
	if ((failed = fm_exchange(c, &send, &recv, send.buffer == MPI_IN_PLACE)))
		PMPI_Comm_call_errhandler(user, failed);
	return failed;
}

int fm_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = UNIFORM, .buffer = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype},
		(struct side){.shape = UNIFORM, .buffer = recvbuf, .count = recvcount, .type = recvtype}, comm, &left);
	return left ? PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm) : failed;
}

int fm_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = COUNTS, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype},
		(struct side){.shape = COUNTS, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype}, comm, &left);
	return left ? PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm) : failed;
}

int fm_alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = TYPES, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .types = sendtypes},
		(struct side){.shape = TYPES, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .types = recvtypes}, comm, &left);
	return left ? PMPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm) : failed;
}

#if MPI_VERSION >= 4
int fm_alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
	void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = UNIFORM, .buffer = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype},
		(struct side){.shape = UNIFORM, .buffer = recvbuf, .count = recvcount, .type = recvtype}, comm, &left);
	return left ? PMPI_Alltoall_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm) : failed;
}

int fm_alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = COUNTS, .buffer = (void *)(uintptr_t)sendbuf, .large_counts = sendcounts, .large_displs = sdispls, .type = sendtype},
		(struct side){.shape = COUNTS, .buffer = recvbuf, .large_counts = recvcounts, .large_displs = rdispls, .type = recvtype}, comm, &left);
	return left ? PMPI_Alltoallv_c(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm) : failed;
}

int fm_alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	bool left;
	const int failed = by_plan((struct side){.shape = TYPES, .buffer = (void *)(uintptr_t)sendbuf, .large_counts = sendcounts, .large_displs = sdispls, .types = sendtypes},
		(struct side){.shape = TYPES, .buffer = recvbuf, .large_counts = recvcounts, .large_displs = rdispls, .types = recvtypes}, comm, &left);
	return left ? PMPI_Alltoallw_c(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm) : failed;
}
#endif
