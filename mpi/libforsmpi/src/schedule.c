/*
 * schedule.c: a draft becomes the schedule of each rank. All ranks need to know who
 * runs where, 12 bytes a rank; of the rows, a rank gets those of its server.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

void fm_schedule_free(struct schedule *s)
{
	free(s->group);
	free(s->first);
	free(s->member);
	free(s->guid);
	free(s->row);
	free(s->to);
	free(s->from);
	memset(s, 0, sizeof *s);
}

static bool make_room(struct schedule *s, int size)
{
	const size_t groups = (size_t)s->head.groups;
	s->group = calloc((size_t)size, sizeof *s->group);
	s->first = calloc(groups + 1, sizeof *s->first);
	s->member = calloc((size_t)size, sizeof *s->member);
	s->guid = calloc(groups, sizeof *s->guid);
	s->to = calloc(groups, sizeof *s->to);
	s->from = calloc(groups, sizeof *s->from);
	return s->group && s->first && s->member && s->guid && s->to && s->from;
}

/* gather lists the ranks of each group. */
static void gather(struct schedule *s, int rank, int size)
{
	for (int r = 0; r < size; r++)
		s->first[s->group[r] + 1]++;
	for (int g = 0; g < s->head.groups; g++)
		s->first[g + 1] += s->first[g];
	for (int r = size; r-- > 0;) /* backwards: first[g + 1] sinks to where g + 1 begins */
		s->member[--s->first[s->group[r] + 1]] = r;
	memmove(s->first, s->first + 1, (size_t)s->head.groups * sizeof *s->first);
	s->first[s->head.groups] = size;
	s->mine = s->group[rank];
}

/* hand_out gives each rank its rows. */
static int hand_out(struct comm *c, struct schedule *s, const struct draft *d)
{
	const size_t integers = sizeof(struct row) / sizeof(int32_t);
	int *length = NULL, *offset = NULL, failed = MPI_SUCCESS;
	if (c->rank == 0) {
		length = calloc((size_t)c->size, sizeof *length);
		offset = calloc((size_t)c->size, sizeof *offset);
		if (!length || !offset)
			failed = MPI_ERR_NO_MEM;
		for (int r = 0; r < c->size && !failed; r++) {
			const int g = s->group[r];
			length[r] = (d->first[g + 1] - d->first[g]) * (int)integers;
			offset[r] = d->first[g] * (int)integers;
		}
	}
	int mine = 0;
	if (!failed)
		failed = PMPI_Scatter(length, 1, MPI_INT, &mine, 1, MPI_INT, 0, c->user);
	s->rows = mine / (int)integers;
	s->row = calloc((size_t)s->rows + 1, sizeof *s->row);
	if (!failed && !s->row)
		failed = MPI_ERR_NO_MEM;
	if (!failed)
		failed = PMPI_Scatterv(d->row, length, offset, MPI_INT32_T, s->row, mine, MPI_INT32_T, 0, c->user);
	free(length);
	free(offset);
	return failed;
}

int fm_share(struct comm *c, const struct head *next, const struct draft *d)
{
	struct schedule s = {.head = *next};
	int failed = make_room(&s, c->size) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	if (!failed && c->rank == 0) {
		memcpy(s.group, d->group, (size_t)c->size * sizeof *s.group);
		memcpy(s.guid, d->guid, (size_t)next->groups * sizeof *s.guid);
	}
	if (!failed)
		failed = PMPI_Bcast(s.group, c->size, MPI_INT, 0, c->user);
	if (!failed)
		failed = PMPI_Bcast(s.guid, next->groups, MPI_UINT64_T, 0, c->user);
	if (!failed) {
		gather(&s, c->rank, c->size);
		failed = hand_out(c, &s, d);
	}
	if (failed) {
		fm_schedule_free(&s);
		return failed;
	}
	for (int i = 0; i < s.rows; i++) {
		if (s.row[i].to >= 0)
			s.to[s.row[i].to] = true;
		if (s.row[i].from >= 0)
			s.from[s.row[i].from] = true;
	}
	fm_schedule_free(&c->plan);
	c->plan = s;
	return MPI_SUCCESS;
}
