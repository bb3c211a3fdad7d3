/*
 * identity.c: which server does this process run on? The user names it by
 * FORS_SERVER_MAP or FORS_SERVER; otherwise it is found by the GUIDs of the local
 * ports, or by the host's name. Rank 0 looks it up: only it has a table.
 */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

#ifndef SYSFS
#define SYSFS "/sys/class/infiniband"
#endif

static struct identity identity;

/* local_rank numbers the processes of a host, as launchers tell them. */
static int local_rank(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *text = getenv(names[i]);
		if (text && *text)
			return atoi(text);
	}
	return 0;
}

static void mistaken(const char *variable, const char *value, const char *why)
{
	identity.known = MISTAKEN;
	snprintf(identity.name, MAX_NAME, "%s=%.80s %s", variable, value, why);
}

/* expand replaces the % of a template; see from_template. */
static int expand(char *out, size_t room, char kind, int width)
{
	char host[MPI_MAX_PROCESSOR_NAME] = "";
	int length;
	switch (kind) {
	case 'h':
		PMPI_Get_processor_name(host, &length);
		return snprintf(out, room, "%s", host);
	case 'r': return snprintf(out, room, "%0*d", width, identity.rank);
	case 'l': return snprintf(out, room, "%0*d", width, local_rank());
	case '%': return snprintf(out, room, "%%");
	}
	return -1;
}

/*
 * from_template names the server by FORS_SERVER: %h is the host's name, %r the rank
 * in MPI_COMM_WORLD, %l the rank among the processes of the host, %% a percent sign.
 * Digits before r and l are a width, to be filled with zeros.
 */
static void from_template(const char *text)
{
	char *out = identity.name;
	size_t room = MAX_NAME;
	identity.known = BY_NAME;
	for (const char *p = text; *p; p++) {
		int written = 1;
		if (*p == '%') {
			const size_t digits = strspn(p + 1, "0123456789");
			const int width = digits < 4 ? atoi(p + 1) : MAX_NAME;
			p += 1 + digits;
			written = expand(out, room, *p, width);
		} else if (room > 1) {
			out[0] = *p;
			out[1] = 0;
		}
		if (written < 0) {
			mistaken("FORS_SERVER", text, "has a % before something else than h, r, l or %");
			return;
		}
		if ((size_t)written >= room) {
			mistaken("FORS_SERVER", text, "is too long");
			return;
		}
		out += written;
		room -= (size_t)written;
	}
}

/*
 * from_map names the server by a file with a line for each rank of MPI_COMM_WORLD,
 * in order. Blank lines and lines that begin with # do not count.
 */
static void from_map(const char *path)
{
	FILE *file = fopen(path, "re");
	if (!file) {
		mistaken("FORS_SERVER_MAP", path, "cannot be read");
		return;
	}
	char *line = NULL;
	size_t room = 0;
	int left = identity.rank;
	identity.known = MISTAKEN;
	while (identity.known == MISTAKEN && getline(&line, &room, file) >= 0) {
		char *text = line + strspn(line, " \t");
		size_t length = strlen(text);
		while (length > 0 && strchr(" \t\r\n", text[length - 1]))
			length--;
		if (length == 0 || *text == '#' || left-- > 0)
			continue;
		text[length] = 0;
		identity.known = BY_NAME;
		if (length < MAX_NAME)
			memcpy(identity.name, text, length + 1);
		else
			mistaken("FORS_SERVER_MAP", path, "has a line that is too long");
		break;
	}
	if (!*identity.name)
		mistaken("FORS_SERVER_MAP", path, "has no line for this rank");
	free(line);
	fclose(file);
}

/* port_guid reads the lower half of a GID, "fe80:0000:0000:0000:0002:c903:00a1:b2c3", or returns 0. */
static uint64_t port_guid(const char *path)
{
	unsigned g[8] = {0};
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	const int n = fscanf(file, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &g[0], &g[1], &g[2], &g[3], &g[4], &g[5], &g[6], &g[7]);
	fclose(file);
	return n == 8 ? (uint64_t)g[4] << 48 | (uint64_t)g[5] << 32 | (uint64_t)g[6] << 16 | g[7] : 0;
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* ports_of collects the GUIDs of an adapter's ports. */
static void ports_of(const char *adapter)
{
	char path[2 * TEXT];
	struct dirent **list;
	snprintf(path, sizeof path, SYSFS "/%s/ports", adapter);
	const int n = scandir(path, &list, visible, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, SYSFS "/%.200s/ports/%.20s/gids/0", adapter, list[i]->d_name);
		const uint64_t guid = port_guid(path);
		if (guid != 0 && identity.ports < MAX_PORTS)
			identity.guid[identity.ports++] = guid;
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

/* from_host stores the GUIDs of the local ports and the host's name. */
static void from_host(void)
{
	char host[MPI_MAX_PROCESSOR_NAME] = "";
	int length;
	struct dirent **list;
	const int n = scandir(SYSFS, &list, visible, alphasort);
	for (int i = 0; i < n; i++) {
		ports_of(list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	PMPI_Get_processor_name(host, &length);
	identity.known = BY_HOST;
	snprintf(identity.name, MAX_NAME, "%.*s", MAX_NAME - 1, host);
}

static void find(void)
{
	const char *map = getenv("FORS_SERVER_MAP"), *server = getenv("FORS_SERVER");
	PMPI_Comm_rank(MPI_COMM_WORLD, &identity.rank);
	if (map && *map)
		from_map(map);
	else if (server && *server)
		from_template(server);
	else
		from_host();
}

void fm_identity(struct identity *id)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	*id = identity;
}
