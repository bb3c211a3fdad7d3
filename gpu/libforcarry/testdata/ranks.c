/*
 * A rank of a mixture of experts on a carrier, and the check of all that it gets: the messages of each
 * rank are a function of the frame, so nothing is compared with statements of the carrier or the planner.
 *
 *	ranks DIRECTORY RANK SERVERS GPUS TOKENS CHOICES EXPERTS ROW FRAMES SEED float|bfloat [BREAK...]
 *
 * DIRECTORY is where ranks gather addresses. At a BREAK, FRAME:MOMENT, the rank writes "break FRAME" and
 * waits for a line of its input. MOMENT is b, before the frame, or d, c or x and a number: at so many
 * copies inside the server of the dispatch, of the combine or, in every fifth frame, of an exchange of
 * bytes, or after it. The last line of the output has the checks and counts. FORCARRY_PATIENCE is in seconds; FORCARRY_ROWS and FORCARRY_SLOTS are options.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <forcarry.h>
#include <infiniband/verbs.h>

static bool counting;
static long allocations, registrations;

#ifndef SANITIZED
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t size) { return allocations += counting, __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return allocations += counting, __libc_calloc(count, size); }
void *realloc(void *at, size_t size) { return allocations += counting, __libc_realloc(at, size); }
#endif

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct ibv_mr *(*real)(struct ibv_pd *, void *, size_t, int);
	*(void **)&real = dlvsym(RTLD_NEXT, "ibv_reg_mr", "IBVERBS_1.1");
	registrations++;
	return real(pd, at, bytes, access);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *);
	*(void **)&real = dlvsym(RTLD_NEXT, "ibv_create_qp", "IBVERBS_1.1");
	registrations++;
	return real(pd, init);
}

static const char *directory;
static int rank, servers, gpus, ranks, tokens, choices, experts, row, frames, wide, turn;
static unsigned long seed;

static void die(const char *text, long a, long b)
{
	fprintf(stderr, "rank %d: ", rank);
	fprintf(stderr, text, a, b);
	fputc('\n', stderr);
	exit(1);
}

/* Gathers by files of a directory. */
static int gather(void *context, const void *own, void *all, size_t bytes)
{
	char path[512], to[512];
	(void)context;
	turn++;
	snprintf(path, sizeof path, "%s/new.%d", directory, rank);
	snprintf(to, sizeof to, "%s/%d.%d", directory, turn, rank);
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(own, 1, bytes, file) != bytes || fclose(file) || rename(path, to))
		return 1;
	for (int r = 0; r < ranks; r++) {
		snprintf(path, sizeof path, "%s/%d.%d", directory, turn, r);
		for (int tries = 0; !(file = fopen(path, "rb")); tries++) {
			if (tries > 20000)
				return 1;
			usleep(5000);
		}
		if (fread((char *)all + (size_t)r * bytes, 1, bytes, file) != bytes)
			return 1;
		fclose(file);
	}
	return 0;
}

/* Numbers that depend on all arguments. */
static uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t x = seed * 0xd6e8feb86659fd93u + a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + d * 0x2545f4914f6cdd1du;
	for (int i = 0; i < 2; i++)
		x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

static int tokens_of(int frame, int r) { return frame % 7 == 3 ? tokens : (int)(mix(1, (uint64_t)frame, (uint64_t)r, 0) % (uint64_t)(tokens + 1)); }

/* The expert of a choice of a token; -1 for some. Popular ranks change from frame to frame. */
static int expert_of(int frame, int r, int token, int choice)
{
	uint64_t x = mix(2, (uint64_t)frame, (uint64_t)r * 65536 + (uint64_t)token, (uint64_t)choice);
	if (x % 11 == 0)
		return -1;
	if (x % 5 == 0)
		return (int)((mix(3, (uint64_t)frame, 0, 0) + (x >> 8) % (uint64_t)gpus) % (uint64_t)experts);
	return (int)((x >> 8) % (uint64_t)experts);
}

static float weight_of(int frame, int r, int token, int choice) { return (float)(mix(4, (uint64_t)frame, (uint64_t)r * 65536 + (uint64_t)token, (uint64_t)choice) % 1000) / 8; }

