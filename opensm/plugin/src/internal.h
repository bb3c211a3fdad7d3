/*
 * internal.h: what the files of libforsosm share. fabric.c, map.c, engine.c and
 * plugin.c know OpenSM; the others do not.
 */
#ifndef FORSOSM_INTERNAL_H
#define FORSOSM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/un.h>

/* The protocol: docs/opensm-plugin.md. */
enum {
	PROTOCOL = 2,
	HEADER_SIZE = 16,
	BLOCK = 64,
	NO_PATH = 0xFF,
	PORTS = 256, /* what there are numbers for */
	MAX_LID = 0xBFFF,
	MAX_BODY = 64 << 20,
};

enum message { HELLO = 0x01, STATE, SWEEP, FABRIC, DISCOVERED, TRAP, REQUEST, OUTCOME, ROUTED, UP,
	WELCOME = 0x81, TABLES, NONE, RESWEEP };

enum state { NOT_ACTIVE, DISCOVERING, STANDBY, MASTER };
enum result { INSTALLED, LATE, DECLINED, WRONG, WAITING };

#define MAGIC "forsosm\n"

static inline uint16_t get16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t get32(const unsigned char *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }
static inline uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* wire.c: messages as bytes. */

/* Bytes to be sent or compared. After a failed allocation it takes no more. */
struct buffer {
	unsigned char *data;
	size_t length, size;
	bool failed;
};

void forsosm_put_(struct buffer *b, const void *bytes, size_t n);
void forsosm_put8_(struct buffer *b, unsigned v);
void forsosm_put16_(struct buffer *b, unsigned v);
void forsosm_put32_(struct buffer *b, uint32_t v);
void forsosm_put64_(struct buffer *b, uint64_t v);
void forsosm_put_text_(struct buffer *b, const char *text);
void forsosm_free_(struct buffer *b);
/* Appends a whole message of now. */
void forsosm_put_message_(struct buffer *b, enum message type, const void *body, size_t n);

/* What is left of a body. Past its end it gives zeros and notes that. */
struct cursor {
	const unsigned char *at;
	size_t left;
	bool ended;
};

const unsigned char *forsosm_take_(struct cursor *c, size_t n); /* NULL past the end */
uint16_t forsosm_take16_(struct cursor *c);
uint32_t forsosm_take32_(struct cursor *c);
uint64_t forsosm_take64_(struct cursor *c);

/* tables.c: the tables that forsd has sent, or written to a file. */

struct table {
	uint64_t guid;
	uint32_t blocks;        /* of 64 entries, all there is memory for */
	unsigned char *entries; /* by LID */
};

struct tables {
	struct table *switches; /* in ascending order of GUID */
	uint32_t count;
	uint64_t sum;           /* 0: there are none */
};

/* Applies the message tables, from its base on. NULL, or why not: then there are none. */
const char *forsosm_apply_(struct tables *t, struct cursor *c);
const struct table *forsosm_find_(const struct tables *t, uint64_t guid);
void forsosm_drop_(struct tables *t);
/* The table of a switch, made if there is none; NULL without memory. */
struct table *forsosm_add_(struct tables *t, uint64_t guid);
/* Makes a table long enough for a block; false without memory. */
bool forsosm_reach_(struct table *s, uint32_t block);
/* Makes *to a copy; false, and none, without memory. */
bool forsosm_copy_(struct tables *to, const struct tables *from);
/* Reads what it can of a table file of forsd's. */
void forsosm_read_(struct tables *t, FILE *file);

/* mend.c: tables without forsd. */

struct cable {
	uint32_t to;   /* the switch at its other end */
	uint16_t rate; /* for comparison */
	uint8_t port;
};

struct node {
	uint64_t guid;
	struct cable *cables; /* to other switches, in ascending order of port */
	uint32_t count;
	uint32_t hosts;       /* end ports on it */
	unsigned char *out;   /* its entries, by LID */
};

/* LIDs in a row, and the switch and port by which packets to them leave the switches. */
struct owner {
	uint32_t node;
	uint16_t lid, lids;
	uint8_t port;
};

/* A fabric as far as tables need it. */
struct map {
	struct node *nodes;   /* in ascending order of GUID */
	uint32_t count;
	struct owner *owners; /* in ascending order of switch and LID; no LID twice */
	uint32_t owned;
};

