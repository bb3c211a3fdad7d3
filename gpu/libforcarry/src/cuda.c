/*
 * The inside of a server whose ranks have their data in memory of GPUs: CUDA's driver, by libcuda.so.1,
 * which is loaded if it is asked for. Peers map memory by CUDA IPC, and NICs register it by
 * nvidia-peermem. All functions use the primary context of the device, as CUDA's runtime does, and
 * a stream of their own: what others have written must be complete.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "internal.h"

struct ipc {
	char bytes[64];
};

typedef unsigned long long address_t; /* CUdeviceptr */

/* The driver's functions; they return 0 or an error. */
static struct driver {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*current)(void *);
	int (*stream)(void **, unsigned);
	int (*load)(void **, const void *);
	int (*function)(void **, void *, const char *);
	int (*allocate)(address_t *, size_t);
	int (*release)(address_t);
	int (*handle)(struct ipc *, address_t);
	int (*map)(address_t *, struct ipc, unsigned);
	int (*unmap)(address_t);
	int (*copy)(address_t, address_t, size_t, void *);
	int (*clear)(address_t, unsigned char, size_t, void *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
	int (*wait)(void *);
} driver;

static const char *const names[] = {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate", "cuModuleLoadData", "cuModuleGetFunction",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", "cuMemcpyAsync", "cuMemsetD8Async", "cuLaunchKernel", "cuStreamSynchronize"};

static void *primary, *own_stream, *adders[2]; /* by type */

/* to[i] += from[i], in PTX: of float32, and of bfloat16 with the sum in float32. */
#define KERNEL(name, registers, shift, body) \
	".visible .entry " name "(.param .u64 to, .param .u64 from, .param .u64 count)\n{\n" \
	".reg .pred %p;\n.reg .b32 %c, %n, %t;\n.reg .b64 %a, %b, %i, %j, %k;\n" registers \
	"ld.param.u64 %a, [to];\nld.param.u64 %b, [from];\nld.param.u64 %k, [count];\n" \
	"cvta.to.global.u64 %a, %a;\ncvta.to.global.u64 %b, %b;\n" \
	"mov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\n" \
	"mul.wide.u32 %i, %c, %n;\ncvt.u64.u32 %j, %t;\nadd.u64 %i, %i, %j;\n" \
	"setp.ge.u64 %p, %i, %k;\n@%p ret;\n" \
	"shl.b64 %i, %i, " shift ";\nadd.u64 %a, %a, %i;\nadd.u64 %b, %b, %i;\n" body "ret;\n}\n"

static const char kernels[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	KERNEL("add_bfloat16", ".reg .b16 %z, %g, %h;\n.reg .b32 %r, %s;\n.reg .f32 %x, %y;\n", "1",
	       "ld.global.u16 %g, [%a];\nld.global.u16 %h, [%b];\nmov.u16 %z, 0;\n"
	       "mov.b32 %r, {%z, %g};\nmov.b32 %s, {%z, %h};\nmov.b32 %x, %r;\nmov.b32 %y, %s;\n"
	       "add.rn.f32 %x, %x, %y;\ncvt.rn.bf16.f32 %g, %x;\nst.global.u16 [%a], %g;\n")
	KERNEL("add_float32", ".reg .f32 %x, %y;\n", "2",
	       "ld.global.f32 %x, [%a];\nld.global.f32 %y, [%b];\nadd.rn.f32 %x, %x, %y;\nst.global.f32 [%a], %x;\n");

static int outcome(int error) { return error ? EIO : 0; }

static void *allocate(void *context, size_t bytes, void *handle)
{
	(void)context;
	address_t at = 0;
	struct ipc h;
	if (driver.current(primary) || driver.allocate(&at, bytes) || driver.handle(&h, at))
		return NULL;
	memcpy(handle, &h, sizeof h);
	return (void *)(uintptr_t)at;
}

static void *map(void *context, const void *handle, size_t bytes)
{
	(void)context, (void)bytes;
	address_t at = 0;
	struct ipc h;
	memcpy(&h, handle, sizeof h);
	return driver.current(primary) || driver.map(&at, h, 1) ? NULL : (void *)(uintptr_t)at;
}

static void release(void *context, void *memory, size_t bytes, const void *handle)
{
	(void)context, (void)bytes;
	(void)driver.current(primary);
	(void)(handle ? driver.release : driver.unmap)((address_t)(uintptr_t)memory);
}

static int copy(void *context, void *to, const void *from, size_t bytes)
{
	(void)context;
	return outcome(driver.current(primary) || driver.copy((address_t)(uintptr_t)to, (address_t)(uintptr_t)from, bytes, own_stream));
}

static int clear(void *context, void *to, size_t bytes)
{
	(void)context;
	return outcome(driver.current(primary) || (bytes > 0 && driver.clear((address_t)(uintptr_t)to, 0, bytes, own_stream)));
}

static int add(void *context, void *to, const void *from, size_t bytes, enum forcarry_type type)
{
	(void)context;
	uint64_t a = (uintptr_t)to, b = (uintptr_t)from, count = bytes / (type == FORCARRY_FLOAT32 ? 4 : 2);
	void *arguments[] = {&a, &b, &count};
	enum { THREADS = 256 };
	return outcome(driver.current(primary) || driver.launch(adders[type == FORCARRY_FLOAT32], (unsigned)((count + THREADS - 1) / THREADS), 1, 1, THREADS, 1, 1, 0, own_stream, arguments, NULL));
}

static int wait_for_all(void *context)
{
	(void)context;
	return outcome(driver.current(primary) || driver.wait(own_stream));
}

const struct forcarry_inside *forcarry_cuda(int device, struct forcarry_error *err)
{
	static const struct forcarry_inside inside = {NULL, allocate, map, release, copy, clear, add, wait_for_all};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), **to = (void **)&driver, *module;
	int number = 0;
	if (!library) {
		set_error(err, FORCARRY_EINVAL, "there is no CUDA driver: %.200s", dlerror());
		return NULL;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!(to[i] = dlsym(library, names[i]))) {
			set_error(err, FORCARRY_EINVAL, "libcuda.so.1 has no %s: want a driver of CUDA 11 or later", names[i]);
			return NULL;
		}
	if (driver.init(0) || driver.device(&number, device) || driver.retain(&primary, number) || driver.current(primary) || driver.stream(&own_stream, 1) ||
	    driver.load(&module, kernels) || driver.function(&adders[0], module, "add_bfloat16") || driver.function(&adders[1], module, "add_float32")) {
		set_error(err, FORCARRY_EINVAL, "GPU %d cannot be used: want one of compute capability 8.0 or later", device);
		return NULL;
	}
	return &inside;
}
