/*
 * forcarry.h: carries the exchanges of a mixture of experts over verbs.
 *
 * Rank r is GPU r mod m of server r div m, and a process with one NIC. In a dispatch each token
 * goes once to each server with any of its experts, and is handed on there; in a combine their
 * results are added in each server before a NIC sends them. Every rank plans each frame by
 * libforgpu, for the routing of all ranks. If a NIC dies, all ranks learn it, and repeat the
 * exchange without that NIC. docs/gpu.md has the protocol.
 *
 *	struct forcarry_options options = {.servers = 8, .gpus = 8, .rank = rank, .tokens = 4096,
 *		.choices = 8, .experts = 256, .row = 7168 * 2, .allgather = gather};
 *	struct forcarry_error err;
 *	forcarry *carrier = forcarry_open(&options, &err);
 *	struct forcarry_received got;
 *	forcarry_dispatch(carrier, x, tokens, topk_idx, topk_weights, &got, &err);
 *	... y, a row for each of got.rows ...
 *	forcarry_combine(carrier, y, combined, &err);
 *
 * Results: a negative result is one of FORCARRY_E…, all others mean success. After any error
 * but FORCARRY_EINVAL and FORCARRY_ECAPACITY the carrier can only be closed, on all ranks.
 *
 * Memory: all memory is allocated, registered and connected by forcarry_open. Calls after it
 * allocate and register nothing.
 *
 * Threads: one thread at a time. The library starts none: ranks help each other during their calls.
 */
#ifndef FORCARRY_H
#define FORCARRY_H

#include <stddef.h>
#include <stdint.h>

#include <forgpu.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FORCARRY_API __attribute__((visibility("default")))
#else
#define FORCARRY_API
#endif

/* The version of this interface: it grows with every addition to it. */
#define FORCARRY_VERSION_MAJOR 1
#define FORCARRY_VERSION_MINOR 0

/* Error codes. */
enum forcarry_code {
	FORCARRY_OK = 0,
	FORCARRY_EINVAL = -1,	 /* an argument is out of range, on this rank: nothing has been done */
	FORCARRY_ENOMEM = -2,	 /* out of memory */
	FORCARRY_EVERBS = -3,	 /* the device is missing, or refuses something */
	FORCARRY_ECAPACITY = -4, /* the frame exceeds the carrier's capacity; all ranks return this */
	FORCARRY_EDEAD = -5,	 /* a server has no NIC left */
	FORCARRY_ELOST = -6,	 /* a rank has not answered for so long as the patience is */
	FORCARRY_EPEER = -7,	 /* another rank has failed */
	FORCARRY_EPLAN = -8,	 /* the programs of the ranks do not fit together */
};

struct forcarry_error {
	int code;
	char text[252]; /* a sentence */
};

/* The elements of rows that a combine adds. An addition rounds to nearest, ties to even. */
enum forcarry_type { FORCARRY_BFLOAT16, FORCARRY_FLOAT32 };

/* The inside of a server: memory that a rank's NIC sends from and receives into, and that the
 * other ranks of its server read. Functions return 0 or an errno, and NULL for no memory. */
struct forcarry_inside {
	void *context;
	/* Allocates memory, and writes a handle of at most 64 bytes with which other processes of the
	 * server map it. */
	void *(*allocate)(void *context, size_t bytes, void *handle);
	void *(*map)(void *context, const void *handle, size_t bytes);
	/* Releases memory; handle is that of allocated memory, and NULL if it was mapped. */
	void (*release)(void *context, void *memory, size_t bytes, const void *handle);
	int (*copy)(void *context, void *to, const void *from, size_t bytes);
	int (*clear)(void *context, void *to, size_t bytes);
	int (*add)(void *context, void *to, const void *from, size_t bytes, enum forcarry_type type);
	/* Waits until all that was asked for before is done; copy, clear and add may return earlier, and
	 * are done in their order. */
	int (*wait)(void *context);
};

/* Memory of processors. */
FORCARRY_API const struct forcarry_inside *forcarry_processors(void);

/* Memory of the GPU of this number, by libcuda.so.1, which is loaded then: x, combined and the
 * rows received are addresses of the GPU. It has not been tried on GPUs. Returns NULL if there is
 * none. */
FORCARRY_API const struct forcarry_inside *forcarry_cuda(int device, struct forcarry_error *err);

