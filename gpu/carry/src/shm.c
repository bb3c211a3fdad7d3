/*
 * One process per rank, with all buffers in shared memory. A rank copies the data that it
 * receives directly from its peers' buffers. It begins a step as soon as its peers have
 * ended the previous one: those that it reads from, so that the data is there, and those
 * that read from it, so that it may overwrite the data.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "carry.h"

struct rank {
	int32_t number;
	int epoch;			 /* the current one */
	struct program *programs[8];	 /* [epoch] */
	unsigned char *buffer[BUFFERS];	 /* large enough for all epochs */
};

/* State shared by all ranks. */
struct shared {
	atomic_llong ended[2048]; /* [rank] steps ended, plus inputs filled, over all exchanges */
	atomic_llong met;	  /* arrivals at the barrier, over all exchanges */
};

struct shm {
	const struct job *job;
	struct rank *ranks, *own;
	struct shared *shared;
	long long base; /* steps of previous exchanges */
	long long met;	/* its value before this exchange */
};

static void *share(size_t size)
{
	void *at = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		die("no shared memory of %zu bytes", size);
	return at;
}

static void wait_for(atomic_llong *counter, long long value)
{
	for (int spins = 0; atomic_load(counter) < value; spins++)
		if (spins > 20)
			nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* Copies a piece from a peer's buffer; taken bytes of its stream have been copied already. */
static void pull(struct shm *s, enum kind kind, struct piece x, int64_t taken)
{
	struct rank *peer = &s->ranks[x.peer], *own = s->own;
	struct list list = of_step(peer->programs[own->epoch], kind, SEND, x.step);
	unsigned char *to = own->buffer[buffer_of[kind][RECEIVE]] + x.offset, *from = peer->buffer[buffer_of[kind][SEND]];
	for (; list.count > 0 && x.bytes > 0; list.at++, list.count--) {
		if (list.at->peer != own->number)
			continue;
		if (taken >= list.at->bytes) {
			taken -= list.at->bytes;
			continue;
		}
		int64_t bytes = list.at->bytes - taken < x.bytes ? list.at->bytes - taken : x.bytes;
		put(to, from + list.at->offset + taken, bytes, x.add);
		to += bytes;
		x.bytes -= bytes;
		taken = 0;
	}
	if (x.bytes > 0)
		die("rank %d receives more from rank %d than that sends", own->number, x.peer);
}

static void exchange(struct shm *s)
{
	struct rank *own = s->own;
	struct program *p = own->programs[own->epoch];
	int64_t *taken = calloc((size_t)s->job->ranks, sizeof *taken);
	atomic_store(&s->shared->ended[own->number], s->base + 1);
	for (int32_t step = -1; step <= p->stages; step++) {
		for (int kind = BEFORE; kind < KINDS; kind++) {
			struct list send = of_step(p, kind, SEND, step - 1), receive = of_step(p, kind, RECEIVE, step);
			for (int32_t i = 0; i < send.count; i++)
				wait_for(&s->shared->ended[send.at[i].peer], s->base + step + 2);
			for (int32_t i = 0; i < receive.count; i++)
				wait_for(&s->shared->ended[receive.at[i].peer], s->base + step + 2);
		}
		for (int kind = BEFORE; kind < KINDS; kind++) {
			struct list receive = of_step(p, kind, RECEIVE, step);
			memset(taken, 0, (size_t)s->job->ranks * sizeof *taken);
			for (int32_t i = 0; i < receive.count; i++) {
				struct piece x = receive.at[i];
				pull(s, kind, x, taken[x.peer]);
				taken[x.peer] += x.bytes;
			}
		}
		atomic_store(&s->shared->ended[own->number], s->base + step + 3);
	}
	s->base += p->stages + 3;
	free(taken);
}

/* Waits until all ranks have ended the round: then its buffers may be filled again. */
static void meet(struct shm *s)
{
	atomic_fetch_add(&s->shared->met, 1);
	s->met += s->job->ranks;
	wait_for(&s->shared->met, s->met);
}

/* Runs all rounds, and returns how many bytes arrived. */
static int64_t run(struct shm *s)
{
	int64_t arrived = 0;
	for (int round = 0; s->own->epoch < s->job->count; s->own->epoch++)
		for (int done = 0; done < s->job->epochs[s->own->epoch].rounds; done++, round++) {
			struct program *program = s->own->programs[s->own->epoch];
			for (int b = 0; b < BUFFERS; b++)
				memset(s->own->buffer[b], 0xee, (size_t)program->size[b]);
			fill_input(s->job, program, s->own->number, round, s->own->buffer[INPUT]);
			exchange(s);
			meet(s);
			arrived += check_output(s->job, program, s->own->number, round, s->own->buffer[OUTPUT]);
		}
	return arrived;
}

static struct rank *make_ranks(const struct job *job)
{
	struct rank *ranks = share((size_t)job->ranks * sizeof *ranks);
	for (int32_t r = 0; r < job->ranks; r++) {
		int64_t size[BUFFERS] = {0};
		ranks[r].number = r;
		for (int e = 0; e < job->count; e++) {
			ranks[r].programs[e] = read_program(job, &job->epochs[e], r);
			for (int b = 0; b < BUFFERS; b++)
				if (ranks[r].programs[e]->size[b] > size[b])
					size[b] = ranks[r].programs[e]->size[b];
		}
		for (int b = 0; b < BUFFERS; b++)
			ranks[r].buffer[b] = share((size_t)size[b]);
	}
	return ranks;
}

int main(int count, char **arguments)
{
	struct job job;
	read_job(&job, count, arguments);
	if (job.ranks > 2048)
		die("%d ranks: at most 2048", job.ranks);
	struct rank *ranks = make_ranks(&job);
	struct shared *shared = share(sizeof *shared);
	pid_t *children = calloc((size_t)job.ranks, sizeof *children);
	int64_t *arrived = share((size_t)job.ranks * sizeof *arrived), sum = 0;
	for (int32_t r = 0; r < job.ranks; r++) {
		children[r] = fork();
		if (children[r] < 0)
			die("rank %d: no process", r);
		if (children[r] == 0) {
			alarm(600);
			/* fork leaves every process its own epoch: only buffers are shared. */
			struct rank *own = malloc(sizeof *own);
			*own = ranks[r];
			arrived[r] = run(&(struct shm){&job, ranks, own, shared, 0, 0});
			_exit(0);
		}
	}
	int status, failed = 0;
	while (!failed && wait(&status) > 0)
		failed = status != 0;
	for (int32_t r = 0; failed && r < job.ranks; r++)
		kill(children[r], SIGKILL);
	if (failed)
		die("a rank failed");
	for (int32_t r = 0; r < job.ranks; r++)
		sum += arrived[r];
	printf("%d ranks, %d epochs: %lld bytes arrived\n", job.ranks, job.count, (long long)sum);
	return 0;
}
