/*
 * carry: executes exchanges of GPUs in binary form (docs/gpu.md) with buffers in memory of processors.
 * It tests plans of all modes; libforcarry is what jobs use.
 *
 *	carry MATRIX PLAN=ROUNDS...
 *	carry -t NEEDS PLAN=ROUNDS...
 *
 * MATRIX has the number of bytes that each rank sends each other, as int64. Each PLAN is used for
 * ROUNDS rounds. With -t, the plans are of tokens that are sent once to each server, or of their way
 * back, whose sums are those of bytes; NEEDS has a byte for each token and rank, 1 if the rank needs
 * the token, and as many tokens for each rank. The last line has the number of bytes that arrived,
 * each of them checked.
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
	bool add; /* to the bytes of the buffer */
};

struct program {
	int64_t size[BUFFERS];
	struct list {
		struct piece *at;
		int32_t count;
	} list[KINDS][SIDES];
	int32_t stages;
	int64_t token; /* bytes of a token, or 0 */
	bool returns;  /* the way back of tokens */
};

/* An epoch: a plan and its number of rounds. */
struct epoch {
	const char *plan;
	int rounds;
	unsigned char *data; /* the file */
	size_t size;
};

struct job {
	int32_t ranks;
	const int64_t *bytes; /* [source][destination] */
	const unsigned char *needs; /* [token][rank] with -t */
	int32_t tokens;		    /* of a rank */
	struct epoch epochs[8];
	int count;
};

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void read_job(struct job *job, int count, char **arguments);
struct program *read_program(const struct job *job, const struct epoch *epoch, int32_t rank);
struct list of_step(const struct program *program, enum kind kind, int side, int32_t step);
void put(unsigned char *to, const unsigned char *from, int64_t bytes, bool add);
void fill_input(const struct job *job, const struct program *program, int32_t rank, int round, unsigned char *input);
int64_t check_output(const struct job *job, const struct program *program, int32_t rank, int round, const unsigned char *output);

#endif
