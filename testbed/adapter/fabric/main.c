/*
 * datafabric: the links of a simulated fabric. It reads the fabric on standard input
 * (see feed.c), and serves the adapters of programs on the Unix socket that is its
 * argument. It ends when its input does.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric.h"

static int listener, waiter;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(int fd, void *who)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = who};
	if (epoll_ctl(waiter, EPOLL_CTL_ADD, fd, &e) < 0)
		fail("datafabric: epoll");
}

/*
 * hurry gives the process priority over all others: adapters do not wait for processors.
 * Programs with real-time priority may take all of these; Linux then gives a part of each
 * second to the others, for 50 ms at a time and more, also before this one if it only had a
 * higher priority. A deadline goes before that. Without the right to either, events are late.
 */
static void hurry(void)
{
	enum { DEADLINE = 6, RESET_ON_FORK = 1 }; /* SCHED_DEADLINE; without the flag a leak sanitizer cannot clone its thread */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {sizeof attr, DEADLINE, RESET_ON_FORK, 0, 0, 8500000, 10000000, 10000000};
	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0 && sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 2}) < 0)
		(void)setpriority(PRIO_PROCESS, 0, -15);
}

static void prepare(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path) {
		fprintf(stderr, "datafabric: the path %s of the socket is too long\n", path);
		exit(2);
	}
	strcpy(address.sun_path, path);
	qps = calloc((size_t)1 << 24, sizeof *qps);
	beacon_fd = memfd_create("beacon", MFD_CLOEXEC);
	bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!qps || beacon_fd < 0 || bell_fd < 0 || ftruncate(beacon_fd, sizeof *beacon) < 0)
		fail("datafabric: memory");
	beacon = mmap(NULL, sizeof *beacon, PROT_READ | PROT_WRITE, MAP_SHARED, beacon_fd, 0);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	waiter = epoll_create1(EPOLL_CLOEXEC);
	if (beacon == MAP_FAILED || listener < 0 || waiter < 0)
		fail("datafabric: memory");
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1024) < 0)
		fail(path);
	watch(STDIN_FILENO, &listener); /* their addresses tell them apart */
	watch(listener, &waiter);
	watch(bell_fd, &bell_fd);
	prctl(PR_SET_TIMERSLACK, 1);
	hurry();
}

/* hear takes the bells that have been rung. */
static bool hear(ns t)
{
	bool any = false;
	for (struct context *c = contexts; c; c = c->next) {
		if (!c->bells)
			continue;
		uint32_t tail = atomic_load_explicit(&c->bells->tail, memory_order_relaxed);
		while (tail != atomic_load(&c->bells->head)) {
			struct qp *q = qp_by_number(c->bells->number[tail & (MAX_QPS - 1)]);
			atomic_store(&c->bells->tail, ++tail);
			any = true;
			if (q && q->context == c) {
				atomic_store(&q->shared->rung, 0);
				rung(q, t);
			}
		}
	}
	return any;
}

/* listen_to waits for the socket, the input and bells, and handles them. */
static bool listen_to(ns timeout)
{
	struct epoll_event events[64];
	const struct timespec limit = {(time_t)(timeout / 1000000000), (long)(timeout % 1000000000)};
	const int n = epoll_pwait2(waiter, events, 64, timeout == UINT64_MAX ? NULL : &limit, NULL);
	if (n < 0 && errno != EINTR)
		fail("datafabric: wait");
	for (int i = 0; i < n; i++) {
		void *who = events[i].data.ptr;
		uint64_t rings;
		struct context *c;
		if (who == &listener) {
			if (!feed(now()))
				return false;
		} else if (who == &waiter) {
			if ((c = accept_context(listener)))
				watch(c->socket, c);
		} else if (who == &bell_fd)
			(void)!read(bell_fd, &rings, sizeof rings);
		else
			serve(who);
	}
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: datafabric SOCKET\n");
		return 2;
	}
	prepare(argv[1]);
	ns last = now(), last_look = 0;
	for (;;) {
		const ns t = now();
		const ns due = next_event();
		if (due < t && t - due > 5000000)
			lateness.behind += t - (due + 5000000 > last ? due + 5000000 : last);
		last = t;
		const unsigned done = run_events(t, 4096);
		const bool heard = hear(t);
		if ((done || heard) && t - last_look < 1000000)
			continue;
		last_look = t;
		ns wait = 0;
		if (!done && !heard) {
			const ns next = next_event(), here = now();
			wait = next == UINT64_MAX ? UINT64_MAX : next > here ? next - here : 0;
			atomic_store(&beacon->asleep, 1);
			if (hear(now()))
				wait = 0;
		}
		const bool more = listen_to(wait);
		atomic_store(&beacon->asleep, 0);
		if (!more)
			return 0;
	}
}
