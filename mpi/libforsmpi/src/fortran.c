/*
 * fortran.c: the functions that Fortran programs call, under Open MPI.
 *
 * Open MPI's Fortran functions call PMPI_Alltoall and not MPI_Alltoall, so they must
 * be intercepted themselves. Programs call them by the name that their compiler
 * makes of it (mpif.h and "use mpi"), or with _f08_ behind ("use mpi_f08"); all take
 * the same arguments, but under mpi_f08 ierror may be absent. Handles are integers;
 * MPI_IN_PLACE and MPI_BOTTOM are addresses of variables.
 *
 * MPICH's call the C functions, so this is not needed.
 */
#include "shim.h"

#ifdef OPEN_MPI
#include <stdlib.h>

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "Fortran's integers are C's: built with -fdefault-integer-8, MPI has others");

extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));

static void *buffer(void *fortran)
{
	if (fortran == (void *)&mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	return fortran == (void *)&mpi_fortran_bottom_ ? MPI_BOTTOM : fortran;
}

static void finish(MPI_Fint *ierror, int code)
{
	if (ierror)
		*ierror = code;
}

/* NAMES exports a function under all the names by which Fortran may know it. */
#define ALIAS(other, name) extern __typeof__(name) other __attribute__((alias(#name), visibility("default")))
#define NAMES(name, lower, upper) \
	ALIAS(lower, name);           \
	ALIAS(lower##_, name);        \
	ALIAS(lower##__, name);       \
	ALIAS(lower##_f08_, name);    \
	ALIAS(upper, name)

static void f_alltoall(void *sendbuf, const MPI_Fint *sendcount, const MPI_Fint *sendtype,
	void *recvbuf, const MPI_Fint *recvcount, const MPI_Fint *recvtype, const MPI_Fint *comm, MPI_Fint *ierror)
{
	finish(ierror, fm_alltoall(buffer(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype),
		buffer(recvbuf), *recvcount, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}
NAMES(f_alltoall, mpi_alltoall, MPI_ALLTOALL);

static void f_alltoallv(void *sendbuf, const MPI_Fint *sendcounts, const MPI_Fint *sdispls, const MPI_Fint *sendtype,
	void *recvbuf, const MPI_Fint *recvcounts, const MPI_Fint *rdispls, const MPI_Fint *recvtype, const MPI_Fint *comm, MPI_Fint *ierror)
{
	finish(ierror, fm_alltoallv(buffer(sendbuf), sendcounts, sdispls, PMPI_Type_f2c(*sendtype),
		buffer(recvbuf), recvcounts, rdispls, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}
NAMES(f_alltoallv, mpi_alltoallv, MPI_ALLTOALLV);

static void f_alltoallw(void *sendbuf, const MPI_Fint *sendcounts, const MPI_Fint *sdispls, const MPI_Fint *sendtypes,
	void *recvbuf, const MPI_Fint *recvcounts, const MPI_Fint *rdispls, const MPI_Fint *recvtypes, const MPI_Fint *comm, MPI_Fint *ierror)
{
	const MPI_Comm c = PMPI_Comm_f2c(*comm);
	int peers = 0, inter = 0, failed = PMPI_Comm_test_inter(c, &inter);
	if (!failed)
		failed = inter ? PMPI_Comm_remote_size(c, &peers) : PMPI_Comm_size(c, &peers);
	if (failed) {
		finish(ierror, failed);
		return;
	}
	MPI_Datatype *types = calloc(2 * (size_t)peers + 1, sizeof *types);
	if (!types) {
		PMPI_Comm_call_errhandler(c, MPI_ERR_NO_MEM);
		finish(ierror, MPI_ERR_NO_MEM);
		return;
	}
	sendbuf = buffer(sendbuf);
	for (int i = 0; i < peers; i++) {
		if (sendbuf != MPI_IN_PLACE) /* otherwise sendtypes means nothing */
			types[i] = PMPI_Type_f2c(sendtypes[i]);
		types[peers + i] = PMPI_Type_f2c(recvtypes[i]);
	}
	failed = fm_alltoallw(sendbuf, sendcounts, sdispls, types, buffer(recvbuf), recvcounts, rdispls, types + peers, c);
	free(types);
	finish(ierror, failed);
}
NAMES(f_alltoallw, mpi_alltoallw, MPI_ALLTOALLW);
#endif
