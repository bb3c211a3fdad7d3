/*
 * thread.c: the thread that keeps the connection with forsd. It is the only one
 * that touches the socket, takes no lock of OpenSM's, and waits in poll alone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum {
	LOOK = 100,      /* ms between looks at the manager's state, and between connections */
	LONG_LOOK = 1000, /* ms to the next connection with one that turned this one away, or speaks another language */
	GREETING = 1000, /* ms that a welcome may take */
};

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* hang_up ends the connection and puts the next one off. */
static void hang_up(struct link *l, int64_t wait)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->retry_at = now_ms() + wait;
	forsosm_free_(&l->in);
	pthread_mutex_lock(&l->lock);
	l->ready = l->broken = false;
	forsosm_free_(&l->out);
	l->sent = 0;
	forsosm_drop_(&l->tables);
	pthread_cond_broadcast(&l->answered);
	pthread_mutex_unlock(&l->lock);
}

/* fail ends the connection over some trouble, which is said once. */
static void fail(struct link *l, enum trouble kind, int64_t wait, const char *text)
{
	hang_up(l, wait);
	forsosm_complain_(l, kind, text);
}

/* trusted reports whether the peer process may give tables. */
static bool trusted(const struct link *l, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid() || peer.uid == l->settings.user;
}

/* greet queues the message hello. */
static void greet(struct link *l)
{
	struct buffer body = {0};
	pthread_mutex_lock(&l->lock);
	forsosm_put_(&body, MAGIC, sizeof MAGIC - 1);
	forsosm_put16_(&body, PROTOCOL);
	forsosm_put16_(&body, l->state);
	forsosm_put32_(&body, (uint32_t)getpid());
	forsosm_put32_(&body, l->settings.deadline * 1000);
	forsosm_put32_(&body, 0);
	forsosm_put64_(&body, l->port);
	forsosm_put_text_(&body, l->version);
	forsosm_put_message_(&l->out, HELLO, body.data, body.length);
	l->broken = body.failed || l->out.failed;
	pthread_mutex_unlock(&l->lock);
	forsosm_free_(&body);
}

/* call tries to connect. A Unix socket does so at once or not at all. */
static void call(struct link *l)
{
	char text[256];
	const struct sockaddr_un *to = &l->settings.address;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || connect(l->fd, (const struct sockaddr *)to, sizeof *to) != 0) {
		snprintf(text, sizeof text, "no forsd at %s: %s", to->sun_path, strerror(errno));
		fail(l, NO_FORSD, LOOK, text);
	} else if (!trusted(l, l->fd)) {
		snprintf(text, sizeof text, "who listens at %s is neither root nor of the users trusted: set user= in event_plugin_options", to->sun_path);
		fail(l, OTHER_USER, LONG_LOOK, text);
	} else {
		l->welcome_by = now_ms() + GREETING;
		greet(l);
	}
}

/* hear reads at most 64 KiB of the available bytes. */
static void hear(struct link *l)
{
	unsigned char bytes[1 << 16];
	const ssize_t n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		pthread_mutex_lock(&l->lock);
		const bool ready = l->ready;
		pthread_mutex_unlock(&l->lock);
		fail(l, NO_FORSD, ready ? LOOK : LONG_LOOK, n == 0 ? "forsd has closed the connection" : "the connection with forsd is broken");
		return;
	}
	const char *what = forsosm_receive_(l, bytes, (size_t)n);
	if (!what)
		return;
	char text[256];
	snprintf(text, sizeof text, "forsd sent %s", what);
	fail(l, what == forsosm_other_version_ ? OTHER_VERSION : UNREADABLE, LONG_LOOK, text);
}

/* speak sends what the socket takes at once; false where the connection is lost. */
static bool speak(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	ssize_t n = 0;
	if (l->sent < l->out.length)
		n = send(l->fd, l->out.data + l->sent, l->out.length - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		l->sent += (size_t)n;
	const bool lost = l->broken || (n < 0 && errno != EAGAIN && errno != EINTR);
	pthread_mutex_unlock(&l->lock);
	return !lost;
}

/* look_around does what is not the socket's business; false at the end. */
static bool look_around(struct link *l)
{
	uint64_t count;
	if (read(l->wake, &count, sizeof count) < 0) {
		/* no caller */
	}
	forsosm_send_state_(l, l->hooks->state(l->context));
	pthread_mutex_lock(&l->lock);
	const bool stopping = l->stopping, ready = l->ready;
	const int how = l->resweep;
	l->resweep = 0;
	pthread_mutex_unlock(&l->lock);
	if (how && !stopping)
		l->hooks->resweep(l->context, how);
	if (l->fd >= 0 && !ready && now_ms() > l->welcome_by)
		fail(l, NO_FORSD, LOOK, "forsd does not answer");
	if (l->fd < 0 && !stopping && now_ms() >= l->retry_at)
		call(l);
	return !stopping;
}

static void *run(void *context)
{
	struct link *l = context;
	while (look_around(l)) {
		if (l->fd >= 0 && !speak(l))
			fail(l, NO_FORSD, LOOK, "forsd does not take what it is sent");
		pthread_mutex_lock(&l->lock);
		const bool more = l->sent < l->out.length;
		pthread_mutex_unlock(&l->lock);
		struct pollfd fds[] = {
			{.fd = l->wake, .events = POLLIN},
			{.fd = l->fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))}, /* a negative one is passed over */
		};
		if (poll(fds, 2, LOOK) > 0 && fds[1].revents & (POLLIN | POLLHUP | POLLERR))
			hear(l);
	}
	return NULL;
}

int forsosm_link_start_(struct link *l)
{
	sigset_t all, before;
	sigfillset(&all); /* signals are OpenSM's business */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int failed = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed;
}
