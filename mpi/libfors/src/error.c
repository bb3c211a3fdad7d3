/*
 * error.c: codes, texts and numbers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

const char *fors_strerror(int code)
{
	switch (code) {
	case FORS_OK: return "success";
	case FORS_EINVAL: return "an argument is NULL or out of range";
	case FORS_ENOMEM: return "out of memory";
	case FORS_ELOCATION: return "the location of the table cannot be understood";
	case FORS_ESYSTEM: return "a file cannot be read";
	case FORS_ECONNECT: return "forsd cannot be reached";
	case FORS_ETIMEOUT: return "forsd did not answer in time";
	case FORS_EHTTP: return "the answer is not HTTP as forsd speaks it";
	case FORS_ESTATUS: return "forsd refused the request";
	case FORS_ENOPLAN: return "no plan is in force yet";
	case FORS_ENOJOB: return "there is no such job";
	case FORS_ETOOBIG: return "the table is too big";
	case FORS_ETRUNCATED: return "the table is cut off, or something follows it";
	case FORS_EMAGIC: return "this is not a phase table";
	case FORS_EVERSION: return "the version of the table is not known";
	case FORS_ECHECKSUM: return "the table is damaged";
	case FORS_EFLAGS: return "the table has flags that are not known";
	case FORS_EHEADER: return "the header of the table holds impossible numbers";
	case FORS_ESECTION: return "a section of the table is misplaced";
	case FORS_ESERVER: return "a server of the table is wrong";
	case FORS_EINDEX: return "an index of the table is wrong";
	case FORS_ETRANSFER: return "a transfer of the table is wrong";
	case FORS_ESTALE: return "there is no table of the epoch asked for";
	case FORS_ENOTFOUND: return "no server of the table matches";
	case FORS_EAMBIGUOUS: return "several servers of the table match";
	case FORS_EPINNED: return "the plan sends to LIDs of lanes, and not to base LIDs";
	case FORS_ENOSOURCE: return "the table came from memory: nobody can be asked for another";
	}
	return "unknown code";
}

static void fill(struct fors_error *err, int code, int errnum, const char *format, va_list args)
{
	memset(err, 0, sizeof *err);
	err->code = code;
	err->errnum = errnum;
	vsnprintf(err->text, sizeof err->text, format, args);
}

int fors_fail_(struct fors_error *err, int code, const char *format, ...)
{
	if (err) {
		va_list args;
		va_start(args, format);
		fill(err, code, 0, format, args);
		va_end(args);
	}
	return code;
}

/*
 * strerror_r has two forms, depending on libc: one returns a text and may leave the
 * buffer alone, the other fills the buffer.
 */
static const char *chosen(const char *text, const char *buffer) { (void)buffer; return text; }
static const char *filled(int failed, const char *buffer) { return failed ? "unknown error" : buffer; }
#define STRERROR(errnum, buffer) \
	_Generic(strerror_r(errnum, buffer, sizeof buffer), char *: chosen, int: filled)(strerror_r(errnum, buffer, sizeof buffer), buffer)

int fors_fail_errno_(struct fors_error *err, int code, int errnum, const char *format, ...)
{
	if (err) {
		va_list args;
		va_start(args, format);
		fill(err, code, errnum, format, args);
		va_end(args);
		char why[128];
		const size_t used = strlen(err->text);
		snprintf(err->text + used, sizeof err->text - used, ": %s", STRERROR(errnum, why));
	}
	return code;
}

void fors_fail_where_(struct fors_error *err, const char *where)
{
	const size_t used = err ? strlen(err->text) + 1 : 0, colon = strlen(": ");
	if (!err || used + colon >= sizeof err->text)
		return;
	const size_t length = strnlen(where, sizeof err->text - used - colon);
	memmove(err->text + length + colon, err->text, used);
	memcpy(err->text, where, length);
	memcpy(err->text + length, ": ", colon);
}

bool fors_number_(const char *text, size_t length, uint64_t most, uint64_t *value)
{
	uint64_t v = 0;
	for (size_t i = 0; i < length; i++) {
		const uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
		if (digit > 9 || v > (most - digit) / 10)
			return false;
		v = 10 * v + digit;
	}
	*value = v;
	return length > 0;
}
