/*
 * internal.h: declarations shared by the files of libfors. Nothing here is exported.
 */
#ifndef FORS_INTERNAL_H
#define FORS_INTERNAL_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../fors.h"

/* The layout of a table: docs/phase-table.md. */
enum {
	HEADER_SIZE = 192,
	RULES_HEADER_SIZE = 256, /* of version 2 */
	ALIGN = 64,
	SERVER_SIZE = 24,
	CELL_SIZE = 8,
	NOBODY = 0xFFFF,
	MAX_LID = 0xBFFF,
	MAX_LMC = 7,
	MAX_LANES = 0x7FFF,
};

enum { OFF_VERSION = 8, OFF_HEADER_SIZE = 12, OFF_TOTAL = 16, OFF_CRC = 24, OFF_FLAGS = 28, OFF_EPOCH = 32,
	OFF_JOB = 40, OFF_HASH = 48, OFF_SERVERS = 80, OFF_PHASES = 84, OFF_LANES = 88, OFF_LMC = 90, OFF_SECTIONS = 96,
	OFF_FORM = 224, OFF_GROUP = 228, OFF_BLOCKS = 232, OFF_GROUPS = 236 };

enum { SRV_GUID = 0, SRV_LID = 8, SRV_LMC = 10, SRV_LEAF = 12, SRV_NAME_OFF = 16, SRV_NAME_LEN = 20 };

