/*
 * entry.c: the functions that C programs call.
 *
 * The program may run under another MPI than the one that the shim was built with,
 * and the two have handles of different types. So arguments are words here, passed on
 * as they came: to the shim, or to the program's own MPI. Where Linux runs MPI, each
 * argument that is an integer or a pointer has a register, or a word of the stack, to
 * itself.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../launch.h"
#include "entry.h"

typedef intptr_t word;
typedef int seven(word, word, word, word, word, word, word);
typedef int nine(word, word, word, word, word, word, word, word, word);

extern seven fm_alltoall;
extern nine fm_alltoallv, fm_alltoallw;

/* What an exchange is carried out by. */
static seven *alltoall = fm_alltoall;
static nine *alltoallv = fm_alltoallv, *alltoallw = fm_alltoallw;
static bool foreign;

static void *own(const char *name) { return dlsym(RTLD_DEFAULT, name); }

/* look finds out which MPI the program runs under. */
static void look(void)
{
	char version[8192] = ""; /* no MPI says more */
	int length = 0;
	int (*tell)(char *, int *) = (int (*)(char *, int *))(uintptr_t)own("PMPI_Get_library_version");
	if (!tell || tell(version, &length) != 0 || !fm_other_mpi(version))
		return;
	seven *const a = (seven *)(uintptr_t)own("PMPI_Alltoall");
	nine *const v = (nine *)(uintptr_t)own("PMPI_Alltoallv"), *const w = (nine *)(uintptr_t)own("PMPI_Alltoallw");
	if (!a || !v || !w)
		return;
	alltoall = a, alltoallv = v, alltoallw = w, foreign = true;
	version[strcspn(version, ",\n")] = 0;
	if (launched_first())
		fm_say("it was built for %s, and the program runs under %.80s: exchanges go without a plan, by MPI's own algorithms", fm_built_for, version);
}

bool fm_foreign(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, look);
	return foreign;
}

EXPORTED int MPI_Alltoall(word a, word b, word c, word d, word e, word f, word g)
{
	fm_foreign();
	return alltoall(a, b, c, d, e, f, g);
}

EXPORTED int MPI_Alltoallv(word a, word b, word c, word d, word e, word f, word g, word h, word i)
{
	fm_foreign();
	return alltoallv(a, b, c, d, e, f, g, h, i);
}

EXPORTED int MPI_Alltoallw(word a, word b, word c, word d, word e, word f, word g, word h, word i)
{
	fm_foreign();
	return alltoallw(a, b, c, d, e, f, g, h, i);
}
