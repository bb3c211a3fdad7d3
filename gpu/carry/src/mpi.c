/* One MPI rank per rank. The pieces that a rank sends another in a step are one message; a
 * dead NIC sends empty messages. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "run.h"

struct mpi {
	struct way way;
	const struct job *job;
	struct rank *own;
	MPI_Request *requests;
	int pending;
	int64_t expected;
};

/* Starts to send or receive the pieces of a list for a peer. */
static void start(struct mpi *m, enum kind kind, int side, struct list list, int32_t peer)
{
	int *lengths = malloc((size_t)list.count * sizeof *lengths), count = 0;
	MPI_Aint *places = malloc((size_t)list.count * sizeof *places);
	for (int32_t i = 0; i < list.count; i++) {
		if (list.at[i].peer == peer) {
			lengths[count] = (int)list.at[i].bytes;
			places[count++] = (MPI_Aint)list.at[i].offset;
		}
	}
	MPI_Datatype type;
	MPI_Type_create_hindexed(count, lengths, places, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	void *buffer = m->own->buffer[buffer_of[kind][side]];
	if (side == SEND)
		MPI_Isend(buffer, 1, type, peer, kind, MPI_COMM_WORLD, &m->requests[m->pending++]);
	else
		MPI_Irecv(buffer, 1, type, peer, kind, MPI_COMM_WORLD, &m->requests[m->pending++]);
	MPI_Type_free(&type);
	free(lengths);
	free(places);
}

/* Starts all messages of a kind and side in a step, and returns their bytes. */
static int64_t start_step(struct mpi *m, enum kind kind, int side, int32_t step)
{
	struct list list = of_step(m->own->programs[m->own->epoch], kind, side, step);
	int64_t bytes = 0;
	for (int32_t i = 0; i < list.count; i++) {
		bool before = false;
		for (int32_t j = 0; j < i; j++)
			before = before || list.at[j].peer == list.at[i].peer;
		if (!before)
			start(m, kind, side, list, list.at[i].peer);
		bytes += list.at[i].bytes;
	}
	return bytes;
}

/* Sends and receives over the NIC in a stage; a dead one uses empty messages, and its peers
 * notice that they are short. Returns whether bytes were lost. */
static bool stage(struct mpi *m, int32_t step, bool dead)
{
	struct program *p = m->own->programs[m->own->epoch];
	struct list send = of_step(p, STAGE, SEND, step), receive = of_step(p, STAGE, RECEIVE, step);
	int64_t want = 0;
	MPI_Request request = MPI_REQUEST_NULL;
	unsigned char *unwanted = NULL;
	for (int32_t i = 0; i < receive.count; i++)
		want += receive.at[i].bytes;
	if (receive.count > 1 || send.count > 1)
		die("rank %d sends or receives %d pieces in stage %d over one NIC", m->own->number, send.count, step);
	if (dead && receive.count)
		unwanted = malloc((size_t)want);
	if (receive.count)
		MPI_Irecv(dead ? unwanted : m->own->buffer[NIC_RECEIVE] + receive.at->offset, (int)want, MPI_BYTE, receive.at->peer, STAGE, MPI_COMM_WORLD, &request);
	if (send.count)
		MPI_Isend(m->own->buffer[NIC_SEND] + send.at->offset, dead ? 0 : (int)send.at->bytes, MPI_BYTE, send.at->peer, STAGE, MPI_COMM_WORLD, &m->requests[m->pending++]);
	int got = 0;
	MPI_Status status;
	MPI_Wait(&request, &status);
	if (receive.count)
		MPI_Get_count(&status, MPI_BYTE, &got);
	free(unwanted);
	m->expected += want;
	return got != want || (dead && want > 0);
}

static int64_t exchange(struct way *way, int32_t dead, int32_t dies)
{
	struct mpi *m = (struct mpi *)way;
	struct program *p = m->own->programs[m->own->epoch];
	bool lost = false;
	m->expected = 0;
	for (int32_t step = -1; step <= p->stages; step++) {
		m->pending = 0;
		for (int kind = BEFORE; kind < STAGE; kind++) {
			m->expected += start_step(m, kind, RECEIVE, step);
			start_step(m, kind, SEND, step);
		}
		lost |= stage(m, step, m->own->number == dead && step >= dies);
		MPI_Waitall(m->pending, m->requests, MPI_STATUSES_IGNORE);
	}
	return lost ? -1 : m->expected;
}

static bool agree(struct way *way, bool lost)
{
	(void)way;
	int mine = lost, all;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return all != 0;
}

int main(int count, char **arguments)
{
	struct job job;
	int ranks;
	struct rank own = {0};
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &own.number);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	read_job(&job, count, arguments);
	if (ranks != job.ranks)
		die("%d ranks run, and the matrix has %d", ranks, job.ranks);
	int64_t size[BUFFERS] = {0};
	for (int e = 0; e < job.count; e++) {
		own.programs[e] = read_program(&job, &job.epochs[e], own.number);
		for (int b = 0; b < BUFFERS; b++)
			if (own.programs[e]->size[b] > size[b])
				size[b] = own.programs[e]->size[b];
	}
	for (int b = 0; b < BUFFERS; b++)
		own.buffer[b] = malloc((size_t)size[b] + 1);
	/* In a step: messages of three kinds to and from each rank of the server, and one over the NIC. */
	struct mpi m = {.way = {exchange, agree}, .job = &job, .own = &own, .requests = malloc((size_t)(6 * ranks + 1) * sizeof *m.requests)};
	long long arrived = run(&job, &own, &m.way), all;
	MPI_Reduce(&arrived, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (own.number == 0)
		printf("%d ranks, %d epochs: %lld bytes arrived\n", job.ranks, job.count, all);
	MPI_Finalize();
	return 0;
}
