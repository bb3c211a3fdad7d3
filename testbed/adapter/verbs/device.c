/* device.c: the adapters that a process has, and their attributes. */
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter.h"

enum { MAX_DEVICES = 16 };

static pthread_mutex_t devices_mutex = PTHREAD_MUTEX_INITIALIZER;

/* rank is the rank of the process in its job, as launchers set it. */
static int rank(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return atoi(getenv(names[i]));
	return 0;
}

/* expand puts the rank where a name has %r, or %4r with leading zeros. */
static void expand(const char *from, size_t n, char *to, size_t room)
{
	size_t used = 0;
	for (size_t i = 0; i < n && used + 1 < room; i++) {
		size_t end = i + 1;
		int width = 0;
		while (from[i] == '%' && end < n && from[end] >= '0' && from[end] <= '9' && width < 100)
			width = 10 * width + (from[end++] - '0');
		if (from[i] == '%' && end < n && from[end] == 'r') {
			const int k = snprintf(to + used, room - used, "%0*d", width, rank());
			used += k > 0 && (size_t)k < room - used ? (size_t)k : 0;
			i = end;
		} else
			to[used++] = from[i];
	}
	to[used] = 0;
}

static struct device *look_up(int s, const char *name, size_t n, unsigned number)
{
	struct device *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	expand(name, n, d->host, sizeof d->host);
	struct request r = {.operation = LOOK_UP};
	memcpy(r.enter.host, d->host, sizeof r.enter.host);
	const int failed = ask_on(s, &r, &d->about, NULL, 0, NULL);
	if (failed) {
		fprintf(stderr, "libibverbs (simulated): %s=%s: %s\n", HOST_VAR, d->host, failed == ENODEV ? "the fabric has no such host" : strerror(failed));
		free(d);
		return NULL;
	}
	d->ibv.node_type = IBV_NODE_CA;
	d->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->ibv.name, sizeof d->ibv.name, "sim%u", number);
	/* UCX requires a character device of this name in /dev/infiniband. */
	snprintf(d->ibv.dev_name, sizeof d->ibv.dev_name, "../null");
	snprintf(d->ibv.dev_path, sizeof d->ibv.dev_path, "/sys/class/infiniband_verbs/uverbs-%s", d->ibv.name);
	snprintf(d->ibv.ibdev_path, sizeof d->ibv.ibdev_path, "/sys/class/infiniband/%s", d->ibv.name);
	d->lists = 1;
	return d;
}

VISIBLE struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(MAX_DEVICES + 1, sizeof *list);
	const char *names = getenv(HOST_VAR);
	int n = 0, s;
	if (count)
		*count = 0;
	if (!list)
		return NULL;
	if (!names || !*names || (s = reach()) < 0)
		return list;
	for (unsigned number = 0; *names && n < MAX_DEVICES; number++) {
		const size_t length = strcspn(names, ",");
		struct device *d = look_up(s, names, length, number);
		if (d)
			list[n++] = &d->ibv;
		names += length + (names[length] == ',');
	}
	close(s);
	if (count)
		*count = n;
	return list;
}

/* release frees a device that neither a list nor a context has. */
static void release(struct device *d, bool list)
{
	pthread_mutex_lock(&devices_mutex);
	if (list)
		d->lists--;
	else
		d->opened = false;
	const bool unused = d->lists == 0 && !d->opened;
	pthread_mutex_unlock(&devices_mutex);
	if (unused)
		free(d);
}

VISIBLE void ibv_free_device_list(struct ibv_device **list)
{
	for (int i = 0; list && list[i]; i++)
		release(CONTAINER(list[i], struct device, ibv), true);
	free(list);
}

VISIBLE const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

VISIBLE int ibv_get_device_index(struct ibv_device *d)
{
	(void)d;
	return -1;
}

VISIBLE __be64 ibv_get_device_guid(struct ibv_device *d) { return htobe64(CONTAINER(d, struct device, ibv)->about.port.node); }

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct answer a;
	if (port != 1)
		return EINVAL;
	const int failed = ask(context_of(context), &(struct request){.operation = QUERY_PORT}, &a, -1);
	if (failed)
		return failed;
	const struct ibv_port_attr is = {
		.state = a.port.up && a.port.lid ? IBV_PORT_ACTIVE : a.port.up ? IBV_PORT_INIT : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096, .active_mtu = a.port.mtu, .gid_tbl_len = 1, .max_msg_sz = MAX_MESSAGE, .pkey_tbl_len = 1,
		.port_cap_flags = IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CM_SUP,
		.lid = a.port.lid, .lmc = a.port.lmc, .sm_lid = a.port.sm, .max_vl_num = 1, .subnet_timeout = 18,
		.active_width = 2, .active_speed = 64, .phys_state = a.port.up ? 5 : 2, .link_layer = IBV_LINK_LAYER_INFINIBAND};
	memset(attr, 0, size);
	memcpy(attr, &is, size < sizeof is ? size : sizeof is);
	return 0;
}

VISIBLE int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

VISIBLE int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const struct answer *a = &context_of(context)->device->about;
	*attr = (struct ibv_device_attr){
		.fw_ver = "1.0.0", .node_guid = htobe64(a->port.node), .sys_image_guid = htobe64(a->port.node), .max_mr_size = UINT64_MAX >> 1,
		.page_size_cap = 4096, .vendor_id = 0, .hw_ver = 1, .max_qp = MAX_QPS - 1, .max_qp_wr = MAX_WR, .max_sge = MAX_SGE, .max_sge_rd = MAX_SGE,
		.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT,
		.max_cq = 1 << 16, .max_cqe = MAX_CQE, .max_mr = 1 << 20, .max_pd = 1 << 20, .max_qp_rd_atom = MAX_RD_ATOMIC,
		.max_res_rd_atom = MAX_RD_ATOMIC * MAX_QPS, .max_qp_init_rd_atom = MAX_RD_ATOMIC, .atomic_cap = IBV_ATOMIC_HCA, .max_ah = 1 << 20,
		.max_srq = 1 << 16, .max_srq_wr = MAX_WR, .max_srq_sge = MAX_SGE, .max_pkeys = 1, .local_ca_ack_delay = 15, .phys_port_cnt = 1};
	return 0;
}

