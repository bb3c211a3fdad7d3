/*
 * forgpu.h: a GPU plans its part of an all-to-all exchange.
 *
 * A server has as many GPUs as NICs; rank r is GPU r mod m of server r div m. Every
 * rank that knows the traffic of all ranks plans its own part. The parts fit together
 * and equal those of forsd's Go package gpu, byte for byte. docs/gpu.md explains how a
 * rank executes its program.
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
 * Results: a negative result is one of FORGPU_E…, all others mean success. The library
 * does not print, exit, start threads or install handlers.
 *
 * Memory: a planner keeps its memory. After its first call for a number of servers and
 * GPUs it allocates no more, unless a plan has over 16 n + 64 stages or other groups of NICs.
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
#define FORGPU_VERSION_MINOR 2

/* Error codes. */
enum forgpu_code {
	FORGPU_OK = 0,
	FORGPU_EINVAL = -1,  /* an argument is NULL or out of range */
	FORGPU_ENOMEM = -2,  /* out of memory */
	FORGPU_ETRAFFIC = -3, /* an entry of the traffic is negative, its sum is too large, or no NIC can carry it */
	FORGPU_ELARGE = -4,  /* max_stage is so small that there are over 2^20 stages */
};

struct forgpu_error {
	int code;
	char text[252]; /* a sentence */
};

/* The most GPUs, and the most bytes in all. */
#define FORGPU_MAX_RANKS 2048
#define FORGPU_MAX_BYTES ((int64_t)1 << 60)

/* How to make a plan. Zeros are the defaults of forsplan in mode "bytes". All ranks must
 * use the same options. */
struct forgpu_options {
	int64_t grain;      /* unit to which a NIC's bytes for a pair of servers are rounded up */
	double max_stretch; /* largest ratio of a plan's length to the least possible, 1 to 1000 */
	int64_t max_stage;  /* bytes of the longest stage */
	double b1, b2;      /* bytes per second of a GPU inside its server, and of a NIC */
	int64_t latency;    /* nanoseconds to start a stage; 0 with b1 and b2 means 450e9, 50e9, 10000 */
	int32_t fewest;     /* 1: search longer for fewer stages */
	int32_t groups;     /* of the NICs of a server; 0: one if all servers are alike, else one for each NIC */
};

/* A stretch of one of the rank's own buffers that is sent to a peer or received from
 * one in a stage, or moved during a stage: -1 means before the first, the number of
 * stages after the last. The pieces that a rank sends a peer in a step are, concatenated,
 * those that the peer receives from it; they may be cut differently. */
struct forgpu_piece {
	int32_t stage;
	int32_t peer;
	int64_t offset, bytes;
};

struct forgpu_list {
	const struct forgpu_piece *at;
	size_t count;
};

/* The program of one rank. It is valid until the planner's next call. */
struct forgpu_program {
	int32_t rank, gpus;                         /* ranks per server */
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
	/* On the way back of tokens: for each piece of before_receive, after_receive and local_receive,
	 * 1 if it is added to what its bytes hold. In a step, those from NICs come before local ones. */
	const uint8_t *add[3];
};

typedef struct forgpu_planner forgpu_planner;

/* Returns NULL if out of memory. */
FORGPU_API forgpu_planner *forgpu_open(void);
FORGPU_API void forgpu_close(forgpu_planner *planner);

/* A rank if NICs are dead or slow: a GPU, a channel of its NIC, or both. */
struct forgpu_place {
	int32_t gpu, nic; /* numbered in the server; -1 for none */
	int32_t home;	  /* the first place of the GPU, which has its input and output */
};

/* States the speeds of the NICs, [GPU], in any unit, 0 for those that are dead, or NULL if all
 * are well, for all later calls with so many servers and GPUs. The fastest NIC is divided into
 * parts channels, and slower ones into fewer; with 1 only the fastest ones are used. Ranks are
 * then places. Returns the number of places of each server, and sets places, unless that is NULL,
 * to those of all servers, valid until the next such call. */
FORGPU_API int forgpu_nics(forgpu_planner *planner, int32_t servers, int32_t gpus, const int64_t *speeds, int32_t parts,
			   const struct forgpu_place **places, struct forgpu_error *err);

/* Plans for a rank: bytes are [source][destination] of servers * gpus GPUs. options and
 * err may be NULL. */
FORGPU_API int forgpu_plan(forgpu_planner *planner, int32_t servers, int32_t gpus, const int64_t *bytes, int32_t rank,
			   const struct forgpu_options *options, struct forgpu_program *program, struct forgpu_error *err);

/* The possible gain of planning longer. */
struct forgpu_outlook {
	double seconds; /* estimated time of the exchange with the chosen options */
	double least;   /* no plan takes less */
	int32_t complete; /* all alternatives were tried */
	int32_t reserved;
};

/* Chooses the stretch, up to max_stretch, the longest stage, fewest and groups, with which the
 * exchange is estimated to take the least time. It tries alternatives for budget
 * nanoseconds, or without limit if that is 0. With a budget, ranks may choose different
 * options, so one must choose for all. outlook may be NULL. */
FORGPU_API int forgpu_choose(forgpu_planner *planner, int32_t servers, int32_t gpus, const int64_t *bytes, int64_t budget,
			     struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err);

/* The tokens of a mixture of experts, as many for each rank, those of rank 0 first. */
struct forgpu_tokens {
	int64_t bytes;	      /* of a token */
	int32_t each;	      /* tokens of a rank */
	int32_t choices;      /* experts of a token */
	const int32_t *ranks; /* [token][choice] the expert's rank, or -1 */
};

/* Plans for a rank, with each token sent once to each other server and handed on there, and,
 * unless back is NULL, its way back, with sums in each server. The input has the rank's tokens in
 * rows; the output those that it needs, each once, by source and then in the input's order. On
 * the way back it is the other way round; rows of tokens without experts get nothing. Tokens are
 * not divided. NICs must all be well. */
FORGPU_API int forgpu_plan_tokens(forgpu_planner *planner, int32_t servers, int32_t gpus, const struct forgpu_tokens *tokens, int32_t rank,
				  const struct forgpu_options *options, struct forgpu_program *there, struct forgpu_program *back,
				  struct forgpu_error *err);

/* Makes later calls of forgpu_plan_tokens allocate for so many moves inside the server, if they
 * have fewer: the rows that its ranks receive, and those that the rank sends. */
FORGPU_API void forgpu_reserve(forgpu_planner *planner, int64_t moves);

/* As forgpu_choose, for forgpu_plan_tokens. */
FORGPU_API int forgpu_choose_tokens(forgpu_planner *planner, int32_t servers, int32_t gpus, const struct forgpu_tokens *tokens, int64_t budget,
				    struct forgpu_options *options, struct forgpu_outlook *outlook, struct forgpu_error *err);

/* Writes the program as the section of the rank in an exchange's binary form, at most size
 * bytes, and returns how many bytes it takes. */
FORGPU_API size_t forgpu_encode(const struct forgpu_program *program, void *section, size_t size);

#ifdef __cplusplus
}
#endif
#endif
