/*
 * channel.c: communicators of the shim's own.
 *
 * Rank 0 of a communicator offers its channel for the group, with a tag. If all
 * ranks still have it, they use it; otherwise they make one. A rank may have
 * released it by then: communicators of one group may be freed in different orders
 * by different ranks.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "shim.h"

/*
 * The largest number of channels at a time, so that a program that makes many
 * communicators does not run out of them because of the shim. Exchanges on further
 * communicators are MPI's own.
 */
enum { MOST = 64 };

/* A communicator has two tags; 32767 is the largest that any MPI has. */
enum { LAST_TAG = 32764 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *all;
static int channels;

/* Rank 0's message to the others. */
struct offer {
	uint64_t id;   /* of the channel, 0: rank 0 has none for this group */
	uint64_t next; /* id of the one to be made otherwise, 0: no more are made */
	int32_t tag, reserved;
};

/* number is one that no other channel has, and not 0. Jobs that were joined by
 * MPI_Comm_spawn have several processes of each rank, so ranks are not unique. */
static uint64_t number(void)
{
	uint64_t n = 0;
	while (n == 0)
		if (getrandom(&n, sizeof n, 0) != sizeof n)
			n = 0;
	return n;
}

/* claim finds a channel by its number and counts its caller as a user, or returns NULL. */
static struct channel *claim(uint64_t id)
{
	pthread_mutex_lock(&lock);
	struct channel *c = all;
	while (c && c->id != id)
		c = c->next;
	if (c)
		c->users++;
	pthread_mutex_unlock(&lock);
	return c;
}

void fm_channel_release(struct channel *channel)
{
	if (!channel)
		return;
	pthread_mutex_lock(&lock);
	const bool last = --channel->users == 0;
	if (last) {
		struct channel **at = &all;
		while (*at != channel)
			at = &(*at)->next;
		*at = channel->next;
		channels--;
	}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	PMPI_Comm_free(&channel->comm);
	PMPI_Group_free(&channel->group);
	free(channel);
}

/* make_offer runs on rank 0. It counts as a user of the channel that it offers. */
static int make_offer(MPI_Group group, struct offer *offer, struct channel **mine)
{
	int failed = MPI_SUCCESS, same = MPI_UNEQUAL;
	*offer = (struct offer){.tag = 1};
	*mine = NULL;
	pthread_mutex_lock(&lock);
	for (struct channel *c = all; c && !failed && !*mine; c = c->next) {
		failed = PMPI_Group_compare(c->group, group, &same);
		if (!failed && same == MPI_IDENT && c->tag < LAST_TAG)
			*mine = c;
	}
	if (*mine) {
		(*mine)->users++;
		offer->id = (*mine)->id;
		offer->tag = (*mine)->tag += 2;
	}
	if (channels < MOST)
		offer->next = number();
	pthread_mutex_unlock(&lock);
	return failed;
}

/*
 * duplicate makes a communicator of the same processes. MPI_Comm_dup would call the
 * program's functions that copy attributes. If this fails, it is not an error of the
 * program's: its error handler is not called.
 */
static bool duplicate(MPI_Comm user, MPI_Group group, MPI_Comm *own)
{
	MPI_Errhandler theirs;
	*own = MPI_COMM_NULL;
	if (PMPI_Comm_get_errhandler(user, &theirs) || PMPI_Comm_set_errhandler(user, MPI_ERRORS_RETURN))
		return false;
	bool good = PMPI_Comm_create(user, group, own) == MPI_SUCCESS;
	PMPI_Comm_set_errhandler(user, theirs);
	PMPI_Errhandler_free(&theirs);
	if (good)
		good = PMPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN) == MPI_SUCCESS;
	return good;
}

/* make makes a channel. It takes the group over; *made is NULL if some rank failed. */
static int make(MPI_Comm user, MPI_Group group, const struct offer *offer, struct channel **made)
{
	struct channel *c = calloc(1, sizeof *c);
	MPI_Comm own = MPI_COMM_NULL;
	int good = duplicate(user, group, &own) && c, all_good;
	const int failed = PMPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_LAND, user);
	*made = NULL;
	if (failed || !all_good) {
		if (own != MPI_COMM_NULL)
			PMPI_Comm_free(&own);
		PMPI_Group_free(&group);
		free(c);
		return failed;
	}
	*c = (struct channel){.comm = own, .group = group, .id = offer->next, .users = 1, .tag = offer->tag};
	pthread_mutex_lock(&lock);
	c->next = all;
	all = c;
	channels++;
	pthread_mutex_unlock(&lock);
	*made = c;
	return MPI_SUCCESS;
}

int fm_channel(MPI_Comm user, int rank, struct channel **channel, int *tag)
{
	struct offer offer = {0};
	struct channel *mine = NULL;
	MPI_Group group;
	int have, all_have;
	*channel = NULL;
	int failed = PMPI_Comm_group(user, &group);
	if (failed)
		return failed;
	if (rank == 0)
		failed = make_offer(group, &offer, &mine);
	if (!failed)
		failed = PMPI_Bcast(&offer, sizeof offer, MPI_BYTE, 0, user);
	if (!failed && rank != 0 && offer.id != 0)
		mine = claim(offer.id);
	have = mine != NULL;
	if (!failed)
		failed = PMPI_Allreduce(&have, &all_have, 1, MPI_INT, MPI_LAND, user);
	*tag = offer.tag;
	if (!failed && all_have) {
		*channel = mine;
		PMPI_Group_free(&group);
		return MPI_SUCCESS;
	}
	fm_channel_release(mine);
	if (!failed && offer.next != 0)
		return make(user, group, &offer, channel);
	PMPI_Group_free(&group);
	return failed;
}
