/*
 * link.c: what OpenSM's threads say to forsd and hear from it. They put messages
 * in a queue and take answers from where the link's own thread (thread.c) leaves
 * them, so that none of them ever waits for a socket.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum {
	MAX_QUEUE = 16 << 20,    /* bytes that may wait to be sent */
	MAX_SMALL = 128 << 10,   /* length of a body other than tables */
	MAX_REASON = 160,        /* characters of a text from forsd that are logged */
};

const char forsosm_other_version_[] = "a greeting in another version of the protocol";

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int forsosm_link_init_(struct link *l, const struct settings *s, const struct hooks *h, void *context)
{
	*l = (struct link){.settings = *s, .hooks = h, .context = context, .fd = -1, .wake = -1};
	pthread_condattr_t attr;
	int failed = pthread_condattr_init(&attr);
	if (failed)
		return failed;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	failed = pthread_cond_init(&l->answered, &attr);
	pthread_condattr_destroy(&attr);
	if (failed)
		return failed;
	pthread_mutex_init(&l->lock, NULL); /* never fails on Linux */
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake >= 0)
		return 0;
	failed = errno;
	forsosm_link_stop_(l, false);
	return failed;
}

/* wake has the thread look at the queue. */
static void wake(const struct link *l)
{
	const uint64_t one = 1;
	if (write(l->wake, &one, sizeof one) < 0) {
		/* The counter is full, so that the thread will look in any case. */
	}
}

void forsosm_link_stop_(struct link *l, bool started)
{
	if (started) {
		pthread_mutex_lock(&l->lock);
		l->stopping = true;
		pthread_mutex_unlock(&l->lock);
		wake(l);
		pthread_join(l->thread, NULL);
	}
	if (l->fd >= 0)
		close(l->fd);
	if (l->wake >= 0)
		close(l->wake);
	forsosm_drop_(&l->tables);
	forsosm_free_(&l->in);
	forsosm_free_(&l->out);
	forsosm_free_(&l->fabric);
	pthread_cond_destroy(&l->answered);
	pthread_mutex_destroy(&l->lock);
}

/* queue puts a message in the queue; the caller holds the lock. */
static void queue(struct link *l, enum message type, const void *body, size_t n)
{
	if (l->broken)
		return;
	if (l->sent == l->out.length)
		l->sent = l->out.length = 0;
	forsosm_put_message_(&l->out, type, body, n);
	if (l->out.failed || l->out.length - l->sent > MAX_QUEUE)
		l->broken = true;
	wake(l);
}

/* active reports whether forsd is connected and is to hear of this manager. */
static bool active(const struct link *l) { return l->ready && (l->state == MASTER || l->state == DISCOVERING); }

/* trouble notes what is to be said, unless that kind has been said already. */
static void __attribute__((format(printf, 3, 4))) trouble(struct link *l, enum trouble kind, const char *format, ...)
{
	if (l->troubles & kind || l->pending[0])
		return;
	l->troubles |= kind;
	l->pending_trouble = true;
	va_list args;
	va_start(args, format);
	vsnprintf(l->pending, sizeof l->pending, format, args);
	va_end(args);
}

/* say logs the pending text with the lock released. */
static void say(struct link *l)
{
	char text[sizeof l->pending];
	pthread_mutex_lock(&l->lock);
	memcpy(text, l->pending, sizeof text);
	const bool bad = l->pending_trouble;
	l->pending[0] = 0;
	pthread_mutex_unlock(&l->lock);
	if (text[0])
		l->hooks->say(l->context, bad, text);
}

void forsosm_trapped_(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	l->trapped = now_ns();
	pthread_mutex_unlock(&l->lock);
}

void forsosm_settle_(struct link *l)
{
	const int64_t quiet = (int64_t)l->settings.settle * 1000000, start = now_ns();
	for (;;) {
		pthread_mutex_lock(&l->lock);
		int64_t until = (l->trapped > start ? l->trapped : start) + quiet;
		pthread_mutex_unlock(&l->lock);
		if (until > start + SETTLE * quiet)
			until = start + SETTLE * quiet;
		const int64_t left = until - now_ns();
		if (left <= 0)
			return;
		const struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
		nanosleep(&t, NULL); /* a signal only has it look again */
	}
}

