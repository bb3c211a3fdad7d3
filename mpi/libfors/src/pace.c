/*
 * pace.c: phases by a clock: by how much clocks differ, and how long a phase should be.
 *
 * A phase is somewhat longer than its block: senders are late now and then, and a transfer that
 * runs into the next phase delays others. How much longer is best depends on the jitter and on
 * the switches, so it is sought: every other measured exchange has another period, which stays
 * if it was faster; otherwise the next one tried is on the other side, and nearer.
 */
#include "internal.h"

/* Shares by which a period differs when another one is tried: at first, and once it is found. */
static const double FIRST = -0.05, NEAR = 0.015;

/* A trial has to be faster by this share, or the difference may be chance. */
static const double GAIN = 0.005;

/* The last that many exchanges make the mean. */
enum { MEAN = 4 };

void fors_clock_add(struct fors_clock *clock, double asked, double theirs, double answered)
{
	const double trip = answered - asked;
	if (clock->trip > 0 && trip >= clock->trip)
		return;
	clock->trip = trip;
	clock->ahead = asked + trip / 2 - theirs;
}

int fors_pace_seeks(const struct fors_pace *pace) { return pace->step < -NEAR || pace->step > NEAR; }

double fors_pace_next(struct fors_pace *pace, double guess, int measured)
{
	if (!(pace->period > 0)) {
		pace->period = guess;
		pace->step = FIRST;
	}
	pace->trial = 0;
	if (measured && pace->measured > 1)
		pace->trial = pace->turn = !pace->turn;
	return pace->trial ? pace->period * (1 + pace->step) : pace->period;
}

int fors_pace_took(struct fors_pace *pace, double seconds)
{
	if (pace->trial) {
		pace->trial = 0;
		if (seconds < (1 - GAIN) * pace->took) {
			pace->period *= 1 + pace->step;
			pace->took = seconds;
		} else {
			pace->step *= fors_pace_seeks(pace) ? -0.9 : -1;
		}
		return 1;
	}
	const int weight = pace->measured < MEAN ? (int)pace->measured + 1 : MEAN;
	if (pace->measured == 0 || (pace->measured == 1 && seconds < pace->took)) /* the first makes connections */
		pace->took = seconds;
	else if (pace->measured > 1) /* at most half as much again: a rank may have been late for once */
		pace->took += ((seconds < 1.5 * pace->took ? seconds : 1.5 * pace->took) - pace->took) / weight;
	pace->measured++;
	return 0;
}
