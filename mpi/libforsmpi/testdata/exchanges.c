/*
 * exchanges SEED N [gaps|later|large|persistent]: N random exchanges, each done by
 * MPI_Alltoall*, by MPI_Ialltoall* with a wait, by the functions of large counts, or
 * persistent ones that are started twice; and by PMPI_Alltoall*, which must not differ. Drawn are the function, the communicator (all ranks, some, all in
 * another order, several at once, two that face each other), MPI_IN_PLACE, the
 * datatypes of either side, counts from none to some 10 KB, and displacements.
 * Prints a digest of all results, and the differences.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;
static int rank, size;

/* draw is a random number that depends on what it is for, so that all ranks draw alike. */
static uint64_t draw(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = seed * 0x9E3779B97F4A7C15u ^ (a + 1) * 0xBF58476D1CE4E5B9u ^ (b + 1) * 0x94D049BB133111EBu ^ (c + 1) * 0xD6E8FEB86659FD93u;
	for (int i = 0; i < 3; i++) {
		x ^= x >> 29;
		x *= 0xBF58476D1CE4E5B9u;
		x ^= x >> 32;
	}
	return x;
}

/*
 * Datatypes by their content and its layout: types that hold the same match each
 * other on the two sides.
 */
enum { HOLDS = 4, LAYOUTS = 5 };
static MPI_Datatype types[HOLDS][LAYOUTS];

static void integers(MPI_Datatype *t, int n)
{
	int place[8], backwards[8], ones[8];
	for (int i = 0; i < n; i++) {
		place[i] = 2 * i + 1; /* the first is not at the beginning */
		backwards[i] = n - 1 - i;
		ones[i] = 1;
	}
	MPI_Type_contiguous(n, MPI_INT, &t[0]);
	MPI_Type_vector(n, 1, 3, MPI_INT, &t[1]);
	MPI_Type_create_resized(t[0], 0, 4 * n + 8, &t[2]);
	MPI_Type_indexed(n, ones, place, MPI_INT, &t[3]);
	MPI_Type_indexed(n, ones, backwards, MPI_INT, &t[4]);
}

