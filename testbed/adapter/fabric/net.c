/*
 * net.c: packets on links.
 *
 * A link carries one packet at a time, for as long as its bytes take. The packets that
 * wait for a link are served in turn by the port where they came in, each port's in
 * order. A switch begins to send a packet on before it has all of it (cut-through).
 * Nothing is lost for lack of buffers: queues in switches are unlimited, and bounded only
 * by FLOW_PACKETS under way for each queue pair.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

uint64_t bytes_per_second = 20000000;
uint64_t lost[4];
struct flow flows[FLOWS];
static struct packet *spare;

struct packet *new_packet(void)
{
	struct packet *p = spare;
	if (p)
		spare = p->next;
	else if (!(p = malloc(sizeof *p)))
		abort();
	memset(p, 0, offsetof(struct packet, data));
	return p;
}

void free_packet(struct packet *p)
{
	p->next = spare;
	spare = p;
}

void drop(struct packet *p, struct port *where)
{
	where->discards++;
	arrived(p, now());
	free_packet(p);
}

static void received(void *argument, ns t)
{
	struct packet *p = argument;
	struct port *in = p->at;
	if (!in->up) {
		lost[DEAD_PORT]++;
		drop(p, in);
		return;
	}
	in->rcv_bytes += p->length + HEADER_BYTES;
	in->rcv_packets++;
	if ((uint16_t)(p->dlid - in->lid) >> in->lmc) {
		lost[WRONG_LID]++;
		drop(p, in);
		return;
	}
	arrived(p, t);
	deliver(p, t);
	free_packet(p);
}

static void forward(void *argument, ns t)
{
	struct packet *p = argument;
	struct port *in = p->at;
	struct node *n = in->node;
	in->rcv_bytes += p->length + HEADER_BYTES;
	in->rcv_packets++;
	const uint8_t number = p->dlid < LIDS ? n->out[p->dlid] : NO_PORT;
	enum loss why;
	if (!in->up)
		why = DEAD_PORT;
	else if (number == 0 || number > n->ports)
		why = NO_ENTRY;
	else if (!n->port[number].up || !n->port[number].peer)
		why = DEAD_PORT;
	else if (++p->hops > MAX_HOPS)
		why = TOO_MANY_HOPS;
	else {
		struct port *out = &n->port[number];
		struct fifo *f = &out->from[in->number];
		p->next = NULL;
		*f->last = p;
		f->last = &p->next;
		if (out->waiting++ == 0)
			out->waits_since = t;
		pump(out, t);
		return;
	}
	lost[why]++;
	drop(p, in);
}

/* take is the next packet that waits at a switch's port, by turns. */
static struct packet *take(struct port *out, ns t)
{
	const unsigned ports = out->node->ports;
	for (unsigned i = 1; i <= ports; i++) {
		const unsigned number = (out->turn + i - 1) % ports + 1;
		struct fifo *f = &out->from[number];
		struct packet *p = f->first;
		if (!p)
			continue;
		if (!(f->first = p->next))
			f->last = &f->first;
		out->turn = number;
		if (--out->waiting == 0)
			out->wait += t - out->waits_since;
		return p;
	}
	return NULL;
}

/* compose makes an adapter's next packet, by turns of its queue pairs. */
static struct packet *compose(struct port *out, ns t)
{
	bool blocked = false;
	struct qp *end = NULL;
	for (struct qp *q; (q = out->ready.first) && q != end;) {
		if (!(out->ready.first = q->next))
			out->ready.last = &out->ready.first;
		q->listed = false;
		bool full = false;
		struct packet *p = next_packet(q, t, &full);
		blocked |= full;
		if (p) {
			activate(q, UINT64_MAX); /* it goes to the end of the list */
			if (out->waits_since) {
				out->wait += t > out->waits_since ? t - out->waits_since : 0;
				out->waits_since = 0;
			}
			return p;
		}
	}
	if (blocked && !out->waits_since)
		out->waits_since = t;
	return NULL;
}

static void wake(void *argument, ns t)
{
	struct port *out = argument;
	out->woken = false;
	pump(out, t);
}

static ns duration(const struct port *out, uint32_t bytes)
{
	return (ns)bytes * (10000000 * (100 + (ns)out->longer)) / bytes_per_second;
}

/* count_flow counts a packet by its LIDs. */
static void count_flow(const struct packet *p)
{
	uint32_t i = (p->slid * 0x9E3779B1U ^ p->dlid * 0x85EBCA6BU) >> 15, tries = 0;
	while (flows[i].packets && (flows[i].slid != p->slid || flows[i].dlid != p->dlid)) {
		if (++tries == FLOWS)
			abort();
		i = (i + 1) % FLOWS;
	}
	flows[i] = (struct flow){p->slid, p->dlid, flows[i].packets + 1};
}

/* pump sends the next packet, if the link is free. */
void pump(struct port *out, ns t)
{
	if (out->free_at > t) {
		if (!out->woken)
			at(out->free_at, wake, out);
		out->woken = true;
		return;
	}
	struct packet *p = out->node->is_switch ? take(out, t) : compose(out, t);
	if (!p)
		return;
	if (!out->node->is_switch)
		count_flow(p);
	const uint32_t bytes = p->length + HEADER_BYTES;
	const ns takes = duration(out, bytes);
	const bool to_itself = !out->node->is_switch && (uint16_t)(p->dlid - out->lid) >> out->lmc == 0;
	if (!to_itself)
		out->free_at = t + takes;
	if ((out->waiting || out->ready.first) && !out->woken) {
		at(to_itself ? t : out->free_at, wake, out);
		out->woken = true;
	}
	if (to_itself) { /* not over the link */
		p->at = out;
		at(t + takes, received, p);
		return;
	}
	if (!out->up || !out->peer) {
		lost[DEAD_PORT]++;
		drop(p, out);
		return;
	}
	out->xmit_bytes += bytes;
	out->xmit_packets++;
	p->at = out->peer;
	if (p->at->node->is_switch)
		at(t + PORT_LATENCY, forward, p);
	else
		at(t + PORT_LATENCY + takes, received, p);
}

/* link_up sets a port's link up or down. Packets that wait for a dead link are lost. */
void link_up(struct port *port, bool up, ns t)
{
	if (port->up == up)
		return;
	port->up = up;
	for (struct packet *p; !up && port->node->is_switch && (p = take(port, t));) {
		lost[DEAD_PORT]++;
		drop(p, port);
	}
	if (port->node->is_switch)
		return;
	for (struct context *c = port->contexts; c; c = c->next_at_port)
		event(c, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
	if (up)
		pump(port, t);
}
