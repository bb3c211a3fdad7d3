/* clock.c: events, a heap by time; events of the same time are in the order in which they
 * were planned. */
#include <stdlib.h>
#include <time.h>

#include "fabric.h"

struct due {
	ns at;
	uint64_t number;
	action *act;
	void *argument;
};

static struct due *heap;
static size_t count, room;
static uint64_t planned;
struct lateness lateness;

ns now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (ns)t.tv_sec * 1000000000 + (ns)t.tv_nsec;
}

static bool before(const struct due *a, const struct due *b)
{
	return a->at < b->at || (a->at == b->at && a->number < b->number);
}

void at(ns when, action *act, void *argument)
{
	if (count == room) {
		room = room ? 2 * room : 1024;
		heap = realloc(heap, room * sizeof *heap);
		if (!heap)
			abort();
	}
	const struct due d = {when, planned++, act, argument};
	size_t i = count++;
	for (; i > 0 && before(&d, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = d;
}

ns next_event(void) { return count ? heap[0].at : UINT64_MAX; }

static struct due pop(void)
{
	const struct due top = heap[0], d = heap[--count];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= count)
			break;
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &d))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = d;
	return top;
}

/* run_events handles the events that are due, and returns their number. */
unsigned run_events(ns until, unsigned most)
{
	unsigned done = 0;
	for (; done < most && count && heap[0].at <= until; done++) {
		const struct due d = pop();
		const ns late = until - d.at;
		lateness.events++;
		lateness.sum += late;
		if (late > lateness.most)
			lateness.most = late;
		d.act(d.argument, d.at);
	}
	return done;
}
