/*
 * identity: prints the identity that a process sends to rank 0. It is compiled together
 * with the shim's identity.c, and with SYSFS naming a directory of the test's.
 */
#include <inttypes.h>
#include <stdio.h>

#include "../src/shim.h"

int main(int argc, char **argv)
{
	struct identity id;
	MPI_Init(&argc, &argv);
	fm_identity(&id);
	printf("%d %s", id.known, id.known == BY_HOST ? "host" : id.name);
	for (int i = 0; i < id.ports; i++)
		printf(" 0x%016" PRIx64, id.guid[i]);
	printf("\n");
	MPI_Finalize();
	return 0;
}
