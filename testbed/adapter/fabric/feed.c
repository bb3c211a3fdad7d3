/*
 * feed.c: the description of the fabric on standard input, a line at a time.
 *
 *	node switch|host GUID PORTS NAME
 *	link NODE PORT NODE PORT	nodes are numbered from 0 in their order
 *	state NODE PORT 0|1		a link at this port, dead or alive
 *	slow NODE PORT PERCENT		packets take longer by that on the link from this port
 *	host NODE PORT LID LMC
 *	table NODE LID HEX...		output ports from this LID on, two digits each
 *	manager LID
 *	rate BYTES			of a link, in a second
 *	mtu BYTES			256 to 4096
 *	clear				counters
 *	count				prints counters, then "end"
 *	flows				prints the packets that adapters have sent, by LIDs, then "end"
 *	done				prints "done"
 *
 * A line that it does not understand ends the process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric.h"

struct node **nodes;
unsigned node_count;
uint16_t manager_lid;
uint32_t mtu = MTU_BYTES;

static void *made(size_t n, size_t size)
{
	void *m = calloc(n, size);
	if (!m)
		abort();
	return m;
}

static bool add_node(const char *kind, uint64_t guid, unsigned ports, const char *name)
{
	if (ports == 0 || ports >= NO_PORT)
		return false;
	struct node *n = made(1, sizeof *n);
	n->guid = guid;
	n->is_switch = !strcmp(kind, "switch");
	n->ports = ports;
	snprintf(n->name, sizeof n->name, "%s", name);
	memset(n->out, NO_PORT, sizeof n->out);
	n->port = made(ports + 1, sizeof *n->port);
	for (unsigned i = 0; i <= ports; i++) {
		struct port *p = &n->port[i];
		*p = (struct port){.node = n, .number = i};
		p->ready.last = &p->ready.first;
		p->from = made(ports + 1, sizeof *p->from);
		for (unsigned j = 0; j <= ports; j++)
			p->from[j].last = &p->from[j].first;
	}
	nodes = realloc(nodes, (node_count + 1) * sizeof *nodes);
	if (!nodes)
		abort();
	nodes[node_count++] = n;
	return true;
}

static struct port *port_of(unsigned node, unsigned port)
{
	return node < node_count && port >= 1 && port <= nodes[node]->ports ? &nodes[node]->port[port] : NULL;
}

struct port *find_host(const char *name)
{
	char *end;
	const uint64_t guid = strtoull(name, &end, 16);
	for (unsigned i = 0; i < node_count; i++) {
		struct node *n = nodes[i];
		if (n->is_switch || (strcmp(n->name, name) && (*end || n->guid != guid)))
			continue;
		for (unsigned p = 1; p <= n->ports; p++)
			if (n->port[p].peer)
				return &n->port[p];
		return &n->port[1];
	}
	return NULL;
}

static bool set_table(unsigned node, unsigned lid, const char *hex)
{
	if (node >= node_count || !nodes[node]->is_switch)
		return false;
	for (; hex[0] && hex[1]; hex += 2, lid++) {
		unsigned port;
		if (lid >= LIDS || sscanf(hex, "%2x", &port) != 1)
			return false;
		nodes[node]->out[lid] = (uint8_t)port;
	}
	return true;
}

static ns cleared;

static void clear(void)
{
	cleared = now();
	memset(&lateness, 0, sizeof lateness);
	memset(lost, 0, sizeof lost);
	memset(flows, 0, sizeof flows);
	for (unsigned i = 0; i < node_count; i++)
		for (unsigned n = 1; n <= nodes[i]->ports; n++) {
			struct port *p = &nodes[i]->port[n];
			p->xmit_bytes = p->xmit_packets = p->rcv_bytes = p->rcv_packets = p->discards = 0;
			p->wait = 0;
			if (p->waits_since)
				p->waits_since = now();
		}
}

/* waited is how long packets have waited for a port, including those that wait now. */
static ns waited(const struct port *p, ns t)
{
	const bool waits = p->node->is_switch ? p->waiting > 0 : p->waits_since > 0;
	return p->wait + (waits && t > p->waits_since ? t - p->waits_since : 0);
}

