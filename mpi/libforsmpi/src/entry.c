/*
 * entry.c: the functions that C programs call.
 *
 * The program may run under another MPI than the shim was built with, and the two
 * have handles of different types. So arguments are words here, passed on unchanged
 * to the shim, or to the program's own MPI. Where Linux runs MPI, each argument that
 * is an integer or a pointer has a register, or a word of the stack, to itself.
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

/* The functions that carry out an exchange. */
struct functions {
	seven *alltoall;
	nine *alltoallv, *alltoallw;
};
extern seven fm_alltoall;
extern nine fm_alltoallv, fm_alltoallw;
static struct functions now = {fm_alltoall, fm_alltoallv, fm_alltoallw};
#ifdef LARGE_COUNTS
extern seven fm_alltoall_c;
extern nine fm_alltoallv_c, fm_alltoallw_c;
static struct functions large = {fm_alltoall_c, fm_alltoallv_c, fm_alltoallw_c};
#endif
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
	const struct functions of = {(seven *)(uintptr_t)own("PMPI_Alltoall"), (nine *)(uintptr_t)own("PMPI_Alltoallv"), (nine *)(uintptr_t)own("PMPI_Alltoallw")};
	if (!of.alltoall || !of.alltoallv || !of.alltoallw)
		return;
	now = of, foreign = true;
#ifdef LARGE_COUNTS /* an older MPI does not have them, and its programs do not call them */
	large = (struct functions){(seven *)(uintptr_t)own("PMPI_Alltoall_c"), (nine *)(uintptr_t)own("PMPI_Alltoallv_c"), (nine *)(uintptr_t)own("PMPI_Alltoallw_c")};
#endif
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

#define SEVEN(name, function)                                             \
	EXPORTED int name(word a, word b, word c, word d, word e, word f, word g) \
	{                                                                         \
		fm_foreign();                                                         \
		return (function)(a, b, c, d, e, f, g);                               \
	}
#define NINE(name, function)                                                              \
	EXPORTED int name(word a, word b, word c, word d, word e, word f, word g, word h, word i) \
	{                                                                                         \
		fm_foreign();                                                                         \
		return (function)(a, b, c, d, e, f, g, h, i);                                         \
	}

SEVEN(MPI_Alltoall, now.alltoall)
NINE(MPI_Alltoallv, now.alltoallv)
NINE(MPI_Alltoallw, now.alltoallw)
#ifdef LARGE_COUNTS
SEVEN(MPI_Alltoall_c, large.alltoall)
NINE(MPI_Alltoallv_c, large.alltoallv)
NINE(MPI_Alltoallw_c, large.alltoallw)
#endif
