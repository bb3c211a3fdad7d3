/* A rank while it runs. */
#ifndef RUN_H
#define RUN_H

#include "carry.h"

struct rank {
	int32_t number;
	int epoch;			  /* the one in force */
	struct program *programs[8];	  /* [epoch] */
	unsigned char *buffer[BUFFERS];	  /* as large as the largest of the epochs' */
};

/* Runs all rounds, and returns how many bytes arrived. */
int64_t run(const struct job *job, struct rank *rank, struct way *way);

#endif
