/*
 * probe.c: drives libfors for the tests. It reads commands from standard input,
 * one a line, and answers each with lines of which the last is "." or begins with
 * "error".
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fors.h"

static fors_table *table;
static unsigned char *memory; /* of a table from memory */

static int failed(int code, const struct fors_error *err)
{
	printf("error %d %d %d %s\n", code, err->errnum, err->status, err->text);
	return 0;
}

static void drop(void)
{
	fors_close(table);
	free(memory);
	table = NULL;
	memory = NULL;
}

static int info(void)
{
	const struct fors_info *i = fors_info(table);
	size_t length;
	const unsigned char *bytes = fors_bytes(table, &length);
	printf("epoch %" PRIu64 " job %" PRIu64 " servers %" PRIu32 " phases %" PRIu32 " lanes %" PRIu32 " lmc %" PRIu32 " base %" PRIu32 " length %zu crc %08" PRIx32 " hash ",
		i->epoch, i->job, i->servers, i->phases, i->lanes, i->lmc_max, i->base_lids, length, i->crc);
	for (size_t k = 0; k < sizeof i->topology_hash; k++)
		printf("%02x", i->topology_hash[k]);
	printf(" begins %.8s location %s\n", (const char *)bytes, fors_location(table));
	return 1;
}

/* dump prints every server and every entry. */
static int dump(void)
{
	struct fors_server s;
	const struct fors_info *i = fors_info(table);
	for (int n = 0; fors_server(table, n, &s) == FORS_OK; n++) {
		printf("server %d %016" PRIx64 " %u %u %u %" PRIu32 " %s\n", n, s.guid, s.lid, s.lmc, s.leaf, s.name_length, s.name);
		for (uint32_t p = 0; p < i->phases; p++) {
			const struct fors_entry e = fors_entry(table, n, p);
			printf("%d %d %u %d %u\n", e.send_to, e.recv_from, e.dlid, e.lane, e.src_path_bits);
		}
	}
	const struct fors_entry e[] = {fors_entry(table, -1, 0), fors_entry(table, (int)i->servers, 0), fors_entry(table, 0, i->phases)};
	for (int k = 0; k < 3; k++)
		printf("beyond %d %d %u %d %u\n", e[k].send_to, e[k].recv_from, e[k].dlid, e[k].lane, e[k].src_path_bits);
	printf("beyond %d %d\n", fors_server(table, -1, &s), fors_server(table, (int)i->servers, &s));
	return 1;
}

static int list(int (*find)(const fors_table *, const char *, int), const char *text)
{
	for (int s = -1; (s = find(table, text, s)) >= 0;)
		printf("%d\n", s);
	return 1;
}

/* read_whole reads a file into memory of exactly its size, so that a read beyond it is seen. */
static unsigned char *read_whole(const char *path, size_t *length)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		abort();
	*length = (size_t)ftell(f);
	rewind(f);
	unsigned char *p = malloc(*length ? *length : 1);
	if (!p || fread(p, 1, *length, f) != *length)
		abort();
	fclose(f);
	return p;
}

static int open_memory(const char *path)
{
	struct fors_error err;
	size_t length;
	drop();
	memory = read_whole(path, &length);
	const int code = fors_open_memory(memory, length, &table, &err);
	return code ? failed(code, &err) : info();
}

/* changed prints what the table changes for every server since the table of a file. */
static int changed(const char *path)
{
	struct fors_error err;
	size_t length;
	unsigned char *bytes = read_whole(path, &length);
	fors_table *old;
	const int code = fors_open_memory(bytes, length, &old, &err);
	if (code) {
		free(bytes);
		return failed(code, &err);
	}
	const int servers = (int)fors_info(table)->servers;
	int *peers = malloc(sizeof *peers * (size_t)(servers + 1));
	for (int s = 0; s < servers; s++) {
		const int n = fors_changed(old, table, s, peers, servers);
		if (n != fors_changed(old, table, s, peers, n / 2))
			abort();
		printf("%d:", s);
		for (int i = 0; i < n; i++)
			printf(" %d", peers[i]);
		printf("\n");
	}
	printf("beyond %d %d\n", fors_changed(old, table, -1, peers, 1), fors_changed(old, table, servers, peers, 1));
	free(peers);
	fors_close(old);
	free(bytes);
	return 1;
}

