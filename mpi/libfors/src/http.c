/*
 * http.c: as much of HTTP/1.1 (RFC 9112) as it takes to GET a table from forsd.
 * An exchange is a state machine that never blocks; fors_http_ask_ waits for it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define MAX_HEAD ((size_t)32 << 10) /* bytes of status line, headers, chunk lines and trailers */
#define STEP_BYTES ((size_t)16 << 10)

int64_t fors_now_(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void fors_http_free_(struct http *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	free(h->body);
	free(h->request);
	h->body = NULL;
	h->request = NULL;
	h->body_length = h->body_size = 0;
}

enum { WAIT = 300 }; /* s that the daemon holds a request for news */

/* write_request writes a request into a buffer, as far as there is room, and returns its length. */
static int write_request(char *out, size_t size, const struct source *source, const struct question *q)
{
	static const char *const methods[] = {[TABLE] = "GET", [NEWS] = "HEAD", [REMAINING] = "POST", [TIMES] = "POST"};
	const char *const what = q->of == TIMES ? "times" : "phases";
	const bool tcp = source->kind == FROM_TCP, brackets = tcp && strchr(source->host, ':');
	char path[128], extra[128] = "", wanted[48] = "";
	if (source->lids != NULL && q->of != REMAINING)
		snprintf(wanted, sizeof wanted, "&lids=%s", source->lids);
	if (source->epoch != 0 && (q->of == TABLE || q->of == TIMES))
		snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "&epoch=%" PRIu64, source->epoch);
	if (q->of == REMAINING)
		strcpy(path, "/v1/whatif");
	else if (source->job[0])
		snprintf(path, sizeof path, "/v1/jobs/%s/%s", source->job, what);
	else
		snprintf(path, sizeof path, "/v1/plan/%s", what);
	if (q->json)
		snprintf(extra, sizeof extra, "Connection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n", strlen(q->json));
	else if (q->of == NEWS)
		snprintf(extra, sizeof extra, "If-None-Match: \"%" PRIu64 "\"\r\nPrefer: wait=%d\r\n", q->known, WAIT);
	else if (q->has_known)
		snprintf(extra, sizeof extra, "Connection: close\r\nIf-None-Match: \"%" PRIu64 "\"\r\n", q->known);
	else
		snprintf(extra, sizeof extra, "Connection: close\r\n");
	return snprintf(out, size, "%s %s?format=binary%s HTTP/1.1\r\nHost: %s%s%s%s%s\r\nUser-Agent: libfors/%d.%d\r\nAccept: application/vnd.forsd.phasetable\r\n%s\r\n%s",
		methods[q->of], path, wanted, brackets ? "[" : "", tcp ? source->host : "forsd", brackets ? "]" : "", tcp ? ":" : "", tcp ? source->port : "",
		FORS_VERSION_MAJOR, FORS_VERSION_MINOR, extra, q->json ? q->json : "");
}

int fors_http_request_(struct http *h, const struct source *source, const struct question *q, struct fors_error *err)
{
	const int n = write_request(NULL, 0, source, q);
	char *request = n < 0 ? NULL : malloc((size_t)n + 1);
	if (!request)
		return fors_fail_(err, FORS_ENOMEM, "out of memory for a request");
	write_request(request, (size_t)n + 1, source, q);
	free(h->request);
	h->request = request;
	h->request_length = (size_t)n;
	h->head = q->of == NEWS;
	h->sent = h->head_bytes = h->line_length = h->body_length = 0;
	h->keep = h->chunked = h->has_length = h->has_etag = false;
	h->status = 0;
	h->left = 0;
	h->state = SENDING;
	return FORS_OK;
}

int fors_http_connect_(struct http *h, const struct address *to)
{
	h->fd = socket(to->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->fd < 0)
		return errno;
	h->state = CONNECTING;
	if (connect(h->fd, (const struct sockaddr *)&to->to, to->length) == 0) {
		h->state = SENDING;
		return 0;
	}
	/* A Unix socket whose queue is full gives EAGAIN: it is not connected, and will not be. */
	if (errno == EINPROGRESS)
		return 0;
	const int failed = errno;
	close(h->fd);
	h->fd = -1;
	return failed;
}

