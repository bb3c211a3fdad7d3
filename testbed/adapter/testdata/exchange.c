/*
 * exchange: how long an all-to-all takes, of BYTES a pair of ranks, median of ROUNDS:
 * by MPI_Alltoall, as a linear shift in which all wait for each other after each phase, by MPI_Alltoall of a third of the ranks, or by MPI_Alltoallv:
 * lognormal blocks of BYTES on average, one block in five, or a rank in six that gets eight
 * times as much as others. An exchange of a 16th of the bytes goes before them, in which the
 * ranks connect. Every byte that arrives is checked. The throughput is that of the rank that
 * sends or receives most.
 *
 *	exchange alltoall|shift|third|lognormal|sparse|popular BYTES ROUNDS
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm comm = MPI_COMM_WORLD;
static int rank, size, bytes;
static int *sends, *receives, *to_place, *from_place; /* [rank] bytes, and where they are */
static char *out, *in;

/* chance is a number from 0 to 1 that belongs to a pair of ranks. */
static double chance(int from, int to, int what)
{
	uint64_t x = ((uint64_t)from * 1000003 + (uint64_t)to) * 1000003 + (uint64_t)what + 1;
	for (int i = 0; i < 3; i++)
		x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
	return ((double)(x >> 11) + 1) / 9007199254740993.;
}

/* length is that of the block from one rank to another. */
static int length(const char *way, int from, int to)
{
	if (!strcmp(way, "lognormal"))
		return (int)(bytes * exp(sqrt(-2 * log(chance(from, to, 0))) * cos(6.283185307 * chance(from, to, 1)) - .5));
	if (!strcmp(way, "sparse"))
		return chance(from, to, 0) < .2 ? bytes : 0;
	if (!strcmp(way, "popular"))
		return to % 6 ? bytes / 8 : bytes;
	return bytes;
}

/* shape gives the blocks their lengths and places, and returns what the busiest rank sends or receives. */
static double shape(const char *way)
{
	double sent = 0, received = 0, most;
	for (int r = 0, s = 0, t = 0; r < size; s += sends[r], t += receives[r], r++) {
		sends[r] = length(way, rank, r), receives[r] = length(way, r, rank);
		to_place[r] = s, from_place[r] = t;
		sent += r == rank ? 0 : sends[r], received += r == rank ? 0 : receives[r];
	}
	most = fmax(sent, received);
	MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
	free(out), free(in);
	out = malloc((size_t)to_place[size - 1] + (size_t)sends[size - 1] + 1);
	in = malloc((size_t)from_place[size - 1] + (size_t)receives[size - 1] + 1);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return most;
}

static void fill(int round)
{
	for (int to = 0; to < size; to++) {
		memset(out + to_place[to], rank * 31 + to * 7 + round, (size_t)sends[to]);
		memset(in + from_place[to], 0xee, (size_t)receives[to]);
	}
}

static long check(int round)
{
	long wrong = 0;
	for (int from = 0; from < size; from++) {
		const char want = (char)(from * 31 + rank * 7 + round);
		for (int i = 0; i < receives[from]; i++)
			wrong += in[from_place[from] + i] != want;
	}
	return wrong;
}

static void shift(void)
{
	memcpy(in + (size_t)rank * bytes, out + (size_t)rank * bytes, (size_t)bytes);
	for (int p = 1; p < size; p++) {
		const int to = (rank + p) % size, from = (rank - p + size) % size;
		MPI_Sendrecv(out + (size_t)to * bytes, bytes, MPI_BYTE, to, 0, in + (size_t)from * bytes, bytes, MPI_BYTE, from, 0,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

static void exchange(const char *way)
{
	if (!strcmp(way, "shift"))
		shift();
	else if (!strcmp(way, "alltoall") || !strcmp(way, "third"))
		MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
	else
		MPI_Alltoallv(out, sends, to_place, MPI_BYTE, in, receives, from_place, MPI_BYTE, comm);
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* measure has the ranks of comm exchange, and returns the wrong bytes of this one. */
static long measure(const char *way, int whole, int rounds)
{
	double took[rounds], most = 0;
	long wrong = 0;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	int table[4][size];
	sends = table[0], receives = table[1], to_place = table[2], from_place = table[3];
	for (int r = -1; r < rounds; r++) {
		if (r <= 0) {
			bytes = r < 0 ? whole / 16 : whole;
			most = shape(way);
		}
		fill(r);
		MPI_Barrier(comm);
		double t = -MPI_Wtime(), longest;
		exchange(way);
		t += MPI_Wtime();
		MPI_Allreduce(&t, &longest, 1, MPI_DOUBLE, MPI_MAX, comm);
		wrong += check(r);
		if (r >= 0)
			took[r] = longest;
	}
	qsort(took, (size_t)rounds, sizeof *took, ascending);
	if (rank == 0)
		printf("%s: %.6f s, %.0f bytes/s\n", way, took[rounds / 2], most / took[rounds / 2]);
	return wrong;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	const char *way = argc > 1 ? argv[1] : "alltoall";
	const int whole = argc > 2 ? atoi(argv[2]) : 65536, rounds = argc > 3 ? atoi(argv[3]) : 3;
	const int world = rank;
	if (!strcmp(way, "third"))
		MPI_Comm_split(MPI_COMM_WORLD, rank == 0 || chance(rank, 0, 2) < .33 ? 0 : MPI_UNDEFINED, rank, &comm);
	long wrong = comm == MPI_COMM_NULL ? 0 : measure(way, whole, rounds), all = 0;
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (world == 0)
		printf("wrong bytes: %ld\n", all);
	MPI_Finalize();
	return all != 0;
}