/* What a carrier is for. All but rank, port, gid and the pointers must be the same on
 * all ranks. Zero means the default, if one is named. */
struct forcarry_options {
	int32_t servers, gpus, rank;
	int32_t tokens;	 /* of a rank in a frame, at most */
	int32_t choices; /* of a token: k */
	int32_t experts; /* of all ranks, as many on each, the first ones on rank 0 */
	enum forcarry_type type;
	int32_t retry;	 /* of queue pairs: 4.096 us * 2^retry until a packet is sent again; 14 */
	int32_t retries; /* before a NIC is taken for dead, 1 to 7; 7 */
	int32_t port;	 /* of the verbs device; 1 */
	int32_t gid;	 /* index, for RoCE */
	int32_t level;	 /* service level */
	int64_t row;	 /* bytes of a token in a dispatch: elements, and scales if it has any */
	int64_t row_back; /* bytes of a row in a combine; row */
	int64_t rows;	 /* that a rank receives in a frame, at most; tokens of all ranks */
	int64_t slots;	 /* rows that a NIC sends or receives in a frame, at most; 2 * tokens * (servers - 1) + 1 */
	int64_t patience; /* nanoseconds without an answer of a rank until a call fails; 30e9 */
	struct forgpu_options plan; /* max_stretch 1.05 if all are 0 */
	const char *device; /* name of the verbs device; the first */
	const struct forcarry_inside *inside; /* forcarry_processors() */
	/* Gathers as many bytes of each rank, [rank], at all of them; returns 0 or another number. It is
	 * called by forcarry_open and forcarry_close alone. */
	int (*allgather)(void *context, const void *own, void *all, size_t bytes);
	void *context;
};

typedef struct forcarry forcarry;

/* Collective: all ranks call it. Returns NULL if it fails, on all ranks. */
FORCARRY_API forcarry *forcarry_open(const struct forcarry_options *options, struct forcarry_error *err);
FORCARRY_API void forcarry_close(forcarry *carrier);

/* The tokens that a rank has received, each once, by source and then in the source's order. It is
 * valid until the next dispatch. */
struct forcarry_received {
	int32_t rows;
	const void *x;		     /* [row][row bytes], in the memory of the inside */
	const int32_t *topk_idx;     /* [row][choice] number of the expert on this rank, or -1 */
	const float *topk_weights;   /* [row][choice] 0 where topk_idx is -1 */
	const int32_t *source;	     /* [row] rank */
	const int32_t *token;	     /* [row] number of the token at the source */
	const int32_t *per_expert;   /* [expert on this rank] rows that chose it */
};

/* Sends tokens to the ranks of their experts. Collective. x is [token][row bytes]; topk_idx
 * [token][choice] experts, -1 for none; topk_weights the same, or NULL for ones. */
FORCARRY_API int forcarry_dispatch(forcarry *carrier, const void *x, int32_t tokens, const int64_t *topk_idx, const float *topk_weights,
				   struct forcarry_received *received, struct forcarry_error *err);

/* Adds up rows for the tokens of the last dispatch. Collective. y is [row][row_back bytes], a row for
 * each received one; combined is [token][row_back bytes], zeros for tokens without experts. Weights
 * are not applied. */
FORCARRY_API int forcarry_combine(forcarry *carrier, const void *y, void *combined, struct forcarry_error *err);

/* Makes the rank's program for NICs of these speeds, [rank], 0 for dead ones; NULL if all are well.
 * It is called again when a NIC has died. Programs of tokens have add. Returns 0, or a negative
 * number with a text. */
typedef int forcarry_plan(void *context, const int64_t *speeds, struct forgpu_program *program, struct forgpu_error *err);

/* Carries out an exchange of any traffic. Collective. input and output are as the program has them, at
 * most tokens * row and rows * row bytes. */
FORCARRY_API int forcarry_exchange(forcarry *carrier, forcarry_plan *plan, void *context, const void *input, int64_t input_bytes,
				   void *output, int64_t output_bytes, struct forcarry_error *err);

struct forcarry_counts {
	int64_t exchanges, repeats; /* repeats: exchanges that began again because a NIC died */
	int64_t sent;		    /* bytes that the NIC has sent, without states and routing */
	int32_t dead;		    /* NICs */
	int32_t own;		    /* 1 if this rank's NIC is dead */
};

FORCARRY_API void forcarry_count(const forcarry *carrier, struct forcarry_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
