/*
 * comm.c: the state of a communicator. It is an attribute of the communicator, is freed
 * with it, and is not copied to duplicates. At MPI_Finalize the rest is freed when MPI
 * frees MPI_COMM_SELF, its first act.
 *
 * Exchanges on different communicators may run at once (MPI_THREAD_MULTIPLE); one
 * communicator has one at a time, as MPI requires of collective functions. So only
 * the list of all communicators needs a lock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int comm_key = MPI_KEYVAL_INVALID, end_key = MPI_KEYVAL_INVALID;
static struct comm *all;
static uint32_t made;

static void discard(struct comm *c)
{
	pthread_mutex_lock(&lock);
	if (c->before)
		c->before->next = c->next;
	else if (all == c)
		all = c->next;
	if (c->next)
		c->next->before = c->before;
	pthread_mutex_unlock(&lock);
	fm_channel_release(c->channel);
	fm_schedule_free(&c->plan);
	fm_choices_free(c);
	free(c->who);
	free(c->notes);
	free(c->requests);
	free(c->statuses);
	free(c);
}

static int on_free(MPI_Comm user, int key, void *value, void *extra)
{
	(void)user, (void)key, (void)extra;
	discard(value);
	return MPI_SUCCESS;
}

static int on_finalize(MPI_Comm self, int key, void *value, void *extra)
{
	(void)self, (void)key, (void)value, (void)extra;
	for (struct comm *c = all; c; c = all)
		if (PMPI_Comm_delete_attr(c->user, comm_key) != MPI_SUCCESS)
			break;
	PMPI_Comm_free_keyval(&comm_key);
	PMPI_Comm_free_keyval(&end_key);
	fm_table_close();
	fm_log_close();
	return MPI_SUCCESS;
}

/* prepare makes the keys, once for a process. */
static int prepare(int *key)
{
	int failed = MPI_SUCCESS;
	pthread_mutex_lock(&lock);
	if (comm_key == MPI_KEYVAL_INVALID) {
		failed = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &end_key, NULL);
		if (!failed)
			failed = PMPI_Comm_set_attr(MPI_COMM_SELF, end_key, NULL);
		if (!failed)
			failed = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &comm_key, NULL);
		int world = 0;
		PMPI_Comm_rank(MPI_COMM_WORLD, &world);
		if (*fm_settings()->mistake && world == 0)
			fm_say("%s", fm_settings()->mistake);
	}
	*key = comm_key;
	pthread_mutex_unlock(&lock);
	return failed;
}

/* name gives the communicator a number that no other of the job has. */
static int name(struct comm *c)
{
	if (c->rank == 0) {
		int world;
		PMPI_Comm_rank(MPI_COMM_WORLD, &world);
		pthread_mutex_lock(&lock);
		c->id = (uint64_t)world << 32 | made++;
		pthread_mutex_unlock(&lock);
	}
	return PMPI_Bcast(&c->id, 1, MPI_UINT64_T, 0, c->user);
}

/* introduce tells rank 0 who runs where. */
static int introduce(struct comm *c)
{
	struct identity me;
	fm_identity(&me);
	if (c->rank == 0 && !(c->who = calloc((size_t)c->size, sizeof *c->who)))
		return MPI_ERR_NO_MEM;
	return PMPI_Gather(&me, sizeof me, MPI_BYTE, c->who, sizeof me, MPI_BYTE, 0, c->user);
}

/* plan gets a communicator that has a channel ready for exchanges. */
static int plan(struct comm *c)
{
	c->requests = calloc(5 * (size_t)c->size, sizeof(MPI_Request));
	c->statuses = calloc(5 * (size_t)c->size, sizeof(MPI_Status));
	struct order order;
	int failed = c->requests && c->statuses ? name(c) : MPI_ERR_NO_MEM;
	if (!failed)
		failed = introduce(c);
	if (!failed)
		failed = fm_agree(c, NULL, &order);
	return failed;
}

int fm_join(struct comm *c)
{
	c->joined = true;
	int failed = fm_channel(c->user, c->rank, &c->channel, &c->tag);
	if (!failed && c->channel)
		failed = plan(c);
	else if (!failed)
		fm_warn(c, NO_CHANNEL, "the program has many communicators, and none is left for the shim's messages on this one");
	c->off = failed || !c->channel || c->plan.head.reason == NO_TABLE;
	return failed;
}

/* make makes the state of a communicator. */
static int make(MPI_Comm user, int size, int key, struct comm **made_of)
{
	struct comm *c = calloc(1, sizeof *c);
	if (!c)
		return MPI_ERR_NO_MEM;
	c->user = user;
	c->size = size;
	c->plan.head.epoch = UINT64_MAX; /* none that there is: the first agreement brings one */
	int failed = PMPI_Comm_rank(user, &c->rank);
	if (!failed)
		failed = PMPI_Comm_set_attr(user, key, c);
	if (failed) {
		free(c);
		return failed;
	}
	pthread_mutex_lock(&lock);
	c->next = all;
	if (all)
		all->before = c;
	all = c;
	pthread_mutex_unlock(&lock);
	*made_of = c;
	return MPI_SUCCESS;
}

int fm_comm(MPI_Comm user, struct comm **c)
{
	int begun, over, inter, size, key, found, failed;
	*c = NULL;
	if (user == MPI_COMM_NULL)
		return MPI_SUCCESS; /* MPI reports the error */
	/* A program of sessions alone has no MPI_COMM_WORLD, by which processes are distinguished here. */
	if ((failed = PMPI_Initialized(&begun)) || (failed = PMPI_Finalized(&over)))
		return failed;
	if (!begun || over)
		return MPI_SUCCESS;
	if ((failed = prepare(&key)) || (failed = PMPI_Comm_get_attr(user, key, c, &found)))
		return failed;
	if (!found) {
		*c = NULL;
		if ((failed = PMPI_Comm_test_inter(user, &inter)) || (failed = PMPI_Comm_size(user, &size)))
			return failed;
		if (inter || size < 2)
			return MPI_SUCCESS;
		if ((failed = make(user, size, key, c))) {
			PMPI_Comm_call_errhandler(user, failed);
			return failed;
		}
	}
	return MPI_SUCCESS;
}
