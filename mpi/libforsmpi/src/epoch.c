/*
 * epoch.c: all ranks of a communicator use the same epoch in an exchange.
 *
 * Before an exchange rank 0 announces the epoch in force, in one small broadcast;
 * a rank with another one takes part in the hand-over of the new schedule, and all
 * begin after that. Rank 0 only looks for news. Once there is some, it waits for
 * forsd, and all wait with it: the old plan would deliver, too, but slower than the
 * new one, by more than this takes.
 */
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* unplanned tells all ranks why the plan is missing. */
static int unplanned(struct comm *c, const struct head *next, const struct draft *d)
{
	char text[TEXT];
	if (c->rank == 0)
		memcpy(text, d->text, TEXT);
	const int failed = PMPI_Bcast(text, TEXT, MPI_CHAR, 0, c->user);
	if (failed)
		return failed;
	if (next->silent)
		fm_table_silent(text);
	fm_schedule_free(&c->plan);
	c->plan.head = *next;
	fm_warn(c, next->reason, text);
	return MPI_SUCCESS;
}

int fm_agree(struct comm *c, const struct kind *kind, struct order *order)
{
	struct draft d = {0};
	bool drafted = false;
	*order = (struct order){.head = c->plan.head};
	struct head *next = &order->head;
	if (c->rank == 0) {
		if ((drafted = fm_table_draft(next->epoch, &d, c->who, c->size))) {
			*next = d.head;
			next->sync = fm_settings()->sync;
			fm_doubt(c);
			c->warm = false;
		}
		fm_choose(c, kind, order);
		fm_notes_choose(c, order);
	}
	int failed = PMPI_Bcast(order, sizeof *order, MPI_BYTE, 0, c->user);
	if (!failed && memcmp(next, &c->plan.head, sizeof *next) != 0) {
		if (next->reason == NO_TABLE || next->reason == NO_SERVER)
			failed = unplanned(c, next, &d);
		else
			failed = fm_share(c, next, &d);
		if (!failed && c->rank == 0 && fm_settings()->verbose && next->epoch != 0)
			fm_say("communicator %llx, exchange %llu: epoch %llu, %d servers, %d phases", (unsigned long long)c->id,
				(unsigned long long)c->exchange, (unsigned long long)next->epoch, next->groups, next->steps);
	}
	if (!failed && kind)
		*fm_skip(c, kind) = (uint8_t)order->skip;
	if (drafted)
		fm_draft_free(&d);
	return failed;
}
