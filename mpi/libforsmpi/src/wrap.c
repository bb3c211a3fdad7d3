/*
 * wrap.c: the exchanges, by a plan or by MPI.
 *
 * MPI_Ialltoall and its kin are not here: they must return at once, and a
 * program may rely on it (post one, then talk to a rank that has not come to it
 * yet). A phase begins when the one before it has ended, so that the exchange would
 * need a thread of ours to go on while the program computes. They stay MPI's own,
 * and so do those on inter-communicators.
 */
#include <math.h>
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

/* One call of a program, from begin to end. */
struct turn {
	struct comm *c; /* of which rank 0 is told how long it took; NULL: it is not */
	bool own;       /* it is MPI's own */
	struct kind kind;
	struct order order;
	double began;
};

/* bytes adds up what one side has. Types that are none count nothing: MPI reports them. */
static MPI_Count bytes(const struct side *s, int size)
{
	MPI_Count each = 0, sum = 0;
	if (s->shape != TYPES && (s->type == MPI_DATATYPE_NULL || PMPI_Type_size_x(s->type, &each)))
		return 0;
	if (s->shape == UNIFORM)
		return each * s->count;
	for (int i = 0; i < size; i++) {
		const MPI_Count count = s->counts ? s->counts[i] : s->large_counts[i];
		if (s->shape == TYPES && (count == 0 || s->types[i] == MPI_DATATYPE_NULL || PMPI_Type_size_x(s->types[i], &each)))
			continue;
		sum += each * count;
	}
	return sum;
}

/* kind_of finds the kind of an exchange. */
static struct kind kind_of(const struct comm *c, const struct side *send, const struct side *recv)
{
	struct kind kind = {.uniform = recv->shape == UNIFORM, .in_place = send->buffer == MPI_IN_PLACE};
	MPI_Count sum = kind.uniform || c->rank == 0 ? bytes(recv, c->size) : 0;
	const MPI_Count sent = kind.uniform || kind.in_place || c->rank > 0 ? 0 : bytes(send, c->size);
	if (sent > sum)
		sum = sent;
	while (kind.size < SIZES - 2 && (MPI_Count)1 << kind.size < sum)
		kind.size++;
	return kind;
}

/*
 * waits reports whether joining a communicator can wait. It takes some collective
 * operations, too many for a few small exchanges.
 */
static bool waits(struct comm *c, const struct kind *kind)
{
	return !(kind->uniform && kind->size >= LARGE) && c->calls++ < FEW;
}

/* prepare has all ranks agree on how an exchange goes, and be ready for it. */
static int prepare(struct turn *t, struct comm *c)
{
	int failed = c->joined ? MPI_SUCCESS : fm_join(c);
	if (failed || c->off)
		return failed;
	failed = fm_agree(c, &t->kind, &t->order);
	if (!failed && t->order.clocks)
		failed = fm_clock(c);
	if (!failed && t->order.timed) { /* without those who come late */
		failed = PMPI_Barrier(c->user);
		t->c = c;
	}
	return failed;
}

/*
 * begin carries out an exchange, unless it is MPI's own. It reports errors as MPI
 * would: on the user's communicator.
 */
static int begin(struct turn *t, struct side send, struct side recv, MPI_Comm user)
{
	*t = (struct turn){0};
	struct comm *c = NULL;
	const enum way way = fm_settings()->way;
	int failed = way == BY_MPI ? MPI_SUCCESS : fm_comm(user, &c);
	t->own = !failed && (!c || c->off);
	if (failed || t->own)
		return failed;
	if (way == WAYS || way == BY_CLOCK)
		t->kind = kind_of(c, &send, &recv);
	t->own = way == WAYS && ((!c->joined && waits(c, &t->kind)) || fm_skips(c, &t->kind));
	if (t->own)
		return MPI_SUCCESS;
	failed = prepare(t, c);
	t->own = !failed && (c->off || c->plan.head.reason != PLANNED || t->order.way == BY_MPI);
	t->began = PMPI_Wtime();
	if (!failed && !t->own)
		failed = fm_exchange(c, &t->order, &send, &recv, send.buffer == MPI_IN_PLACE);
	if (failed)
		PMPI_Comm_call_errhandler(user, failed);
	return failed;
}

/* end tells rank 0 how long an exchange took that is measured, even if it failed. */
static int end(struct turn *t, int failed)
{
	if (!t->c)
		return failed;
	const int untold = fm_took(t->c, &t->kind, (enum way)t->order.way, failed ? INFINITY : PMPI_Wtime() - t->began);
	if (untold && !failed)
		PMPI_Comm_call_errhandler(t->c->user, untold);
	return failed ? failed : untold;
}

int fm_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = UNIFORM, .buffer = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype},
		(struct side){.shape = UNIFORM, .buffer = recvbuf, .count = recvcount, .type = recvtype}, comm);
	if (t.own)
		failed = PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
	return end(&t, failed);
}

int fm_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = COUNTS, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype},
		(struct side){.shape = COUNTS, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype}, comm);
	if (t.own)
		failed = PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
	return end(&t, failed);
}

int fm_alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = TYPES, .buffer = (void *)(uintptr_t)sendbuf, .counts = sendcounts, .displs = sdispls, .types = sendtypes},
		(struct side){.shape = TYPES, .buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .types = recvtypes}, comm);
	if (t.own)
		failed = PMPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);
	return end(&t, failed);
}

#if MPI_VERSION >= 4
int fm_alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
	void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = UNIFORM, .buffer = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype},
		(struct side){.shape = UNIFORM, .buffer = recvbuf, .count = recvcount, .type = recvtype}, comm);
	if (t.own)
		failed = PMPI_Alltoall_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
	return end(&t, failed);
}

int fm_alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = COUNTS, .buffer = (void *)(uintptr_t)sendbuf, .large_counts = sendcounts, .large_displs = sdispls, .type = sendtype},
		(struct side){.shape = COUNTS, .buffer = recvbuf, .large_counts = recvcounts, .large_displs = rdispls, .type = recvtype}, comm);
	if (t.own)
		failed = PMPI_Alltoallv_c(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
	return end(&t, failed);
}

int fm_alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
	void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	struct turn t;
	int failed = begin(&t, (struct side){.shape = TYPES, .buffer = (void *)(uintptr_t)sendbuf, .large_counts = sendcounts, .large_displs = sdispls, .types = sendtypes},
		(struct side){.shape = TYPES, .buffer = recvbuf, .large_counts = recvcounts, .large_displs = rdispls, .types = recvtypes}, comm);
	if (t.own)
		failed = PMPI_Alltoallw_c(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);
	return end(&t, failed);
}
#endif
