/*
 * source.c: where tables come from, and how they are read from there.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

#define DEFAULT_LOCATION "unix:/run/forsd/forsd.sock"
#define DEFAULT_TIMEOUT 5000 /* ms */

void fors_source_free_(struct source *s)
{
	free(s->where);
	free(s->path);
	free(s->host);
	free(s->port);
	s->where = s->path = s->host = s->port = NULL;
}

/* take_job stores the number or the name of a job: letters, digits and ".", "_", "-", ":". */
static bool take_job(struct source *s, const char *text, size_t length)
{
	if (length == 0 || length >= sizeof s->job)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !memchr("._-:", text[i], 4))
			return false;
	memcpy(s->job, text, length);
	s->job[length] = 0;
	return true;
}

/* take_lids stores the kind of LIDs that the plan is for. */
static bool take_lids(struct source *s, const char *text, size_t length)
{
	if (length == 4 && memcmp(text, "base", 4) == 0)
		s->lids = "base";
	else if (length == 6 && memcmp(text, "pinned", 6) == 0)
		s->lids = "pinned";
	else
		return false;
	return true;
}

/* read_query reads job=JOB&lids=LIDS&epoch=N&timeout=MS. */
static int read_query(struct source *s, const char *query, struct fors_error *err)
{
	while (*query) {
		const size_t length = strcspn(query, "&"), name = strcspn(query, "=&");
		const char *text = query + name + 1;
		uint64_t timeout = 1;
		bool good = false;
		if (name < length) {
			const size_t digits = length - name - 1;
			if (name == 3 && memcmp(query, "job", 3) == 0)
				good = take_job(s, text, digits);
			else if (name == 4 && memcmp(query, "lids", 4) == 0)
				good = take_lids(s, text, digits);
			else if (name == 5 && memcmp(query, "epoch", 5) == 0)
				good = fors_number_(text, digits, UINT64_MAX, &s->epoch);
			else if (name == 7 && memcmp(query, "timeout", 7) == 0)
				good = fors_number_(text, digits, 3600 * 1000, &timeout) && timeout > 0;
			if (good && name == 7)
				s->timeout = (int)timeout;
		}
		if (!good)
			return fors_fail_(err, FORS_ELOCATION, "%s: \"%.*s\" is none of job=JOB, lids=base, lids=pinned, epoch=N and timeout=MILLISECONDS", s->where, (int)length, query);
		query += length + (query[length] == '&');
	}
	return FORS_OK;
}

/* read_host reads HOST, HOST:PORT or [ADDRESS]:PORT, and a slash at most. */
static int read_host(struct source *s, const char *text, size_t length, struct fors_error *err)
{
	if (length > 0 && text[length - 1] == '/')
		length--;
	const bool brackets = length > 0 && text[0] == '[';
	const char *host = text + brackets, *end = memchr(text, brackets ? ']' : ':', length);
	const char *port = end ? end + brackets : text + length;
	uint64_t number = 80;
	const size_t left = (size_t)(text + length - port);
	if (!end)
		end = text + length;
	if (end == host || memchr(text, '/', length) || (brackets && end == text + length) ||
	    (left > 0 && (*port != ':' || !fors_number_(port + 1, left - 1, 65535, &number) || number == 0)))
		return fors_fail_(err, FORS_ELOCATION, "%s: want http://HOST:PORT, with nothing after it but ?job=JOB", s->where);
	s->host = strndup(host, (size_t)(end - host));
	char digits[8];
	snprintf(digits, sizeof digits, "%" PRIu64, number);
	s->port = strdup(digits);
	return s->host && s->port ? FORS_OK : fors_fail_(err, FORS_ENOMEM, "out of memory");
}

/* read_location reads s->where. */
static int read_location(struct source *s, struct fors_error *err)
{
	const char *where = s->where;
	const size_t length = strcspn(where, "?");
	if (strncmp(where, "http://", 7) == 0) {
		s->kind = FROM_TCP;
		const int failed = read_host(s, where + 7, length - 7, err);
		return failed ? failed : read_query(s, where + length + (where[length] == '?'), err);
	}
	if (strncmp(where, "https://", 8) == 0)
		return fors_fail_(err, FORS_ELOCATION, "%s: there is no TLS here; ask a forsd on this host, at %s, or one by http", where, DEFAULT_LOCATION);
	if (strncmp(where, "unix:", 5) == 0) {
		s->kind = FROM_UNIX;
		s->path = strndup(where + 5, length - 5);
		if (!s->path)
			return fors_fail_(err, FORS_ENOMEM, "out of memory");
		if (length == 5 || length - 5 >= sizeof ((struct sockaddr_un *)0)->sun_path)
			return fors_fail_(err, FORS_ELOCATION, "%s: want the path of a socket, of at most %zu bytes", where, sizeof ((struct sockaddr_un *)0)->sun_path - 1);
		return read_query(s, where + length + (where[length] == '?'), err);
	}
	s->kind = FROM_FILE;
	s->path = strdup(strncmp(where, "file:", 5) == 0 ? where + 5 : where);
	return s->path ? FORS_OK : fors_fail_(err, FORS_ENOMEM, "out of memory");
}