/* read_status reads the status line. */
static int read_status(struct http *h, struct fors_error *err)
{
	int minor = 0, end = 0;
	if (sscanf(h->line, "HTTP/1.%1d %3d%n", &minor, &h->status, &end) != 2 || h->status < 100 || (h->line[end] != 0 && h->line[end] != ' '))
		return fors_fail_(err, FORS_EHTTP, "the answer begins with \"%.40s\": this is not HTTP/1.1", h->line);
	h->keep = minor == 1;
	h->state = HEADERS;
	return 0;
}

/* value is the value of a header line if it has the name. */
static const char *value(const char *line, const char *name)
{
	const size_t n = strlen(name);
	if (strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	return line + n + 1 + strspn(line + n + 1, " \t");
}

/* read_header_line evaluates a header of the answer. */
static int read_header_line(struct http *h, struct fors_error *err)
{
	const char *v;
	if ((v = value(h->line, "Content-Length")) != NULL) {
		if (h->has_length || !fors_number_(v, strlen(v), UINT64_MAX, &h->left))
			return fors_fail_(err, FORS_EHTTP, "Content-Length \"%.40s\": want one number", v);
		h->has_length = true;
	} else if ((v = value(h->line, "Transfer-Encoding")) != NULL) {
		if (strcasecmp(v, "chunked") != 0)
			return fors_fail_(err, FORS_EHTTP, "Transfer-Encoding \"%.40s\": want chunked", v);
		h->chunked = true;
	} else if ((v = value(h->line, "ETag")) != NULL) {
		v += strncmp(v, "W/", 2) == 0 ? 2 : 0;
		const size_t length = strlen(v);
		h->has_etag = length > 2 && v[0] == '"' && v[length - 1] == '"' && fors_number_(v + 1, length - 2, UINT64_MAX, &h->etag);
	} else if ((v = value(h->line, "Connection")) != NULL && strcasecmp(v, "close") == 0) {
		h->keep = false;
	}
	return 0;
}

/* end_of_headers decides what follows them. */
static int end_of_headers(struct http *h, struct fors_error *err)
{
	if (h->status < 200) { /* the answer is still to come */
		h->state = STATUS_LINE;
		h->chunked = h->has_length = h->has_etag = false;
		return 0;
	}
	if (h->head || h->status == 204 || h->status == 304) {
		h->state = DONE;
	} else if (h->chunked) {
		h->state = CHUNK_LINE;
	} else if (h->has_length) {
		if (h->left > FORS_MAX_BYTES)
			return fors_fail_(err, FORS_ETOOBIG, "a table of %" PRIu64 " bytes: at most %" PRIu64 " are read", h->left, FORS_MAX_BYTES);
		h->state = h->left > 0 ? BODY : DONE;
	} else {
		h->keep = false;
		h->state = REST;
	}
	return h->state == DONE;
}

/* read_chunk_line reads the size of the next chunk. */
static int read_chunk_line(struct http *h, struct fors_error *err)
{
	const size_t digits = strspn(h->line, "0123456789abcdefABCDEF");
	if (digits == 0 || digits > 12 || (h->line[digits] != 0 && !strchr("; \t", h->line[digits])))
		return fors_fail_(err, FORS_EHTTP, "a chunk begins with \"%.40s\": want its size", h->line);
	h->left = strtoull(h->line, NULL, 16);
	h->head_bytes = 0;
	h->state = h->left > 0 ? CHUNK : TRAILERS;
	return 0;
}

/* end_of_line acts on a whole line. It returns as fors_http_step_ does. */
static int end_of_line(struct http *h, struct fors_error *err)
{
	if (h->line_length > 0 && h->line[h->line_length - 1] == '\r')
		h->line_length--;
	h->line[h->line_length] = 0;
	const bool empty = h->line_length == 0;
	h->line_length = 0;
	switch (h->state) {
	case STATUS_LINE: return read_status(h, err);
	case HEADERS: return empty ? end_of_headers(h, err) : read_header_line(h, err);
	case CHUNK_LINE: return read_chunk_line(h, err);
	case CHUNK_END:
		if (!empty)
			return fors_fail_(err, FORS_EHTTP, "a chunk is longer than its size");
		h->state = CHUNK_LINE;
		return 0;
	default: /* TRAILERS */
		if (empty)
			h->state = DONE;
		return empty;
	}
}

/* keep_body appends n bytes to the body, which grows with the bytes received. */
static int keep_body(struct http *h, const unsigned char *p, size_t n, struct fors_error *err)
{
	if (n > FORS_MAX_BYTES - h->body_length)
		return fors_fail_(err, FORS_ETOOBIG, "a table of more than %" PRIu64 " bytes", FORS_MAX_BYTES);
	if (n > h->body_size - h->body_length) {
		size_t size = h->body_size ? h->body_size : STEP_BYTES;
		while (size - h->body_length < n)
			size *= 2;
		unsigned char *grown = realloc(h->body, size);
		if (!grown)
			return fors_fail_(err, FORS_ENOMEM, "out of memory for a table of more than %zu bytes", h->body_length);
		h->body = grown;
		h->body_size = size;
	}
	memcpy(h->body + h->body_length, p, n);
	h->body_length += n;
	return 0;
}

/* feed_body takes bytes of the body or of a chunk, and sets *took. */
static int feed_body(struct http *h, const unsigned char *p, size_t n, size_t *took, struct fors_error *err)
{
	*took = h->state != REST && h->left < n ? (size_t)h->left : n;
	const int failed = keep_body(h, p, *took, err);
	if (failed || h->state == REST)
		return failed;
	h->left -= *took;
	if (h->left > 0)
		return 0;
	h->state = h->state == BODY ? DONE : CHUNK_END;
	return h->state == DONE;
}

int fors_http_feed_(struct http *h, const unsigned char *p, size_t n, struct fors_error *err)
{
	while (n > 0) {
		int result = 0;
		size_t took = 1;
		if (h->state == BODY || h->state == REST || h->state == CHUNK) {
			result = feed_body(h, p, n, &took, err);
		} else if (*p == '\n') {
			result = end_of_line(h, err);
		} else {
			if (h->line_length == sizeof h->line - 1 || h->head_bytes == MAX_HEAD)
				return fors_fail_(err, FORS_EHTTP, "the headers of the answer are too long");
			h->line[h->line_length++] = (char)*p;
			h->head_bytes++;
		}
		if (result < 0)
			return result;
		p += took;
		n -= took;
		if (result > 0) { /* nothing may follow an answer that was asked for alone */
			h->keep = h->keep && n == 0;
			return 1;
		}
	}
	return 0;
}

/* end_of_stream judges a connection that the other side closed. */
static int end_of_stream(struct http *h, const struct source *source, struct fors_error *err)
{
	if (h->state == REST) {
		h->state = DONE;
		return 1;
	}
	return fors_fail_(err, FORS_ECONNECT, "%s: the connection was closed before the answer was complete", source->where);
}

/* connected finds the result of a connection attempt: 1, 0 while it lasts, or an error. */
static int connected(const struct http *h, const struct source *source, struct fors_error *err)
{
	struct pollfd ready = {h->fd, POLLOUT, 0};
	if (poll(&ready, 1, 0) == 0)
		return 0;
	int why = 0;
	socklen_t size = sizeof why;
	if (getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
		why = errno;
	return why == 0 ? 1 : fors_fail_errno_(err, FORS_ECONNECT, why, "connect to %s", source->where);
}

int fors_http_step_(struct http *h, const struct source *source, struct fors_error *err)
{
	unsigned char buffer[STEP_BYTES];
	if (h->state == CONNECTING) {
		const int result = connected(h, source, err);
		if (result <= 0)
			return result;
		h->state = SENDING;
	}
	for (;;) {
		const bool sending = h->state == SENDING;
		const ssize_t n = sending ? send(h->fd, h->request + h->sent, h->request_length - h->sent, MSG_NOSIGNAL | MSG_DONTWAIT) :
			recv(h->fd, buffer, sizeof buffer, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return fors_fail_errno_(err, FORS_ECONNECT, errno, "%s", source->where);
		if (sending) {
			h->sent += (size_t)n;
			if (h->sent == h->request_length)
				h->state = STATUS_LINE;
			continue;
		}
		const int result = n == 0 ? end_of_stream(h, source, err) : fors_http_feed_(h, buffer, (size_t)n, err);
		if (result < 0 && n > 0)
			fors_fail_where_(err, source->where);
		if (result != 0)
			return result;
	}
}

/* finish steps an exchange to its end, or to the deadline. */
static int finish(struct http *h, const struct source *source, int64_t deadline, struct fors_error *err)
{
	for (;;) {
		const int result = fors_http_step_(h, source, err);
		if (result != 0)
			return result < 0 ? result : FORS_OK;
		const int64_t left = deadline - fors_now_();
		if (left <= 0)
			return fors_fail_(err, FORS_ETIMEOUT, "%s: no whole answer within %d ms", source->where, source->timeout);
		struct pollfd ready = {h->fd, h->state == CONNECTING || h->state == SENDING ? POLLOUT : POLLIN, 0};
		if (poll(&ready, 1, (int)left) < 0 && errno != EINTR)
			return fors_fail_errno_(err, FORS_ECONNECT, errno, "poll %s", source->where);
	}
}

/* attempt makes one exchange with one address. */
static int attempt(struct http *h, const struct source *source, const struct address *to, const struct question *q, int64_t deadline, struct fors_error *err)
{
	int failed = fors_http_request_(h, source, q, err);
	if (failed)
		return failed;
	/* A Unix socket whose queue is full will accept a connection soon. */
	int why;
	while ((why = fors_http_connect_(h, to)) == EAGAIN && fors_now_() < deadline)
		poll(NULL, 0, 1);
	if (why != 0)
		return fors_fail_errno_(err, FORS_ECONNECT, why, "connect to %s", source->where);
	return finish(h, source, deadline, err);
}

int fors_http_ask_(struct http *h, struct source *source, const struct question *q, struct fors_error *err)
{
	struct address to[8];
	memset(h, 0, sizeof *h);
	h->fd = -1;
	const int64_t deadline = fors_now_() + source->timeout;
	int n = fors_source_resolve_(source, to, sizeof to / sizeof *to, err);
	if (n < 0)
		return n;
	int failed = FORS_ECONNECT;
	for (int i = 0; i < n; i++) {
		failed = attempt(h, source, &to[i], q, deadline, err);
		if (failed != FORS_ECONNECT) {
			source->address = to[i];
			break;
		}
		fors_http_free_(h);
	}
	if (!failed && h->status != 200 && h->status != 304)
		failed = fors_http_refusal_(h, source, err);
	if (failed)
		fors_http_free_(h);
	return failed;
}

/* reason copies the sentence of an error's JSON, {"code":…,"error":"…"}, as far as it is plain text. */
static void reason(const struct http *h, char *out, size_t size)
{
	static const char key[] = "\"error\":\"";
	const char *p = h->body_length > 0 ? memmem(h->body, h->body_length, key, sizeof key - 1) : NULL;
	size_t n = 0;
	if (p) {
		const char *end = (const char *)h->body + h->body_length;
		for (p += sizeof key - 1; p < end && *p != '"' && n < size - 1; p++) {
			if (*p == '\\' && ++p == end)
				break;
			out[n++] = (unsigned char)*p < ' ' ? ' ' : *p;
		}
	}
	out[n] = 0;
}

int fors_http_refusal_(const struct http *h, const struct source *source, struct fors_error *err)
{
	char why[160];
	reason(h, why, sizeof why);
	int code = FORS_ESTATUS;
	if (h->status == 503)
		code = FORS_ENOPLAN;
	else if (h->status == 404 && source->job[0])
		code = FORS_ENOJOB;
	else if (h->status == 410)
		code = FORS_ESTALE;
	fors_fail_(err, code, "%s: status %d: %s", source->where, h->status, why[0] ? why : fors_strerror(code));
	if (err)
		err->status = h->status;
	return code;
}
