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

/* Assigns as many of GPU (i,l)'s bytes for (j,k) to a NIC as it has room for. */
static inline void assign(struct forgpu_planner *p, int32_t i, int32_t j, int32_t l, int32_t k, int32_t nic)
{
	int64_t *left = &p->unassigned[l * p->m + k];
	int64_t bytes = least(*left, p->capacity[nic]);
	if (bytes == 0)
		return;
	p->unsorted[p->segment_count++] = (struct segment){l, k, nic, row(p, i, l, j)[k] - *left, bytes};
	*left -= bytes;
	p->capacity[nic] -= bytes;
}

/* Assigns the bytes of server i for server j to NICs with the room in capacity. */
static void ride_pair(struct forgpu_planner *p, int32_t i, int32_t j, bool stay)
{
	int32_t m = p->m;
	for (int32_t l = 0; l < m; l++)
		memcpy(p->unassigned + l * m, row(p, i, l, j), (size_t)m * sizeof *p->unassigned);
	for (int32_t l = 0; l < m; l++)
		assign(p, i, j, l, l, l);
	const int32_t *sender = p->by_out + i * m, *senders = sender + m, *receiver = p->by_in + j * m, *receivers = receiver + m;
	while (sender < senders || receiver < receivers) {
		if (receiver == receivers || (sender < senders && (stay || p->out[i * m + *sender] >= p->in[j * m + *receiver]))) {
			int32_t l = *sender++;
			for (int32_t k = 0; k < m && p->capacity[l] > 0; k++)
				assign(p, i, j, l, k, l);
		} else {
			int32_t k = *receiver++;
			for (int32_t l = 0; l < m && p->capacity[k] > 0; l++)
				assign(p, i, j, l, k, k);
		}
	}
	int32_t nic = 0;
	for (int32_t l = 0; l < m; l++) {
		for (int32_t k = 0; k < m; k++) {
			while (p->unassigned[l * m + k] > 0) {
				assign(p, i, j, l, k, nic);
				if (p->capacity[nic] == 0)
					nic++;
			}
		}
	}
}

/* Moves the segments of a pair, from first in unsorted on, to their streams, in order. */
static void sort_pair(struct forgpu_planner *p, size_t pair, size_t first)
{
	struct stream *streams = p->streams + pair * (size_t)p->m;
	memset(streams, 0, (size_t)p->m * sizeof *streams);
	for (size_t s = first; s < p->segment_count; s++)
		streams[p->unsorted[s].nic].segment++;
	size_t at = p->segment_count;
	for (int32_t nic = p->m; nic-- > 0;)
		streams[nic].segment = at -= streams[nic].segment;
	for (size_t s = first; s < p->segment_count; s++) {
		struct stream *stream = streams + p->unsorted[s].nic;
		p->segments[stream->segment + (size_t)stream->done++] = p->unsorted[s];
	}
	for (int32_t nic = 0; nic < p->m; nic++)
		streams[nic].done = 0;
}

static int lay_out_ride(struct forgpu_planner *p)
{
	size_t m = (size_t)p->m, ranks = (size_t)p->ranks;
	p->unassigned = room(&p->ride_memory, m * m + m + 2 * ranks, sizeof *p->unassigned);
	p->segments = room(&p->segments_memory, 2 * most_segments(p), sizeof *p->segments);
	if (!p->unassigned || !p->segments)
		return FORGPU_ENOMEM;
	p->capacity = p->unassigned + m * m;
	p->stream_left = p->capacity + m;
	p->unsorted = p->segments + most_segments(p);
	return FORGPU_OK;
}

/* Assigns the bytes that the own server sends and receives to NICs in equal shares. */
int ride(struct forgpu_planner *p, bool stay)
{
	if (lay_out_ride(p) < 0)
		return FORGPU_ENOMEM;
	busiest(p, p->out, p->by_out);
	busiest(p, p->in, p->by_in);
	p->segment_count = 0;
	for (int32_t i = 0; i < p->n; i++) {
		for (int32_t j = i == p->own ? 0 : p->own; j < (i == p->own ? p->n : p->own + 1); j++) {
			size_t pair = (size_t)(i == p->own ? j : p->n + i), first = p->segment_count;
			int64_t *left = p->stream_left + pair * (size_t)p->m;
			for (int32_t nic = 0; nic < p->m; nic++)
				p->capacity[nic] = left[nic] = evenly(p->pairs[i * p->n + j], p->m, nic);
			if (p->pairs[i * p->n + j] > 0)
				ride_pair(p, i, j, stay);
			sort_pair(p, pair, first);
		}
	}
	return FORGPU_OK;
}
