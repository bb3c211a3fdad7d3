/* NICs that are dead or slow: site.go in C. */
#include <string.h>

#include "internal.h"

static int64_t places_of(int64_t speed, int64_t unit) { return most(1, speed / unit); }

/* Makes the places of a server, from number at on: a GPU has one for each channel of its NIC. */
static void place_server(struct forgpu_planner *p, int32_t server, const int64_t *speeds)
{
	int32_t at = server * p->each, end = at + p->each;
	for (int32_t g = 0; g < p->gpus; g++) {
		int32_t first = p->first[server * p->gpus + g] = at;
		for (int64_t left = places_of(speeds[g], p->unit); left > 0; left--)
			p->places[at++] = (struct forgpu_place){g, speeds[g] >= p->unit ? g : -1, first};
	}
	for (; at < end; at++)
		p->places[at] = (struct forgpu_place){-1, -1, at};
}

int forgpu_nics(forgpu_planner *p, int32_t servers, int32_t gpus, const int64_t *speeds, int32_t parts,
		const struct forgpu_place **places, struct forgpu_error *err)
{
	if (!p)
		return fail(err, FORGPU_EINVAL, "the planner is NULL");
	if (check_cluster(servers, gpus, err) < 0)
		return FORGPU_EINVAL;
	p->places = NULL;
	if (!speeds)
		return gpus;
	if (parts < 1 || parts > FORGPU_MAX_RANKS)
		return fail(err, FORGPU_EINVAL, "the fastest NIC as %d channels: want 1 to %d", parts, FORGPU_MAX_RANKS);
	int64_t speed = 1, each = 0;
	for (int32_t r = 0; r < servers * gpus; r++) {
		if (speeds[r] < 0 || speeds[r] > 100000000000000)
			return fail(err, FORGPU_EINVAL, "NIC %d has the speed %lld: want 0 to 1e14", r, (long long)speeds[r]);
		speed = most(speed, speeds[r]);
	}
	int64_t unit = most(1, speed / parts);
	for (int32_t i = 0; i < servers; i++) {
		int64_t sum = 0;
		for (int32_t g = 0; g < gpus; g++)
			sum += places_of(speeds[i * gpus + g], unit);
		each = most(each, sum);
	}
	if (each > FORGPU_MAX_RANKS / servers)
		return fail(err, FORGPU_EINVAL, "%d servers of %lld channels each: want at most %d in all", servers, (long long)each, FORGPU_MAX_RANKS);
	size_t count = (size_t)servers * (size_t)each;
	struct forgpu_place *at = room(&p->site_memory, 1, count * sizeof *at + (size_t)servers * (size_t)gpus * sizeof *p->first);
	if (!at)
		return fail(err, FORGPU_ENOMEM, "no memory");
	p->places = at;
	p->first = (int32_t *)(at + count);
	p->servers = servers;
	p->gpus = gpus;
	p->each = (int32_t)each;
	p->unit = unit;
	p->speed = speed;
	for (int32_t i = 0; i < servers; i++)
		place_server(p, i, speeds + i * gpus);
	if (places)
		*places = at;
	return p->each;
}
