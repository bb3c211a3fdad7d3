/* Measures what a note of a time costs, in nanoseconds: fm_note of src/notes.c alone. */
#include "../src/notes.c"

const struct settings *fm_settings(void)
{
	static const struct settings none;
	return &none;
}

void fm_say(const char *format, ...) { (void)format; }

int fm_table_times(const char *json, struct fors_error *err)
{
	(void)json, (void)err;
	return 0;
}

int main(void)
{
	enum { STEPS = 359, ROUNDS = 4000 };
	struct comm c = {.rank = 1, .plan = {.head = {.meetings = STEPS}}};
	struct row row = {0};
	struct timespec begin, end;
	fm_notes_begin(&c, &(struct order){.every = 1});
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (int i = 0; i < ROUNDS; i++)
		for (row.met[0] = row.met[1] = 0; row.met[0] < STEPS; row.met[1] = ++row.met[0])
			fm_note(&c, &row, i & 1 ? SENT : RECEIVED);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("%.2f\n", (1e9 * (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec)) / STEPS / ROUNDS);
	return 0;
}
