/*
 * verbs.c: the verbs that programs call. Each calls the one behind it, after putting
 * the lane of the pair into the address vector.
 *
 * The functions behind are looked up at their first call. If this library is preloaded,
 * they are the next ones in the order of the dynamic linker, or those of a libibverbs
 * that a part of the program has loaded for itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lanes.h"

#define EXPORTED __attribute__((visibility("default")))
#define VERSION "IBVERBS_1.1"

/* Macros of the header, for functions that are meant here. */
#undef ibv_query_port

/* behind finds a verb of the real library, or NULL. */
static void *behind(const char *name)
{
	void *f = dlvsym(RTLD_NEXT, name, VERSION);
	if (f)
		return f;
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlvsym(library, name, VERSION) : NULL;
}

/* BEHIND declares a variable that is a function of the real library. */
#define BEHIND(result, name, ...) \
	static result (*real)(__VA_ARGS__); \
	if (!real) \
		real = (result(*)(__VA_ARGS__))(uintptr_t)behind(#name)

int fl_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	BEHIND(int, ibv_query_port, struct ibv_context *, uint8_t, struct ibv_port_attr *);
	memset(attr, 0, sizeof *attr); /* the function of this version fills all but the newest fields */
	return real ? real(context, port, attr) : ENOSYS;
}

int fl_query_gid(struct ibv_context *context, uint8_t port, union ibv_gid *gid)
{
	BEHIND(int, ibv_query_gid, struct ibv_context *, uint8_t, int, union ibv_gid *);
	return real ? real(context, port, 0, gid) : ENOSYS;
}

/* place puts the lane into an address vector, and reports whether it did. */
static bool place(struct ibv_context *context, struct ibv_ah_attr *vector, struct note *note)
{
	note->wanted = (struct lane){vector->dlid, vector->src_path_bits};
	if (!fl_choose(context, vector, &note->pair, &note->put))
		return false;
	vector->dlid = note->put.dlid;
	vector->src_path_bits = note->put.bits;
	return true;
}

EXPORTED int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	BEHIND(int, ibv_modify_qp, struct ibv_qp *, struct ibv_qp_attr *, int);
	if (!real)
		return ENOSYS;
	struct note note;
	if (mask & IBV_QP_STATE && (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_INIT))
		fl_forget(qp, &note);
	if (!(mask & IBV_QP_AV))
		return real(qp, attr, mask);
	struct ibv_qp_attr mine = {0}; /* the program's may come from a header without rate_limit, and is its own */
	memcpy(&mine, attr, mask & IBV_QP_RATE_LIMIT ? sizeof mine : offsetof(struct ibv_qp_attr, rate_limit));
	if (!place(qp->context, &mine.ah_attr, &note))
		return real(qp, attr, mask);
	const int failed = real(qp, &mine, mask);
	if (!failed)
		fl_note(qp, &note);
	return failed;
}

EXPORTED int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	BEHIND(int, ibv_query_qp, struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	if (!real)
		return ENOSYS;
	struct note note;
	const int failed = real(qp, attr, mask, init);
	if (!failed && fl_noted(qp, &note) && attr->ah_attr.dlid == note.put.dlid && attr->ah_attr.src_path_bits == note.put.bits) {
		attr->ah_attr.dlid = note.wanted.dlid;
		attr->ah_attr.src_path_bits = note.wanted.bits;
	}
	return failed;
}

/* The note is dropped before the object, since the next object may be at the same
 * address. An object that could not be destroyed gets its note back. */

EXPORTED int ibv_destroy_qp(struct ibv_qp *qp)
{
	BEHIND(int, ibv_destroy_qp, struct ibv_qp *);
	if (!real)
		return ENOSYS;
	struct note note;
	const bool noted = fl_forget(qp, &note);
	const int failed = real(qp);
	if (failed && noted)
		fl_note(qp, &note);
	return failed;
}

EXPORTED struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *vector)
{
	BEHIND(struct ibv_ah *, ibv_create_ah, struct ibv_pd *, struct ibv_ah_attr *);
	if (!real) {
		errno = ENOSYS;
		return NULL;
	}
	struct note note;
	struct ibv_ah_attr mine = *vector;
	const bool placed = place(pd->context, &mine, &note);
	struct ibv_ah *ah = real(pd, placed ? &mine : vector);
	if (ah && placed)
		fl_note(ah, &note);
	return ah;
}

EXPORTED int ibv_destroy_ah(struct ibv_ah *ah)
{
	BEHIND(int, ibv_destroy_ah, struct ibv_ah *);
	if (!real)
		return ENOSYS;
	struct note note;
	const bool noted = fl_forget(ah, &note);
	const int failed = real(ah);
	if (failed && noted)
		fl_note(ah, &note);
	return failed;
}
