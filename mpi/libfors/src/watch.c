/*
 * watch.c: is another epoch in force? It looks, and never waits.
 *
 * For forsd, the daemon holds a HEAD request with "Prefer: wait" and answers when
 * the epoch changes (docs/api.md); a look is one recv. Now and then the daemon
 * answers that nothing has changed, and the request is sent again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum {
	SILENCE = 330000, /* ms without an answer, after which the daemon is considered gone */
	RETRY = 1000,     /* ms between connections */
};

void fors_watch_free_(struct watch *w)
{
	fors_http_free_(&w->http);
	w->open = false;
}

/* give_up ends the request and delays the next one. */
static int give_up(struct watch *w, int code)
{
	fors_watch_free_(w);
	w->retry_at = fors_now_() + RETRY;
	return code;
}

/* ask leaves a request with the daemon, on the connection of the last one if it still stands. */
static int ask(fors_table *t, bool connected, struct fors_error *err)
{
	struct watch *w = &t->watch;
	const struct question news = {.of = NEWS, .known = t->info.epoch};
	const int failed = fors_http_request_(&w->http, &t->source, &news, err);
	if (failed)
		return failed;
	if (!connected) {
		const int why = fors_http_connect_(&w->http, &t->source.address);
		if (why != 0)
			return fors_fail_errno_(err, FORS_ECONNECT, why, "connect to %s", t->source.where);
	}
	w->open = true;
	w->reused = connected;
	w->sent_at = fors_now_();
	return FORS_OK;
}

/* answered acts on a whole answer. */
static int answered(fors_table *t, struct fors_error *err)
{
	struct watch *w = &t->watch;
	struct http *h = &w->http;
	if (h->status == 200 && !h->has_etag)
		return give_up(w, fors_fail_(err, FORS_EHTTP, "%s: the answer has no epoch", t->source.where));
	if (h->status == 200 && h->etag != t->info.epoch) {
		w->news = true;
		w->epoch = h->etag;
		fors_watch_free_(w);
		return FORS_OK;
	}
	if (h->status != 200 && h->status != 304)
		return give_up(w, fors_http_refusal_(h, &t->source, err));
	if (!h->keep)
		fors_watch_free_(w);
	const int failed = ask(t, h->keep, err);
	return failed ? give_up(w, failed) : FORS_OK;
}

/*
 * step advances the exchange. The daemon may have closed a connection that was used
 * before, because it was idle: this is not an error, and the request goes out on a
 * new one.
 */
static int step(fors_table *t, struct fors_error *err)
{
	struct watch *w = &t->watch;
	const int result = fors_http_step_(&w->http, &t->source, err);
	const bool unheard = w->http.state <= STATUS_LINE && w->http.head_bytes == 0;
	if (result != FORS_ECONNECT || !w->reused || !unheard)
		return result;
	fors_watch_free_(w);
	const int failed = ask(t, false, err);
	return failed ? failed : fors_http_step_(&w->http, &t->source, err);
}

/* look_at_daemon checks for the daemon's answer, and asks again if it has no news. */
static int look_at_daemon(fors_table *t, struct fors_error *err)
{
	struct watch *w = &t->watch;
	const int64_t now = fors_now_();
	if (!w->open) {
		if (now < w->retry_at)
			return FORS_OK;
		const int failed = ask(t, false, err);
		if (failed)
			return give_up(w, failed);
	}
	for (int round = 0; round < 2; round++) { /* the second sends the new request of the first */
		const int result = step(t, err);
		if (result < 0)
			return give_up(w, result);
		if (result == 0)
			break;
		const int failed = answered(t, err);
		if (failed || w->news)
			return failed;
	}
	if (now - w->sent_at > SILENCE)
		return give_up(w, fors_fail_(err, FORS_ETIMEOUT, "%s: no answer within %d s", t->source.where, SILENCE / 1000));
	return FORS_OK;
}

/* same_file reports whether a file is unchanged since it was read. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* look_at_file checks whether the file was replaced, and reads the header of a new one. */
static int look_at_file(fors_table *t, struct fors_error *err)
{
	const char *path = t->source.path;
	struct stat now;
	if (!S_ISREG(t->source.file.st_mode))
		return fors_fail_(err, FORS_ENOSOURCE, "%s is not a file: it cannot be asked for another table", path);
	if (stat(path, &now) != 0)
		return fors_fail_errno_(err, FORS_ESYSTEM, errno, "stat %s", path);
	if (same_file(&now, &t->source.file))
		return FORS_OK;
	unsigned char header[HEADER_SIZE];
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fors_fail_errno_(err, FORS_ESYSTEM, errno, "open %s", path);
	const ssize_t n = read(fd, header, sizeof header);
	close(fd);
	if (n != HEADER_SIZE || memcmp(header, t->data, OFF_HEADER_SIZE) != 0)
		return fors_fail_(err, FORS_EMAGIC, "%s was replaced by what is no phase table of version 1", path);
	t->watch.epoch = get64(header + OFF_EPOCH);
	t->watch.news = t->watch.epoch != t->info.epoch;
	if (!t->watch.news)
		t->source.file = now;
	return FORS_OK;
}

void fors_watch_forget_(fors_table *t) { t->watch.news = false; }

int fors_newer(fors_table *t, uint64_t *epoch, struct fors_error *err)
{
	if (!t)
		return fors_fail_(err, FORS_EINVAL, "fors_newer: table is NULL");
	int failed = FORS_OK;
	if (t->source.kind == FROM_MEMORY)
		failed = fors_fail_(err, FORS_ENOSOURCE, "%s", fors_strerror(FORS_ENOSOURCE));
	else if (!t->watch.news)
		failed = t->source.kind == FROM_FILE ? look_at_file(t, err) : look_at_daemon(t, err);
	if (failed)
		return failed;
	if (t->watch.news && epoch)
		*epoch = t->watch.epoch;
	return t->watch.news;
}