/* An int, a double and a char: as C has them, apart, and in another order. */
static void mixed(MPI_Datatype *t)
{
	static const MPI_Aint at[LAYOUTS][3] = {{0, 8, 16}, {0, 16, 40}, {8, 16, 24}, {16, 8, 0}, {24, 0, 12}};
	const MPI_Datatype of[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
	const int ones[] = {1, 1, 1};
	for (int l = 0; l < LAYOUTS; l++) {
		MPI_Datatype bare;
		MPI_Type_create_struct(3, ones, at[l], of, &bare);
		MPI_Type_create_resized(bare, 0, 48, &t[l]);
		MPI_Type_free(&bare);
	}
}

static void make_types(void)
{
	for (int h = 0; h < HOLDS - 1; h++)
		integers(types[h], 1 + 2 * h);
	mixed(types[HOLDS - 1]);
	for (int h = 0; h < HOLDS; h++)
		for (int l = 0; l < LAYOUTS; l++)
			MPI_Type_commit(&types[h][l]);
}

/* One side of an exchange. */
struct side {
	int *counts, *displs;
	MPI_Datatype *types;
	char *buffer;
	size_t length;
};

/* An exchange: a is its number; n peers, me among the local ones. */
struct exchange {
	uint64_t a;
	int function, n, me;
	bool in_place;
	MPI_Comm comm;
};

/* amount is how many elements one rank has for another. */
static int amount(const struct exchange *x, int from, int to)
{
	if (x->function == 0)
		from = to = 0;
	if (x->in_place && from > to)
		return amount(x, to, from);
	const uint64_t d = draw(x->a, 100 + (uint64_t)from, (uint64_t)to);
	switch (d % 8) {
	case 0: case 1: return 0;
	case 2: return (int)(d >> 8) % 600 & 0x3ff;
	default: return (int)(d >> 8 & 7);
	}
}

/* type_of is the type of one side of a transfer; MPI_Alltoallw may have another for each. */
static MPI_Datatype type_of(const struct exchange *x, int from, int to, bool receiving)
{
	if (x->in_place && from > to)
		return type_of(x, to, from, receiving);
	const uint64_t h = x->function < 2 ? draw(x->a, 3, 0) : draw(x->a, 4, (uint64_t)(from * 4096 + to));
	uint64_t l = x->function < 2 ? draw(x->a, 5, (uint64_t)rank) : draw(x->a, 6, (uint64_t)(from * 4096 + to));
	if (receiving && !x->in_place)
		l /= 7;
	return types[h % HOLDS][l % LAYOUTS];
}

/* lay places the blocks, in any order, with gaps. */
static void lay(const struct exchange *x, struct side *s, bool receiving)
{
	int *order = malloc(sizeof(int) * (size_t)x->n);
	s->counts = malloc(sizeof(int) * (size_t)x->n);
	s->displs = malloc(sizeof(int) * (size_t)x->n);
	s->types = malloc(sizeof(MPI_Datatype) * (size_t)x->n);
	for (int i = 0; i < x->n; i++) {
		const int j = x->function == 0 ? i : (int)(draw(x->a, 7 + receiving, (uint64_t)(rank * 4096 + i)) % (uint64_t)(i + 1));
		order[i] = order[j];
		order[j] = i;
		if (x->function == 0)
			order[i] = i;
	}
	size_t end = 0; /* in elements for the first two functions, then in bytes */
	for (int i = 0; i < x->n; i++) {
		const int p = order[i], from = receiving ? p : x->me, to = receiving ? x->me : p;
		MPI_Aint lower, extent;
		s->counts[p] = amount(x, from, to);
		s->types[p] = type_of(x, from, to, receiving);
		MPI_Type_get_extent(s->types[p], &lower, &extent);
		end += x->function == 0 ? 0 : x->function == 1 ? draw(x->a, 9, (uint64_t)p) % 3 : 8 * (draw(x->a, 9, (uint64_t)p) % 5);
		s->displs[p] = (int)end;
		end += (size_t)s->counts[p] * (x->function < 2 ? 1 : (size_t)extent + 8);
		if (x->function == 2)
			end = (end + 64) & ~(size_t)7;
		if (x->function < 2 && i == x->n - 1)
			end *= (size_t)extent;
	}
	s->length = (end + 128) & ~(size_t)7;
	s->buffer = malloc(s->length);
	for (size_t b = 0; b < s->length; b += 8) {
		const uint64_t word = draw(x->a, 2 * (uint64_t)rank + receiving, b);
		memcpy(s->buffer + b, &word, 8);
	}
	free(order);
}

static void drop(struct side *s)
{
	free(s->counts);
	free(s->displs);
	free(s->types);
	free(s->buffer);
}

/* run does the exchange by the functions of the given names. */
#define RUN(name, prefix)                                                                                                                  \
	static void name(const struct exchange *x, const struct side *s, const struct side *r, void *to)                                        \
	{                                                                                                                                        \
		const void *from = x->in_place ? MPI_IN_PLACE : s->buffer;                                                                           \
		switch (x->function) {                                                                                                              \
		case 0: prefix##MPI_Alltoall(from, s->counts[0], s->types[0], to, r->counts[0], r->types[0], x->comm); break;                        \
		case 1: prefix##MPI_Alltoallv(from, s->counts, s->displs, s->types[0], to, r->counts, r->displs, r->types[0], x->comm); break;       \
		case 2: prefix##MPI_Alltoallw(from, s->counts, s->displs, s->types, to, r->counts, r->displs, r->types, x->comm); break;             \
		}                                                                                                                                    \
	}
RUN(at_once, )
RUN(by_mpi, P)

static void later(const struct exchange *x, const struct side *s, const struct side *r, void *to)
{
	const void *from = x->in_place ? MPI_IN_PLACE : s->buffer;
	MPI_Request request;
	switch (x->function) {
	case 0: MPI_Ialltoall(from, s->counts[0], s->types[0], to, r->counts[0], r->types[0], x->comm, &request); break;
	case 1: MPI_Ialltoallv(from, s->counts, s->displs, s->types[0], to, r->counts, r->displs, r->types[0], x->comm, &request); break;
	default: MPI_Ialltoallw(from, s->counts, s->displs, s->types, to, r->counts, r->displs, r->types, x->comm, &request); break;
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

#if MPI_VERSION >= 4
static void large(const struct exchange *x, const struct side *s, const struct side *r, void *to)
{
	const void *from = x->in_place ? MPI_IN_PLACE : s->buffer;
	MPI_Count *counts = malloc(2 * sizeof *counts * (size_t)x->n);
	MPI_Aint *displs = malloc(2 * sizeof *displs * (size_t)x->n);
	for (int i = 0; i < x->n; i++) {
		counts[i] = s->counts[i], counts[x->n + i] = r->counts[i];
		displs[i] = s->displs[i], displs[x->n + i] = r->displs[i];
	}
	switch (x->function) {
	case 0: MPI_Alltoall_c(from, counts[0], s->types[0], to, counts[x->n], r->types[0], x->comm); break;
	case 1: MPI_Alltoallv_c(from, counts, displs, s->types[0], to, counts + x->n, displs + x->n, r->types[0], x->comm); break;
	case 2: MPI_Alltoallw_c(from, counts, displs, s->types, to, counts + x->n, displs + x->n, r->types, x->comm); break;
	}
	free(counts);
	free(displs);
}

static void persistent(const struct exchange *x, const struct side *s, const struct side *r, void *to)
{
	const void *from = x->in_place ? MPI_IN_PLACE : s->buffer;
	MPI_Request request;
	switch (x->function) {
	case 0: MPI_Alltoall_init(from, s->counts[0], s->types[0], to, r->counts[0], r->types[0], x->comm, MPI_INFO_NULL, &request); break;
	case 1: MPI_Alltoallv_init(from, s->counts, s->displs, s->types[0], to, r->counts, r->displs, r->types[0], x->comm, MPI_INFO_NULL, &request); break;
	default: MPI_Alltoallw_init(from, s->counts, s->displs, s->types, to, r->counts, r->displs, r->types, x->comm, MPI_INFO_NULL, &request); break;
	}
	for (int i = 0; i < (x->in_place ? 1 : 2); i++) { /* in place, a second one would send the received data back */
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Request_free(&request);
}
#endif

static void (*by_shim)(const struct exchange *, const struct side *, const struct side *, void *) = at_once;

static uint64_t digest;

/*
 * transfer_data puts the data of all blocks of one buffer into another, whose bytes
 * between and around them stay, and computes a digest of it.
 */
static uint64_t transfer_data(const struct exchange *x, const struct side *r, const char *from, char *to)
{
	uint64_t sum = 14695981039346656037u;
	for (int p = 0; p < x->n; p++) {
		MPI_Aint lower, extent;
		MPI_Type_get_extent(r->types[p], &lower, &extent);
		const MPI_Aint at = x->function == 0 ? p * r->counts[p] * extent : x->function == 1 ? r->displs[p] * extent : r->displs[p];
		int room, length = 0, position = 0;
		MPI_Pack_size(r->counts[p], r->types[p], x->comm, &room);
		char *packed = malloc((size_t)room + 1);
		MPI_Pack(from + at, r->counts[p], r->types[p], packed, room, &length, x->comm);
		MPI_Unpack(packed, length, &position, to + at, r->counts[p], r->types[p], x->comm);
		for (int b = 0; b < length; b++)
			sum = (sum ^ (unsigned char)packed[b]) * 1099511628211u;
		free(packed);
	}
	return sum;
}

/*
 * compare does the exchange both ways. With gaps, no byte may differ from what MPI's
 * data makes of the buffer as it was; MPI's own algorithms write into gaps, too, so
 * that without, data alone is compared.
 */
static bool compare(const struct exchange *x, bool gaps)
{
	struct side s, r;
	lay(x, &s, false);
	lay(x, &r, true);
	char *want = malloc(r.length), *got = malloc(r.length), *before = malloc(r.length);
	memcpy(before, r.buffer, r.length);
	memcpy(want, r.buffer, r.length);
	by_mpi(x, &s, &r, want);
	by_shim(x, &s, &r, r.buffer);
	memcpy(got, before, r.length);
	digest = 31 * digest + transfer_data(x, &r, r.buffer, got);
	if (gaps)
		memcpy(got, r.buffer, r.length);
	transfer_data(x, &r, want, before);
	const bool same = memcmp(got, before, r.length) == 0;
	drop(&s);
	drop(&r);
	free(want);
	free(got);
	free(before);
	return same;
}

/* Communicators that live over several exchanges; a rank may have no part in one. */
enum { KEPT = 3 };
static MPI_Comm kept[KEPT];
static bool made[KEPT];

/* choose draws the communicator; MPI_COMM_NULL if this rank has no part. */
static void choose(struct exchange *x)
{
	const uint64_t kind = draw(x->a, 11, 0) % 8, which = draw(x->a, 12, 0) % KEPT;
	MPI_Comm *c = &kept[which];
	x->comm = MPI_COMM_WORLD;
	if (kind < 2)
		return;
	if (!made[which] || kind >= 4) {
		const int key = (int)(draw(x->a, 13, (uint64_t)rank) % 10000), third = (int)(draw(x->a, 14, (uint64_t)rank) % 3);
		const int color[] = {0, third != 0 ? 0 : MPI_UNDEFINED, third};
		if (*c != MPI_COMM_NULL)
			MPI_Comm_free(c);
		MPI_Comm_split(MPI_COMM_WORLD, color[kind % 3], key, c);
		made[which] = true;
	}
	x->comm = *c;
}

/* face draws an inter-communicator of the lower and the upper ranks. */
static MPI_Comm face(struct exchange *x)
{
	MPI_Comm half;
	const int upper = rank >= size / 3;
	MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 3, 1, &x->comm);
	MPI_Comm_remote_size(x->comm, &x->n);
	x->me = rank - (upper ? size / 3 : 0);
	x->in_place = false;
	return half;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	const uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 50;
	const char *kind = argc > 3 ? argv[3] : "";
	const bool gaps = !strcmp(kind, "gaps");
	if (!strcmp(kind, "later"))
		by_shim = later;
#if MPI_VERSION >= 4
	if (!strcmp(kind, "large"))
		by_shim = large;
	if (!strcmp(kind, "persistent"))
		by_shim = persistent;
#endif
	make_types();
	for (int i = 0; i < KEPT; i++)
		kept[i] = MPI_COMM_NULL;
	int differ = 0;
	for (uint64_t a = 0; a < n; a++) {
		struct exchange x = {.a = a, .function = (int)(draw(a, 1, 0) % 3), .in_place = draw(a, 2, 0) % 4 == 0};
#ifdef MPICH_VERSION /* whose MPI_Alltoallv and MPI_Alltoallw fail in place with some of these types (4.0.2) */
		x.in_place = x.in_place && x.function == 0;
#else /* whose MPI_Ialltoallw does so (4.1.4) */
		x.in_place = x.in_place && (by_shim == at_once || x.function < 2);
#endif
		if (a % 16 == 15) {
			/* Amounts must not depend on the side or on the number of ranks there. */
			MPI_Comm half = face(&x);
			x.function = 0;
			differ += !compare(&x, false);
			MPI_Comm_free(&x.comm);
			MPI_Comm_free(&half);
			continue;
		}
		choose(&x);
		if (x.comm == MPI_COMM_NULL)
			continue;
		MPI_Comm_size(x.comm, &x.n);
		MPI_Comm_rank(x.comm, &x.me);
		if (!compare(&x, gaps && x.n > 1)) {
			differ++;
			fprintf(stderr, "rank %d: exchange %d of seed %llu differs (function %d, %d ranks, in place: %d)\n", rank, (int)a,
				(unsigned long long)seed, x.function, x.n, x.in_place);
		}
	}
	uint64_t digests = 0;
	int sum = 0;
	MPI_Reduce(&digest, &digests, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
	MPI_Allreduce(&differ, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("seed %llu: %llu exchanges of %d ranks, digest %016llx, differences: %d\n", (unsigned long long)seed, (unsigned long long)n, size,
			(unsigned long long)digests, sum);
	for (int i = 0; i < KEPT; i++)
		if (kept[i] != MPI_COMM_NULL && i > 0) /* MPI_Finalize may find one */
			MPI_Comm_free(&kept[i]);
	for (int h = 0; h < HOLDS; h++)
		for (int l = 0; l < LAYOUTS; l++)
			MPI_Type_free(&types[h][l]);
	MPI_Finalize();
	return sum != 0;
}