void forsosm_complain_(struct link *l, enum trouble kind, const char *text)
{
	pthread_mutex_lock(&l->lock);
	trouble(l, kind, "%s", text);
	pthread_mutex_unlock(&l->lock);
	say(l);
}

void forsosm_send_(struct link *l, enum message type, const void *body, size_t n)
{
	pthread_mutex_lock(&l->lock);
	if (type == SWEEP)
		l->up = false;
	if (active(l))
		queue(l, type, body, n);
	pthread_mutex_unlock(&l->lock);
}

static void queue_state(struct link *l)
{
	const unsigned char state = (unsigned char)l->state;
	queue(l, STATE, &state, 1);
}

void forsosm_send_state_(struct link *l, enum state state)
{
	pthread_mutex_lock(&l->lock);
	if (l->state != state) {
		l->state = state;
		if (state != MASTER)
			l->up = false;
		if (l->ready)
			queue_state(l);
	}
	pthread_mutex_unlock(&l->lock);
}

/* queue_fabric sends the latest fabric, unless forsd has it. */
static void queue_fabric(struct link *l)
{
	if (l->told == l->generation)
		return;
	l->told = l->generation;
	struct buffer body = {0};
	forsosm_put64_(&body, l->generation);
	forsosm_put_(&body, l->fabric.data, l->fabric.length);
	if (body.failed)
		l->broken = true;
	else
		queue(l, FABRIC, body.data, body.length);
	forsosm_free_(&body);
}

/* queue_named sends a message that is the latest fabric's generation. */
static void queue_named(struct link *l, enum message type)
{
	queue_fabric(l);
	struct buffer body = {0};
	forsosm_put64_(&body, l->generation);
	if (!body.failed)
		queue(l, type, body.data, body.length);
	forsosm_free_(&body);
}

void forsosm_send_fabric_(struct link *l, struct buffer *fabric, enum message named)
{
	if (fabric->failed) { /* out of memory: an old fabric would be worse than none */
		forsosm_free_(fabric);
		return;
	}
	pthread_mutex_lock(&l->lock);
	const bool same = fabric->length == l->fabric.length && memcmp(fabric->data, l->fabric.data, fabric->length) == 0;
	if (!same) {
		const struct buffer old = l->fabric;
		l->fabric = *fabric;
		*fabric = old;
		l->generation++;
	}
	l->up = named == UP;
	if (named != REQUEST && active(l))
		queue_named(l, named);
	pthread_mutex_unlock(&l->lock);
	forsosm_free_(fabric);
}

bool forsosm_ask_(struct link *l, unsigned max_lid)
{
	struct buffer body = {0};
	pthread_mutex_lock(&l->lock);
	const bool there = active(l) && !l->broken && l->generation != 0;
	if (there) {
		queue_fabric(l);
		l->request++;
		l->result = WAITING;
		l->due = now_ns() + (int64_t)l->settings.deadline * 1000000;
		forsosm_put64_(&body, l->request);
		forsosm_put64_(&body, l->generation);
		forsosm_put64_(&body, l->tables.sum);
		forsosm_put32_(&body, l->settings.deadline * 1000);
		forsosm_put16_(&body, max_lid);
		forsosm_put16_(&body, 0);
		if (!body.failed)
			queue(l, REQUEST, body.data, body.length);
	}
	pthread_mutex_unlock(&l->lock);
	forsosm_free_(&body);
	return there;
}

enum result forsosm_await_(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	const struct timespec until = {.tv_sec = l->due / 1000000000, .tv_nsec = l->due % 1000000000};
	int failed = 0;
	while (l->result == WAITING && l->ready && !failed)
		failed = pthread_cond_timedwait(&l->answered, &l->lock, &until);
	enum result result = l->result;
	if (result == INSTALLED && l->tables.sum != 0)
		return INSTALLED;
	if (result == WAITING || result == INSTALLED)
		result = LATE;
	pthread_mutex_unlock(&l->lock);
	return result;
}

