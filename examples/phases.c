/*
 * Prints the first phases of a host's servers.
 *
 *     cc phases.c $(pkg-config --cflags --libs fors) -o phases
 *     FORSD_TABLE=http://node:7480 ./phases node7
 */
#include <inttypes.h>
#include <stdio.h>

#include <fors.h>

int main(int argc, char **argv)
{
	struct fors_error err;
	fors_table *table;
	if (argc != 2 || fors_open(NULL, &table, &err) < 0) {
		fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: phases HOST");
		return 1;
	}
	printf("epoch %" PRIu64 ", %" PRIu32 " phases\n", fors_info(table)->epoch, fors_info(table)->phases);
	for (int me = -1; (me = fors_find_host(table, argv[1], me)) >= 0;)
		for (uint32_t p = 0; p < fors_info(table)->phases && p < 3; p++) {
			struct fors_entry e = fors_entry(table, me, p);
			printf("server %d phase %" PRIu32 ": to %d at LID %u over lane %d, from %d\n",
			       me, p, e.send_to, e.dlid, e.lane, e.recv_from);
		}
	fors_close(table);
	return 0;
}
