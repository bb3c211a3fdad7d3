/*
 * lanes.c: a fuzz target. For any accepted table, port and address vector, a lane that is
 * chosen leads to the peer and begins at the port. The first bytes are those of ports,
 * vectors and notes, the others a table, whose checksum is corrected.
 */
#include "../src/lanes.c"
#include "../../libfors/src/internal.h"

enum { HEAD = 64, OBJECTS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ibv_port_attr port;
static union ibv_gid port_gid;
static int fails;

int fl_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr)
{
	(void)context, (void)number;
	*attr = port;
	return fails & 1;
}

int fl_query_gid(struct ibv_context *context, uint8_t number, union ibv_gid *gid)
{
	(void)context, (void)number;
	*gid = port_gid;
	return fails & 2;
}

static void require(int holds)
{
	if (!holds)
		abort();
}

/* vector is a program's address vector, with bits of its own. */
static struct ibv_ah_attr vector_to(uint16_t dlid, const struct fors_server *peer, unsigned bits)
{
	struct ibv_ah_attr v = {.dlid = dlid, .port_num = 1, .is_global = bits & 1};
	v.grh.dgid.global.interface_id = htobe64(bits & 2 ? peer->guid : bits);
	return v;
}

/* choose asks for the lanes of one server to all. */
static void choose(const fors_table *t, int me, const uint8_t *head)
{
	static struct ibv_device device = {.name = "fuzz"};
	static struct ibv_context context = {.device = &device};
	struct fors_server is, peer;
	struct pair pair;
	struct lane lane;
	require(fors_server(t, me, &is) == FORS_OK);
	port = (struct ibv_port_attr){.lid = is.lid, .lmc = is.lmc, .link_layer = head[0] == 1 ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND};
	port.lid = (uint16_t)(port.lid + (head[1] == 1));
	port_gid.global.interface_id = htobe64(head[2] == 1 ? head[3] : is.guid);
	fails = head[4] < 4 ? head[4] : 0;
	for (int n = 0; n < (int)fors_info(t)->servers; n++) {
		require(fors_server(t, n, &peer) == FORS_OK);
		struct ibv_ah_attr v = vector_to((uint16_t)(peer.lid + (head[5 + n % 8] & ((1u << peer.lmc) - 1))), &peer, head[16 + n % 8]);
		if (!fl_choose(&context, &v, &pair, &lane))
			continue;
		require(n != me && pair.me == is.guid && pair.peer == peer.guid);
		require(lane.dlid >= peer.lid && lane.dlid - peer.lid < 1 << peer.lmc && lane.bits < 1 << is.lmc);
	}
	for (int n = 24; n + 1 < HEAD; n += 2) { /* any LID */
		struct ibv_ah_attr v = vector_to((uint16_t)(head[n] << 8 | head[n + 1]), &is, head[n]);
		fl_choose(&context, &v, &pair, &lane);
	}
}

/* keep takes notes, drops them and looks for them; an array must agree. */
static void keep(const uint8_t *head)
{
	static const char objects[OBJECTS << 20]; /* far apart, and in one bucket now and then */
	struct { bool is; struct note note; } model[OBJECTS] = {0};
	for (int n = 0; n < HEAD; n++) {
		const int i = head[n] % OBJECTS;
		const void *object = &objects[(size_t)i << 20];
		struct note note = {.pair = {head[n], (uint64_t)n}}, found;
		if (head[n] & 0x40) {
			fl_note(object, &note);
			model[i].is = true;
			model[i].note = note;
			continue;
		}
		const bool is = (head[n] & 0x80 ? fl_forget : fl_noted)(object, &found);
		require(is == model[i].is && (!is || memcmp(&found.pair, &model[i].note.pair, sizeof found.pair) == 0));
		if (head[n] & 0x80)
			model[i].is = false;
	}
	for (int i = 0; i < OBJECTS; i++) {
		struct note found;
		require(fl_forget(&objects[(size_t)i << 20], &found) == model[i].is);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD + HEADER_SIZE)
		return 0;
	if (!table) { /* the first call looks for a table of the site's */
		struct ibv_ah_attr any = {.dlid = 1};
		struct pair pair;
		struct lane lane;
		setenv("FORSD_TABLE", "/dev/null", 1);
		setenv("PMI_RANK", "1", 1); /* the first would say why it does nothing */
		require(!fl_choose(NULL, &any, &pair, &lane));
	}
	keep(data);
	const size_t length = size - HEAD;
	unsigned char *copy = malloc(length);
	require(copy != NULL);
	memcpy(copy, data + HEAD, length);
	for (int i = 0; i < 8; i++)
		copy[OFF_TOTAL + i] = (unsigned char)((uint64_t)length >> 8 * i);
	memset(copy + OFF_CRC, 0, 4);
	const uint32_t crc = fors_crc32c_(0, copy, length);
	for (int i = 0; i < 4; i++)
		copy[OFF_CRC + i] = (unsigned char)(crc >> 8 * i);
	if (fors_open_memory(copy, length, &table, NULL) == FORS_OK)
		for (int me = 0; me < (int)fors_info(table)->servers && me < 64; me++)
			choose(table, me, data);
	fors_close(table);
	table = NULL;
	free(copy);
	return 0;
}
