/*
 * launch.h: what launchers of parallel programs tell their processes, for preloaded
 * libraries.
 */
#ifndef FORS_LAUNCH_H
#define FORS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* launched_first reports whether this is the first process of its job, or the only one. */
static inline bool launched_first(void)
{
	static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
	for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
		const char *rank = getenv(ranks[i]);
		if (rank && *rank)
			return strcmp(rank, "0") == 0;
	}
	return true;
}

#endif
