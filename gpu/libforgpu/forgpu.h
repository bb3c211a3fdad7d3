/*
 * forgpu.h: a GPU plans its part of an all-to-all exchange.
 *
 * A server has as many GPUs as NICs; rank r is GPU r mod m of server r div m. Every
 * rank that knows what all have for each other plans for itself, and all come to parts
 * that fit together, those that forsd's Go package gpu makes, byte for byte.
 * docs/gpu.md says what a rank does with its program.
 *
 *	forgpu_planner *planner = forgpu_open();
 *	struct forgpu_options options = {.max_stretch = 1.05};
 *	struct forgpu_program program;
 *	struct forgpu_error err;
 *	if (forgpu_plan(planner, servers, gpus, bytes, rank, &options, &program, &err) < 0)
 *		fprintf(stderr, "%s\n", err.text);
 *	for (size_t i = 0; i < program.send.count; i++)
 *		... program.send.at[i] ...
 *
 * Results: what is below zero is one of FORGPU_E…, everything else is success. Nothing
 * here prints, exits, starts a thread or installs a handler.
 *
 * Memory: a planner keeps its memory. After its first call for a number of servers and
 * GPUs it asks for no more, unless a plan has over 16 n + 64 stages.
 *
 * Threads: planners are independent of each other; one planner serves one thread at a
 * time.
 */
#ifndef FORGPU_H
#define FORGPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FORGPU_API __attribute__((visibility("default")))
#else
#define FORGPU_API
#endif

/* The version of this interface: it grows with every addition to it. */
#define FORGPU_VERSION_MAJOR 1
#define FORGPU_VERSION_MINOR 0

/* What can go wrong. */
enum forgpu_code {
	FORGPU_OK = 0,
	FORGPU_EINVAL = -1,  /* an argument is NULL or out of range */
	FORGPU_ENOMEM = -2,  /* no memory */
	FORGPU_ETRAFFIC = -3, /* an entry of the traffic is below 0, or there is too much of it */
	FORGPU_ELARGE = -4,  /* max_stage is so small that there are over 2^20 stages */
};

struct forgpu_error {
	int code;
	char text[252]; /* a sentence */
};

/* At most so many GPUs, and so many bytes in all. */
#define FORGPU_MAX_RANKS 2048
#define FORGPU_MAX_BYTES ((int64_t)1 << 60)

/* How a plan is made. Zeros mean what forsplan does without a flag, in mode "bytes". All
 * ranks must plan with the same. */
struct forgpu_options {
	int64_t grain;      /* what the bytes of a NIC for a pair of servers are rounded up to */
	double max_stretch; /* how many times as long as it need be a plan may be, 1 to 1000 */
	int64_t max_stage;  /* bytes of the longest stage */
	double b1, b2;      /* bytes a second of a GPU inside its server, and of a NIC */
	int64_t latency;    /* nanoseconds to start a stage; 0 with b1 and b2 means 450e9, 50e9, 10000 */
	int32_t fewest;     /* 1: look longer for fewer stages */
	int32_t reserved;   /* 0 */
};

/* A stretch of one of the rank's own buffers that is sent to a peer or received from
 * one, in a stage, or beside one: -1 is before the first, the number of stages after
 * the last. What a rank sends a peer in a step is, one piece after the other, what the
 * peer receives from it; the cuts of the two sides may differ. */
struct forgpu_piece {
	int32_t stage;
	int32_t peer;
	int64_t offset, bytes;
};

struct forgpu_list {
	const struct forgpu_piece *at;
	size_t count;
};

/* What one rank does. It lies in the planner's memory until its next call. */
struct forgpu_program {
	int32_t rank, gpus;                         /* GPUs a server */
	int64_t input, nic_send, nic_receive, output; /* bytes of the buffers */
	struct forgpu_list before_send;    /* input to a NIC of the server */
	struct forgpu_list before_receive; /* into the NIC's sending buffer */
	struct forgpu_list after_send;     /* the NIC's receiving buffer to GPUs of the server */
	struct forgpu_list after_receive;  /* into the output */
	struct forgpu_list local_send;     /* input to GPUs of the server */
	struct forgpu_list local_receive;  /* into the output */
	struct forgpu_list send;           /* over the NIC, by stage */
	struct forgpu_list receive;
	const int64_t *lengths; /* [stage] */
	size_t stages;
};

typedef struct forgpu_planner forgpu_planner;

/* NULL where there is no memory. */
FORGPU_API forgpu_planner *forgpu_open(void);
FORGPU_API void forgpu_close(forgpu_planner *planner);

/* Plans for a rank: bytes are [source][destination] of servers * gpus ranks. options may
 * be NULL, and err. */
FORGPU_API int forgpu_plan(forgpu_planner *planner, int32_t servers, int32_t gpus, const int64_t *bytes, int32_t rank,
			   const struct forgpu_options *options, struct forgpu_program *program, struct forgpu_error *err);

/* What planning longer may gain. */
struct forgpu_outlook {
	double seconds; /* what the exchange is estimated to take with the options chosen */
	double least;   /* no plan takes less */
	int32_t complete; /* every way was tried */
	int32_t reserved;
};

/* Chooses the stretch, up to max_stretch, the longest stage, and fewest, with which the
 * exchange is estimated to take the least time. It tries other ways for budget
 * nanoseconds, 0 for as long as it takes; with a budget, ranks that choose for themselves
 * may come to different options, so one must tell the others. outlook may be NULL. */
FORGPU_API int forgpu_choose(forgpu_planner *planner, int32_t servers, int32_t gpus, const int64_t *bytes, int64_t budget,
			     struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err);

/* Writes the program as the section of the rank in an exchange's binary form, and
 * returns how many bytes that takes; no more than size are written. */
FORGPU_API size_t forgpu_encode(const struct forgpu_program *program, void *section, size_t size);

#ifdef __cplusplus
}
#endif
#endif