static bool needs(int frame, int r, int token, int by)
{
	for (int k = 0; k < choices; k++) {
		int e = expert_of(frame, r, token, k);
		if (e >= 0 && e / (experts / ranks) == by)
			return true;
	}
	return false;
}

static void fill_row(unsigned char *to, int frame, int r, int token)
{
	for (int at = 0; at < row; at += 8) {
		uint64_t x = mix(5, (uint64_t)frame, (uint64_t)r * 65536 + (uint64_t)token, (uint64_t)at);
		memcpy(to + at, &x, (size_t)(row - at < 8 ? row - at : 8));
	}
}

/* An element of the result of a rank for a token: sums of them are exact in both types. */
static int result(uint64_t row_mix, int element, int by) { return (int)((row_mix >> (element * 5 + by * 3) % 60) & 7) + 1; }

static void set(unsigned char *to, int element, int value)
{
	float f = (float)value;
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if (wide)
		memcpy(to + 4 * element, &bits, 4);
	else
		memcpy(to + 2 * element, (uint16_t[]){(uint16_t)(bits >> 16)}, 2);
}

/* Copies inside the server until the rank stops, or -1. */
static int until = -1, stopped_frame;

static void stop(int frame)
{
	char line[16];
	bool was = counting;
	counting = false;
	printf("break %d\n", frame);
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		die("no answer at the break in frame %ld%.0ld", frame, 0);
	counting = was;
}

/* Makes up for a break that no copy has come to. */
static void after_call(void)
{
	if (until >= 0)
		stop(stopped_frame);
	until = -1;
}

static int copy(void *context, void *to, const void *from, size_t bytes)
{
	const struct forcarry_inside *real = context;
	if (until >= 0 && until-- == 0)
		stop(stopped_frame);
	return real->copy(real->context, to, from, bytes);
}

