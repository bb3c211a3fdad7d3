/* The section of a rank in the binary form of an exchange: docs/gpu.md. */
#include "internal.h"

struct writer {
	unsigned char *at;
	size_t size, used;
};

static void put(struct writer *w, uint64_t v)
{
	do {
		unsigned char byte = (unsigned char)(v & 0x7f);
		v >>= 7;
		if (w->used < w->size)
			w->at[w->used] = v ? byte | 0x80 : byte;
		w->used++;
	} while (v);
}

/* Negative numbers are encoded as odd ones. */
static void put_signed(struct writer *w, int64_t v) { put(w, (uint64_t)v << 1 ^ (v < 0 ? ~(uint64_t)0 : 0)); }

/* Stages are relative to a first number or, for turns, to the stage after the last one. add says
 * of each piece whether it is added, or is NULL. */
static void put_list(struct writer *w, struct forgpu_list list, int32_t stage, int32_t after, int32_t first_peer, const uint8_t *add)
{
	int64_t end = 0;
	put(w, list.count);
	for (const struct forgpu_piece *x = list.at; x < list.at + list.count; x++) {
		put(w, (uint64_t)(x->stage - stage));
		put(w, (uint64_t)(x->peer - first_peer));
		put_signed(w, x->offset - end);
		put(w, (uint64_t)x->bytes);
		if (add)
			put(w, add[x - list.at]);
		stage = x->stage + after;
		end = x->offset + x->bytes;
	}
}

size_t forgpu_encode(const struct forgpu_program *program, void *section, size_t size)
{
	struct writer w = {section, section ? size : 0, 0};
	put(&w, (uint64_t)program->input);
	put(&w, (uint64_t)program->nic_send);
	put(&w, (uint64_t)program->nic_receive);
	put(&w, (uint64_t)program->output);
	const struct forgpu_list *lists = &program->before_send;
	for (int i = 0; i < 6; i++)
		put_list(&w, lists[i], -1, 0, program->rank - program->rank % program->gpus, i % 2 ? program->add[i / 2] : NULL);
	for (int i = 6; i < 8; i++)
		put_list(&w, lists[i], 0, 1, 0, NULL);
	return w.used;
}