VISIBLE int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	const struct answer *a = &context_of(context)->device->about;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	gid->global.subnet_prefix = htobe64(a->port.prefix);
	gid->global.interface_id = htobe64(a->port.guid);
	return 0;
}

VISIBLE int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB};
	if (flags)
		return EOPNOTSUPP;
	if (port > 255 || index > 0 || ibv_query_gid(context, (uint8_t)port, (int)index, &e.gid))
		return port == 1 ? ENODATA : EINVAL;
	memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

VISIBLE ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, uint32_t flags, size_t size)
{
	if (room == 0)
		return 0;
	const int failed = _ibv_query_gid_ex(context, 1, 0, entries, flags, size);
	return failed ? -failed : 1;
}

VISIBLE int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
	union ibv_gid gid;
	*type = 0; /* InfiniBand, or the first version of RoCE */
	return ibv_query_gid(context, port, (int)index, &gid);
}

VISIBLE int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

VISIBLE int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port == 1 && pkey == 0xffff)
		return 0;
	errno = EINVAL;
	return -1;
}

static bool enter(struct context *c)
{
	int memory, events[2], got[2];
	if (!(c->bells = share(sizeof *c->bells, &memory)))
		return false;
	if (pipe2(events, O_CLOEXEC) < 0) {
		close(memory);
		return false;
	}
	(void)fcntl(events[1], F_SETFL, O_NONBLOCK);
	struct request r = {.operation = ENTER};
	memcpy(r.enter.host, c->device->host, sizeof r.enter.host);
	const int failed = ask_on(c->socket, &r, &c->device->about, (int[]){memory, events[1]}, 2, got);
	close(memory);
	close(events[1]);
	if (failed) {
		close(events[0]);
		errno = failed;
		return false;
	}
	c->verbs.context.async_fd = events[0];
	c->beacon = mmap(NULL, sizeof *c->beacon, PROT_READ | PROT_WRITE, MAP_SHARED, got[0], 0);
	close(got[0]);
	c->bell = got[1];
	return c->beacon != MAP_FAILED;
}

VISIBLE struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct device *d = CONTAINER(ibv, struct device, ibv);
	struct context *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->device = d;
	if ((c->socket = reach()) < 0) {
		free(c);
		return NULL;
	}
	struct ucred fabric;
	if (getsockopt(c->socket, SOL_SOCKET, SO_PEERCRED, &fabric, &(socklen_t){sizeof fabric}) == 0)
		(void)prctl(PR_SET_PTRACER, fabric.pid); /* it reads and writes our memory, where Yama forbids that to others */
	pthread_mutex_init(&c->asking, NULL);
	pthread_mutex_init(&c->ringing, NULL);
	pthread_mutex_init(&c->listing, NULL);
	c->verbs.query_port = query_port;
	c->verbs.sz = sizeof c->verbs;
	struct ibv_context *v = &c->verbs.context;
	pthread_mutex_init(&v->mutex, NULL);
	v->device = ibv;
	v->abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->cmd_fd = -1;
	v->num_comp_vectors = 1;
	v->ops.poll_cq = poll_cq;
	v->ops.req_notify_cq = req_notify_cq;
	v->ops.post_send = post_send;
	v->ops.post_recv = post_recv;
	v->ops.post_srq_recv = post_srq_recv;
	if (!enter(c)) {
		const int why = errno;
		close(c->socket);
		if (c->bells)
			munmap(c->bells, sizeof *c->bells);
		free(c);
		errno = why;
		return NULL;
	}
	pthread_mutex_lock(&devices_mutex);
	d->opened = true;
	pthread_mutex_unlock(&devices_mutex);
	return v;
}

VISIBLE int ibv_close_device(struct ibv_context *context)
{
	struct context *c = context_of(context);
	close(c->socket);
	close(c->bell);
	close(context->async_fd);
	munmap(c->bells, sizeof *c->bells);
	munmap(c->beacon, sizeof *c->beacon);
	release(c->device, false);
	pthread_mutex_destroy(&c->asking);
	pthread_mutex_destroy(&c->ringing);
	pthread_mutex_destroy(&c->listing);
	pthread_mutex_destroy(&context->mutex);
	free(c);
	return 0;
}

/* The kernel has no files about these devices. */
VISIBLE const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void) { return "/sys"; }

VISIBLE int ibv_read_sysfs_file(const char *dir, const char *file, char *to, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *to, size_t size)
{
	(void)dir, (void)file, (void)to, (void)size;
	errno = ENOENT;
	return -1;
}

VISIBLE int ibv_read_ibdev_sysfs_file(char *to, size_t size, const void *device, const char *format, ...);
int ibv_read_ibdev_sysfs_file(char *to, size_t size, const void *device, const char *format, ...)
{
	(void)to, (void)size, (void)device, (void)format;
	errno = ENOENT;
	return -1;
}

VISIBLE int ibv_fork_init(void) { return 0; }
VISIBLE enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

VISIBLE int ibv_dontfork_range(void *, size_t);
int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

VISIBLE int ibv_dofork_range(void *, size_t);
int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