/*
 * Fills the entries of every switch for every owner: a shortest way up and down,
 * that which is wished for or held, where it still is one. Returns how many entries
 * are not those held, −1 without memory.
 */
int64_t forsosm_mend_(const struct map *m, const struct tables *held, const struct tables *wish);
/*
 * Brings what is wished for up to date with tables made for a fabric: it becomes
 * what they have, but for entries by ways that there are not now. Those come back
 * with the ways. False without memory, wish being sound and not up to date.
 */
bool forsosm_wish_(const struct map *m, const struct tables *held, struct tables *wish);

/* link.c: what OpenSM's threads say to forsd and hear from it. */

/* Each kind of trouble is said once until tables have been installed. */
enum trouble { NO_FORSD = 1, OTHER_USER = 2, OTHER_VERSION = 4, UNREADABLE = 8, IS_LATE = 16, IS_WRONG = 32, IS_DECLINED = 64, IS_MENDED = 128 };

enum { SETTLE = 5 }; /* times the quiet that is waited for, at most */

struct settings {
	struct sockaddr_un address;
	unsigned deadline; /* milliseconds */
	unsigned settle;   /* milliseconds */
	uid_t user;        /* trusted like root and the own user */
};

/* What a link calls, with none of its locks held. */
struct hooks {
	void (*say)(void *context, bool trouble, const char *text);
	void (*resweep)(void *context, int how);
	enum state (*state)(void *context);
};

struct link {
	struct settings settings;
	const struct hooks *hooks;
	void *context;
	pthread_t thread;
	int wake; /* an eventfd: there is something to send, or to stop for */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t answered;
	bool stopping;
	bool ready;     /* forsd has said welcome */
	bool broken;    /* the connection must be closed */
	enum state state;
	uint64_t port;  /* GUID of the manager's port */
	char version[64];
	struct buffer out;
	size_t sent;    /* bytes of out */
	struct buffer fabric; /* the body of the latest one, without its generation */
	uint64_t generation, told; /* of its tables, and of those that forsd has */
	bool up;        /* the last sweep has ended well with it */
	int64_t trapped; /* when the latest trap of a link came, on the monotonic clock, in ns */
	uint64_t request; /* the latest */
	int64_t due;    /* of the latest request, on the monotonic clock, in ns */
	enum result result; /* of the latest request */
	struct tables tables;
	int resweep;
	unsigned troubles;  /* that have been said */
	bool installed;     /* tables, at least once */
	char pending[320];  /* to be said, "" for nothing */
	bool pending_trouble;

	int fd; /* the thread's own, as what follows; −1: none */
	int64_t retry_at, welcome_by;
	struct buffer in;
};

/* Prepares a link without a connection; 0 or an errno. */
int forsosm_link_init_(struct link *l, const struct settings *s, const struct hooks *h, void *context);
/* Ends the thread, if it was started, and frees all. */
void forsosm_link_stop_(struct link *l, bool started);
/* Sends a message if forsd is there and the manager active. */
void forsosm_send_(struct link *l, enum message type, const void *body, size_t n);
/* Sends the state if it has changed. */
void forsosm_send_state_(struct link *l, enum state state);
/* Records that a trap for a link has come. */
void forsosm_trapped_(struct link *l);
/* Waits as long as the settings say, and until no trap for a link has come for that long, but no longer than SETTLE times that. */
void forsosm_settle_(struct link *l);
/* Takes the contents of a fabric, sends it if it has changed, and then, unless REQUEST, a message that names it. */
void forsosm_send_fabric_(struct link *l, struct buffer *fabric, enum message named);
/* Asks for tables; false where forsd is not there. */
bool forsosm_ask_(struct link *l, unsigned max_lid);
/* Waits for the answer. INSTALLED means that l->tables holds it, and that the lock is held. */
enum result forsosm_await_(struct link *l);
/* Reports what became of the answer, and says so where that is news. */
void forsosm_conclude_(struct link *l, enum result result, const char *text);
/* Takes bytes from forsd: NULL, or what was wrong with them, so that the connection must end. */
extern const char forsosm_other_version_[];
const char *forsosm_receive_(struct link *l, const unsigned char *bytes, size_t n);
/* Says that something is wrong, once for each kind. */
void forsosm_complain_(struct link *l, enum trouble kind, const char *text);

/* thread.c: the thread that keeps the connection. */

/* Starts it; 0 or an errno. */
int forsosm_link_start_(struct link *l);

#endif
