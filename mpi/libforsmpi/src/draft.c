/*
 * draft.c: rank 0 reads the rows of its communicator's servers out of a table.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* by_host finds the server by a local port, or by the host's name. */
static int by_host(const fors_table *table, const struct identity *id, char *text)
{
	int found = FORS_ENOTFOUND;
	for (int i = 0; i < id->ports; i++) {
		const int s = fors_find_guid(table, id->guid[i]);
		if (s >= 0 && found >= 0 && s != found) {
			snprintf(text, TEXT, "%s has several ports in the table: say by FORS_SERVER which one MPI uses", id->name);
			return FORS_EAMBIGUOUS;
		}
		if (s >= 0)
			found = s;
	}
	if (found >= 0)
		return found;
	found = fors_find_host(table, id->name, -1);
	if (found >= 0 && fors_find_host(table, id->name, found) >= 0) {
		snprintf(text, TEXT, "the table has several servers of host %s: say by FORS_SERVER which one MPI uses", id->name);
		return FORS_EAMBIGUOUS;
	}
	if (found < 0)
		snprintf(text, TEXT, "host %s is not in the table: name its server by FORS_SERVER or FORS_SERVER_MAP", id->name);
	return found;
}

/* server_of finds the server of a process, or the reason why it cannot. */
static int server_of(const fors_table *table, const struct identity *id, char *text)
{
	struct fors_error err;
	switch (id->known) {
	case BY_HOST:
		return by_host(table, id, text);
	case BY_NAME: {
		const int s = fors_find(table, id->name, &err);
		if (s < 0)
			snprintf(text, TEXT, "%s", err.text);
		return s;
	}
	}
	snprintf(text, TEXT, "%s", id->name);
	return FORS_ENOTFOUND;
}

/* Rank 0's work: the state of the table's servers and phases. */
struct work {
	const fors_table *table;
	int *server;   /* [group] */
	int *group_of; /* [server] group, or −1 */
	int *step_of;  /* [phase] step, or −1 */
	int *sent, *heard; /* [group] 1 + the last group that was seen to send there, to receive from there */
};

/* group puts the processes of one server together; it returns false if a process has no server. */
static bool group(struct draft *d, struct work *w, const struct identity *who, int size)
{
	for (uint32_t s = 0; s < fors_info(w->table)->servers; s++)
		w->group_of[s] = -1;
	for (int r = 0; r < size; r++) {
		char text[TEXT];
		const int s = server_of(w->table, &who[r], text);
		if (s < 0) {
			snprintf(d->text, TEXT, "epoch %" PRIu64 ", rank %d: %.200s", d->head.epoch, who[r].rank, text);
			return false;
		}
		if (w->group_of[s] < 0) {
			struct fors_server server;
			fors_server(w->table, s, &server);
			w->group_of[s] = d->head.groups;
			d->guid[d->head.groups] = server.guid;
			w->server[d->head.groups++] = s;
		}
		d->group[r] = w->group_of[s];
	}
	return true;
}

/* peer is the group of a server that an entry names, or −1. */
static int peer(const struct work *w, int server) { return server < 0 ? -1 : w->group_of[server]; }

/* number maps the phases in which the groups have transfers to step numbers. */
static void number(struct draft *d, struct work *w)
{
	const uint32_t phases = fors_info(w->table)->phases;
	for (uint32_t p = 0; p < phases; p++) {
		w->step_of[p] = -1;
		for (int g = 0; g < d->head.groups && w->step_of[p] < 0; g++)
			if (peer(w, fors_entry(w->table, w->server[g], p).send_to) >= 0)
				w->step_of[p] = d->head.meetings++;
	}
}

/* once records that group g meets a peer, and returns the peer if it is the first time, or −1. */
static int once(int *met, int peer, int g)
{
	if (peer < 0 || met[peer] == g + 1)
		return -1;
	met[peer] = g + 1;
	return peer;
}

/* order gives transfers their steps, and fills in the order in which they use a link. */
static bool order(struct draft *d, const struct work *w)
{
	uint16_t *leaf = calloc((size_t)d->head.groups, sizeof *leaf);
	for (int g = 0; leaf && g < d->head.groups; g++) {
		struct fors_server server;
		fors_server(w->table, w->server[g], &server);
		leaf[g] = server.leaf;
	}
	const uint32_t lanes = fors_info(w->table)->lanes;
	const bool good = leaf && (!fors_info(w->table)->own_cables || fm_part(d, leaf, lanes)) && (fm_settings()->sync != BY_LINKS || fm_links(d, leaf, lanes));
	free(leaf);
	return good;
}

/*
 * fill writes the rows of all groups. If the format gives a pair several phases, it still
 * exchanges its blocks once: the first phase counts, for the sender as for the receiver.
 */
static void fill(struct draft *d, const struct work *w)
{
	const uint32_t phases = fors_info(w->table)->phases;
	int rows = 0;
	for (int g = 0; g < d->head.groups; g++) {
		d->first[g] = rows;
		for (uint32_t p = 0; p < phases; p++) {
			const struct fors_entry e = fors_entry(w->table, w->server[g], p);
			const int to = once(w->sent, peer(w, e.send_to), g), from = once(w->heard, peer(w, e.recv_from), g);
			if (to >= 0 || from >= 0)
				d->row[rows++] = (struct row){.step = w->step_of[p], .to = to, .from = from, .phase = {(int)p, (int)p},
					.met = {w->step_of[p], w->step_of[p]}, .lane = e.lane, .dlid = e.dlid,
					.tell = {-1, -1, -1}, .wait = {-1, -1, -1}};
		}
	}
	d->first[d->head.groups] = rows;
}

void fm_draft(struct draft *d, const fors_table *table, const struct identity *who, int size)
{
	const struct fors_info *info = fors_info(table);
	struct work w = {.table = table};
	d->head.epoch = info->epoch;
	d->head.reason = NO_SERVER;
	d->group = calloc((size_t)size, sizeof *d->group);
	d->guid = calloc((size_t)size, sizeof *d->guid);
	d->first = calloc((size_t)size + 1, sizeof *d->first);
	w.server = calloc((size_t)size, sizeof *w.server);
	w.group_of = calloc((size_t)info->servers + 1, sizeof *w.group_of);
	w.step_of = calloc((size_t)info->phases + 1, sizeof *w.step_of);
	w.sent = calloc((size_t)size, sizeof *w.sent);
	w.heard = calloc((size_t)size, sizeof *w.heard);
	snprintf(d->text, TEXT, "out of memory for the plan of epoch %" PRIu64, d->head.epoch);
	if (d->group && d->guid && d->first && w.server && w.group_of && w.step_of && w.sent && w.heard && group(d, &w, who, size)) {
		number(d, &w);
		d->head.steps = d->head.meetings;
		d->row = calloc((size_t)d->head.groups * (size_t)d->head.steps + 1, sizeof *d->row);
		if (d->row)
			fill(d, &w);
		if (d->row && order(d, &w))
			d->head.reason = d->head.groups > 1 ? PLANNED : ONE_SERVER;
	}
	free(w.server);
	free(w.group_of);
	free(w.step_of);
	free(w.sent);
	free(w.heard);
}

void fm_draft_free(struct draft *d)
{
	free(d->group);
	free(d->guid);
	free(d->row);
	free(d->first);
}
