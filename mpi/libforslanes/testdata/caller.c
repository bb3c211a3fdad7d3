/*
 * caller: does verbs as it is told, a line of standard input each. It finds them by the
 * dynamic linker, or in the library that its argument names, as NCCL does.
 *
 *	rtr I DLID BITS		queue pair I is made ready to receive
 *	bad I DLID BITS		the same, which fails
 *	query I, reset I, destroy I
 *	ah DLID BITS GUID	an address handle, with the GUID of a GID where it is not 0
 *	fork			ibv_fork_init
 *	sleep
 */
#include <dlfcn.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int) = ibv_modify_qp;
static int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *) = ibv_query_qp;
static int (*destroy_qp)(struct ibv_qp *) = ibv_destroy_qp;
static struct ibv_ah *(*create_ah)(struct ibv_pd *, struct ibv_ah_attr *) = ibv_create_ah;
static int (*destroy_ah)(struct ibv_ah *) = ibv_destroy_ah;
static int (*fork_init)(void) = ibv_fork_init;

static struct ibv_device device = {.name = "sim0"};
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static struct ibv_qp pair[4096];

static void *find(void *library, const char *name)
{
	void *f = dlvsym(library, name, "IBVERBS_1.1");
	if (!f) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(1);
	}
	return f;
}

static void find_all(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&modify_qp = find(library, "ibv_modify_qp");
	*(void **)&query_qp = find(library, "ibv_query_qp");
	*(void **)&destroy_qp = find(library, "ibv_destroy_qp");
	*(void **)&create_ah = find(library, "ibv_create_ah");
	*(void **)&destroy_ah = find(library, "ibv_destroy_ah");
	*(void **)&fork_init = find(library, "ibv_fork_init");
}

static int modify(unsigned i, enum ibv_qp_state state, unsigned dlid, unsigned bits, int more)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	attr.ah_attr.port_num = 1;
	attr.ah_attr.dlid = (uint16_t)dlid;
	attr.ah_attr.src_path_bits = (uint8_t)bits;
	const int failed = modify_qp(&pair[i], &attr, IBV_QP_STATE | (dlid ? IBV_QP_AV : 0) | more);
	if (attr.ah_attr.dlid != dlid || attr.ah_attr.src_path_bits != bits)
		printf("the program's attributes were changed\n");
	return failed;
}

static int handle(unsigned dlid, unsigned bits, uint64_t guid)
{
	struct ibv_ah_attr attr = {.dlid = (uint16_t)dlid, .src_path_bits = (uint8_t)bits, .port_num = 1, .is_global = guid != 0};
	attr.grh.dgid.global.interface_id = htobe64(guid);
	struct ibv_ah *ah = create_ah(&pd, &attr);
	return ah ? destroy_ah(ah) : -1;
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned i, dlid, bits;
	uint64_t guid;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		find_all(argv[1]);
	for (size_t n = 0; n < sizeof pair / sizeof *pair; n++)
		pair[n].context = &context;
	while (fgets(line, sizeof line, stdin)) {
		int failed = 0;
		if (sscanf(line, "rtr %u %u %u", &i, &dlid, &bits) == 3)
			failed = modify(i, IBV_QPS_RTR, dlid, bits, 0);
		else if (sscanf(line, "bad %u %u %u", &i, &dlid, &bits) == 3)
			failed = !modify(i, IBV_QPS_RTR, dlid, bits, IBV_QP_PKEY_INDEX);
		else if (sscanf(line, "reset %u", &i) == 1)
			failed = modify(i, IBV_QPS_RESET, 0, 0, 0);
		else if (sscanf(line, "destroy %u", &i) == 1)
			failed = destroy_qp(&pair[i]);
		else if (sscanf(line, "query %u", &i) == 1) {
			struct ibv_qp_attr attr;
			struct ibv_qp_init_attr init;
			failed = query_qp(&pair[i], &attr, IBV_QP_AV, &init);
			printf("query %d %d\n", attr.ah_attr.dlid, attr.ah_attr.src_path_bits);
		} else if (sscanf(line, "ah %u %u %" SCNx64, &dlid, &bits, &guid) == 3)
			failed = handle(dlid, bits, guid);
		else if (!strcmp(line, "fork\n"))
			failed = fork_init();
		else if (!strcmp(line, "sleep\n"))
			sleep(3);
		else
			failed = -1;
		if (failed)
			printf("failed: %s", line);
	}
	return 0;
}