static void print_counters(void)
{
	const ns t = now();
	printf("late %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", lateness.events, lateness.sum, lateness.most, lateness.behind,
		t - cleared);
	printf("lost %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", lost[DEAD_PORT], lost[NO_ENTRY], lost[TOO_MANY_HOPS], lost[WRONG_LID]);
	for (unsigned i = 0; i < node_count; i++)
		for (unsigned n = 1; n <= nodes[i]->ports; n++) {
			const struct port *p = &nodes[i]->port[n];
			if (p->xmit_packets || p->rcv_packets || p->discards)
				printf("port %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, n,
					p->xmit_bytes, p->xmit_packets, p->rcv_bytes, p->rcv_packets, waited(p, t), p->discards);
		}
	printf("end\n");
	fflush(stdout);
}

static void print_flows(void)
{
	for (unsigned i = 0; i < FLOWS; i++)
		if (flows[i].packets)
			printf("flow %u %u %" PRIu64 "\n", flows[i].slid, flows[i].dlid, flows[i].packets);
	printf("end\n");
	fflush(stdout);
}

static void host_changed(struct port *p, unsigned lid, unsigned lmc)
{
	if (p->lid == lid && p->lmc == lmc)
		return;
	p->lid = (uint16_t)lid;
	p->lmc = (uint8_t)lmc;
	for (struct context *c = p->contexts; c; c = c->next_at_port)
		event(c, IBV_EVENT_LID_CHANGE, 1);
}

static bool obey(char *line, ns t)
{
	unsigned a, b, c, d;
	uint64_t guid;
	int at_name = 0;
	char word[16];
	struct port *p, *q;
	if (sscanf(line, "node %15s %" SCNx64 " %u %n", word, &guid, &a, &at_name) == 3 && at_name)
		return add_node(word, guid, a, line + at_name);
	if (sscanf(line, "link %u %u %u %u", &a, &b, &c, &d) == 4) {
		if (!(p = port_of(a, b)) || !(q = port_of(c, d)))
			return false;
		p->peer = q;
		q->peer = p;
		return true;
	}
	if (sscanf(line, "state %u %u %u", &a, &b, &c) == 3) {
		if (!(p = port_of(a, b)))
			return false;
		link_up(p, c, t);
		return true;
	}
	if (sscanf(line, "slow %u %u %u", &a, &b, &c) == 3) {
		if (!(p = port_of(a, b)) || c > 1000)
			return false;
		p->longer = c;
		return true;
	}
	if (sscanf(line, "host %u %u %u %u", &a, &b, &c, &d) == 4) {
		if (!(p = port_of(a, b)) || c >= LIDS || d > 7)
			return false;
		host_changed(p, c, d);
		return true;
	}
	if (sscanf(line, "table %u %u %n", &a, &b, &at_name) == 2 && at_name)
		return set_table(a, b, line + at_name);
	if (sscanf(line, "manager %u", &a) == 1) {
		manager_lid = (uint16_t)a;
		return true;
	}
	if (sscanf(line, "mtu %u", &a) == 1) {
		mtu = a;
		return a >= 256 && a <= MTU_BYTES && (a & (a - 1)) == 0;
	}
	if (sscanf(line, "rate %" SCNu64, &guid) == 1) {
		bytes_per_second = guid;
		return guid >= 1000;
	}
	if (!strcmp(line, "clear")) {
		clear();
		return true;
	}
	if (!strcmp(line, "count")) {
		print_counters();
		return true;
	}
	if (!strcmp(line, "flows")) {
		print_flows();
		return true;
	}
	if (!strcmp(line, "done")) {
		printf("done\n");
		fflush(stdout);
		return true;
	}
	return false;
}

bool feed(ns t)
{
	static char *text;
	static size_t size, used;
	if (used + 65536 > size && !(text = realloc(text, size = 2 * size + 65536)))
		abort();
	const ssize_t n = read(STDIN_FILENO, text + used, size - used - 1);
	if (n <= 0)
		return false;
	used += (size_t)n;
	text[used] = 0;
	char *line = text;
	for (char *end; (end = memchr(line, '\n', used - (size_t)(line - text))); line = end + 1) {
		*end = 0;
		if (!obey(line, t)) {
			fprintf(stderr, "datafabric: not understood: %.100s\n", line);
			exit(2);
		}
	}
	used -= (size_t)(line - text);
	memmove(text, line, used);
	return true;
}
