/*
 * plugin.h: what the files that know OpenSM share.
 */
#ifndef FORSOSM_PLUGIN_H
#define FORSOSM_PLUGIN_H

#include <opensm/osm_config.h> /* first: with it, OpenSM's structures are those of its own build */
#include <opensm/osm_opensm.h>

#include "internal.h"

#define ENGINE_NAME "fors"

struct plugin {
	osm_opensm_t *osm;
	struct link link;
	bool asked;           /* forsd, in the sweep under way */
	bool own;             /* the last sweep's tables are forsd's as they came */
	struct tables held;   /* those that were installed last, or are in the table file */
	struct tables wish;   /* as forsd would have them again: forsosm_wish_ */
};

/* fabric.c: appends the fabric in OpenSM's memory, whose lock the caller holds. */
void forsosm_fabric_(osm_subn_t *subn, struct buffer *b);

/* The port at the other end of a cable that both ends know of, or NULL. */
const osm_physp_t *forsosm_far_end_(const osm_physp_t *port);
/* Tells whether a port is up, and not marked as one to be left alone. */
bool forsosm_works_(const osm_physp_t *port);
/* The speed times the width of a switch's port, for comparison. */
uint16_t forsosm_rate_(const osm_physp_t *port);

/* map.c: the fabric in OpenSM's memory, whose lock the caller holds; false, and none, without memory. */
bool forsosm_map_(struct map *m, osm_subn_t *subn, const struct tables *held);
void forsosm_unmap_(struct map *m);

/* engine.c: sets the routing engine's functions. Its context is a struct plugin. */
int forsosm_engine_(struct osm_routing_engine *engine, osm_opensm_t *osm);

#endif
