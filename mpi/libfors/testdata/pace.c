/*
 * pace: what exchanges take whose period src/pace.c seeks. A line of the input is a case: the
 * phases, the seconds of a block, the guard as a share of it below which phases run into each
 * other, what that costs for each share of guard that lacks, the mean noise as a share, and the
 * guess as a share of the best period. Prints the mean of 300 exchanges after the first 150, over
 * the least.
 */
#include <fors.h>
#include <math.h>
#include <stdio.h>

static double chance(void)
{
	static uint64_t x = 1;
	x = x * 6364136223846793005u + 1442695040888963407u;
	return (double)(x >> 40) / (double)(1 << 24);
}

int main(void)
{
	double phases, block, guard, slope, noise, guess;
	while (scanf("%lf %lf %lf %lf %lf %lf", &phases, &block, &guard, &slope, &noise, &guess) == 6) {
		struct fors_pace pace = {0};
		const double best = block * (1 + guard);
		double sum = 0;
		for (int i = 0; i < 450; i++) {
			const int measured = fors_pace_seeks(&pace) || i % 8 == 0;
			const double period = fors_pace_next(&pace, guess * best, measured);
			double took = phases * period;
			if (period < best)
				took += slope * phases * (best - period);
			if (i >= 150)
				sum += took / (phases * best) / 300;
			if (measured)
				fors_pace_took(&pace, took * (1 - noise * log(1 - chance())));
		}
		printf("%.4f\n", sum);
	}
	return 0;
}
