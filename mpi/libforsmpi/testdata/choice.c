/*
 * choice: what choices cost, by src/choose.c, where exchanges take times that are drawn. A
 * line of the input is a case, struct times. Prints for each the time relative to that of the
 * fastest way, for unequal blocks of two sizes and for equal ones.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "shim.h"

const struct settings *fm_settings(void)
{
	static const struct settings s = {.way = WAYS};
	return &s;
}

double fm_now(void) { return 1; }

void fm_say(const char *format, ...) { (void)format; }

/* The slowest rank is rank 0 here. */
int PMPI_Reduce(const void *mine, void *most, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
	(void)count, (void)type, (void)op, (void)root, (void)comm;
	*(double *)most = *(const double *)mine;
	return MPI_SUCCESS;
}

static double chance(void)
{
	static uint64_t x = 1;
	x = x * 6364136223846793005u + 1442695040888963407u;
	return (double)(x >> 40) / (double)(1 << 24);
}

/* The times of the ways by two plans, of which the second takes over in the middle, or the first again. */
struct times {
	double way[2][3];
	double noise; /* mean of an exponential share that comes on top */
	double late;  /* one in 100 exchanges takes so many times as long */
	double clock; /* by the clock, where phases are not too short for that; 0: as the fastest other way */
};

/* The first exchange takes this longer. */
enum { COLD = 10 };

static double carry_out(struct comm *c, const struct kind *kind, const struct times *t, bool back, int n)
{
	double sum = 0, least = 0;
	bool changed = false;
	for (int i = 0; i < n;) {
		double way[WAYS], quickest = INFINITY;
		for (enum way w = BY_PLAN; w <= BY_MPI; w++) {
			way[w] = t->way[(i >= n / 2) ^ back][w];
			quickest = fmin(quickest, way[w]);
		}
		const double clock = t->clock > 0 ? t->clock : quickest;
		if (kind->uniform)
			quickest = fmin(quickest, clock);
		if (i >= n / 2 && !changed)
			fm_doubt(c), changed = true;
		struct order order = {.head = c->plan.head};
		fm_choose(c, kind, &order);
		way[BY_CLOCK] = fmax(order.period * order.head.steps, clock) * (order.period * order.head.steps < clock ? 1.2 : 1);
		for (int skipped = 0; skipped <= order.skip; skipped++, i++) {
			const double took = way[order.way] * (1 - t->noise * log(1 - chance()));
			sum += took, least += quickest * (1 + t->noise);
			const double all = i == 0 ? took + COLD : chance() < .01 ? took * (1 + t->late) : took; /* as it is measured */
			if (order.timed && !skipped)
				fm_took(c, kind, (enum way)order.way, all);
		}
	}
	return sum / least;
}

int main(void)
{
	struct times t;
	double *const way = &t.way[0][0];
	while (scanf("%lf %lf %lf %lf %lf %lf %lf %lf %lf", way, way + 1, way + 2, way + 3, way + 4, way + 5, &t.noise, &t.late, &t.clock) == 9) {
		for (int uniform = 0; uniform < 2; uniform++) {
			struct comm c = {.plan.head = {.epoch = 1, .reason = PLANNED, .steps = 12, .groups = 12}};
			const struct kind kind = {.uniform = uniform, .size = 20}, next = {.uniform = uniform, .size = 21};
			const double first = carry_out(&c, &kind, &t, false, 2000), second = carry_out(&c, &next, &t, true, 2000);
			printf("%.4f %.4f ", first, second);
			fm_choices_free(&c);
		}
		putchar('\n');
	}
	return 0;
}