static inline uint32_t get16(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t get32(const unsigned char *p) { return get16(p) | get16(p + 2) << 16; }
static inline uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* A socket's address. */
struct address {
	socklen_t length; /* 0: none yet */
	struct sockaddr_storage to;
};

/* Where a table comes from. */
struct source {
	enum { FROM_MEMORY, FROM_FILE, FROM_UNIX, FROM_TCP } kind;
	char *where;   /* as fors_location returns it */
	char *path;    /* of the file or the socket */
	char *host;    /* of TCP, without brackets */
	char *port;
	char job[101]; /* number or name of a job, "" for the whole fabric */
	uint64_t epoch; /* the only one accepted; 0: any */
	const char *lids; /* "base" or "pinned"; NULL: forsd's choice */
	int timeout;   /* milliseconds for a request */
	struct address address; /* that answered last */
	struct stat file;       /* when it was read last */
};

/* An HTTP exchange, advanced as far as the socket allows. */
struct http {
	int fd; /* −1: none */
	enum { CONNECTING, SENDING, STATUS_LINE, HEADERS, BODY, REST, CHUNK_LINE, CHUNK, CHUNK_END, TRAILERS, DONE } state;
	bool head;              /* the request is HEAD: no body follows */
	bool keep;              /* the connection can take another request */
	bool chunked, has_length, has_etag;
	int status;
	uint64_t etag;          /* the epoch */
	uint64_t left;          /* bytes of the body or chunk still to come */
	size_t request_length, sent;
	size_t head_bytes, line_length, body_length, body_size;
	unsigned char *body;
	char *request;
	char line[1024];
};

/* What to ask. */
struct question {
	enum { TABLE, NEWS, REMAINING, TIMES } of;
	bool has_known; /* of TABLE: the caller has the table of epoch known */
	uint64_t known; /* of NEWS: the epoch to be replaced */
	const char *json; /* of REMAINING and TIMES: the body of the request */
};

/* A request that is answered when the epoch changes. */
struct watch {
	struct http http;
	bool open;          /* a request is under way */
	bool reused;        /* on the connection of the one before */
	int64_t sent_at;    /* when, in milliseconds of the monotonic clock */
	int64_t retry_at;   /* no connection before then */
	uint64_t epoch;     /* another epoch that is known to be in force */
	bool news;          /* there is one */
};

/* A table of version 2: docs/phase-table.md. Of a shift, groups are places, units too, and received are the servers on them. */
struct rules {
	uint32_t form, group, blocks, groups;
	const unsigned char *units, *received, *members, *group_of;
};

struct fors_table {
	struct fors_rows_ rows; /* first: fors_entry reads it */
	struct rules rules;     /* where rows has no cells */
	struct fors_info info;
	const unsigned char *data, *dir, *by_guid, *by_lid, *names;
	size_t length;
	uint64_t names_length;
	unsigned char *owned;     /* data, if fors_close frees it */
	unsigned char *path_bits; /* of rows; by a rule [server·groups + group], NULL if all are 0 */
	struct source source;
	struct watch watch;
};

static inline const unsigned char *server_at(const struct fors_table *t, uint32_t i) { return t->dir + (size_t)i * SERVER_SIZE; }
static inline const unsigned char *cell_at(const struct fors_table *t, uint32_t server, uint32_t phase)
{
	return t->rows.cells + ((size_t)server * t->rows.phases + phase) * CELL_SIZE;
}

/* rules.c */

/* Reads the rule of a header. */
int fors_rules_header_(struct fors_table *t, struct fors_error *err);
/* Sets the lengths that the sections after the names have. */
void fors_rules_lengths_(const struct fors_table *t, uint64_t length[4]);
/* Checks a rule, so that every entry by it may stand in a table, and sets info.base_lids. */
int fors_rules_check_(struct fors_table *t, struct fors_error *err);
/* Fills path_bits. */
int fors_rules_bits_(struct fors_table *t, struct fors_error *err);

/* error.c */

/* Fills *err (unless NULL) and returns code. */
int fors_fail_(struct fors_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the text of an errno after the sentence. */
int fors_fail_errno_(struct fors_error *err, int code, int errnum, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Puts the place that an error is about before its text, as much of it as leaves the text whole. */
void fors_fail_where_(struct fors_error *err, const char *where);
/* Reads decimal digits, up to a limit of 9 or more, and nothing else. */
bool fors_number_(const char *text, size_t length, uint64_t most, uint64_t *value);

/* crc32c.c */

/* Continues a CRC-32C over n bytes; a CRC begins with 0. */
uint32_t fors_crc32c_(uint32_t crc, const unsigned char *p, size_t n);

/* check.c */

/* Checks all of t->data and fills the table's fields but path_bits and source. */
int fors_check_(struct fors_table *t, struct fors_error *err);

/* table.c */

/*
 * Makes a table of bytes. If owned is data, the table owns them, and they are freed
 * even on failure. It takes source over likewise; NULL means memory.
 */
int fors_make_(const unsigned char *data, size_t length, unsigned char *owned, struct source *source,
	struct fors_table **table, struct fors_error *err);

/* source.c */

/* Reads a location into *source, which fors_source_free_ frees. */
int fors_source_(const char *where, struct source *source, struct fors_error *err);
void fors_source_free_(struct source *source);
/* Finds up to `most` addresses of a source: their number, or FORS_E…. Looking a name up may block. */
int fors_source_resolve_(const struct source *source, struct address *to, int most, struct fors_error *err);

/* http.c */

/* Writes the request that puts a question. */
int fors_http_request_(struct http *h, const struct source *source, const struct question *q, struct fors_error *err);
/* Starts to connect, without blocking. Returns 0 or an errno. */
int fors_http_connect_(struct http *h, const struct address *to);
/* Does what is possible without blocking: 1 at the end of the answer, 0 before, or FORS_E…. */
int fors_http_step_(struct http *h, const struct source *source, struct fors_error *err);
/* Reads n bytes of an answer; returns as fors_http_step_. */
int fors_http_feed_(struct http *h, const unsigned char *p, size_t n, struct fors_error *err);
/* Turns an answer that is neither 200 nor 304 into an error. */
int fors_http_refusal_(const struct http *h, const struct source *source, struct fors_error *err);
/* Puts a question and waits for the answer: h has it, of status 200 or 304. */
int fors_http_ask_(struct http *h, struct source *source, const struct question *q, struct fors_error *err);
/* Closes the socket and frees the buffers. */
void fors_http_free_(struct http *h);
/* Milliseconds of the monotonic clock. */
int64_t fors_now_(void);

/* watch.c */

void fors_watch_free_(struct watch *w);
/* Forgets news that turned out to be false. */
void fors_watch_forget_(fors_table *table);

#endif
