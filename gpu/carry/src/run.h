/* The state of a rank. */
#ifndef RUN_H
#define RUN_H

#include "carry.h"

struct rank {
	int32_t number;
	int epoch;			  /* the current one */
	struct program *programs[8];	  /* [epoch] */
	unsigned char *buffer[BUFFERS];	  /* large enough for all epochs */
};

/* Runs all rounds, and returns how many bytes arrived. */
int64_t run(const struct job *job, struct rank *rank, struct way *way);

#endif
