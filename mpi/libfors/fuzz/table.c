/*
 * table.c: a fuzz target. For any bytes given as a table, opening it and looking
 * everything up in it stays within them, and an accepted table keeps the promises
 * of fors.h.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

/* look uses every function on a table that was accepted. */
static void look(const fors_table *t)
{
	const struct fors_info *i = fors_info(t);
	struct fors_server s, peer;
	for (int n = 0; (uint32_t)n < i->servers; n++) {
		require(fors_server(t, n, &s) == FORS_OK);
		require(strlen(s.name) <= s.name_length && s.name[s.name_length] == 0);
		require(fors_find_guid(t, s.guid) == n);
		require(fors_find_lid(t, s.lid) == n);
		require(fors_find_lid(t, (uint16_t)(s.lid + (1u << s.lmc) - 1)) == n);
		require(strlen(s.name) < s.name_length || fors_find_name(t, s.name, n - 1) == n);
		fors_find_host(t, s.name, -1);
		fors_find(t, s.name, NULL);
		for (uint32_t p = 0; p < i->phases; p++) {
			const struct fors_entry e = fors_entry(t, n, p);
			require(e.src_path_bits < 1u << s.lmc);
			require(e.recv_from == -1 || fors_entry(t, e.recv_from, p).send_to == n);
			if (e.send_to == -1)
				continue;
			require(fors_server(t, e.send_to, &peer) == FORS_OK);
			require(e.dlid >= peer.lid && e.dlid - peer.lid < 1 << peer.lmc);
			require(e.lane >= -1 && e.lane < (int)i->lanes);
		}
	}
}

static void try(const unsigned char *data, size_t size)
{
	struct fors_error err;
	fors_table *t;
	if (fors_open_memory(data, size, &t, &err) == FORS_OK) {
		look(t);
		fors_close(t);
	} else {
		require(err.code < 0 && strlen(err.text) > 0 && fors_strerror(err.code));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy = malloc(size + 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	try(copy, size);
	if (size >= HEADER_SIZE) { /* once more, with the length and the checksum that it must have */
		for (int i = 0; i < 8; i++)
			copy[OFF_TOTAL + i] = (unsigned char)((uint64_t)size >> 8 * i);
		memset(copy + OFF_CRC, 0, 4);
		const uint32_t crc = fors_crc32c_(0, copy, size);
		for (int i = 0; i < 4; i++)
			copy[OFF_CRC + i] = (unsigned char)(crc >> 8 * i);
		try(copy, size);
	}
	free(copy);
	return 0;
}
