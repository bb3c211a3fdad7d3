/* memory.c: programs' memory, read and written by an adapter. */
#include <sys/uio.h>

#include "fabric.h"

bool within(const struct region *r, const struct context *c, uint32_t pd, uint64_t from, uint64_t length, uint32_t access)
{
	return r && r->context == c && r->pd == pd && (r->access & access) == access && from >= r->iova &&
	       length <= r->length && from - r->iova <= r->length - length;
}

/* pieces are the parts of a list of buffers that contain some of its bytes; −1 if one may
 * not be used. */
static int pieces(struct qp *q, const struct ibv_sge *sge, unsigned count, uint64_t offset, size_t size, uint32_t access,
		  struct iovec *v)
{
	int n = 0;
	for (unsigned i = 0; i < count && size > 0; i++) {
		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		const uint64_t from = sge[i].addr + offset;
		const size_t part = size < sge[i].length - offset ? size : sge[i].length - offset;
		const struct region *r = region_by_key(sge[i].lkey);
		if (!within(r, q->context, q->pd, from, part, access))
			return -1;
		v[n++] = (struct iovec){(void *)(uintptr_t)(r->address + (from - r->iova)), part};
		size -= part;
		offset = 0;
	}
	return size == 0 ? n : -1;
}

bool fetch(struct qp *q, const struct ibv_sge *sge, unsigned count, uint64_t offset, void *to, size_t size)
{
	struct iovec v[MAX_SGE];
	const int n = pieces(q, sge, count, offset, size, 0, v);
	return n >= 0 && (size == 0 || process_vm_readv(q->context->pid, &(struct iovec){to, size}, 1, v, (unsigned long)n, 0) == (ssize_t)size);
}

bool store(struct qp *q, const struct ibv_sge *sge, unsigned count, uint64_t offset, const void *from, size_t size)
{
	struct iovec v[MAX_SGE];
	const int n = pieces(q, sge, count, offset, size, IBV_ACCESS_LOCAL_WRITE, v);
	return n >= 0 && (size == 0 || process_vm_writev(q->context->pid, &(struct iovec){(void *)(uintptr_t)from, size}, 1, v, (unsigned long)n, 0) == (ssize_t)size);
}

static struct iovec whole(uint32_t rkey, uint64_t from, size_t size)
{
	const struct region *r = region_by_key(rkey);
	return (struct iovec){(void *)(uintptr_t)(r->address + (from - r->iova)), size};
}

/* The whole range of a peer's request has been checked; the region may have gone
 * since. */
bool fetch_remote(struct qp *q, uint32_t rkey, uint64_t from, void *to, size_t size)
{
	if (size == 0)
		return true;
	if (!within(region_by_key(rkey), q->context, q->pd, from, size, 0))
		return false;
	const struct iovec v = whole(rkey, from, size);
	return process_vm_readv(q->context->pid, &(struct iovec){to, size}, 1, &v, 1, 0) == (ssize_t)size;
}

bool store_remote(struct qp *q, uint32_t rkey, uint64_t to, const void *from, size_t size)
{
	if (size == 0)
		return true;
	if (!within(region_by_key(rkey), q->context, q->pd, to, size, 0))
		return false;
	const struct iovec v = whole(rkey, to, size);
	return process_vm_writev(q->context->pid, &(struct iovec){(void *)(uintptr_t)from, size}, 1, &v, 1, 0) == (ssize_t)size;
}
