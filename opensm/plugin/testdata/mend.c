/*
 * mend.c: mends tables as told on standard input, a line a word of the fabric:
 *
 *	map                        forgets the fabric
 *	switch GUID HOSTS          in ascending order of GUID
 *	cable SWITCH PORT TO RATE  switches by index
 *	owner SWITCH LID LIDS PORT in ascending order
 *	held FILE                  takes the tables of a file for forsd's, made for this fabric
 *	mend                       prints tables, and then a line with how many entries changed
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

static struct map map;
static struct tables held, wish;

static void forget(void)
{
	for (uint32_t i = 0; i < map.count; i++) {
		free(map.nodes[i].cables);
		free(map.nodes[i].out);
	}
	free(map.nodes);
	free(map.owners);
	map = (struct map){0};
}

static void hold(const char *name)
{
	FILE *file = fopen(name, "r");
	if (!file)
		abort();
	struct tables t = {0};
	forsosm_read_(&t, file);
	fclose(file);
	if (!forsosm_copy_(&held, &t) || !forsosm_wish_(&map, &held, &wish))
		abort();
	forsosm_drop_(&t);
}

static void print(void)
{
	const int64_t changed = forsosm_mend_(&map, &held, &wish);
	for (uint32_t i = 0; i < map.count; i++) {
		printf("Unicast lids [0x0-0x%x] of switch Lid 0 guid 0x%016" PRIx64 " (''):\n", MAX_LID, map.nodes[i].guid);
		for (uint32_t lid = 0; lid <= MAX_LID; lid++)
			if (map.nodes[i].out[lid] != NO_PATH)
				printf("0x%04x %03u\n", lid, map.nodes[i].out[lid]);
	}
	printf("%" PRId64 " changed\n", changed);
	fflush(stdout);
}

int main(void)
{
	char line[4096], name[4096];
	unsigned long long guid;
	unsigned a, b, c, d;
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "map\n") == 0) {
			forget();
			map.nodes = calloc(1 << 12, sizeof *map.nodes);
			map.owners = calloc(1 << 16, sizeof *map.owners);
		} else if (sscanf(line, "switch %llx %u", &guid, &a) == 2) {
			struct node *n = &map.nodes[map.count++];
			*n = (struct node){.guid = guid, .hosts = a, .cables = calloc(PORTS, sizeof *n->cables), .out = malloc(MAX_LID + 1)};
			memset(n->out, NO_PATH, MAX_LID + 1);
		} else if (sscanf(line, "cable %u %u %u %u", &a, &b, &c, &d) == 4) {
			struct node *n = &map.nodes[a];
			n->cables[n->count++] = (struct cable){.to = c, .rate = (uint16_t)d, .port = (uint8_t)b};
		} else if (sscanf(line, "owner %u %u %u %u", &a, &b, &c, &d) == 4) {
			map.owners[map.owned++] = (struct owner){.node = a, .lid = (uint16_t)b, .lids = (uint16_t)c, .port = (uint8_t)d};
		} else if (sscanf(line, "held %4095s", name) == 1) {
			hold(name);
		} else if (strcmp(line, "mend\n") == 0) {
			print();
		} else {
			abort();
		}
	}
	forget();
	forsosm_drop_(&held);
	forsosm_drop_(&wish);
	return 0;
}