/* judge prints a code for each table of a file: a length of 4 bytes, then the table. */
static int judge(const char *path)
{
	size_t length;
	unsigned char *all = read_whole(path, &length);
	for (size_t at = 0; at + 4 <= length;) {
		const size_t n = all[at] | (size_t)all[at + 1] << 8 | (size_t)all[at + 2] << 16 | (size_t)all[at + 3] << 24;
		unsigned char *p = malloc(n + 1); /* at an odd address */
		fors_table *t;
		struct fors_error err;
		if (!p)
			abort();
		memmove(p + 1, all + at + 4, n);
		const int code = fors_open_memory(p + 1, n, &t, &err);
		printf("%d %s\n", code, code ? err.text : "");
		fors_close(t);
		free(p);
		at += 4 + n;
	}
	free(all);
	return 1;
}

/* newer asks until something is known, or once. */
static int newer(int until)
{
	struct fors_error err;
	uint64_t epoch = 0;
	int result;
	while ((result = fors_newer(table, &epoch, &err)) == 0 && until)
		poll(NULL, 0, 1);
	if (result < 0)
		return failed(result, &err);
	printf("%d %" PRIu64 "\n", result, epoch);
	return 1;
}

static int refresh(void)
{
	struct fors_error err;
	fors_table *next;
	const int result = fors_refresh(table, &next, &err);
	if (result < 0)
		return failed(result, &err);
	printf("%d\n", result);
	if (result == 0)
		return 1;
	drop();
	table = next;
	return info();
}

/* remaining reads how many phases are done, and then the failed parts, separated by bars. */
static int remaining(char *text)
{
	struct fors_error err;
	const char *fail[8] = {NULL};
	fors_table *left;
	const uint32_t done = (uint32_t)strtoul(strtok(text, "|"), NULL, 10);
	for (int n = 0; n < 7 && (fail[n] = strtok(NULL, "|")) != NULL; n++)
		;
	const int code = fors_remaining(table, done, fail[0] ? fail : NULL, &left, &err);
	if (code)
		return failed(code, &err);
	drop();
	table = left;
	return info();
}

static int open_at(const char *where, int (*opens)(const char *, fors_table **, struct fors_error *))
{
	struct fors_error err;
	drop();
	const int code = opens(where, &table, &err);
	return code ? failed(code, &err) : info();
}

static int find(const char *text)
{
	struct fors_error err;
	const int s = fors_find(table, text, &err);
	if (s < 0)
		return failed(s, &err);
	printf("%d\n", s);
	return 1;
}

static int obey(const char *command, char *text)
{
	if (strcmp(command, "open") == 0)
		return open_at(text, fors_open);
	if (strcmp(command, "base") == 0)
		return open_at(text, fors_open_base);
	if (strcmp(command, "phase") == 0) {
		char *peer = strchr(text, ' ');
		return printf("%d\n", fors_find_phase(table, atoi(text), peer ? atoi(peer) : -1));
	}
	if (strcmp(command, "memory") == 0)
		return open_memory(text);
	if (strcmp(command, "changed") == 0)
		return changed(text);
	if (strcmp(command, "judge") == 0)
		return judge(text);
	if (strcmp(command, "dump") == 0)
		return dump();
	if (strcmp(command, "name") == 0)
		return list(fors_find_name, text);
	if (strcmp(command, "host") == 0)
		return list(fors_find_host, text);
	if (strcmp(command, "find") == 0)
		return find(text);
	if (strcmp(command, "guid") == 0)
		return printf("%d\n", fors_find_guid(table, strtoull(text, NULL, 16)));
	if (strcmp(command, "lid") == 0)
		return printf("%d\n", fors_find_lid(table, (uint16_t)strtoul(text, NULL, 10)));
	if (strcmp(command, "newer") == 0)
		return newer(0);
	if (strcmp(command, "await") == 0)
		return newer(1);
	if (strcmp(command, "refresh") == 0)
		return refresh();
	if (strcmp(command, "remaining") == 0)
		return remaining(text);
	if (strcmp(command, "strerror") == 0)
		return printf("%s\n", fors_strerror(atoi(text)));
	if (strcmp(command, "setenv") == 0) {
		char *value = strchr(text, '=');
		*value = 0;
		return setenv(text, value + 1, 1) == 0;
	}
	abort();
}

int main(void)
{
	char line[4096];
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		char *text = strchr(line, ' ');
		if (text)
			*text++ = 0;
		if (obey(line, text ? text : line + strlen(line)))
			printf(".\n");
		fflush(stdout);
	}
	drop();
	return 0;
}