/* add adds a part to the query of a location. */
static int add(struct source *s, const char *name, const char *value, struct fors_error *err)
{
	const size_t size = strlen(s->where) + strlen(name) + strlen(value) + 3;
	char *where = malloc(size);
	if (!where)
		return fors_fail_(err, FORS_ENOMEM, "out of memory");
	snprintf(where, size, "%s%c%s=%s", s->where, strchr(s->where, '?') ? '&' : '?', name, value);
	free(s->where);
	s->where = where;
	return FORS_OK;
}

/* add_job adds the job of the environment to a location that leads to forsd and names none. */
static int add_job(struct source *s, struct fors_error *err)
{
	const char *job = getenv("FORSD_JOB");
	if (!job || !*job || s->job[0] || s->kind == FROM_FILE)
		return FORS_OK;
	if (!take_job(s, job, strlen(job)))
		return fors_fail_(err, FORS_ELOCATION, "$FORSD_JOB is \"%.40s\": want the number or the name of a job", job);
	return add(s, "job", job, err);
}

int fors_source_(const char *where, struct source *s, struct fors_error *err)
{
	const bool chosen = where && *where;
	memset(s, 0, sizeof *s);
	s->timeout = DEFAULT_TIMEOUT;
	if (!chosen)
		where = getenv("FORSD_TABLE");
	if (!where || !*where)
		where = DEFAULT_LOCATION;
	s->where = strdup(where);
	int failed = s->where ? read_location(s, err) : fors_fail_(err, FORS_ENOMEM, "out of memory");
	if (!failed && !chosen)
		failed = add_job(s, err);
	if (failed)
		fors_source_free_(s);
	return failed;
}

int fors_source_resolve_(const struct source *s, struct address *to, int most, struct fors_error *err)
{
	memset(to, 0, sizeof *to * (size_t)most);
	if (s->kind == FROM_UNIX) {
		struct sockaddr_un *u = (struct sockaddr_un *)&to->to;
		u->sun_family = AF_UNIX;
		memcpy(u->sun_path, s->path, strlen(s->path)); /* read_location saw that it fits */
		to->length = sizeof *u;
		return 1;
	}
	struct addrinfo *found, want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	const int why = getaddrinfo(s->host, s->port, &want, &found);
	if (why != 0)
		return fors_fail_(err, FORS_ECONNECT, "%s: look up %s: %s", s->where, s->host, gai_strerror(why));
	int n = 0;
	for (const struct addrinfo *a = found; a && n < most; a = a->ai_next) {
		if (a->ai_addrlen > sizeof to->to)
			continue;
		memcpy(&to[n].to, a->ai_addr, a->ai_addrlen);
		to[n++].length = a->ai_addrlen;
	}
	freeaddrinfo(found);
	return n > 0 ? n : fors_fail_(err, FORS_ECONNECT, "%s: %s has no address", s->where, s->host);
}

/* read_all reads a file from its beginning to its end. */
static int read_all(int fd, const char *path, unsigned char **data, size_t *length, struct fors_error *err)
{
	size_t size = (size_t)1 << 16, n = 0;
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < FORS_MAX_BYTES)
		size = (size_t)st.st_size + 1; /* one more, to see the end */
	for (unsigned char *p = NULL;;) {
		unsigned char *grown = p && n < size ? p : realloc(p, p ? size *= 2 : size);
		if (!grown) {
			free(p);
			return fors_fail_(err, FORS_ENOMEM, "%s: out of memory for %zu bytes", path, size);
		}
		p = grown;
		const ssize_t got = read(fd, p + n, size - n);
		if (got < 0 && errno == EINTR)
			continue;
		n += got > 0 ? (size_t)got : 0;
		if (got == 0) {
			*data = p;
			*length = n;
			return FORS_OK;
		}
		if (got < 0 || n > FORS_MAX_BYTES) {
			const int why = errno;
			free(p);
			return got < 0 ? fors_fail_errno_(err, FORS_ESYSTEM, why, "read %s", path) :
				fors_fail_(err, FORS_ETOOBIG, "%s: more than %" PRIu64 " bytes", path, FORS_MAX_BYTES);
		}
	}
}

