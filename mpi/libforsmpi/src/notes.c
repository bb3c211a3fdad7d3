/*
 * notes.c: now and then (FORS_MEASURE) the processes of a communicator note when they send
 * and receive in an exchange by the plan. Rank 0 collects the notes and gives them to forsd,
 * which finds slow cables by them.
 *
 * A server has sent in a phase of the table when its first process has, and received when its
 * last one has. Only exchanges whose blocks are equal are noted, and servers that have as many
 * processes. Not the first by a plan: it makes connections.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim.h"

enum {
	MOST = 1 << 18, /* transfers that are noted, about */
	DIGITS = 22,    /* of a number, with its comma */
};

static int steps(const struct comm *c, int every) { return (c->plan.head.meetings + every - 1) / every; }

/* even reports whether all servers have as many processes. */
static bool even(const struct schedule *s)
{
	for (int g = 0; g < s->head.groups; g++)
		if (s->first[g + 1] - s->first[g] != s->first[1])
			return false;
	return true;
}

void fm_notes_choose(struct comm *c, struct order *order)
{
	const struct head *now = &order->head;
	if (order->way != BY_PLAN || now->reason != PLANNED)
		return;
	const double at = PMPI_Wtime();
	const bool due = c->noted_at == 0 || at >= c->noted_at + fm_settings()->measure;
	/* A schedule that is new is not shared yet. */
	if (fm_settings()->measure > 0 && c->warm && due && !order->timed && now->epoch == c->plan.head.epoch && even(&c->plan)) {
		const int every = 1 + (int)((int64_t)now->meetings * now->groups / MOST);
		/* Its own notes, those of a process, the times of a server, and the phases. */
		free(c->notes);
		if ((c->notes = malloc(sizeof *c->notes * 9 * (size_t)steps(c, every))))
			order->every = every;
		c->noted_at = at;
	}
	c->warm = true;
}

void fm_notes_begin(struct comm *c, const struct order *order)
{
	const size_t size = sizeof *c->notes * 3 * (size_t)steps(c, order->every);
	c->every = order->every;
	if (c->rank > 0)
		c->notes = malloc(size);
	if (c->notes)
		memset(c->notes, 0, size);
}

void fm_note(struct comm *c, const struct row *row, enum note what)
{
	struct timespec now;
	const int met = row->met[what == RECEIVED];
	if (!c->every || !c->notes || met % c->every)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t *at = c->notes + 3 * (met / c->every);
	at[0] = row->phase[what == RECEIVED] + 1;
	at[what] = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* receive adds the notes of a rank to the times of its server, and to the phases. */
static int receive(struct comm *c, int rank, int n, int64_t *phases, int64_t *sent, int64_t *received)
{
	int64_t *of = c->notes;
	int failed = MPI_SUCCESS, bytes = 0;
	if (rank != c->rank) {
		MPI_Status status;
		of += 3 * n;
		failed = PMPI_Recv(of, (int)sizeof *of * 3 * n, MPI_BYTE, rank, c->tag, c->channel->comm, &status);
		if (!failed)
			failed = PMPI_Get_count(&status, MPI_BYTE, &bytes);
		if (failed || bytes == 0)
			return failed;
	}
	for (int i = 0; i < n; i++) {
		if (of[3 * i] > phases[i])
			phases[i] = of[3 * i];
		if (of[3 * i + SENT] && (!sent[i] || of[3 * i + SENT] < sent[i]))
			sent[i] = of[3 * i + SENT];
		if (of[3 * i + RECEIVED] > received[i])
			received[i] = of[3 * i + RECEIVED];
	}
	return failed;
}

/* put writes a list of numbers less another, zeros as they are, and returns the end of it. */
static char *put(char *out, const char *name, const int64_t *list, int n, int64_t less)
{
	out += sprintf(out, "\"%s\":[", name);
	for (int i = 0; i < n; i++)
		out += sprintf(out, "%s%" PRId64, i ? "," : "", list[i] ? list[i] - less : 0);
	*out++ = ']';
	return out;
}

/*
 * collect makes what forsd takes of all notes.
 */
static int collect(struct comm *c, MPI_Count bytes, char **json)
{
	const struct schedule *s = &c->plan;
	const int n = steps(c, c->every), ranks = s->first[1];
	int64_t *sent = c->notes + 6 * n, *received = sent + n, *phases = received + n, begin = 0;
	memset(phases, 0, sizeof *phases * (size_t)n);
	for (int i = 0; i < n && !begin; i++)
		begin = c->notes[3 * i + SENT] - 1;
	char *out = *json = malloc((size_t)(s->head.groups + 1) * ((size_t)n * 2 * DIGITS + 128));
	int failed = MPI_SUCCESS;
	if (out)
		out += sprintf(out, "{\"bytes\":%lld,\"servers\":[", (long long)bytes * ranks * ranks);
	for (int g = 0; g < s->head.groups; g++) {
		memset(sent, 0, sizeof *sent * 2 * (size_t)n);
		for (int i = s->first[g]; i < s->first[g + 1]; i++) {
			const int now = receive(c, s->member[i], n, phases, sent, received);
			failed = failed ? failed : now;
		}
		if (!out)
			continue;
		out += sprintf(out, "%s{\"guid\":\"0x%016" PRIx64 "\",", g ? "," : "", s->guid[g]);
		out = put(out, "sent", sent, n, begin);
		*out++ = ',';
		out = put(out, "received", received, n, begin);
		*out++ = '}';
	}
	if (out) {
		*out++ = ']';
		*out++ = ',';
		out = put(out, "phases", phases, n, 1);
		strcpy(out, "}");
	}
	return failed;
}

int fm_notes_end(struct comm *c, MPI_Count bytes)
{
	int failed = MPI_SUCCESS;
	char *json = NULL;
	if (c->every && c->rank > 0)
		failed = PMPI_Send(c->notes, c->notes ? (int)sizeof *c->notes * 3 * steps(c, c->every) : 0, MPI_BYTE, 0, c->tag, c->channel->comm);
	else if (c->every)
		failed = collect(c, bytes, &json);
	struct fors_error err;
	if (json && !failed && fm_table_times(json, &err)) {
		c->noted_at = INFINITY;
		if (fm_settings()->verbose)
			fm_say("FORS_MEASURE: no exchange is noted any more: %s", err.text);
	}
	free(json);
	free(c->notes);
	c->notes = NULL;
	c->every = 0;
	return failed;
}
