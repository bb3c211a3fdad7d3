/*
 * replay.c: runs a fuzz target on the files that are named, without a fuzzer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (!f || fseek(f, 0, SEEK_END) != 0)
			return 2;
		const size_t size = (size_t)ftell(f);
		rewind(f);
		uint8_t *data = malloc(size ? size : 1);
		if (!data || fread(data, 1, size, f) != size)
			return 2;
		fclose(f);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