/* read_file reads the source's file, and records which file it was. */
static int read_file(struct source *s, unsigned char **data, size_t *length, struct fors_error *err)
{
	const int fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENXIO)
		return fors_fail_errno_(err, FORS_ESYSTEM, ENXIO, "open %s, which is no file: the socket of a forsd is called unix:%s", s->path, s->path);
	if (fd < 0)
		return fors_fail_errno_(err, FORS_ESYSTEM, errno, "open %s", s->path);
	int failed = FORS_OK;
	if (fstat(fd, &s->file) != 0)
		failed = fors_fail_errno_(err, FORS_ESYSTEM, errno, "stat %s", s->path);
	if (!failed)
		failed = read_all(fd, s->path, data, length, err);
	close(fd);
	return failed;
}

/* check_wanted checks that a table is as its location requires. */
static int check_wanted(const struct fors_table *t, struct fors_error *err)
{
	const struct source *s = &t->source;
	uint64_t number = 0;
	const bool numbered = fors_number_(s->job, strlen(s->job), UINT64_MAX, &number);
	if (s->job[0] && (numbered ? t->info.job != number : t->info.job == 0))
		return fors_fail_(err, FORS_ENOJOB, "%s: the table is that of job %" PRIu64, s->where, t->info.job);
	if (s->epoch != 0 && t->info.epoch != s->epoch)
		return fors_fail_(err, FORS_ESTALE, "%s: the table is that of epoch %" PRIu64, s->where, t->info.epoch);
	if (s->lids && strcmp(s->lids, "base") == 0 && !t->info.base_lids)
		return fors_fail_(err, FORS_EPINNED, "%s: the plan of epoch %" PRIu64 " sends to LIDs of lanes: a program that sends to base LIDs needs the base plan, base.bin", s->where, t->info.epoch);
	return FORS_OK;
}

/* take makes a table of the data read from a source, and always takes both over. */
static int take(struct source *s, unsigned char *data, size_t length, fors_table **table, struct fors_error *err)
{
	static const unsigned char nothing[1];
	int failed = fors_make_(data ? data : nothing, length, data, s, table, err);
	if (!failed && (failed = check_wanted(*table, err)) != 0) {
		fors_close(*table);
		*table = NULL;
	}
	return failed;
}

/*
 * ask asks the daemon of a source, which it always takes over: 1 and a table, or 0
 * without one if the known table has not changed.
 */
static int ask(struct source *s, const struct question *q, fors_table **table, struct fors_error *err)
{
	struct http h;
	int failed = fors_http_ask_(&h, s, q, err);
	if (failed) {
		fors_source_free_(s);
		return failed;
	}
	if (h.status == 304) {
		fors_http_free_(&h);
		failed = q->has_known ? 0 : fors_fail_(err, FORS_EHTTP, "%s: the table is said not to have changed, but none was known", s->where);
		fors_source_free_(s);
		return failed;
	}
	unsigned char *data = h.body;
	const size_t length = h.body_length;
	h.body = NULL;
	fors_http_free_(&h);
	failed = take(s, data, length, table, err);
	return failed ? failed : 1;
}

/* load reads a source of any kind, as ask does. */
static int load(struct source *s, const fors_table *known, fors_table **table, struct fors_error *err)
{
	int result;
	if (s->kind == FROM_FILE) {
		unsigned char *data = NULL;
		size_t length = 0;
		result = read_file(s, &data, &length, err);
		if (result < 0)
			fors_source_free_(s);
		else
			result = take(s, data, length, table, err);
	} else {
		const struct question q = {.of = TABLE, .has_known = known != NULL, .known = known ? known->info.epoch : 0};
		result = ask(s, &q, table, err);
	}
	if (result < 0 || !*table)
		return result;
	if (known && (*table)->info.epoch == known->info.epoch) {
		fors_close(*table);
		*table = NULL;
		return 0;
	}
	return 1;
}

/* open_table opens the table at a location; lids applies if the location has none. */
static int open_table(const char *where, const char *lids, fors_table **table, struct fors_error *err)
{
	if (!table)
		return fors_fail_(err, FORS_EINVAL, "table is NULL");
	*table = NULL;
	struct source s;
	int failed = fors_source_(where, &s, err);
	if (failed)
		return failed;
	if (lids && !s.lids) {
		s.lids = lids;
		if (s.kind != FROM_FILE && (failed = add(&s, "lids", lids, err)) != 0) {
			fors_source_free_(&s);
			return failed;
		}
	}
	const int result = load(&s, NULL, table, err);
	return result < 0 ? result : FORS_OK;
}

