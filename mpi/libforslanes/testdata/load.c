/* load: loads the libraries that are its arguments, and all that they refer to. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL))
			printf("%s\n", dlerror());
	return 0;
}