static void breaks(int frame, char kind, int count, char **list)
{
	int f, number = 0;
	char moment;
	until = -1;
	for (int i = 0; i < count; i++) {
		if (sscanf(list[i], "%d:%c%d", &f, &moment, &number) < 2 || f != frame || moment != kind)
			continue;
		if (kind == 'b')
			stop(frame);
		else
			until = number, stopped_frame = frame;
	}
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long check_received(int frame, const struct forcarry_received *got, unsigned char *want)
{
	int at = 0, on_each = experts / ranks;
	int *per_expert = calloc((size_t)on_each, sizeof *per_expert);
	for (int r = 0; r < ranks; r++)
		for (int t = 0; t < tokens_of(frame, r); t++) {
			if (!needs(frame, r, t, rank))
				continue;
			if (at >= got->rows || got->source[at] != r || got->token[at] != t)
				die("frame %ld: row %ld is not the token that belongs there", frame, at);
			fill_row(want, frame, r, t);
			if (memcmp(want, (const char *)got->x + (size_t)at * (size_t)row, (size_t)row) != 0)
				die("frame %ld: row %ld has other bytes", frame, at);
			for (int e = 0; e < on_each; e++)
				for (int k = 0, found = 0; k < choices && !found; k++)
					per_expert[e] += found = expert_of(frame, r, t, k) == rank * on_each + e;
			for (int k = 0; k < choices; k++) {
				int e = expert_of(frame, r, t, k), own = e >= 0 && e / on_each == rank;
				if (got->topk_idx[at * choices + k] != (own ? e % on_each : -1) || got->topk_weights[at * choices + k] != (own ? weight_of(frame, r, t, k) : 0))
					die("frame %ld: row %ld has another expert or weight", frame, at);
			}
			at++;
		}
	if (at != got->rows)
		die("frame %ld: %ld rows too many", frame, got->rows - at);
	for (int e = 0; e < on_each; e++)
		if (per_expert[e] != got->per_expert[e])
			die("frame %ld: expert %ld has other rows", frame, e);
	free(per_expert);
	return (long)at * row;
}

static long check_combined(int frame, const unsigned char *got, unsigned char *want, int elements)
{
	size_t bytes = (size_t)elements * (wide ? 4 : 2);
	for (int t = 0; t < tokens_of(frame, rank); t++) {
		bool any[2048];
		uint64_t x = mix(6, (uint64_t)frame, (uint64_t)rank * 65536 + (uint64_t)t, 0);
		for (int r = 0; r < ranks; r++)
			any[r] = needs(frame, rank, t, r);
		for (int e = 0; e < elements; e++) {
			int sum = 0;
			for (int r = 0; r < ranks; r++)
				sum += any[r] ? result(x, e, r) : 0;
			set(want, e, sum);
		}
		if (memcmp(want, got + (size_t)t * bytes, bytes) != 0)
			die("frame %ld: the sum of token %ld is wrong", frame, t);
	}
	return (long)tokens_of(frame, rank) * elements;
}

static int64_t bytes_of(int frame, int a, int b) { return mix(7, (uint64_t)frame, (uint64_t)a, (uint64_t)b) % 4 ? (int64_t)(mix(8, (uint64_t)frame, (uint64_t)a, (uint64_t)b) % (uint64_t)row) : 0; }

static unsigned char byte_of(int frame, int a, int b, int64_t at) { return (unsigned char)mix(9, (uint64_t)frame, (uint64_t)a * 65536 + (uint64_t)b, (uint64_t)at); }

/* Plans an exchange of bytes. */
static int plan_bytes(void *context, const int64_t *speeds, struct forgpu_program *program, struct forgpu_error *err)
{
	static forgpu_planner *planner;
	bool was = counting;
	counting = false;
	if (!planner)
		planner = forgpu_open();
	int code = forgpu_nics(planner, servers, gpus, speeds, 1, NULL, err);
	if (code >= 0)
		code = forgpu_plan(planner, servers, gpus, context, rank, NULL, program, err);
	counting = was;
	return code;
}

/* Exchanges bytes of all ranks for all, by a program that is handed in, and checks them. */
static long exchange(forcarry *carrier, int frame)
{
	static int64_t matrix[64 * 64];
	struct forcarry_error err;
	int64_t in = 0, out = 0, sizes[2] = {0, 0};
	for (int a = 0; a < ranks; a++)
		for (int b = 0; b < ranks; b++) {
			matrix[a * ranks + b] = bytes_of(frame, a, b);
			sizes[0] += a == rank ? matrix[a * ranks + b] : 0;
			sizes[1] += b == rank ? matrix[a * ranks + b] : 0;
		}
	unsigned char *input = malloc((size_t)sizes[0] + 1), *output = malloc((size_t)sizes[1] + 1);
	for (int b = 0; b < ranks; b++)
		for (int64_t at = 0; at < matrix[rank * ranks + b]; at++)
			input[in++] = byte_of(frame, rank, b, at);
	counting = true;
	int code = forcarry_exchange(carrier, plan_bytes, matrix, input, sizes[0], output, sizes[1], &err);
	counting = false;
	if (code < 0)
		die("an exchange of bytes fails: %ld%.0ld", code, fprintf(stderr, "%s\n", err.text));
	for (int a = 0; a < ranks; a++)
		for (int64_t at = 0; at < matrix[a * ranks + rank]; at++)
			if (output[out++] != byte_of(frame, a, rank, at))
				die("frame %ld: byte %ld of an exchange is wrong", frame, out - 1);
	free(input), free(output);
	return out;
}

int main(int count, char **arguments)
{
	if (count < 12)
		return 2;
	int *numbers[] = {&rank, &servers, &gpus, &tokens, &choices, &experts, &row, &frames};
	directory = arguments[1];
	for (int i = 0; i < 8; i++)
		*numbers[i] = atoi(arguments[i + 2]);
	seed = strtoul(arguments[10], NULL, 10);
	wide = strcmp(arguments[11], "float") == 0;
	ranks = servers * gpus;
	const char *patience = getenv("FORCARRY_PATIENCE"), *rows = getenv("FORCARRY_ROWS"), *slots = getenv("FORCARRY_SLOTS"), *bad = getenv("FORCARRY_BAD");
	struct forcarry_inside inside = *forcarry_processors();
	inside.context = (void *)(uintptr_t)forcarry_processors();
	inside.copy = copy;
	struct forcarry_options o = {.servers = servers, .gpus = gpus, .rank = rank, .tokens = tokens, .choices = choices, .experts = experts, .row = row, .row_back = (row + 3) / 4 * 4,
		.type = wide ? FORCARRY_FLOAT32 : FORCARRY_BFLOAT16, .retry = 12, .retries = 5, .inside = &inside, .allgather = gather,
		.patience = (int64_t)(patience ? atof(patience) * 1e9 : 60e9), .rows = rows ? atol(rows) : 0, .slots = slots ? atol(slots) : (int64_t)tokens * ranks};
	struct forcarry_error err;
	if (bad && atoi(bad) == rank)
		o.row++;
	counting = true;
	forcarry *carrier = forcarry_open(&o, &err);
	counting = false;
	if (!carrier) {
		printf("open: %d %s\n", err.code, err.text);
		return 3;
	}
	int elements = (int)o.row_back / (wide ? 4 : 2);
	unsigned char *x = malloc((size_t)tokens * (size_t)row), *y = malloc((size_t)tokens * (size_t)ranks * (size_t)o.row_back), *sums = malloc((size_t)tokens * (size_t)o.row_back),
		      *want = malloc((size_t)o.row_back);
	int64_t *topk = calloc((size_t)tokens * (size_t)choices, sizeof *topk);
	float *weights = calloc((size_t)tokens * (size_t)choices, sizeof *weights);
	long bytes = 0, added = 0, refused = 0, allocated = allocations, registered = registrations;
	double took = 0;
	for (int frame = 0; frame < frames; frame++) {
		struct forcarry_received got;
		int own = tokens_of(frame, rank);
		for (int t = 0; t < own; t++) {
			fill_row(x + (size_t)t * (size_t)row, frame, rank, t);
			for (int k = 0; k < choices; k++) {
				topk[t * choices + k] = expert_of(frame, rank, t, k);
				weights[t * choices + k] = weight_of(frame, rank, t, k);
			}
		}
		breaks(frame, 'b', count - 12, arguments + 12);
		breaks(frame, 'd', count - 12, arguments + 12);
		counting = frame > 0;
		took -= frame > 0 ? seconds() : 0;
		int code = forcarry_dispatch(carrier, x, own, topk, weights, &got, &err);
		took += frame > 0 ? seconds() : 0;
		counting = false;
		if (code == FORCARRY_ECAPACITY && getenv("FORCARRY_GO_ON")) {
			refused++;
			continue;
		}
		if (code < 0) {
			printf("dispatch: %d %s\n", err.code, err.text);
			forcarry_close(carrier);
			return 4;
		}
		after_call();
		bytes += check_received(frame, &got, want);
		for (int i = 0; i < got.rows; i++) {
			uint64_t of = mix(6, (uint64_t)frame, (uint64_t)got.source[i] * 65536 + (uint64_t)got.token[i], 0);
			for (int e = 0; e < elements; e++)
				set(y + (size_t)i * (size_t)o.row_back, e, result(of, e, rank));
		}
		breaks(frame, 'c', count - 12, arguments + 12);
		counting = frame > 0;
		took -= frame > 0 ? seconds() : 0;
		code = forcarry_combine(carrier, y, sums, &err);
		took += frame > 0 ? seconds() : 0;
		counting = false;
		if (code < 0) {
			printf("combine: %d %s\n", err.code, err.text);
			forcarry_close(carrier);
			return 4;
		}
		after_call();
		added += check_combined(frame, sums, want, elements);
		breaks(frame, 'x', count - 12, arguments + 12);
		if (frame % 5 == 1)
			bytes += exchange(carrier, frame);
		after_call();
	}
	struct forcarry_counts counts;
	forcarry_count(carrier, &counts);
	forcarry_close(carrier);
	printf("frames %ld bytes %ld sums %ld repeats %ld dead %d own %d sent %ld opened %ld %ld allocations %ld registrations %ld seconds %.3f\n", frames - refused, bytes, added, (long)counts.repeats, counts.dead, counts.own,
	       (long)counts.sent, allocated, registered, allocations - allocated, registrations - registered, took);
	free(x), free(y), free(sums), free(want), free(topk), free(weights);
	return 0;
}
