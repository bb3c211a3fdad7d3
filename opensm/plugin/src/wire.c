/*
 * wire.c: messages as bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

/* room makes room for n more bytes. */
static bool room(struct buffer *b, size_t n)
{
	if (b->failed)
		return false;
	if (n <= b->size - b->length)
		return true;
	size_t size = b->size ? b->size : 256;
	while (size < b->length + n)
		size *= 2;
	unsigned char *data = realloc(b->data, size);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->size = size;
	return true;
}

void forsosm_put_(struct buffer *b, const void *bytes, size_t n)
{
	if (n == 0 || !room(b, n))
		return;
	memcpy(b->data + b->length, bytes, n);
	b->length += n;
}

void forsosm_put8_(struct buffer *b, unsigned v)
{
	const unsigned char byte = (unsigned char)v;
	forsosm_put_(b, &byte, 1);
}

void forsosm_put16_(struct buffer *b, unsigned v)
{
	forsosm_put8_(b, v & 0xFF);
	forsosm_put8_(b, v >> 8 & 0xFF);
}

void forsosm_put32_(struct buffer *b, uint32_t v)
{
	forsosm_put16_(b, v & 0xFFFF);
	forsosm_put16_(b, v >> 16);
}

void forsosm_put64_(struct buffer *b, uint64_t v)
{
	forsosm_put32_(b, (uint32_t)v);
	forsosm_put32_(b, (uint32_t)(v >> 32));
}

void forsosm_put_text_(struct buffer *b, const char *text)
{
	size_t n = strlen(text);
	if (n > 0xFFFF)
		n = 0xFFFF;
	forsosm_put16_(b, (unsigned)n);
	forsosm_put_(b, text, n);
}

void forsosm_free_(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}

void forsosm_put_message_(struct buffer *b, enum message type, const void *body, size_t n)
{
	if (!room(b, HEADER_SIZE + n)) /* all of it or nothing */
		return;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	forsosm_put32_(b, (uint32_t)n);
	forsosm_put32_(b, type);
	forsosm_put64_(b, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	forsosm_put_(b, body, n);
}

const unsigned char *forsosm_take_(struct cursor *c, size_t n)
{
	if (n > c->left) {
		c->left = 0;
		c->ended = true;
		return NULL;
	}
	const unsigned char *p = c->at;
	c->at += n;
	c->left -= n;
	return p;
}

uint16_t forsosm_take16_(struct cursor *c)
{
	const unsigned char *p = forsosm_take_(c, 2);
	return p ? get16(p) : 0;
}

uint32_t forsosm_take32_(struct cursor *c)
{
	const unsigned char *p = forsosm_take_(c, 4);
	return p ? get32(p) : 0;
}

uint64_t forsosm_take64_(struct cursor *c)
{
	const unsigned char *p = forsosm_take_(c, 8);
	return p ? get64(p) : 0;
}
