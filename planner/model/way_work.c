/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/way_work.h"

#include <string.h>

#include <wring/types.h>

const struct wring_profile_codec *wring_way_codec(const struct wring_profile *profile,
                                                  const struct wring_profile_way *way)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, way->codec) == 0)
            return &profile->codecs[i];
    return NULL;
}

struct wring_way_codes wring_way_codes_of(const struct wring_profile_way *way,
                                          uint32_t ranks_per_node)
{
    enum wring_scheme scheme = wring_scheme_find(way->run_as);
    bool in_nodes = scheme >= WRING_SCHEME_HIERARCHICAL && scheme != WRING_SCHEMES;
    uint32_t places = in_nodes && ranks_per_node > 0 ? ranks_per_node : 1;

    return (struct wring_way_codes){
        .ranks = way->ranks / places,
        .part = 1.0 / places,
        .divisible =
            scheme != WRING_SCHEME_INDIVISIBLE && scheme != WRING_SCHEME_HIERARCHICAL_INDIVISIBLE,
    };
}

double wring_way_encode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems)
{
    return wring_cost_at(&coder->encode.us, codes->part * elems);
}

double wring_way_decode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems)
{
    double others = codes->ranks - 1.0, added = codes->divisible ? others / codes->ranks : others;
    double coded = added * codes->part * elems;
    double us = wring_cost_at(
        wring_profile_decoding(&coder->decode.us, &coder->decode_add.us, true), coded);

    return codes->divisible ? us + wring_cost_at(&coder->decode.us, coded) : us;
}

double wring_way_link_us(const struct wring_profile_way *way, const struct wring_cost *link_us,
                         double elems)
{
    double bytes = wring_cost_at(&way->wire_bytes, elems);
    double us = wring_cost_at(link_us, bytes), least = bytes * link_us->slope;

    return us > least ? us : least;
}

const struct wring_profile_link *wring_way_link(const struct wring_profile *profile, uint32_t nodes,
                                                uint32_t ranks_per_node)
{
    if (nodes > 1 && ranks_per_node > 1)
        return NULL;
    const struct wring_profile_link *link =
        &profile->links[nodes > 1 ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    return link->present ? link : NULL;
}
