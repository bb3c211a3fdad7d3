/*
 * carry: executes exchanges of GPUs with buffers in host memory, over shared memory
 * (carry-shm) and over MPI (carry-mpi). It shows how a rank executes its program, and
 * tests it.
 *
 *	carry-shm [-d RANK:STAGE] MATRIX PLAN=ROUNDS...
 *	mpirun -n RANKS carry-mpi [-d RANK:STAGE] MATRIX PLAN=ROUNDS...
 *
 * MATRIX has the number of bytes that each rank sends each other, as int64. A PLAN is an
 * epoch: an exchange in binary form (docs/gpu.md), or "own:GPUS", with which every rank
 * plans for itself with libforgpu, on servers of GPUS GPUs. It is used for ROUNDS rounds.
 * With -d, the NIC of a rank dies in a stage of the second round, and its transfers are
 * lost. At the end of the round all ranks learn that, and repeat the round with the next
 * plan. The last line has the number of bytes that arrived, each of them checked.
 */
#ifndef CARRY_H
#define CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of transfers and their buffers: to NICs, from NICs, inside servers, and in stages. */
enum kind { BEFORE, AFTER, LOCAL, STAGE, KINDS };
enum buffer { INPUT, NIC_SEND, NIC_RECEIVE, OUTPUT, BUFFERS };
enum { SEND, RECEIVE, SIDES };

extern const enum buffer buffer_of[KINDS][SIDES];

struct piece {
	int32_t step, peer;
	int64_t offset, bytes;
};

struct program {
	int64_t size[BUFFERS];
	struct list {
		struct piece *at;
		int32_t count;
	} list[KINDS][SIDES];
	int32_t stages;
};

/* An epoch: a plan and its number of rounds. */
struct epoch {
	const char *plan;
	int rounds;
	int32_t gpus;	     /* own:GPUS, or 0 */
	unsigned char *data; /* the file */
	size_t size;
};

struct job {
	int32_t ranks;
	const int64_t *bytes; /* [source][destination] */
	struct epoch epochs[8];
	int count;
	int32_t dead; /* rank whose NIC dies, or -1 */
	int32_t dies; /* in this stage */
};

/* A transport between the ranks' buffers. From the stage in which a NIC dies on, its
 * transfers are lost. */
struct way {
	int64_t (*exchange)(struct way *way, int32_t dead, int32_t dies); /* bytes received, or negative if some were lost */
	bool (*agree)(struct way *way, bool lost);			   /* whether any rank lost some */
};

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void read_job(struct job *job, int count, char **arguments);
struct program *read_program(const struct job *job, const struct epoch *epoch, int32_t rank);
void forget(struct program *program);
struct list of_step(const struct program *program, enum kind kind, int side, int32_t step);
void fill_input(const struct job *job, int32_t rank, int round, unsigned char *input);
int64_t check_output(const struct job *job, int32_t rank, int round, const unsigned char *output);

#endif
