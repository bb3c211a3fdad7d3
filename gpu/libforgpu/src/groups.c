/* Groups of NICs that send together, and the bytes between them: groups.go in C. */
#include <string.h>

#include "internal.h"

int32_t most_channels(const struct forgpu_planner *p)
{
	int64_t top = 0;
	for (int32_t i = 0; i < p->n; i++)
		top = most(top, p->channels[i]);
	return (int32_t)top;
}

/* Returns whether all servers have as many working NICs. */
bool alike(const struct forgpu_planner *p)
{
	for (int32_t i = 1; i < p->n; i++)
		if (p->channels[i] != p->channels[0])
			return false;
	return true;
}

static int lay_out_groups(struct forgpu_planner *p, int32_t count)
{
	size_t most_groups = 0;
	for (int32_t i = 0; i < p->n; i++)
		most_groups += (size_t)least(count, p->channels[i]);
	size_t cells = most_groups * most_groups, n = (size_t)p->n;
	p->group_count = (int32_t)most_groups;
	p->load = room(&p->groups_memory, 1, (4 * cells + most_groups) * sizeof *p->load + 2 * n * sizeof *p->fillers +
		       most_groups * sizeof *p->groups + (cells + n + 1) * sizeof *p->first_stream);
	if (!p->load || reserve_stages(&p->decomposer, p->group_count, ample(p, 0)) < 0)
		return FORGPU_ENOMEM;
	p->share = p->load + cells;
	p->rounded = p->share + cells;
	p->left = p->rounded + cells;
	p->columns = p->left + cells;
	p->fillers = (struct filler *)(p->columns + most_groups);
	p->groups = (struct group *)(p->fillers + 2 * n);
	p->first_stream = (int32_t *)(p->groups + most_groups);
	p->first_group = p->first_stream + cells;
	memset(p->load, 0, cells * sizeof *p->load);
	return FORGPU_OK;
}

/* How many bytes the first NICs of a server get, up to so many. */
static int64_t of(const struct filler *f, int64_t channels, int64_t nics)
{
	return f->total / channels * nics + least(f->total % channels, nics);
}

/* The room of the current group of a server. */
static int64_t space(const struct forgpu_planner *p, const struct filler *f, size_t server)
{
	const struct group *g = p->groups + p->first_group[server] + f->at;
	return of(f, p->channels[server], f->nics + g->width) - of(f, p->channels[server], f->nics) - f->used;
}

static void fill_group(const struct forgpu_planner *p, struct filler *f, size_t server, int64_t bytes)
{
	f->used += bytes;
	while (p->first_group[server] + f->at + 1 < p->first_group[server + 1] && space(p, f, server) == 0) {
		f->nics += p->groups[p->first_group[server] + f->at].width;
		f->at++;
		f->used = 0;
	}
}

/* Spreads the traffic between servers over their groups, and fills one after another. */
static void spread(struct forgpu_planner *p)
{
	size_t n = (size_t)p->n;
	struct filler *sends = p->fillers, *receives = sends + n;
	memset(sends, 0, 2 * n * sizeof *sends);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++) {
			sends[i].total += p->pairs[i * n + j];
			receives[j].total += p->pairs[i * n + j];
		}
	}
	for (size_t shift = 1; shift < n; shift++) {
		for (size_t i = 0; i < n; i++) {
			size_t j = (i + shift) % n;
			for (int64_t left = p->pairs[i * n + j]; left > 0;) {
				int64_t bytes = least(left, least(space(p, sends + i, i), space(p, receives + j, j)));
				size_t from = (size_t)(p->first_group[i] + sends[i].at), to = (size_t)(p->first_group[j] + receives[j].at);
				p->load[from * (size_t)p->group_count + to] += bytes;
				fill_group(p, sends + i, i, bytes);
				fill_group(p, receives + j, j, bytes);
				left -= bytes;
			}
		}
	}
}

/* The number of NICs of two groups, by their place in load, that can follow together. */
int32_t width(const struct forgpu_planner *p, size_t at)
{
	size_t count = (size_t)p->group_count;
	return (int32_t)least(p->groups[at / count].width, p->groups[at % count].width);
}

/* Divides the working NICs of each server into up to count groups, and the bytes among them. */
int divide(struct forgpu_planner *p, int32_t count)
{
	if (count == 0)
		count = alike(p) ? 1 : p->m;
	if (lay_out_groups(p, count) < 0)
		return FORGPU_ENOMEM;
	int32_t at = 0, nic = 0;
	for (int32_t i = 0; i < p->n; i++) {
		p->first_group[i] = at;
		int32_t left = (int32_t)p->channels[i];
		for (int32_t parts = (int32_t)least(count, left); parts > 0; parts--) {
			p->groups[at] = (struct group){i, nic, (int32_t)over(left, parts)};
			nic += p->groups[at].width;
			left -= p->groups[at++].width;
		}
	}
	p->first_group[p->n] = at;
	spread(p);
	size_t cell = 0;
	for (int32_t a = 0; a < at; a++)
		for (int32_t b = 0; b < at; b++, cell++)
			p->share[cell] = over(p->load[cell], least(p->groups[a].width, p->groups[b].width));
	return FORGPU_OK;
}

static bool is_taken(const struct forgpu_planner *p, size_t first, int32_t out, int32_t in)
{
	for (size_t s = first; s < p->stream_count; s++)
		if (p->streams[s].out == out || p->streams[s].in == in)
			return true;
	return false;
}

/* The number of a NIC's GPU in its server. */
static int32_t number(const struct forgpu_planner *p, int32_t server, int32_t rank)
{
	return p->places ? p->places[rank].gpu : rank - server * p->m;
}

/* Appends the streams between two groups: first those between NICs of GPUs of the same number. */
void add_streams(struct forgpu_planner *p, size_t at)
{
	const struct group *a = p->groups + at / (size_t)p->group_count, *b = p->groups + at % (size_t)p->group_count;
	size_t first = p->stream_count;
	int32_t total = width(p, at), count = 0;
	p->first_stream[at] = (int32_t)first;
	for (int same = 1; same >= 0; same--) {
		for (int32_t k = 0; k < a->width && count < total; k++) {
			int32_t out = p->nics[a->first + k];
			for (int32_t l = 0; l < b->width && count < total; l++) {
				int32_t in = p->nics[b->first + l];
				if ((same && number(p, a->server, out) != number(p, b->server, in)) || is_taken(p, first, out, in))
					continue;
				int64_t bytes = evenly(p->load[at], total, count++);
				p->streams[p->stream_count++] = (struct stream){out, in, home(p, a->server, out), home(p, b->server, in), bytes, bytes, 0, 0};
				break;
			}
		}
	}
}
