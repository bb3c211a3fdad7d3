/* own.c: a library of somebody's own that takes libfors.a into itself. */
#include <fors.h>

int own_phases(const char *where);

int own_phases(const char *where)
{
	fors_table *table;
	if (fors_open(where, &table, NULL) < 0)
		return -1;
	const int phases = (int)fors_info(table)->phases;
	fors_close(table);
	return phases;
}
