/*
 * carry: carries exchanges of GPUs out with real bytes in place of GPUs' memory, over
 * shared memory (carry-shm) and over MPI (carry-mpi). It is an example of what a rank does
 * with its program, and a test of it.
 *
 *	carry-shm [-d RANK:STAGE] MATRIX PLAN=ROUNDS...
 *	mpirun -n RANKS carry-mpi [-d RANK:STAGE] MATRIX PLAN=ROUNDS...
 *
 * MATRIX has the bytes that each rank has for each other, as int64. A PLAN is an epoch: an
 * exchange in binary form (docs/gpu.md), or "own:GPUS": every rank plans for itself, with
 * libforgpu, on servers of so many GPUs. It is used for so many rounds. With -d, the NIC of
 * a rank dies in a stage of the first round but one: what was to go over it is lost. At the
 * end of the round all learn that, and do the round again by the next plan. The last line
 * says how many bytes arrived, each checked.
 */
#ifndef CARRY_H
#define CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What moves from where to where: before the stages, in them, after them, and inside. */
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

/* An epoch: a plan, and for how many rounds it is used. */
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
	int32_t dead; /* rank whose NIC dies, -1 for none */
	int32_t dies; /* in this stage */
};

/* What can be done with the ranks' buffers: an exchange, and agreeing. A transfer is lost
 * from a stage on where one of its NICs is dead. */
struct way {
	int64_t (*exchange)(struct way *way, int32_t dead, int32_t dies); /* bytes received, or below 0 where some were lost */
	bool (*agree)(struct way *way, bool lost);			   /* whether it was lost anywhere */
};

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void read_job(struct job *job, int count, char **arguments);
struct program *read_program(const struct job *job, const struct epoch *epoch, int32_t rank);
void forget(struct program *program);
struct list of_step(const struct program *program, enum kind kind, int side, int32_t step);
void fill_input(const struct job *job, int32_t rank, int round, unsigned char *input);
int64_t check_output(const struct job *job, int32_t rank, int round, const unsigned char *output);

#endif
