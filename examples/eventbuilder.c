/*
 * eventbuilder: a continuous all-to-all, as in the data acquisition of an
 * experiment. Every rank is a source and a builder. A source holds a fragment of
 * every event; all fragments of event e meet at builder e mod N. In each exchange a
 * builder receives one event: N fragments, of sizes that differ from event to event.
 * First sizes are exchanged, by MPI_Alltoall, then fragments, by MPI_Alltoallv.
 *
 *	mpicc -O2 -o eventbuilder eventbuilder.c
 *	mpirun -x LD_PRELOAD=libforsmpi.so ./eventbuilder [-b bytes] [-n exchanges]
 *
 * It knows nothing of plans: with libforsmpi preloaded its exchanges run by phase
 * table, and survive a change of epoch between two of them. Each second rank 0 prints
 * the throughput. SIGUSR1 (mpirun passes it on) ends the run after an exchange; so
 * does -n. The builders check each fragment: its event, source, size and every word.
 * The exit status is 1 where a fragment was lost, doubled or damaged.
 */
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A fragment in the buffer: this, and then words to make up its size. */
struct fragment {
	uint64_t event;
	uint32_t source, words;
};
enum { WORD = sizeof(uint64_t), HEADER = sizeof(struct fragment) / WORD };

/* What a rank has seen so far. */
enum { EVENTS, BYTES, LOST, DOUBLED, DAMAGED, COUNTERS };
static uint64_t seen[COUNTERS];

static int rank, size, most; /* most: words of a fragment */
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

/* mix makes a number of numbers that looks like chance. */
static uint64_t mix(uint64_t event, uint64_t source, uint64_t i)
{
	uint64_t x = event * 0x9E3779B97F4A7C15u + source * 0xBF58476D1CE4E5B9u + i * 0x94D049BB133111EBu;
	x ^= x >> 31;
	x *= 0xD6E8FEB86659FD93u;
	return x ^ x >> 32;
}

/* read_out puts a fragment into the buffer, as the detector's electronics would, and returns its words. */
static int read_out(uint64_t *buffer, uint64_t event)
{
	const uint32_t words = HEADER + (uint32_t)(mix(event, (uint64_t)rank, 0) % (uint64_t)(most - HEADER + 1));
	const struct fragment f = {event, (uint32_t)rank, words};
	memcpy(buffer, &f, sizeof f);
	for (uint32_t i = HEADER; i < words; i++)
		buffer[i] = mix(event, (uint64_t)rank, i);
	return (int)words;
}

/* check looks at the fragment of a source; expected[source] is its next event here. */
static void check(const uint64_t *buffer, int words, int source, uint64_t *expected)
{
	struct fragment f = {0};
	if (words >= HEADER)
		memcpy(&f, buffer, sizeof f);
	if (words < HEADER || f.source != (uint32_t)source || f.words != (uint32_t)words || f.event % (uint64_t)size != (uint64_t)rank) {
		seen[DAMAGED]++;
		return;
	}
	if (f.event < *expected) {
		seen[DOUBLED]++;
		return;
	}
	seen[LOST] += (f.event - *expected) / (uint64_t)size;
	*expected = f.event + (uint64_t)size;
	for (int i = HEADER; i < words; i++)
		if (buffer[i] != mix(f.event, f.source, (uint64_t)i)) {
			seen[DAMAGED]++;
			return;
		}
	seen[BYTES] += (uint64_t)words * WORD;
}

/* The buffers of a rank: a place for a fragment for, or from, each other rank. */
struct buffers {
	uint64_t *out, *in, *expected;
	int *out_words, *in_words, *places;
};

