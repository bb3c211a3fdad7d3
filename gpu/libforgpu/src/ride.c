/* Assigns the bytes that the own server sends and receives to NICs: ride.go in C. */
#include <string.h>

#include "internal.h"

/* Sorts the GPUs of each server by load, the busiest first. */
static void busiest(const struct forgpu_planner *p, const int64_t *loads, int32_t *order)
{
	for (int32_t i = 0; i < p->n; i++, loads += p->m, order += p->m) {
		for (int32_t l = 0; l < p->m; l++) {
			int32_t at = l;
			for (; at > 0 && loads[order[at - 1]] < loads[l]; at--)
				order[at] = order[at - 1];
			order[at] = l;
		}
	}
}

/* The messages of GPU (i,l) for server j in the matrix. */
static const int64_t *row(const struct forgpu_planner *p, int32_t i, int32_t l, int32_t j)
{
	return p->bytes + (size_t)(i * p->m + l) * (size_t)p->ranks + (size_t)j * (size_t)p->m;
}

/* Assigns as many of GPU (i,l)'s bytes for (j,k) to a stream as it has room for. */
static inline void assign(struct forgpu_planner *p, int32_t i, int32_t j, int32_t l, int32_t k, size_t stream)
{
	int64_t *left = &p->unassigned[l * p->m + k], *space = &p->streams[stream].room;
	int64_t bytes = least(*left, *space);
	if (bytes == 0)
		return;
	p->unsorted[p->segment_count++] = (struct segment){l, k, (int32_t)stream, row(p, i, l, j)[k] - *left, bytes};
	*left -= bytes;
	*space -= bytes;
}

/* Assigns the bytes of server i for server j to its streams, from first on. */
static void ride_pair(struct forgpu_planner *p, int32_t i, int32_t j, size_t first, bool stay)
{
	int32_t m = p->m;
	for (int32_t l = 0; l < m; l++)
		memcpy(p->unassigned + l * m, row(p, i, l, j), (size_t)m * sizeof *p->unassigned);
	for (size_t s = first; s < p->stream_count; s++)
		assign(p, i, j, p->streams[s].from, p->streams[s].to, s);
	const int32_t *sender = p->by_out + i * m, *senders = sender + m, *receiver = p->by_in + j * m, *receivers = receiver + m;
	while (sender < senders || receiver < receivers) {
		bool sends = receiver == receivers || (sender < senders && (stay || p->out[i * m + *sender] >= p->in[j * m + *receiver]));
		int32_t gpu = sends ? *sender++ : *receiver++;
		for (size_t s = first; s < p->stream_count; s++) {
			struct stream *x = p->streams + s;
			if (x->room == 0 || (sends ? x->from : x->to) != gpu)
				continue;
			for (int32_t k = 0; k < m && x->room > 0; k++)
				assign(p, i, j, sends ? gpu : k, sends ? k : gpu, s);
		}
	}
	size_t s = first;
	for (int32_t l = 0; l < m; l++) {
		for (int32_t k = 0; k < m; k++) {
			while (p->unassigned[l * m + k] > 0) {
				assign(p, i, j, l, k, s);
				if (p->streams[s].room == 0)
					s++;
			}
		}
	}
}

/* Moves segments, from first in unsorted on, to their streams, from stream on, in order. */
static void sort_pair(struct forgpu_planner *p, size_t stream, size_t first)
{
	for (size_t s = first; s < p->segment_count; s++)
		p->streams[p->unsorted[s].stream].segment++;
	size_t at = p->segment_count;
	for (size_t s = p->stream_count; s-- > stream;)
		p->streams[s].segment = at -= p->streams[s].segment;
	for (size_t s = first; s < p->segment_count; s++) {
		struct stream *x = p->streams + p->unsorted[s].stream;
		p->segments[x->segment + (size_t)x->done++] = p->unsorted[s];
	}
	for (size_t s = stream; s < p->stream_count; s++)
		p->streams[s].done = 0;
}

static int lay_out_ride(struct forgpu_planner *p)
{
	size_t m = (size_t)p->m;
	p->streams = room(&p->ride_memory, 1, most_streams(p) * sizeof *p->streams + m * m * sizeof *p->unassigned);
	p->segments = room(&p->segments_memory, 2 * most_segments(p), sizeof *p->segments);
	if (!p->streams || !p->segments)
		return FORGPU_ENOMEM;
	p->unassigned = (int64_t *)(p->streams + most_streams(p));
	p->unsorted = p->segments + most_segments(p);
	return FORGPU_OK;
}

/* Assigns the bytes that the own server sends and receives to streams. */
int ride(struct forgpu_planner *p, bool stay)
{
	if (lay_out_ride(p) < 0)
		return FORGPU_ENOMEM;
	busiest(p, p->out, p->by_out);
	busiest(p, p->in, p->by_in);
	p->segment_count = p->stream_count = 0;
	for (int32_t i = 0; i < p->n; i++) {
		for (int32_t j = i == p->own ? 0 : p->own; j < (i == p->own ? p->n : p->own + 1); j++) {
			if (p->pairs[i * p->n + j] == 0)
				continue;
			size_t first = p->segment_count, stream = p->stream_count;
			for (int32_t a = p->first_group[i]; a < p->first_group[i + 1]; a++)
				for (int32_t b = p->first_group[j]; b < p->first_group[j + 1]; b++)
					if (p->load[a * p->group_count + b] > 0)
						add_streams(p, (size_t)(a * p->group_count + b));
			ride_pair(p, i, j, stream, stay);
			sort_pair(p, stream, first);
		}
	}
	return FORGPU_OK;
}
