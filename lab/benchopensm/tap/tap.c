/*
 * tap.c: a library that OpenSM loads twice: before libibumad, so that it sees the
 * datagrams that pass, and as an event plugin. It records the times of events, in a
 * file that the benchmark has mapped, and changes nothing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <opensm/osm_config.h>
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_opensm.h>
#include <opensm/osm_version.h>

#include <infiniband/umad.h>

enum kind { TRAP = 1, SWEEP, DISCOVERED, ENGINE, BLOCK, ROUTED, UP };

struct record {
	uint64_t at; /* nanoseconds of the realtime clock since 1970 */
	uint32_t kind, detail;
};

static struct file {
	_Atomic uint64_t length; /* records begun */
	uint64_t unused;
	struct record records[];
} *file;

static uint64_t room;

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FORSTAP");
	const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct stat info;
	if (fd < 0)
		return;
	if (fstat(fd, &info) == 0 && (size_t)info.st_size > sizeof *file) {
		void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (memory != MAP_FAILED) {
			file = memory;
			room = ((size_t)info.st_size - sizeof *file) / sizeof(struct record);
		}
	}
	close(fd);
}

static void note(enum kind kind, uint32_t detail)
{
	struct timespec t;
	if (!file)
		return;
	clock_gettime(CLOCK_REALTIME, &t);
	const uint64_t i = atomic_fetch_add(&file->length, 1);
	if (i < room)
		file->records[i] = (struct record){(uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec, kind, detail};
}

/* The fields of a datagram of subnet management, and the values that count here. */
enum { CLASS = 1, METHOD = 3, ATTRIBUTE = 16, MODIFIER = 20, TRAP_NUMBER = 68,
	LID_ROUTED = 0x01, DIRECTED = 0x81, SET = 0x02, TRAPPED = 0x05, NOTICE = 0x02, LINEAR_TABLE = 0x19 };

static int is(const unsigned char *mad, int method, int attribute)
{
	return (mad[CLASS] == LID_ROUTED || mad[CLASS] == DIRECTED) && mad[METHOD] == method &&
		mad[ATTRIBUTE] == 0 && mad[ATTRIBUTE + 1] == attribute;
}

int umad_send(int port, int agent, void *umad, int length, int timeout, int retries)
{
	static int (*next)(int, int, void *, int, int, int);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "umad_send");
	const unsigned char *mad = umad_get_mad(umad);
	if (is(mad, SET, LINEAR_TABLE))
		note(BLOCK, (uint32_t)(mad[MODIFIER + 2] << 8 | mad[MODIFIER + 3]));
	return next(port, agent, umad, length, timeout, retries);
}

int umad_recv(int port, void *umad, int *length, int timeout)
{
	static int (*next)(int, void *, int *, int);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "umad_recv");
	const int result = next(port, umad, length, timeout);
	const unsigned char *mad = umad_get_mad(umad);
	if (result >= 0 && is(mad, TRAPPED, NOTICE))
		note(TRAP, (uint32_t)(mad[TRAP_NUMBER] << 8 | mad[TRAP_NUMBER + 1]));
	return result;
}

/* The original call of the first routing engine. */
static int (*build)(void *);

static int called(void *context)
{
	note(ENGINE, 0);
	return build ? build(context) : 1; /* 1: as usual */
}

/* watch_engine makes the first routing engine record its calls. */
static void watch_engine(osm_opensm_t *osm)
{
	struct osm_routing_engine *first = osm->routing_engine_list ? osm->routing_engine_list : osm->default_routing_engine;
	if (first && first->build_lid_matrices != called) {
		build = first->build_lid_matrices;
		first->build_lid_matrices = called;
	}
}

static void *create(osm_opensm_t *osm) { return osm; }

static void destroy(void *context) { (void)context; }

static void report(void *context, osm_epi_event_id_t event, void *data)
{
	(void)data;
	switch (event) {
	case OSM_EVENT_ID_HEAVY_SWEEP_START:
		watch_engine(context);
		note(SWEEP, 0);
		break;
	case OSM_EVENT_ID_HEAVY_SWEEP_DONE:
		note(DISCOVERED, 0);
		break;
	case OSM_EVENT_ID_UCAST_ROUTING_DONE:
		note(ROUTED, 0);
		break;
	case OSM_EVENT_ID_SUBNET_UP:
		note(UP, 0);
		break;
	default:
		break;
	}
}

osm_event_plugin_t osm_event_plugin = {OSM_VERSION, create, destroy, report};