static struct buffers make_buffers(void)
{
	const size_t n = (size_t)size;
	struct buffers b = {malloc(n * (size_t)most * WORD), malloc(n * (size_t)most * WORD), calloc(n, sizeof *b.expected),
		calloc(n, sizeof(int)), calloc(n, sizeof(int)), calloc(n, sizeof(int))};
	if (!b.out || !b.in || !b.expected || !b.out_words || !b.in_words || !b.places) {
		fprintf(stderr, "eventbuilder: out of memory: take smaller fragments (-b)\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int r = 0; r < size; r++) {
		b.places[r] = r * most;
		b.expected[r] = (uint64_t)rank;
	}
	return b;
}

/* build does one exchange: each builder gets an event. */
static void build(struct buffers *b, uint64_t exchange)
{
	for (int d = 0; d < size; d++)
		b->out_words[d] = read_out(b->out + (size_t)d * (size_t)most, exchange * (uint64_t)size + (uint64_t)d);
	MPI_Alltoall(b->out_words, 1, MPI_INT, b->in_words, 1, MPI_INT, MPI_COMM_WORLD);
	MPI_Alltoallv(b->out, b->out_words, b->places, MPI_UINT64_T, b->in, b->in_words, b->places, MPI_UINT64_T, MPI_COMM_WORLD);
	for (int s = 0; s < size; s++)
		check(b->in + (size_t)s * (size_t)most, b->in_words[s], s, &b->expected[s]);
	seen[EVENTS]++;
}

/* report prints what was built since the last report, or in all. */
static void report(const char *what, double seconds, const uint64_t *since, uint64_t *sum)
{
	MPI_Reduce(seen, sum, COUNTERS, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank != 0)
		return;
	const uint64_t events = sum[EVENTS] - since[EVENTS], bytes = sum[BYTES] - since[BYTES];
	printf("%s: %" PRIu64 " events, %.0f a second, %.1f MB/s a builder, lost %" PRIu64 ", doubled %" PRIu64 ", damaged %" PRIu64 "\n", what, events,
		(double)events / seconds, 1e-6 * (double)bytes / seconds / size, sum[LOST], sum[DOUBLED], sum[DAMAGED]);
	fflush(stdout);
}

/* command is what rank 0 has all do next. */
enum command { GO_ON, REPORT, STOP };
static int command(double next_report, uint64_t exchange, uint64_t limit)
{
	int c = GO_ON;
	if (stop || (limit && exchange == limit))
		c = STOP;
	else if (MPI_Wtime() >= next_report)
		c = REPORT;
	MPI_Bcast(&c, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return c;
}

static void run(uint64_t limit)
{
	static const uint64_t zero[COUNTERS];
	uint64_t before[COUNTERS] = {0}, sum[COUNTERS] = {0};
	struct buffers b = make_buffers();
	const double begin = MPI_Wtime();
	double last = begin;
	for (uint64_t exchange = 0;; exchange++) {
		const int c = command(last + 1, exchange, limit);
		if (c == REPORT) {
			const double now = MPI_Wtime();
			report("last second", now - last, before, sum);
			memcpy(before, sum, sizeof before);
			last = now;
		}
		if (c == STOP)
			break;
		build(&b, exchange);
	}
	report("all", MPI_Wtime() - begin, zero, sum);
	MPI_Bcast(sum, COUNTERS, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	memcpy(seen, sum, sizeof seen);
	free(b.out);
	free(b.in);
	free(b.expected);
	free(b.out_words);
	free(b.in_words);
	free(b.places);
}

int main(int argc, char **argv)
{
	uint64_t limit = 0;
	int option, bytes = 65536;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	while ((option = getopt(argc, argv, "b:n:")) != -1)
		switch (option) {
		case 'b': bytes = atoi(optarg); break;
		case 'n': limit = strtoull(optarg, NULL, 10); break;
		default: bytes = 0;
		}
	most = bytes / WORD;
	if (most < HEADER || most > INT_MAX / size || optind != argc) { /* places are numbers of words, and int */
		if (rank == 0)
			fprintf(stderr, "usage: eventbuilder [-b largest fragment in bytes, 16 to %zu] [-n exchanges]\n", (size_t)(INT_MAX / size) * WORD);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	signal(SIGUSR1, on_signal);
	run(limit);
	MPI_Finalize();
	return seen[LOST] + seen[DOUBLED] + seen[DAMAGED] != 0;
}