int fors_open(const char *where, fors_table **table, struct fors_error *err) { return open_table(where, NULL, table, err); }

int fors_open_base(const char *where, fors_table **table, struct fors_error *err) { return open_table(where, "base", table, err); }

int fors_refresh(fors_table *table, fors_table **newer, struct fors_error *err)
{
	if (!table || !newer)
		return fors_fail_(err, FORS_EINVAL, "fors_refresh: table or newer is NULL");
	*newer = NULL;
	if (table->source.kind == FROM_MEMORY)
		return fors_fail_(err, FORS_ENOSOURCE, "%s", fors_strerror(FORS_ENOSOURCE));
	struct source s;
	const int failed = fors_source_(table->source.where, &s, err);
	if (failed)
		return failed;
	s.epoch = 0; /* that was for the first table */
	s.lids = table->source.lids; /* which a file's location does not have */
	const int result = load(&s, table, newer, err);
	if (result == 0)
		fors_watch_forget_(table);
	return result;
}

/* put_text writes a text as a JSON string, and returns the end of it. */
static char *put_text(char *out, const char *text)
{
	*out++ = '"';
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;
		if (c < ' ') {
			out += sprintf(out, "\\u%04x", c);
			continue;
		}
		if (c == '"' || c == '\\')
			*out++ = '\\';
		*out++ = (char)c;
	}
	*out++ = '"';
	return out;
}

/* whatif is the body of the request for the rest of an exchange. */
static char *whatif(const struct fors_info *info, uint32_t done, const char *const *fail)
{
	size_t size = 192;
	for (const char *const *f = fail; f && *f; f++)
		size += 6 * strlen(*f) + 3; /* each byte may become \u0000 */
	char *json = malloc(size);
	if (!json)
		return NULL;
	char *out = json + sprintf(json, "{\"epoch\":%" PRIu64 ",\"done\":%" PRIu32, info->epoch, done);
	if (info->job)
		out += sprintf(out, ",\"job\":\"%" PRIu64 "\"", info->job);
	out += sprintf(out, ",\"fail\":[");
	for (const char *const *f = fail; f && *f; f++) {
		if (f != fail)
			*out++ = ',';
		out = put_text(out, *f);
	}
	strcpy(out, "]}");
	return json;
}

int fors_remaining(const fors_table *table, uint32_t done, const char *const *fail, fors_table **left, struct fors_error *err)
{
	if (!table || !left)
		return fors_fail_(err, FORS_EINVAL, "fors_remaining: table or left is NULL");
	*left = NULL;
	if (done > table->info.phases)
		return fors_fail_(err, FORS_EINVAL, "fors_remaining: %" PRIu32 " phases are done of %" PRIu32, done, table->info.phases);
	if (table->source.kind != FROM_UNIX && table->source.kind != FROM_TCP)
		return fors_fail_(err, FORS_ENOSOURCE, "the table did not come from forsd, which alone can plan what is left of its exchange");
	struct source s;
	int failed = fors_source_(table->source.where, &s, err);
	if (failed)
		return failed;
	char *json = whatif(&table->info, done, fail);
	if (json) {
		const struct question q = {.of = REMAINING, .json = json};
		failed = ask(&s, &q, left, err);
	} else {
		failed = fors_fail_(err, FORS_ENOMEM, "out of memory for a request");
		fors_source_free_(&s);
	}
	free(json);
	return failed < 0 ? failed : FORS_OK;
}

int fors_measured(const fors_table *table, const char *times, struct fors_error *err)
{
	if (!table || !times)
		return fors_fail_(err, FORS_EINVAL, "fors_measured: table or times is NULL");
	if (table->source.kind != FROM_UNIX && table->source.kind != FROM_TCP)
		return fors_fail_(err, FORS_ENOSOURCE, "the table did not come from forsd, which alone measures its fabric");
	struct source s;
	int failed = fors_source_(table->source.where, &s, err);
	if (failed)
		return failed;
	s.epoch = table->info.epoch;
	s.lids = table->source.lids;
	const struct question q = {.of = TIMES, .json = times};
	struct http h;
	failed = fors_http_ask_(&h, &s, &q, err);
	if (!failed)
		fors_http_free_(&h);
	fors_source_free_(&s);
	return failed;
}
