/*
 * Prints the row of a server from a phase table of version 1, by its port GUID, after
 * it has checked length, version and checksum of the file. It depends on libc alone.
 *
 *     gcc -o phasetable phasetable.c && ./phasetable phases.bin 0x0002c90300a1b2c3
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct section { uint64_t off, len; };
struct header {
	char magic[8];
	uint32_t version, header_size;
	uint64_t total;
	uint32_t crc, flags;
	uint64_t epoch, job;
	uint8_t topology_hash[32];
	uint32_t servers, phases;
	uint16_t lanes;
	uint8_t lmc_max, reserved_a[5];
	struct section sections[5];
	uint8_t reserved_b[16];
};
struct server {
	uint64_t guid;
	uint16_t lid;
	uint8_t lmc, reserved_a;
	uint16_t leaf, reserved_b;
	uint32_t name_off, name_len;
};
struct entry { uint16_t send_to, recv_from, dlid; int16_t lane; };
enum { DIRECTORY, BY_GUID, BY_LID, NAMES, ROWS };
_Static_assert(sizeof(struct header) == 192 && sizeof(struct server) == 24 && sizeof(struct entry) == 8, "layout");

static uint32_t crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = 0xFFFFFFFF;
	for (size_t i = 0; i < n; i++) {
		crc ^= i >= 24 && i < 28 ? 0 : p[i]; /* the field itself counts as zero */
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
	}
	return ~crc;
}

static const void *at(const struct header *h, int section)
{
	return (const char *)h + h->sections[section].off;
}

/* find returns the number of the server with a GUID, or -1. */
static long find(const struct header *h, uint64_t guid)
{
	const struct server *dir = at(h, DIRECTORY);
	const uint32_t *index = at(h, BY_GUID);
	uint32_t lo = 0, hi = h->servers;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (dir[index[mid]].guid < guid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < h->servers && dir[index[lo]].guid == guid ? (long)index[lo] : -1;
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0 || fstat(fd, &st) != 0) {
		fprintf(stderr, "usage: phases FILE GUID\n");
		return 2;
	}
	const struct header *h = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED || st.st_size < (off_t)sizeof *h || memcmp(h->magic, "FORSDPHT", 8) != 0 ||
	    h->version != 1 || h->flags >> 16 != 0 || h->total != (uint64_t)st.st_size ||
	    h->crc != crc32c((const uint8_t *)h, st.st_size)) {
		fprintf(stderr, "%s: not a phase table of version 1, or damaged\n", argv[1]);
		return 1;
	}
	long me = find(h, strtoull(argv[2], NULL, 16));
	if (me < 0) {
		fprintf(stderr, "%s: no server with GUID %s\n", argv[1], argv[2]);
		return 1;
	}
	const struct server *self = (const struct server *)at(h, DIRECTORY) + me;
	const struct entry *row = (const struct entry *)at(h, ROWS) + me * h->phases;
	printf("epoch %" PRIu64 " server %ld %s\n", h->epoch, me, (const char *)at(h, NAMES) + self->name_off);
	for (uint32_t p = 0; p < h->phases; p++)
		printf("%u %u %u %u %d\n", p, row[p].send_to, row[p].recv_from, row[p].dlid, row[p].lane);
	return 0;
}
