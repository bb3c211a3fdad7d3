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
};

/* fabric.c: appends the fabric in OpenSM's memory, whose lock the caller holds. */
void forsosm_fabric_(osm_subn_t *subn, struct buffer *b);

/* engine.c: sets the routing engine's functions. Its context is a struct plugin. */
int forsosm_engine_(struct osm_routing_engine *engine, osm_opensm_t *osm);

#endif