/* conclude is forsosm_conclude_ under the lock. */
static void conclude(struct link *l, enum result result, const char *text)
{
	struct buffer body = {0};
	forsosm_put64_(&body, l->request);
	forsosm_put8_(&body, result);
	forsosm_put_text_(&body, text);
	if (active(l) && !body.failed)
		queue(l, OUTCOME, body.data, body.length);
	forsosm_free_(&body);
	switch (result) {
	case INSTALLED:
		if ((l->troubles || !l->installed) && !l->pending[0]) {
			snprintf(l->pending, sizeof l->pending, "forsd's tables are installed");
			l->pending_trouble = false;
		}
		l->troubles = 0;
		l->installed = true;
		break;
	case LATE:
		if (l->ready) /* otherwise the lost connection has been said */
			trouble(l, IS_LATE, "forsd gave no tables within %u ms", l->settings.deadline);
		break;
	case DECLINED:
		trouble(l, IS_DECLINED, "forsd has no tables");
		break;
	default:
		trouble(l, IS_WRONG, "forsd's tables do not fit the fabric: %s", text);
	}
}

void forsosm_conclude_(struct link *l, enum result result, const char *text)
{
	pthread_mutex_lock(&l->lock);
	conclude(l, result, text);
	pthread_mutex_unlock(&l->lock);
	say(l);
}

/* welcomed takes the message welcome in. */
static const char *welcomed(struct link *l, struct cursor *c)
{
	const unsigned char *magic = forsosm_take_(c, sizeof MAGIC - 1);
	if (!magic || memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0)
		return "a greeting that is not forsd's";
	if (forsosm_take16_(c) != PROTOCOL)
		return forsosm_other_version_;
	l->ready = true;
	l->told = 0;
	queue_state(l);
	if (l->up)
		queue_named(l, UP);
	return NULL;
}

/* answered takes the messages tables and none in. */
static const char *answered(struct link *l, enum message type, struct cursor *c)
{
	const uint64_t request = forsosm_take64_(c);
	if (c->ended)
		return "an answer that ends early";
	const char *why = type == TABLES ? forsosm_apply_(&l->tables, c) : NULL;
	if (why)
		return why;
	if (request == l->request && l->result == WAITING) {
		l->result = type == TABLES ? INSTALLED : DECLINED;
		pthread_cond_broadcast(&l->answered);
	}
	return NULL;
}

/* message takes a message in; the caller holds the lock. */
static const char *message(struct link *l, enum message type, struct cursor *c)
{
	if (!l->ready)
		return type == WELCOME ? welcomed(l, c) : "something else than a greeting";
	if (type == TABLES || type == NONE)
		return answered(l, type, c);
	const unsigned char *how = type == RESWEEP ? forsosm_take_(c, 1) : NULL;
	if (!how || *how < 1 || *how > 2)
		return "a message that there is not";
	l->resweep = *how;
	return NULL;
}

const char *forsosm_receive_(struct link *l, const unsigned char *bytes, size_t n)
{
	forsosm_put_(&l->in, bytes, n);
	if (l->in.failed)
		return "more than memory holds";
	const char *why = NULL;
	size_t at = 0;
	while (!why && l->in.length - at >= HEADER_SIZE) {
		const unsigned char *header = l->in.data + at;
		const uint32_t length = get32(header);
		const enum message type = header[4];
		if (length > (type == TABLES ? MAX_BODY : MAX_SMALL))
			return "a message that is too long";
		if (l->in.length - at - HEADER_SIZE < length)
			break;
		struct cursor body = {.at = header + HEADER_SIZE, .left = length};
		pthread_mutex_lock(&l->lock);
		why = message(l, type, &body);
		pthread_mutex_unlock(&l->lock);
		at += HEADER_SIZE + length;
	}
	if (at > 0) {
		memmove(l->in.data, l->in.data + at, l->in.length - at);
		l->in.length -= at;
	}
	return why;
}
