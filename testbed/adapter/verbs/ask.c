/* ask.c: the connection with the fabric. */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapter.h"

int reach(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv(SOCKET_VAR);
	if (!path || !*path)
		return -1;
	if (strlen(path) >= sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(address.sun_path, path);
	const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s >= 0 && connect(s, (struct sockaddr *)&address, sizeof address) == 0)
		return s;
	const int why = errno;
	if (s >= 0)
		close(s);
	fprintf(stderr, "libibverbs (simulated): %s: %s\n", path, strerror(why));
	errno = why;
	return -1;
}

/* ask_on sends a request with descriptors, and takes the answer, with up to two. */
int ask_on(int s, const struct request *r, struct answer *a, const int *given, unsigned n, int *got)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec v = {a, sizeof *a};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control};
	ssize_t done;
	if (pass(s, r, sizeof *r, given, n) < 0)
		return EIO;
	while ((done = recvmsg(s, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (done != sizeof *a)
		return EIO;
	const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (got && h && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(got, CMSG_DATA(h), 2 * sizeof(int));
	return a->error;
}

int ask(struct context *c, struct request *r, struct answer *a, int fd)
{
	pthread_mutex_lock(&c->asking);
	const int failed = ask_on(c->socket, r, a, &fd, fd >= 0, NULL);
	pthread_mutex_unlock(&c->asking);
	return failed;
}

/* gone reports whether the fabric has ended. */
bool gone(struct context *c)
{
	char byte;
	if (!c->dead && pthread_mutex_trylock(&c->asking) == 0) {
		c->dead = recv(c->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
		pthread_mutex_unlock(&c->asking);
	}
	return c->dead;
}

/* share makes memory that can be passed to the fabric. */
void *share(size_t bytes, int *fd)
{
	*fd = memfd_create("verbs", MFD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	void *m = MAP_FAILED;
	if (ftruncate(*fd, (off_t)bytes) == 0)
		m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (m != MAP_FAILED)
		return m;
	close(*fd);
	*fd = -1;
	return NULL;
}

void list_object(struct context *c, struct object *o, enum object_kind kind)
{
	pthread_mutex_lock(&c->listing);
	o->kind = kind;
	o->next = c->objects;
	c->objects = o;
	pthread_mutex_unlock(&c->listing);
}

void unlist_object(struct context *c, struct object *o)
{
	pthread_mutex_lock(&c->listing);
	struct object **at = &c->objects;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	pthread_mutex_unlock(&c->listing);
}
