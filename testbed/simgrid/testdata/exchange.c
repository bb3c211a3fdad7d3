/* exchange sends a block from each rank to each other one, and prints the seconds from the first
 * rank's start to the last one's end:
 *
 *   exchange HOW BYTES [PLAN SECONDS]
 *
 * HOW is at-once: all messages are posted, then waited for; in-step: phase by phase, by
 * MPI_Sendrecv; ahead: the same, with all receives posted at the beginning; clock: the same, and
 * phase p begins at p times SECONDS. Without a plan, rank r sends to r+p in phase p and receives
 * from r-p. The file of a plan has a line for each rank, with the destination and the source of
 * each phase, -1 for none. Phases have no barrier: a rank waits for its own messages only. All blocks
 * are received into the same place, because only times matter, and 360 ranks would take 130 GB.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct phase {
	int to, from; /* MPI_PROC_NULL without a message */
};

static int rank, ranks, bytes, phases;
static struct phase *plan;
static char *out, *in;

static void shift(void)
{
	plan = calloc(ranks, sizeof *plan);
	for (int p = 1; p < ranks; p++)
		plan[phases++] = (struct phase){(rank + p) % ranks, (rank - p + ranks) % ranks};
}

static void read_plan(const char *name)
{
	FILE *f = fopen(name, "r");
	char *line = NULL;
	size_t room = 0;
	int used;

	for (int r = 0; r <= rank; r++)
		if (!f || getline(&line, &room, f) < 0)
			MPI_Abort(MPI_COMM_WORLD, 1);
	fclose(f);
	plan = calloc(strlen(line), sizeof *plan);
	for (char *at = line; sscanf(at, "%d %d%n", &plan[phases].to, &plan[phases].from, &used) == 2; at += used) {
		if (plan[phases].to < 0)
			plan[phases].to = MPI_PROC_NULL;
		if (plan[phases].from < 0)
			plan[phases].from = MPI_PROC_NULL;
		phases++;
	}
	free(line);
}

/* sleep_until returns at a time of MPI_Wtime. */
static void sleep_until(double at)
{
	double left = at - MPI_Wtime();
	struct timespec t = {(time_t)left, (long)((left - (time_t)left) * 1e9)};

	if (left > 0)
		nanosleep(&t, NULL);
}

static void in_step(void)
{
	for (int p = 0; p < phases; p++)
		MPI_Sendrecv(out, bytes, MPI_BYTE, plan[p].to, 0, in, bytes, MPI_BYTE, plan[p].from, 0,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ahead posts all receives, then sends in the order of the phases, each when the messages of the
 * phase before have arrived or, if a phase has a length, at its time. */
static void ahead(int at_once, double length)
{
	MPI_Request *sends = calloc(phases, sizeof *sends), *receives = calloc(phases, sizeof *receives);
	double begin = MPI_Wtime();

	for (int p = 0; p < phases; p++)
		MPI_Irecv(in, bytes, MPI_BYTE, plan[p].from, 0, MPI_COMM_WORLD, &receives[p]);
	for (int p = 0; p < phases; p++) {
		if (length > 0)
			sleep_until(begin + p * length);
		MPI_Isend(out, bytes, MPI_BYTE, plan[p].to, 0, MPI_COMM_WORLD, &sends[p]);
		if (!at_once && length == 0) {
			MPI_Wait(&sends[p], MPI_STATUS_IGNORE);
			MPI_Wait(&receives[p], MPI_STATUS_IGNORE);
		}
	}
	MPI_Waitall(phases, sends, MPI_STATUSES_IGNORE);
	MPI_Waitall(phases, receives, MPI_STATUSES_IGNORE);
	free(sends);
	free(receives);
}

int main(int argc, char **argv)
{
	double begin, end;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 3 || (bytes = atoi(argv[2])) < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (argc > 3)
		read_plan(argv[3]);
	else
		shift();
	out = malloc(bytes);
	in = malloc(bytes);
	begin = MPI_Wtime();
	if (!strcmp(argv[1], "in-step"))
		in_step();
	else
		ahead(!strcmp(argv[1], "at-once"), !strcmp(argv[1], "clock") ? atof(argv[4]) : 0);
	end = MPI_Wtime();
	MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.9f\n", end - begin);
	free(plan);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
