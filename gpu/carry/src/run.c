/* The rounds of a rank, with any transport. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

static void lay_out(struct rank *r, struct program *program)
{
	for (int b = 0; b < BUFFERS; b++)
		memset(r->buffer[b], 0xee, (size_t)program->size[b]);
}

int64_t run(const struct job *job, struct rank *r, struct way *way)
{
	int64_t arrived = 0;
	int round = 0;
	bool died = false;
	for (int e = 0; e < job->count; e++) {
		r->epoch = e;
		for (int done = 0; done < job->epochs[e].rounds; done++, round++) {
			struct program *program = r->programs[e];
			lay_out(r, program);
			fill_input(job, r->number, round, r->buffer[INPUT]);
			bool dies = !died && job->dead >= 0 && round == 1;
			int64_t bytes = way->exchange(way, dies ? job->dead : -1, job->dies);
			if (way->agree(way, bytes < 0)) {
				if (!dies || e + 1 == job->count)
					die("round %d is lost, and there is no other plan", round);
				died = true;
				break; /* repeat this round with the next plan */
			}
			arrived += check_output(job, r->number, round, r->buffer[OUTPUT]);
		}
	}
	if (job->dead >= 0 && !died)
		die("no transfer was lost: rank %d sends and receives nothing from stage %d on", job->dead, job->dies);
	return arrived;
}
