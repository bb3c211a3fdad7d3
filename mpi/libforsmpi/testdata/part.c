/*
 * part: the steps that src/part.c gives the transfers of a part. The input is the number of
 * groups, of lanes, and of the table's steps; the leaf of each group; and for each step and group
 * to which group it sends, or −1, and by which lane. Prints the number of steps and those of all
 * transfers, as from, to, step.
 */
#include <stdio.h>

#include "../src/part.c"

static int number(void)
{
	int n;
	if (scanf("%d", &n) != 1)
		exit(1);
	return n;
}

int main(void)
{
	struct draft d = {0};
	const int groups = d.head.groups = number();
	const uint32_t lanes = (uint32_t)number();
	const int steps = d.head.steps = d.head.meetings = number();
	uint16_t *leaf = calloc((size_t)groups, sizeof *leaf);
	for (int g = 0; g < groups; g++)
		leaf[g] = (uint16_t)number();
	struct row *row = calloc((size_t)groups * (size_t)steps, sizeof *row);
	for (int step = 0; step < steps; step++)
		for (int g = 0; g < groups; g++)
			row[g * steps + step] = (struct row){.step = step, .to = number(), .from = -1, .phase = {step, step}, .met = {step, step}, .lane = number()};
	for (int i = 0; i < groups * steps; i++)
		if (row[i].to >= 0)
			row[row[i].to * steps + i % steps].from = i / steps;
	d.row = malloc(sizeof *row * (size_t)groups * (size_t)steps);
	memcpy(d.row, row, sizeof *row * (size_t)groups * (size_t)steps);
	d.first = calloc((size_t)groups + 1, sizeof *d.first);
	for (int g = 0; g <= groups; g++)
		d.first[g] = g * steps;
	if (!fm_part(&d, leaf, lanes))
		return 1;
	printf("%d\n", d.head.steps);
	for (int g = 0; g < groups; g++)
		for (int r = d.first[g]; r < d.first[g + 1]; r++) {
			if (d.row[r].to >= 0)
				printf("%d %d %d\n", g, d.row[r].to, d.row[r].step);
			if (d.row[r].from >= 0 && row[d.row[r].from * steps + d.row[r].met[1]].to != g)
				return 2; /* another phase than the one in which its peer sends to it */
		}
	return 0;
}
