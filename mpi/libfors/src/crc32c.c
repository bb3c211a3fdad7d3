/*
 * crc32c.c: CRC-32C (Castagnoli), by the processor's instruction if it has one,
 * otherwise eight bytes a step with eight tables (Kounavis and Berry, "Novel table
 * lookup-based algorithms for high-performance CRC generation", IEEE Trans. Comput.
 * 57, 2008).
 */
#include <string.h>

#include "internal.h"

#define POLYNOMIAL 0x82F63B78u /* reflected */

/*
 * Slicing by eight. The tables are made for each call, which costs as much as
 * 16 KB of input, so that threads share no state.
 */
static uint32_t by_tables(uint32_t crc, const unsigned char *p, size_t n)
{
	uint32_t table[8][256];
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
		table[0][i] = c;
	}
	for (int k = 1; k < 8; k++)
		for (int i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xFF];
	for (; n >= 8; p += 8, n -= 8) {
		const uint32_t low = get32(p) ^ crc, high = get32(p + 4);
		crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^ table[4][low >> 24] ^
			table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^ table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
	}
	for (; n > 0; p++, n--)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xFF];
	return crc;
}

#if defined(__x86_64__) && !defined(FORS_PORTABLE_CRC)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *p, size_t n)
{
	uint64_t c = crc;
	for (; n >= 8; p += 8, n -= 8) {
		uint64_t word;
		memcpy(&word, p, sizeof word);
		c = __builtin_ia32_crc32di(c, word);
	}
	for (; n > 0; p++, n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p);
	return (uint32_t)c;
}

uint32_t fors_crc32c_(uint32_t crc, const unsigned char *p, size_t n)
{
	__builtin_cpu_init();
	return ~(__builtin_cpu_supports("sse4.2") ? by_instruction(~crc, p, n) : by_tables(~crc, p, n));
}
#else
uint32_t fors_crc32c_(uint32_t crc, const unsigned char *p, size_t n) { return ~by_tables(~crc, p, n); }
#endif
